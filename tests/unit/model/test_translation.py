"""Translation beyond the runs: ends, starts, and logs that hold less than the ledger knows."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.ledger import Closing, Ledger, Origin
from heliograph.model.runs import Reason, Run, Translation
from heliograph.model.topics import Partition
from heliograph.model.translation import Translator

ORIGIN = Origin("source", "topic", "target", "mirror")

STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=30
)


def ledger_of(*runs: Run, source_next: int = 0, target_next: int = 0) -> Ledger:
    ledger = Ledger(Partition("orders", 0), ORIGIN)
    for run in runs:
        ledger.add(run)
    ledger.skip_to(max(source_next, ledger.source_next))
    ledger.skip_target_to(max(target_next, ledger.target_next))
    return ledger


def test_a_group_at_the_end_waits_at_the_end_behind_the_markers() -> None:
    ledger = ledger_of(Run(0, 1, 10), source_next=12, target_next=13)
    translator = Translator(ledger)
    assert translator.to_target(10) == Translation(13, Reason.END)
    assert translator.to_target(12) == Translation(13, Reason.END)
    assert translator.to_target(99) == Translation(13, Reason.END)
    assert translator.to_source(11) == Translation(12, Reason.END)
    assert translator.to_source(500) == Translation(12, Reason.END)


def test_a_group_at_the_end_of_a_shared_mirror_misses_nothing_of_others() -> None:
    ledger = ledger_of(Run(0, 1, 10), target_next=40)
    assert Translator(ledger, is_shared=True).to_target(10) == Translation(11, Reason.END)


def test_a_group_at_the_end_of_a_closed_mirror_misses_nothing_of_its_applications() -> None:
    ledger = ledger_of(Run(0, 1, 10), source_next=12, target_next=40)
    ledger.closing = Closing("FAILED_OVER", 0, 39)
    assert Translator(ledger).to_target(10) == Translation(11, Reason.END)
    assert Translator(ledger).to_target(12) == Translation(11, Reason.END)
    assert Translator(ledger).to_source(11) == Translation(12, Reason.END)


def test_an_empty_partition_translates_to_its_start() -> None:
    ledger = ledger_of(target_next=1)
    assert Translator(ledger).to_target(0) == Translation(0, Reason.END)


def test_a_restarted_ledger_does_not_send_readers_back_into_the_topic_before() -> None:
    ledger = ledger_of(Run(0, 1, 10), target_next=12).restarted(ORIGIN, 0)
    assert Translator(ledger).to_target(0) == Translation(12, Reason.END)


def test_what_the_targets_retention_passed_translates_to_its_start() -> None:
    translator = Translator(ledger_of(Run(0, 0, 100)), target_log=range(40, 100))
    assert translator.to_target(39) == Translation(40, Reason.START)
    assert translator.to_target(40) == Translation(40, Reason.EXACT)


def test_never_past_what_the_log_holds() -> None:
    translator = Translator(ledger_of(Run(0, 0, 100)), target_log=range(90))
    assert translator.to_target(95) == Translation(90, Reason.END)
    assert translator.to_target(90) == Translation(90, Reason.EXACT)


@given(STEPS, st.integers(0, 60), st.integers(0, 60))
def test_translation_keeps_the_order_of_readers(
    steps: list[tuple[int, int, int]], one: int, other: int
) -> None:
    runs, source, target = [], 0, 0
    for hole, markers, length in steps:
        source, target = source + hole, target + markers
        runs.append(Run(source, target, length))
        source, target = source + length, target + length
    translator = Translator(ledger_of(*runs, source_next=source + 2, target_next=target + 1))
    low, high = sorted((one, other))
    assert translator.to_target(low).offset <= translator.to_target(high).offset
    assert translator.to_source(low).offset <= translator.to_source(high).offset
    there = translator.to_target(low)
    if there.reason is Reason.EXACT:
        assert translator.to_source(there.offset) == Translation(low, Reason.EXACT)
