"""Sending: batches of opened partitions to the target, in order, each acknowledged or dealt with.

Composes the next batch when a partition may send, enters what was acknowledged into the ledger,
and takes out what the target refuses. Whatever else goes wrong ends the partition.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from heliograph.copy.allowance import Allowance
from heliograph.copy.copying import Copying, LeftOut, Refusal
from heliograph.copy.opened import Ends
from heliograph.copy.quarantine import MakeTopic, Quarantine
from heliograph.copy.queue import Bounds, Prepared
from heliograph.copy.refusals import Refused, Verdict, cut, is_about_records, is_about_size, judge
from heliograph.errors import (
    ForeignRecords,
    HeliographError,
    LogTruncated,
    NotReady,
    RecordsRefused,
)
from heliograph.kafka import clock, crash
from heliograph.kafka.batch import restamp, sequence_after
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.produce import DELIVERY_TIMEOUT, IN_FLIGHT, Producer
from heliograph.model.expiry import REQUEST_LIFE, old_after_ms
from heliograph.model.policies import Policies

# Producers without linger make batches of one record: those are joined. Joining costs about a
# microsecond a record, so what is larger goes untouched (docs/decisions/0011) ...
NEAR = Bounds(small_bytes=8 << 10, most_bytes=256 << 10)
# ... unless answers take long: with five batches in flight, their size decides how fast it goes.
FAR = Bounds(small_bytes=16 << 10, most_bytes=256 << 10)
# Old batches fly alone, one in a round trip: small ones are joined into large ones. What is not
# small goes as it is: packing it anew costs more than the round trips it saves.
ALONE = Bounds(small_bytes=16 << 10, most_bytes=900 << 10)
_FAR_S = 0.02
# What stands on the mirror and is not on record must be matched by whoever comes next: while the
# ledger cannot be written, no more than this much of it is made.
MOST_UNRECORDED_S = 10.0


def bounds_for(answer_s: float, *, is_old: bool) -> Bounds:
    """Return what to join for a partition whose last answer took this long.

    >>> bounds_for(0.002, is_old=False) is NEAR, bounds_for(0.05, is_old=False) is FAR
    (True, True)
    """
    if is_old:
        return ALONE
    return FAR if answer_s > _FAR_S else NEAR


class Sender:
    """Sends for all partitions of a stream, and tells it when one moved or failed."""

    def __init__(
        self,
        ends: Ends,
        policies: Policies,
        expiration: timedelta,
        *,
        lanes: int,
        make_topic: MakeTopic | None,
        allowance: Allowance,
        on_move: Callable[[Copying], None],
        on_failure: Callable[[Copying, HeliographError], None],
    ) -> None:
        self._cluster = ends.target.name
        self._policies = policies
        self._old_after_ms = old_after_ms(expiration)
        # What is not old when it is sent is remembered for half the limit at least: in half of
        # that its repeat must be recognised.
        self._delivery = min(DELIVERY_TIMEOUT, expiration / 4)
        self._allowance = allowance
        self._producer = Producer(ends.target, lanes=lanes)
        self._quarantine = make_topic and Quarantine(ends, self._producer, make_topic)
        self._on_move = on_move
        self._on_failure = on_failure

    def pump(self) -> None:
        """Send what can be sent now."""
        self._producer.pump()

    def forget(self, part: Copying, *, cut: bool = False) -> None:
        """Drop what is on its way; with ``cut`` not a byte more of it leaves."""
        self._producer.forget(part.opened.mirror, part.opened.claim.producer_id, cut=cut)

    def fill(self, part: Copying) -> None:
        """Send as much as may fly; call when something arrived, was acknowledged, or time passed.

        A batch is composed as late as possible: what must wait can still be joined.
        """
        if part.refusal is not None and not part.flying:
            self._deal_with(part, part.refusal)
        while part.may_send and len(part.flying) < IN_FLIGHT:
            if part.left_out and part.queue.source_next > part.left_out[0].source_offset:
                if not part.flying:
                    part.leave_out_before(part.queue.source_next)
                return
            if clock.now_s() - part.recorded_s > MOST_UNRECORDED_S:
                return
            newest_ms = part.queue.newest_ms
            old = self._is_old(newest_ms)
            if self._allowance.is_spent or not self._may_fly(part, is_old=old):
                return
            prepared = self._next(part, bounds_for(part.answer_s, is_old=old))
            if prepared is None:
                continue
            same = prepared.newest_ms == newest_ms
            prepared.is_old = old if same else self._is_old(prepared.newest_ms)
            if prepared.is_old and not old and not self._may_fly(part, is_old=True):
                part.queue.put_back([prepared])  # a piece, and older than the whole
                return
            self._send(part, prepared)

    def _may_fly(self, part: Copying, *, is_old: bool) -> bool:
        """True when a batch may be sent now; old is one after which its writer may be forgotten.

        A leader that does not know a writer takes any sequence: then what flies behind a batch
        that is refused would be stored all the same. So a batch flies alone where the leader may
        have forgotten what was written last, and an old one always.
        """
        if is_old and clock.now_s() < part.opened.old_not_before_s:
            return False
        if not part.flying:
            return True
        return not (is_old or part.flying[-1].is_old or self._is_old(part.opened.written_ms))

    def _is_old(self, newest_ms: int) -> bool:
        return clock.wall_ms() - newest_ms >= self._old_after_ms

    def _next(self, part: Copying, bounds: Bounds) -> Prepared | None:
        most_bytes = min(bounds.most_bytes, part.too_large_bytes - 1)
        prepared = part.queue.take(Bounds(bounds.small_bytes, most_bytes))
        if prepared is None or prepared.count == 1 or len(prepared.batch) < part.too_large_bytes:
            return prepared
        part.queue.put_back(cut(prepared, part.too_large_bytes - 1))
        return part.queue.take(bounds)

    def _send(self, part: Copying, prepared: Prepared) -> None:
        opened = part.opened
        prepared.sequence, prepared.sent_s = opened.sequence, clock.now_s()
        restamp(prepared.batch, opened.claim.producer_id, opened.claim.epoch, opened.sequence)
        opened.sequence = sequence_after(opened.sequence, prepared.count)
        part.flying.append(prepared)
        part.sent_s = prepared.sent_s
        self._allowance.spend(len(prepared.batch))
        self._producer.send(
            opened.mirror,
            part.mirror_id,
            prepared.batch,
            partial(self._answered, part, prepared),
            deadline=Deadline.after(DELIVERY_TIMEOUT if prepared.is_old else self._delivery),
            once=prepared.is_old,
            on_lost=partial(self._given_up, part),
        )

    # Answers

    def _answered(self, part: Copying, prepared: Prepared, outcome: int | HeliographError) -> None:
        if part.is_over:
            return
        done = part.flying.popleft()
        assert done is prepared, "answered in the order they were sent"
        part.answered(prepared, clock.now_s())
        if isinstance(outcome, HeliographError):
            self._failed(part, prepared, outcome)
        else:
            self._stored(part, prepared, outcome)
        self._on_move(part)

    def _given_up(self, part: Copying) -> None:
        """Send nothing old before what the network may still hold is gone: see ``Opened``."""
        opened = part.opened
        over_s = clock.now_s() + REQUEST_LIFE.total_seconds()
        opened.old_not_before_s = max(opened.old_not_before_s, over_s)

    def _stored(self, part: Copying, prepared: Prepared, target_start: int) -> None:
        expected = part.opened.ledger.target_next
        if target_start < expected:
            self._on_failure(part, self._lost(part, target_start, expected))
            return
        part.enter(prepared, target_start)
        if target_start > expected and not self._policies.is_shared:
            self._on_failure(part, self._foreign(part, expected, target_start))
            return
        part.settle()

    def _failed(self, part: Copying, prepared: Prepared, error: HeliographError) -> None:
        if part.refusal is not None and isinstance(error, NotReady):
            part.refusal.behind.append(prepared)
        elif isinstance(error, RecordsRefused) and is_about_records(error):
            part.refusal = Refusal(prepared, error)
        else:
            self._on_failure(part, error)

    def _lost(self, part: Copying, found: int, expected: int) -> LogTruncated:
        return LogTruncated(
            f"{part.opened.mirror} took a batch at offset {found}, but {expected} was next: the"
            f" mirror lost the records from {found} to {expected}. Copying to it stopped",
            cluster=self._cluster,
            epoch=-1,
            end_offset=found,
        )

    def _foreign(self, part: Copying, start: int, end: int) -> ForeignRecords:
        return ForeignRecords(
            f"{part.opened.mirror}: something else wrote the records from offset {start} to {end}."
            " What this link wrote behind them is on record. Find out who else writes to the"
            " mirror: only this link should, unless the link is told that it is shared",
            target_start=start,
            target_end=end,
        )

    # Refusals

    def _deal_with(self, part: Copying, refusal: Refusal) -> None:
        """Every batch in flight is answered: go on with pieces, under the sequences not taken."""
        part.refusal = None
        part.opened.sequence = refusal.prepared.sequence
        if is_about_size(refusal.error):
            part.too_large_bytes = min(part.too_large_bytes, len(refusal.prepared.batch))
        verdict = judge(refusal.prepared, refusal.error)
        crash.point("C10")
        part.queue.put_back([*verdict.again, *refusal.behind])
        if verdict.refused:
            self._leave_out(part, verdict)

    def _leave_out(self, part: Copying, verdict: Verdict) -> None:
        if self._policies.on_refuse == "skip":
            part.leave_out(LeftOut.of(one, "refused") for one in verdict.refused)
            part.settle()
        elif self._policies.on_refuse == "quarantine" and self._quarantine is not None:
            part.is_held = True
            self._put_away(part, list(verdict.refused))
        else:
            first = verdict.refused[0]
            part.stop_before(first.source_offset, self._refused(part, first))

    def _put_away(self, part: Copying, left: list[Refused]) -> None:
        """Quarantine one after the other; the ledger passes none before it is acknowledged."""
        assert self._quarantine is not None
        refused = left.pop(0)

        def kept(error: HeliographError | None) -> None:
            if part.is_over:
                return
            if error is not None:
                self._on_failure(part, error)
                return
            crash.point("C11")
            part.leave_out([LeftOut.of(refused, "quarantined")])
            if left:
                self._put_away(part, left)
                return
            part.is_held = False
            part.settle()
            self._on_move(part)

        self._quarantine.put(part.opened, refused, kept)

    def _refused(self, part: Copying, refused: Refused) -> RecordsRefused:
        return RecordsRefused(
            f"the record at offset {refused.source_offset} of {part.opened.source} cannot be"
            f" copied: {refused.error.message}. Nothing behind it was copied. Change the mirror's"
            " settings, or let on_refuse quarantine or skip such records",
            cluster=self._cluster,
            kafka_code=refused.error.kafka_code,
        )
