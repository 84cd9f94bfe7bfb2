import doctest

import pytest

from bench.race import timeline, verdicts
from bench.race.verdicts import Bar, Wanted, median, percentile


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_one_of_the_values(share: float, value: int) -> None:
    assert percentile(range(1, 101), share) == value


def test_one_slow_record_in_a_hundred_is_not_yet_the_99th_percentile() -> None:
    assert percentile([1.0] * 99 + [500.0], 0.99) == 1.0
    assert percentile([1.0] * 98 + [500.0] * 2, 0.99) == 500.0


def test_the_median_of_nothing_is_not_a_number() -> None:
    assert median([]) is None
    assert median([3.0, 1.0, 2.0]) == 2.0


@pytest.mark.parametrize(
    ("wanted", "ours", "verdict"),
    [
        (Wanted.AT_LEAST, 80.0, "pass"),
        (Wanted.AT_LEAST, 79.9, "FAIL"),
        (Wanted.AT_MOST, 80.0, "pass"),
        (Wanted.AT_MOST, 80.1, "FAIL"),
    ],
)
def test_a_bar_is_met_on_the_wanted_side_only(wanted: Wanted, ours: float, verdict: str) -> None:
    assert Bar("rate", ours, 10.0, wanted, 8.0).verdict == verdict


@pytest.mark.parametrize(("ours", "theirs"), [(None, 1.0), (1.0, None), (1.0, 0.0)])
def test_a_bar_with_one_side_missing_is_neither_met_nor_missed(
    ours: float | None, theirs: float | None
) -> None:
    bar = Bar("rate", ours, theirs, Wanted.AT_LEAST, 1.0)

    assert bar.is_met is None
    assert bar.verdict == "not measured"


def test_the_examples_are_right() -> None:
    for module in (timeline, verdicts):
        outcome = doctest.testmod(module)
        assert outcome.attempted
        assert not outcome.failed
