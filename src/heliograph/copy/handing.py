"""Handing over: a partition's writer as plain values, and back."""

from heliograph.copy.opening import Opened
from heliograph.errors import LedgerUnreadable
from heliograph.kafka import clock
from heliograph.kafka.fence import Claim
from heliograph.kafka.tables import Writer
from heliograph.model.expiry import CLAIM_WAIT
from heliograph.model.leases import HandOver, Part
from heliograph.model.ledger import read_ledger
from heliograph.model.topics import ClusterView


def is_led_as_claimed(opened: Opened, target: ClusterView) -> bool:
    """True when the mirror's leader, as far as is known, is of the epoch at the last claim.

    A leader that was elected since may lack what was acknowledged before. Only a claim finds out.
    """
    leader, claimed = target.find(opened.mirror), opened.ledger.target_epoch
    return leader is None or not 0 <= claimed < leader.leader_epoch


def hand_over(opened: Opened, claimed_ms: int, newest_ms: int) -> HandOver:
    """Return what the next writer needs. Nothing may be on its way, and all must be on record."""
    claim = opened.claim
    rows = opened.ledger.growing_rows()
    old_in_ms = int((opened.old_not_before_s - clock.now_s()) * 1000)
    return HandOver(
        claim.transactional_id,
        claim.producer_id,
        claim.marker_epoch,
        claim.epoch,
        opened.sequence,
        opened.writer.sequence,
        claimed_ms,
        newest_ms,
        {key.decode(): value.decode() for key, value in rows.items()},
        opened.written_ms,
        clock.wall_ms() + old_in_ms,
    )


def take_over(part: Part, handed: HandOver) -> Opened:
    """Return the partition as its last writer left it."""
    rows = {key.encode(): value.encode() for key, value in handed.rows.items()}
    ledger = read_ledger(part.source, rows, is_whole=False)
    if ledger is None:
        raise LedgerUnreadable(f"what was handed over for {part.source} holds no ledger")
    opened = Opened(
        part.source,
        part.mirror,
        Claim(handed.transactional_id, handed.producer_id, handed.marker_epoch, handed.epoch),
        Writer(handed.producer_id, handed.epoch, handed.ledger_sequence),
        ledger,
        sequence=handed.sequence,
        written_ms=handed.written_ms,
    )
    # What the last writer had to wait for, the next one waits for as well.
    wait_ms = int(CLAIM_WAIT.total_seconds() * 1000)
    over_ms = max(handed.old_not_before_ms, handed.claimed_ms + wait_ms)
    left_ms = min(max(over_ms - clock.wall_ms(), 0), wait_ms)
    opened.old_not_before_s = clock.now_s() + left_ms / 1000
    return opened
