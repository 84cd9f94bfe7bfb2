"""Reports: what a task says of its partitions while it copies them, and its receipt.

Rows of the link's state topic, put without a claim: the last one counts, and all of it can be
found out anew. Only changes are told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

from heliograph.copy.copying import Copying
from heliograph.copy.healing import Fault
from heliograph.copy.stream import Stream
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.produce import Producer
from heliograph.kafka.tables import Table, rows_batch
from heliograph.model.control import (
    Heard,
    PartReport,
    PartState,
    batches_of,
    heard_key,
    part_key,
    receipt_rows,
    row,
    seat_key,
)
from heliograph.model.leases import Known, Lease, Part, Receipt, Seat
from heliograph.model.names import state_topic
from heliograph.model.topics import Partition

TELL_EVERY = timedelta(seconds=2)
# Soon, so that the driver knows that the lease has begun.
_FIRST = timedelta(seconds=0.5)
# A batch of rows must stay below what brokers take.
_TOGETHER = 2000


class Reports:
    """Tells what changes. For the thread of the loop."""

    def __init__(self, source: Cluster, target: Cluster, lease: Lease) -> None:
        self._source, self._target = source, target
        self._heard_s: dict[int, float] = {}
        self._heard_ms = self._listened_ms = -1
        self._whole_ms: dict[Partition, int] = {}
        self._lease = lease
        self._place = Partition(state_topic(lease.link), 0)
        self._producer = Producer(target, lane="state")
        self._told_s = clock.now_s()
        self._due_s = self._told_s + _FIRST.total_seconds()
        self._counts: dict[Partition, tuple[int, int]] = {}
        self._told: dict[Partition, PartReport] = {}
        self._again: set[Partition] = set()

    def tell_if_due(self, stream: Stream, faults: Mapping[Partition, Fault]) -> None:
        """Tell every two seconds, and soon for the first time; send what is on its way."""
        self._producer.pump()
        if clock.now_s() >= self._due_s:
            if not stream.waiting_bytes:  # else the source may not be asked for more
                self._listened_ms = clock.wall_ms()
            self.tell(stream, faults)

    def tell(self, stream: Stream, faults: Mapping[Partition, Fault]) -> None:
        """Report every partition of which something changed."""
        now_s, now_ms = clock.now_s(), clock.wall_ms()
        seconds = max(now_s - self._told_s, 0.001)
        self._told_s, self._due_s = now_s, now_s + TELL_EVERY.total_seconds()
        heard = self._heard(stream, now_s, now_ms)
        rows: dict[bytes, bytes | None] = {}
        told: set[Partition] = set()
        for part in self._lease.parts:
            copying, fault = stream.parts.get(part.source), faults.get(part.source)
            if copying is None and fault is None:
                continue  # it is being opened: what was told of it before still holds
            report = self._report(part, copying, fault, seconds, now_ms)
            before = self._told.get(part.source)
            if before is None or part.source in self._again or _differ(before, report):
                self._told[part.source] = report
                told.add(part.source)
                rows[part_key(part.source)] = row(report)
        rows |= heard
        self._again -= told
        topic = self._target.view.topics.get(self._place.topic)
        if topic is None:
            self._again |= told
            return
        keys, done = list(rows), partial(self._put, told)
        for at in range(0, len(keys), _TOGETHER):
            batch = rows_batch({key: rows[key] for key in keys[at : at + _TOGETHER]})
            self._producer.send(self._place, topic.topic_id, batch, done)
        self._producer.pump()

    @property
    def unfinished(self) -> int:
        """Reports that are on their way."""
        return self._producer.unfinished

    def _put(self, told: Collection[Partition], outcome: int | HeliographError) -> None:
        """Tell again what could not be put: else it would count as told until it changes."""
        if isinstance(outcome, HeliographError):
            self._again |= set(told)

    def _heard(self, stream: Stream, now_s: float, now_ms: int) -> dict[bytes, bytes | None]:
        """Return the row of when every broker was last heard from that leads a partition.

        It is put every time, whether or not anything was heard: that it is missing then means
        that the task is. For a partition that failed nobody asks.
        """
        self._heard_s |= self._source.heard_s()
        topics = self._source.view.topics
        read = [one for one, part in stream.parts.items() if part.error is None]
        leaders = {
            topics[one.topic].partitions[one.partition].leader
            for one in read
            if one.topic in topics and one.partition in topics[one.topic].partitions
        }
        if leaders and leaders <= self._heard_s.keys():
            oldest_s = min(self._heard_s[one] for one in leaders if one is not None)
            self._heard_ms = now_ms - int((now_s - oldest_s) * 1000)
        lease = self._lease
        heard = Heard(lease.generation, lease.number, self._heard_ms, self._listened_ms, now_ms)
        return {heard_key(lease.index): row(heard)}

    def _whole(self, part: Part, copying: Copying | None) -> int:
        """Return when all that the source's log holds of a partition was last seen to be here."""
        is_read = copying is not None and copying.error is None
        if copying and is_read and 0 <= copying.high_watermark <= copying.position:
            self._whole_ms[part.source] = self._heard_ms
        return self._whole_ms.get(part.source, part.known.whole_ms)

    def _known(self, part: Part) -> Known:
        """Return what was last known of a partition, by this task or those before it."""
        told = self._told.get(part.source)
        if told is None or told.source_end < 0:
            return part.known
        return told.known

    def put_receipt(self, receipt: Receipt, deadline: Deadline) -> None:
        """Put the receipt where the driver reads it, behind all reports."""
        while self.unfinished and not deadline.passed:
            self._producer.pump()
            self._target.loop.turn(0.05)
        for rows in batches_of(receipt_rows(receipt)):
            Table(self._target, self._place.topic).put(rows, deadline)

    def _report(
        self,
        part: Part,
        copying: Copying | None,
        fault: Fault | None,
        seconds: float,
        now_ms: int,
    ) -> PartReport:
        source = part.source
        before = self._counts.get(source, (0, 0))
        counts = (copying.records, copying.bytes) if copying else before
        # A partition that was opened again counts from 0.
        records = counts[0] - before[0] if counts >= before else counts[0]
        size_bytes = counts[1] - before[1] if counts >= before else counts[1]
        self._counts[source] = counts
        again_ms = 0
        if fault is not None and fault.again_s is not None:
            again_ms = now_ms + int((fault.again_s - clock.now_s()) * 1000)
        known = self._known(part)
        return PartReport(
            self._lease.generation,
            self._lease.number,
            now_ms,
            _state(copying, fault),
            copying.log_start if copying else -1,
            copying.last_stable if copying and copying.last_stable >= 0 else known.source_end,
            copying.position if copying else known.source_next,
            copying.opened.ledger.target_next if copying else -1,
            max(newest(part, copying), known.newest_ms),
            round(records / seconds, 1),
            round(size_bytes / seconds, 1),
            fault.told if fault else (),
            again_ms,
            copying.high_watermark if copying and copying.high_watermark >= 0 else known.log_end,
            self._whole(part, copying),
        )


def put_seat(target: Cluster, link: str, seat: Seat, deadline: Deadline) -> None:
    """Tell the driver that a task waits for its lease."""
    Table(target, state_topic(link)).put({seat_key(seat.index): row(seat)}, deadline)


def newest(part: Part, copying: Copying | None) -> int:
    """Return the time of the newest record copied, in this lease or before."""
    before = part.handed.newest_ms if part.handed else -1
    return max(before, copying.newest_ms) if copying else before


def _state(copying: Copying | None, fault: Fault | None) -> PartState:
    if fault is not None:
        return "FAULTED"
    if copying is not None and copying.until is not None and copying.is_caught_up:
        return "DONE"
    return "ACTIVE"


def _differ(before: PartReport, now: PartReport) -> bool:
    """Tell whether more than the time changed."""
    return replace(before, at_ms=now.at_ms, whole_ms=now.whole_ms) != now
