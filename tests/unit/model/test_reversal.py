"""Ledgers turned round: the same pairs of offsets, and nothing in between forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.ledger import Closing, Ledger, Origin, read_ledger
from heliograph.model.reversal import parting, reverse
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
