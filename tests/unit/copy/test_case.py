"""What an opening makes of the tails that it reads, without a broker."""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.copy.case import Case
from heliograph.copy.comparing import Look
from heliograph.kafka.batch import Header, read_header
from heliograph.kafka.fence import Claim
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.records import Record, encode
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.runs import Run
from heliograph.model.topics import Partition

SOURCE, MIRROR = Partition("orders", 0), Partition("copies", 0)
OURS, THEIRS, MARKER_EPOCH = 7, 99, 4
_CONTROL = 0x20


def batch(base: int, keys: Iterable[bytes], producer_id: int = -1, epoch: int = 1) -> bytearray:
    """Return records as a log holds them; ``base`` tells those of one key apart."""
    rows = [Record(-1, 5 + base, key, key) for key in keys]
    made = encode(rows, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    made[:8], made[12:16] = base.to_bytes(8, "big"), epoch.to_bytes(4, "big")
    return made


def marker(base: int, epoch: int = 1) -> tuple[Header, memoryview]:
    """Return the marker of the claim; nobody reads more of it than its header."""
    header = read_header(batch(base, [b""], OURS, epoch))
    return header._replace(attributes=_CONTROL, producer_epoch=MARKER_EPOCH), memoryview(b"")


def fetched(one: Partition, *batches: bytearray | tuple[Header, memoryview], end: int) -> Fetched:
    pairs = [
        (read_header(it), memoryview(it)) if isinstance(it, bytearray) else it for it in batches
    ]
    last = pairs[-1][0]
    return Fetched(one, pairs, last.next_offset, end, end, 0, last.leader_epoch)


def claimed(ledger: Ledger, *, source_end: int, target_end: int) -> Case:
    case = Case(SOURCE, MIRROR, "source")
    case.claim = Claim("heliograph.x", OURS, MARKER_EPOCH, MARKER_EPOCH + 1)
    case.recorded = case.ledger = ledger
    case.held, case.mirrored = range(source_end), range(target_end)
    return case


def ledger_of(runs: Iterable[Run] = (), target_epoch: int = 1) -> Ledger:
    ledger = Ledger(SOURCE, Origin("a", "b", "c", "d"), producer_ids={OURS})
    for run in runs:
        ledger.add(run)
    ledger.target_epoch = target_epoch
    return ledger


def test_how_far_a_shared_mirror_was_read_stays_known_behind_an_election() -> None:
    """Asked with an older epoch, its leader sends the next one back to where its own began."""
    case = claimed(ledger_of([Run(0, 0, 3)]), source_end=3, target_end=100)
    case.is_shared = True
    assert not case.take_tail(fetched(MIRROR, batch(3, [b"x"] * 50, THEIRS, epoch=2), end=100))
    assert case.keep_progress()
    assert (case.ledger.target_next, case.ledger.target_epoch) == (53, 2)


def test_a_part_of_a_tail_on_record_is_of_the_epoch_that_it_was_read_with() -> None:
    case = claimed(ledger_of(), source_end=4, target_end=100)
    case.most_tail = 2
    assert case.take_tail(fetched(MIRROR, batch(0, [b"a", b"b"], OURS, epoch=2), end=100))
    assert case.is_cut
    assert case.take_source(fetched(SOURCE, batch(0, [b"a", b"b"]), end=4))
    case.match()
    assert (case.ledger.target_next, case.ledger.target_epoch) == (2, 2)


def test_copies_whose_source_records_were_not_read_yet_are_not_taken_for_compacted() -> None:
    """Compaction took the first three copies, so more of the source is wanted than copies are."""
    keys = [b"a", b"b", b"c", b"a", b"b", b"c", b"d", b"e"]
    case = claimed(ledger_of(), source_end=len(keys), target_end=9)
    case.compacted = True, True
    case.most_tail = 2
    copies = [batch(at, [keys[at]], OURS) for at in range(3, len(keys))]
    assert case.take_tail(fetched(MIRROR, *copies, marker(len(keys)), end=9))
    assert not case.is_cut, "only all that is left tells what compaction took"
    for at, key in enumerate(keys):
        if case.take_source(fetched(SOURCE, batch(at, [key]), end=len(keys))):
            break
    case.match()
    assert case.ledger.source_next == len(keys), "they would be copied again"


def test_a_leader_that_does_not_show_its_end_yet_has_lost_nothing() -> None:
    """The marker of the claim was seen behind it: a leader just elected shows it later."""
    case = claimed(ledger_of([Run(0, 0, 10)]), source_end=10, target_end=12)
    look = Look(case, 8, 1)
    assert not look.take(Fetched(MIRROR, (), 8, 5, 5, 0, 1)), "up to 5 is committed, as it says"
    assert look.take(fetched(MIRROR, batch(6, [b"x"] * 4, OURS, epoch=2), end=12))
    look.judge({}, "target")
    assert not case.ledger.losses and case.ledger.target_epoch == 2


def test_records_of_others_behind_a_hole_hide_no_loss() -> None:
    """Compaction took what stood in the place of the first lost record, so the next one tells."""
    case = claimed(ledger_of([Run(0, 0, 10)]), source_end=10, target_end=12)
    look = Look(case, 3, 0)
    assert look.take(fetched(MIRROR, batch(5, [b"x"] * 7, THEIRS, epoch=2), end=12))
    look.judge({}, "target")
    assert [loss.records for loss in case.ledger.losses] == [7]
    assert (case.ledger.source_next, case.ledger.target_next) == (3, 3)


def test_a_hole_before_records_that_are_on_record_is_no_loss() -> None:
    case = claimed(ledger_of([Run(0, 0, 10)]), source_end=10, target_end=12)
    look = Look(case, 3, 0)
    assert look.take(fetched(MIRROR, batch(5, [b"x"] * 5, OURS, epoch=2), end=12))
    look.judge({}, "target")
    assert not case.ledger.losses and case.ledger.target_epoch == 2
