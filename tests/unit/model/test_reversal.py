"""Ledgers turned round: the same pairs of offsets, and nothing in between forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.ledger import Closing, Ledger, Origin, read_ledger
from heliograph.model.reversal import holes, is_outrun, parting, reverse
from heliograph.model.runs import Run
from heliograph.model.topics import Partition

HERE, THERE = Partition("orders", 0), Partition("paris.orders", 0)
ORIGIN = Origin("A", "topic", "B", "mirror")

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=600)


def closed(steps: list[tuple[int, int, int]]) -> Ledger:
    ledger = Ledger(HERE, ORIGIN)
    source = target = 0
    for hole, markers, length in steps:
        source, target = source + hole, target + markers
        ledger.add(Run(source, target, length))
        source, target = source + length, target + length
    ledger.skip_target_to(target + 1)
    ledger.closing = Closing("FAILED_OVER", 0, target)
    ledger.producer_ids.add(7)
    return ledger


@given(STEPS, st.integers(0, 10))
def test_turned_twice_it_holds_the_same_pairs(
    steps: list[tuple[int, int, int]], diverged: int
) -> None:
    first = closed(steps)
    source_part, target_part = parting(first)
    turned = reverse(first, THERE, source_part + diverged, diverged, None)
    assert turned.closing is None and turned.partition == THERE
    assert (turned.source_next, turned.target_next) == (target_part, source_part + diverged)
    assert bool(turned.gaps) == bool(diverged)
    pairs = [(run.target_start, run.source_start, run.length) for run in first.runs]
    assert [(run.source_start, run.target_start, run.length) for run in turned.runs] == pairs
    assert turned.origin == Origin("B", "mirror", "A", "topic")
    again = reverse(turned, HERE, 10_000, 0, first)
    assert again.source_next == source_part + diverged  # what diverged is not copied after all
    assert list(again.runs) == list(first.runs) and again.origin == ORIGIN
    assert again.producer_ids == {7} and again.records == first.records
    assert again.closing is None


@given(STEPS)
def test_what_is_put_in_place_of_another_reads_back_as_it_is(
    steps: list[tuple[int, int, int]],
) -> None:
    first = closed(steps)
    rows = {key: value for key, value in first.take_changes().items() if value is not None}
    before = read_ledger(HERE, rows)
    assert before is not None and before.closing == first.closing
    again = reverse(reverse(first, THERE, 5_000, 0, None), HERE, 20_000, 3, before)
    for key, value in again.take_changes().items():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    found = read_ledger(HERE, rows)
    assert found is not None and list(found.runs) == list(first.runs)
    assert found.closing is None and found.gaps == again.gaps


def test_a_mirror_that_was_never_written_parts_at_its_start() -> None:
    assert parting(closed([])) == (0, 0)


@given(STEPS)
def test_holes_are_what_no_run_covers_before_the_last_copy(
    steps: list[tuple[int, int, int]],
) -> None:
    ledger = closed(steps)
    copied = {at for run in ledger.runs for at in range(run.target_start, run.target_end)}
    first = next(iter(ledger.runs), None)
    start = 0 if first is None or first.source_start == 0 else first.target_start
    end = max(copied, default=-1) + 1
    found = holes(ledger)
    assert [at for hole in found for at in hole] == sorted(set(range(start, end)) - copied)
    assert all(found) and found == sorted(found, key=lambda hole: hole.start)


def test_what_stands_before_runs_that_were_forgotten_is_no_hole() -> None:
    ledger = closed([(0, 1, 300)] + [(1, 0, 1)] * 256 + [(0, 2, 1)])
    ledger.drop_before(556)
    first = next(iter(ledger.runs))
    assert first.target_start > 300
    assert all(hole.start >= first.target_end for hole in holes(ledger))


def test_a_ledger_of_many_segments_is_put_in_parts_and_the_head_last() -> None:
    first = closed([(1, 1, 1)] * 2000)
    rows: dict[bytes, bytes | None] = {}
    for batch in first.take_batches(5_000):
        assert read_ledger(HERE, known(rows)) is None, "nothing counts before the head is there"
        assert sum(len(value or b"") for value in batch.values()) <= 5_000
        rows |= batch
    found = read_ledger(HERE, known(rows))
    assert found is not None and list(found.runs) == list(first.runs)
    # In the place of another one, cut short, and then again with fewer runs.
    longer = reverse(
        reverse(closed([(1, 1, 1)] * 3000), THERE, 9_000, 0, None), HERE, 9_000, 0, found
    )
    for batch in longer.take_batches(5_000)[:-1]:
        rows |= batch
    found = read_ledger(HERE, known(rows))
    assert found is not None and list(found.runs) == list(first.runs)
    shorter = reverse(
        reverse(closed([(1, 1, 1)] * 900), THERE, 9_000, 0, None), HERE, 9_000, 0, found
    )
    for batch in shorter.take_batches(5_000):
        rows |= batch
    again = read_ledger(HERE, known(rows))
    assert again is not None and list(again.runs) == list(shorter.runs)
    for step in range(1000):
        again.add(Run(10_000 + 2 * step, 10_000 + 2 * step, 1))
    for batch in again.take_batches(5_000):
        rows |= batch
    grown = read_ledger(HERE, known(rows))
    assert grown is not None and list(grown.runs) == list(again.runs)


def known(rows: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    return {key: value for key, value in rows.items() if value is not None}


@given(STEPS, st.integers(0, 10))
def test_a_ledger_of_an_earlier_turn_is_known_as_such(
    steps: list[tuple[int, int, int]], diverged: int
) -> None:
    first = closed(steps)
    turned = reverse(first, THERE, parting(first)[0] + diverged, diverged, None)
    assert not is_outrun(first, None)
    again = reverse(turned, HERE, first.target_next, 0, first)
    assert not is_outrun(again, turned)  # it may turn round as often as it likes
    again.add(Run(again.source_next, again.target_next, 1))
    assert is_outrun(turned, again)  # but not from what is behind it
    elsewhere = Ledger(HERE, Origin("A", "made anew", "B", "mirror"))
    elsewhere.skip_to(again.source_next)
    assert not is_outrun(turned, elsewhere)  # its offsets are of another log
