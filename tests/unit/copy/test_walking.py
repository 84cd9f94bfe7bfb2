"""What another tool copied, some of it twice, is read from both logs."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heliograph.copy.walking import meet, walk
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


def test_after_a_record_that_is_alike_to_none_there_is_no_doubt() -> None:
    source = log([0, 1, 1, 1, 2])
    assert walk(HERE, log([0, 1, 1, 1, 2]), source).is_certain
    assert not walk(HERE, log([0, 1, 1, 1]), source).is_certain
    assert not walk(HERE, log([0, 1]), source).is_alone
    assert walk(HERE, log([0]), source).is_alone


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=12),
    st.integers(0, 6),
    st.integers(0, 6),
    st.booleans(),
)
def test_where_one_log_begins_in_the_other_the_rest_is_told_rightly_or_not_at_all(
    numbers: list[int], skipped: int, copied: int, is_source_cut: bool
) -> None:
    """Records may be alike, but to none that is gone: the mirror lacks the first, or the source."""
    whole = log(numbers)
    if is_source_cut:
        assume(not set(numbers[:skipped]) & set(numbers[skipped:]))
        mirror, source = log(numbers[: skipped + copied]), whole[skipped:]
    else:
        mirror, source = log(numbers[skipped : skipped + copied]), whole
    reached = min(skipped + copied, len(numbers))
    pair = meet(mirror, source)
    if pair is None:
        return
    try:
        walked = walk(
            HERE,
            [one for one in mirror if one[1] >= pair[1]],
            [one for one in source if one[1] >= pair[0]],
        )
    except Diverged:
        return
    if walked.is_certain and walked.is_alone:
        assert walked.source_next == reached, (mirror, source)


def test_what_only_the_mirror_begins_with_was_never_in_the_source() -> None:
    assert meet(log([9, 0, 1]), log([0, 1, 2])) is None
    assert meet(log([9, 0, 1]), log([0, 1, 2], first=1)) == (1, 1)
    assert meet(log([2, 3]), log([0, 1, 2, 3])) == (2, 0)
    assert meet(log([2]), log([2, 1, 2])) is None, "it could be either"


def test_times_are_not_compared_where_the_broker_sets_them() -> None:
    late = [(9, at, flags, body) for _, at, flags, body in log([0, 1])]
    assert walk(HERE, late, log([0, 1]), with_times=False).source_next == 2
    with pytest.raises(Diverged):
        walk(HERE, late, log([0, 1]))
