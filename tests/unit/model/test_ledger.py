"""The ledger against a plain journal of what was done, through its rows."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heliograph.errors import LedgerUnreadable
from heliograph.model.ledger import SEGMENT_RUNS, Gap, Ledger, Origin, read_ledger
from heliograph.model.runs import Run
from heliograph.model.topics import Partition

ORIGIN = Origin("source-id", "topic-id", "target-id", "mirror-id")
HERE = Partition("orders", 3)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, 2), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("skip"), st.integers(0, 5)),
        st.tuples(st.just("gap"), st.integers(0, 5)),
        st.tuples(st.just("producer"), st.integers(0, 50)),
        st.tuples(st.just("target"), st.integers(0, 3)),
        st.tuples(st.just("recreate"), st.integers(0, 9)),
        st.tuples(st.just("write")),
    ),
    max_size=60,
)


def do(ledger: Ledger, rows: dict[bytes, bytes], step: tuple[object, ...]) -> Ledger:
    match step:
        case ("run", int(hole), int(marker), int(length)):
            run = Run(ledger.source_next + hole, ledger.target_next + marker, length)
            ledger.add(run, source_epoch=length)
            ledger.bytes += 10 * length
        case ("skip", int(far)):
            ledger.skip_to(ledger.source_next + far)
        case ("gap", int(far)):
            ledger.add_gap(ledger.source_next + far, "retention")
        case ("producer", int(producer_id)):
            ledger.producer_ids.add(producer_id)
        case ("target", int(far)):
            ledger.skip_target_to(ledger.target_next + far)
        case ("recreate", int(source_next)):
            return ledger.restarted(replace(ORIGIN, source_topic_id="new"), source_next)
        case ("write",):
            put(rows, ledger)
    return ledger


def put(rows: dict[bytes, bytes], ledger: Ledger) -> None:
    """Do what a compacted topic does with a batch of rows."""
    for key, value in ledger.take_changes().items():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def content(ledger: Ledger) -> tuple[object, ...]:
    return (
        ledger.origin,
        ledger.source_next,
        ledger.target_next,
        ledger.source_epoch,
        ledger.records,
        ledger.bytes,
        ledger.producer_ids,
        ledger.gaps,
        list(ledger.runs),
    )


@given(STEPS)
def test_what_is_read_back_is_what_was_entered(steps: list[tuple[object, ...]]) -> None:
    ledger, rows = Ledger(HERE, ORIGIN), dict[bytes, bytes]()
    for step in steps:
        ledger = do(ledger, rows, step)
    put(rows, ledger)
    read = read_ledger(HERE, rows)
    assert read is not None and content(read) == content(ledger)


def many_runs(count: int) -> Ledger:
    """A ledger of a compacted source: no two runs touch."""
    ledger = Ledger(HERE, ORIGIN)
    for _ in range(count):
        ledger.add(Run(ledger.source_next + 1, ledger.target_next, 1))
    return ledger


def test_only_the_newest_segment_is_written_again() -> None:
    ledger = many_runs(SEGMENT_RUNS * 3)
    first = ledger.take_changes()
    assert len(first) == 1 + 3
    ledger.add(Run(ledger.source_next + 1, ledger.target_next, 1))
    assert sorted(ledger.take_changes()) == [b"orders/3", b"orders/3/3"]


def test_a_clean_topic_stays_one_segment_of_one_run() -> None:
    ledger, rows = Ledger(HERE, ORIGIN), dict[bytes, bytes]()
    for _ in range(10_000):
        ledger.add(Run(ledger.source_next, ledger.target_next, 100))
    put(rows, ledger)
    assert sorted(rows) == [b"orders/3", b"orders/3/0"]
    row = {"source": 0, "target": 0, "runs": [[0, 0, 1_000_000]]}
    assert json.loads(rows[b"orders/3/0"]) == row


def test_segments_that_the_target_has_dropped_are_removed_from_the_topic() -> None:
    ledger, rows = many_runs(SEGMENT_RUNS * 3), dict[bytes, bytes]()
    put(rows, ledger)
    ledger.drop_before(SEGMENT_RUNS * 2)
    put(rows, ledger)
    assert sorted(rows) == [b"orders/3", b"orders/3/2"]
    read = read_ledger(HERE, rows)
    assert read is not None
    assert next(iter(read.runs)).target_start == SEGMENT_RUNS * 2
    assert read.source_next == ledger.source_next


def test_a_gap_is_kept_with_its_exact_offsets() -> None:
    ledger = Ledger(HERE, ORIGIN)
    ledger.add(Run(0, 0, 10))
    ledger.add_gap(25, "retention overtook the mirror")
    assert ledger.gaps == [Gap(10, 25, "retention overtook the mirror")]
    assert ledger.source_next == 25


def test_gaps_that_touch_and_have_one_reason_are_one_gap() -> None:
    ledger = Ledger(HERE, ORIGIN)
    for end, why in ((1, "refused"), (2, "refused"), (4, "refused"), (5, "retention")):
        ledger.add_gap(end, why)
    ledger.skip_to(6)
    ledger.add_gap(7, "retention")
    assert ledger.gaps == [Gap(0, 4, "refused"), Gap(4, 5, "retention"), Gap(6, 7, "retention")]


def test_the_ledger_of_a_topic_made_anew_forgets_runs_and_keeps_who_wrote() -> None:
    ledger, rows = many_runs(SEGMENT_RUNS * 2), dict[bytes, bytes]()
    ledger.producer_ids.add(5)
    put(rows, ledger)
    new = ledger.restarted(replace(ORIGIN, source_topic_id="new"), 3)
    put(rows, new)
    assert sorted(rows) == [b"orders/3", b"orders/3/2"]
    assert (new.source_next, new.target_next) == (3, ledger.target_next)
    assert new.producer_ids == {5} and not new.runs and new.records == ledger.records
    new.add(Run(3, new.target_next, 1))
    put(rows, new)
    read = read_ledger(HERE, rows)
    assert read is not None and content(read) == content(new)
    assert [gap.why.split(":")[0] for gap in read.gaps] == ["topic recreated"]


def test_an_advance_without_a_leader_epoch_forgets_the_one_before() -> None:
    ledger = Ledger(HERE, ORIGIN)
    ledger.add(Run(0, 0, 10), source_epoch=4)
    assert ledger.source_epoch == 4
    ledger.skip_to(10)
    assert ledger.source_epoch == 4, "nothing was skipped"
    ledger.add_gap(12, "retention")
    assert ledger.source_epoch == -1


def test_nothing_of_ours_comes_before_what_the_mirror_was_read_to() -> None:
    ledger = Ledger(HERE, ORIGIN)
    ledger.skip_target_to(5)
    with pytest.raises(AssertionError, match="invariant E"):
        ledger.add(Run(0, 4, 1))
    with pytest.raises(AssertionError, match="invariant E"):
        ledger.skip_target_to(4)


def test_offsets_that_are_done_cannot_be_done_again() -> None:
    ledger = Ledger(HERE, ORIGIN)
    ledger.add(Run(0, 0, 10))
    with pytest.raises(AssertionError, match="invariant E"):
        ledger.add(Run(9, 10, 1))
    with pytest.raises(AssertionError, match="invariant E"):
        ledger.skip_to(9)


def test_a_partition_without_rows_has_no_ledger() -> None:
    rows: dict[bytes, bytes] = {}
    put(rows, Ledger(Partition("orders", 30), ORIGIN))
    assert read_ledger(HERE, rows) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda rows: rows.pop(b"orders/3/0"),
        lambda rows: rows.update({b"orders/3": b"{"}),
        lambda rows: rows.update({b"orders/3": b'{"format": 99}'}),
        lambda rows: rows.update({b"orders/3/0": b"[[0, 0, 0]]"}),
        lambda rows: rows.update({b"orders/3/0": b"[[5, 5, 5], [0, 0, 5]]"}),
        lambda rows: rows.update({b"orders/3/0": b'{"a": 1}'}),
        lambda rows: rows.update({b"orders/3/0": b"[[0, 0, 11]]"}),
    ],
    ids=["segment gone", "no JSON", "format", "empty run", "out of order", "no list", "ahead"],
)
def test_a_ledger_that_contradicts_itself_is_refused(damage: object) -> None:
    ledger, rows = Ledger(HERE, ORIGIN), dict[bytes, bytes]()
    ledger.add(Run(0, 0, 10))
    put(rows, ledger)
    damage(rows)  # type: ignore[operator]
    with pytest.raises(LedgerUnreadable, match="orders-3"):
        read_ledger(HERE, rows)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=600),
    st.integers(0, 4000),
)
@example([(0, 1, 1)] * 3 * SEGMENT_RUNS, SEGMENT_RUNS)
def test_a_ledger_that_went_back_holds_what_stands_before_and_copies_the_rest_again(
    steps: list[tuple[int, int, int]], target_offset: int
) -> None:
    ledger, source, target = Ledger(HERE, ORIGIN), 0, 0
    pairs: dict[int, int] = {}
    for source_hole, target_hole, length in steps:
        source, target = source + source_hole, target + target_hole
        ledger.add(Run(source, target, length))
        pairs |= {source + step: target + step for step in range(length)}
        source, target = source + length, target + length
    rows: dict[bytes, bytes | None] = dict(ledger.take_changes())
    loss = ledger.go_back(target_offset, at_ms=7)
    lost = sorted(one for one, copy in pairs.items() if copy >= target_offset)
    kept = {one: copy for one, copy in pairs.items() if copy < target_offset}
    if loss is None:
        assert not lost
    else:
        assert (loss.source_start, loss.records) == (lost[0], len(lost))
        assert ledger.source_next == lost[0] and ledger.losses == [loss]
        ledger.add(Run(lost[0], target_offset + 1, 1))  # what is copied again takes their place
        kept[lost[0]] = target_offset + 1
    assert ledger.target_next <= max(target_offset + 2, target)
    rows |= ledger.take_changes()
    again = read_ledger(HERE, {key: value for key, value in rows.items() if value is not None})
    assert again is not None and again.losses == ledger.losses
    assert again.records == len(kept) and list(again.runs) == list(ledger.runs)
    assert {
        run.source_start + step: run.target_start + step
        for run in again.runs
        for step in range(run.length)
    } == kept
