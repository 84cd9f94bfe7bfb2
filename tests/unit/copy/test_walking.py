"""What another tool copied, some of it twice, is read from both logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copy.walking import walk
from heliograph.errors import Diverged
from heliograph.kafka.dense import Slice
from heliograph.model.topics import Partition

HERE = Partition("orders", 0)


def log(numbers: list[int], first: int = 0, step: int = 1) -> list[Slice]:
    """Return records that say which they are, at offsets with or without holes."""
    return [(1_000 + n, first + step * at, 0, b"%d" % n) for at, n in enumerate(numbers)]


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), max_size=5),
    st.sampled_from([1, 2]),
)
def test_every_history_of_steps_back_is_understood(
    count: int, steps: list[tuple[int, int]], step: int
) -> None:
    copied: list[int] = []
    position = 0
    for forth, back in steps:
        copied += range(position, min(position + forth, count))
        position = max(min(position + forth, count) - back, 0)
    reached = max(copied, default=-1) + 1
    walked = walk(HERE, log(copied, 500, step), log(list(range(count)), 100))
    assert walked.source_next == 100 + reached
    assert len(walked.doubled) == len(copied) - reached
    assert walked.is_certain
    first = {n: at for at, n in reversed(list(enumerate(copied)))}
    for n in range(reached):
        (offset,) = {run.translate(100 + n) for run in walked.runs} - {None}
        assert offset == 500 + step * first[n]


def test_a_record_of_somebody_else_is_refused() -> None:
    with pytest.raises(Diverged) as refused:
        walk(HERE, log([0, 1, 77]), log([0, 1, 2]))
    assert (refused.value.source_offset, refused.value.target_offset) == (2, 2)


def test_more_than_the_source_has_is_refused() -> None:
    with pytest.raises(Diverged):
        walk(HERE, log([0, 1, 2]), log([0, 1]))


def test_records_that_are_alike_leave_a_doubt() -> None:
    alike = [(5, at, 0, b"x") for at in range(4)]
    walked = walk(HERE, alike[:3], alike)
    assert walked.source_next == 3 and not walked.is_certain


def test_times_are_not_compared_where_the_broker_sets_them() -> None:
    late = [(9, at, flags, body) for _, at, flags, body in log([0, 1])]
    assert walk(HERE, late, log([0, 1]), with_times=False).source_next == 2
    with pytest.raises(Diverged):
        walk(HERE, late, log([0, 1]))
