"""Runs against a plain map from offset to offset."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.runs import Reason, Run, Runs, Translation

# Steps of a copy: source offsets without records, target offsets of markers, records copied.
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=30
)


def build(steps: list[tuple[int, int, int]]) -> tuple[Runs, dict[int, int]]:
    """Return the runs of a copy, and the truth: the image of every source offset."""
    runs = Runs()
    images: dict[int, int] = {}
    source = target = 0
    for hole, markers, length in steps:
        source, target = source + hole, target + markers
        runs.add(Run(source, target, length))
        images |= {source + i: target + i for i in range(length)}
        source, target = source + length, target + length
    return runs, images


def expected(images: dict[int, int], offset: int) -> Translation:
    starts = sorted(images)
    if offset in images:
        return Translation(images[offset], Reason.EXACT)
    if offset < starts[0]:
        return Translation(images[starts[0]], Reason.START)
    at = bisect_left(starts, offset)
    if at < len(starts):
        return Translation(images[starts[at]], Reason.NEXT)
    return Translation(images[starts[-1]] + 1, Reason.END)


@given(STEPS)
def test_every_offset_translates_as_the_plain_map_says(steps: list[tuple[int, int, int]]) -> None:
    runs, images = build(steps)
    for offset in range(max(images) + 5):
        assert runs.translate(offset) == expected(images, offset)


@given(STEPS)
def test_every_offset_translates_back(steps: list[tuple[int, int, int]]) -> None:
    runs, images = build(steps)
    back = {target: source for source, target in images.items()}
    for offset in range(max(back) + 5):
        assert runs.translate_back(offset) == expected(back, offset)


@given(STEPS)
def test_runs_that_touch_on_both_sides_are_one(steps: list[tuple[int, int, int]]) -> None:
    runs, _ = build(steps)
    for one, other in zip(list(runs), list(runs)[1:], strict=False):
        touches = one.source_end == other.source_start and one.target_end == other.target_start
        assert not touches


@given(STEPS, st.integers(0, 100))
def test_dropping_keeps_every_translation_into_what_is_left(
    steps: list[tuple[int, int, int]], target_start: int
) -> None:
    runs, images = build(steps)
    before = len(runs)
    gone = runs.drop_before(target_start)
    assert len(runs) == before - gone
    for source, target in images.items():
        if target >= target_start:
            assert runs.translate(source) == Translation(target, Reason.EXACT)
    assert all(run.target_end > target_start for run in runs)


def test_a_clean_topic_is_one_run_for_ever() -> None:
    runs = Runs()
    for start in range(0, 100_000, 100):
        runs.add(Run(start, start + 1, 100))
    assert list(runs) == [Run(0, 1, 100_000)]


def test_an_empty_ledger_translates_to_the_start() -> None:
    assert Runs().translate(42) == Translation(0, Reason.END)
    assert Runs().translate_back(42) == Translation(0, Reason.END)


@pytest.mark.parametrize("late", [Run(5, 20, 1), Run(20, 5, 1)])
def test_a_run_that_goes_back_on_either_side_is_refused(late: Run) -> None:
    runs = Runs([Run(0, 0, 10)])
    with pytest.raises(AssertionError, match="invariant B"):
        runs.add(late)
