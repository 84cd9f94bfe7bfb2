"""Work on a lease: open its partitions, copy them, report, and hand them over at the end.

What one Spark task does. A fault of a partition never ends the task: it is tried again after a
pause where that may help, and is told in reports and in the receipt.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta

from heliograph.copy.allowance import Allowance
from heliograph.copy.errands import Errands, Outcomes
from heliograph.copy.handing import hand_over, is_led_as_claimed, take_over
from heliograph.copy.healing import Fault, heals, pause_s
from heliograph.copy.opening import Ends
from heliograph.copy.reports import Reports, newest, put_seat
from heliograph.copy.standstill import Tick
from heliograph.copy.stream import Stream
from heliograph.copy.watch import Watch
from heliograph.errors import HeliographError, Stalled
from heliograph.kafka import clock, crash
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import settings_of
from heliograph.kafka.transport import Loop
from heliograph.model.leases import Job, Lease, Part, PartReceipt, Receipt, Seat
from heliograph.model.names import ledger_topic, own_topics
from heliograph.model.topics import Partition

_START_TIMEOUT = timedelta(seconds=30)
_FINISH_TIMEOUT = timedelta(seconds=10)
_TURN_S = 0.1


def work(job: Job, seat: Seat, *, attempt: int, control_offset: int) -> Receipt | None:
    """Wait for the seat's lease, copy until it is over, and return what came of it.

    ``attempt`` is Spark's: any but the first claims every partition, whatever was handed over
    (invariant G). ``control_offset`` is where the seats stand in the control topic. None where
    there was no lease for the seat.
    """
    loop = Loop()
    try:
        ends = _connect(job, loop)
        watch, tick = Watch(ends.target, job, seat, control_offset), Tick()
        lease = _await_lease(ends, watch, seat, tick)
        if lease is None:
            return None
        started_s = clock.now_s()
        worker = _Worker(job, lease, ends, watch, tick, must_claim=attempt > 0)
        with closing(worker):
            worker.start()
            worker.copy(Deadline.after(timedelta(seconds=lease.most_s)))
            parts = worker.finish()
        seconds = clock.now_s() - started_s
        receipt = Receipt(lease.generation, lease.number, lease.index, attempt, seconds, parts)
        crash.point("C12")
        worker.reports.put_receipt(receipt, Deadline.after(_FINISH_TIMEOUT))
        return receipt
    finally:
        loop.close()


def _connect(job: Job, loop: Loop) -> Ends:
    """Return both clusters; the target is connected to, and our topics there are known."""
    source = Cluster(settings_of(job.source), job.source.name, loop)
    target = Cluster(settings_of(job.target), job.target.name, loop)
    target.describe(own_topics(job.link), Deadline.after(_START_TIMEOUT))
    return Ends(job.link, source, target, ledger_topic(job.link))


def _await_lease(ends: Ends, watch: Watch, seat: Seat, tick: Tick) -> Lease | None:
    """Return what to copy, None where there is nothing for this seat.

    A task that stood still here may have been given up, and what its lease hands over may be spent
    by now: it fails, and Spark's next attempt claims.
    """

    def wake() -> None:
        if stood_s := tick.stood_s():
            raise Stalled(
                f"a task stood still for {stood_s:.0f} s, it seems, before its lease began"
            )

    loop = ends.target.loop
    loop.on_wake = wake
    over = Deadline.after(timedelta(seconds=seat.most_s))
    watch.catch_up(Deadline.after(_START_TIMEOUT))
    if not (watch.lease or watch.why):
        put_seat(ends.target, ends.link, seat, Deadline.after(_START_TIMEOUT))
    while not (watch.lease or watch.why or over.passed):
        loop.turn(_TURN_S)
        watch.look()
    return watch.lease


class _Worker:
    """One lease at work. For one thread; what blocks is an errand."""

    def __init__(
        self, job: Job, lease: Lease, ends: Ends, watch: Watch, tick: Tick, *, must_claim: bool
    ) -> None:
        self._job, self._lease, self._ends, self._watch = job, lease, ends, watch
        self._must_claim = must_claim
        self._errands = Errands(
            ends.target.loop,
            job.link,
            ends.ledger_topic,
            ends.source.settings,
            ends.target.settings,
        )
        self._parts = {part.source: part for part in lease.parts}
        self._begins = {one.source: one.begin for one in lease.parts if one.begin is not None}
        self._copied = {one.source for one in lease.parts if one.known.source_next >= 0}
        self._claimed_ms: dict[Partition, int] = {}
        self._awake = Tick()
        self._opening: set[Partition] = set()
        self._faults: dict[Partition, Fault] = {}
        self._tries: dict[Partition, int] = {}
        self._must_look = False
        until = {part.source: part.until for part in lease.parts if part.until is not None}
        self._stream = Stream(
            self._ends,
            policies=job.policies,
            expiration=timedelta(milliseconds=lease.expiration_ms),
            until=until or None,
            make_topic=self._errands.make_topic,
            tick=tick,
            allowance=Allowance(lease.bytes_per_second),
        )
        self.reports = Reports(self._ends.source, self._ends.target, lease)

    def start(self) -> None:
        """Go on with what was handed over, open the rest; a lease that is over is passed on."""
        crash.point("C13-before")
        for part in self._parts.values():
            if part.handed is not None and not self._must_claim:
                self._stream.add(take_over(part, part.handed))
                self._claimed_ms[part.source] = part.handed.claimed_ms
        crash.point("C13-taken")
        if not self._watch.why:
            self._open(part for part in self._parts.values() if part.source not in self._claimed_ms)

    def copy(self, deadline: Deadline) -> None:
        """Copy until recalled, out of time or, where the lease is bounded, done."""
        while not (self._watch.why or deadline.passed or self._is_done()):
            self._stream.step()
            self._watch.look()
            self._take_failures()
            self._open_more()
            self.reports.tell_if_due(self._stream, self._faults)

    def finish(self) -> tuple[PartReceipt, ...]:
        """Let what is on its way land, write the ledgers, and say what came of each partition."""
        self._await_openings(Deadline.after(_FINISH_TIMEOUT))
        self._stream.finish(Deadline.after(_FINISH_TIMEOUT))
        self._take_failures()
        receipts = tuple(map(self._receipt, self._parts.values()))
        self.reports.tell(self._stream, self._faults)
        return receipts

    def close(self) -> None:
        """Give the clusters back."""
        self._stream.close()

    def _await_openings(self, deadline: Deadline) -> None:
        """Wait for claims that are under way: they would fence whoever claims after this lease."""
        self._opening -= self._errands.drop_waiting()
        while self._opening and not deadline.passed:
            self._ends.target.loop.turn(_TURN_S)

    def _receipt(self, part: Part) -> PartReceipt:
        copying = self._stream.parts.get(part.source)
        fault = self._faults.get(part.source)
        error = fault.told if fault else ()
        if copying is None:
            return PartReceipt(part.source, -1, 0, 0, error=error)
        is_done = part.until is not None and copying.is_caught_up
        is_clean = copying.error is None and copying.is_idle and copying.is_recorded
        is_clean = is_clean and is_led_as_claimed(copying.opened, self._ends.target.view)
        handed = None
        if is_clean and not copying.is_recording:
            newest_ms = newest(part, copying)
            handed = hand_over(copying.opened, self._claimed_ms[part.source], newest_ms)
        return PartReceipt(
            part.source, copying.position, copying.records, copying.bytes, is_done, error, handed
        )

    def _is_done(self) -> bool:
        """Claim: the lease is bounded, and every partition has arrived or faulted for good."""
        return self._stream.until is not None and all(map(self._is_settled, self._parts))

    def _is_settled(self, source: Partition) -> bool:
        fault, copying = self._faults.get(source), self._stream.parts.get(source)
        if fault is not None and fault.again_s is None:
            return True
        return copying is not None and copying.is_caught_up

    # Opening, and opening again

    def _open(self, parts: Iterable[Part]) -> None:
        mirrors = {part.source: part.mirror for part in parts}
        self._opening |= mirrors.keys()
        if mirrors:
            policies, begins, copied = self._job.policies, self._begins, self._copied
            self._errands.open(mirrors, policies, begins, copied, self._opened)

    def _opened(self, outcomes: Outcomes) -> None:
        for source, outcome in outcomes.items():
            self._opening.discard(source)
            if isinstance(outcome, HeliographError):
                self._fault(source, outcome)
            else:
                self._faults.pop(source, None)
                self._claimed_ms[source] = clock.wall_ms()
                self._stream.add(outcome)

    def _fault(self, source: Partition, error: HeliographError, *, moved: bool = False) -> None:
        """Note why a partition is not copied; one that had ``moved`` is tried again soon."""
        tries = 1 if moved else self._tries.get(source, 0) + 1
        self._tries[source] = tries
        self._must_look = self._must_look or isinstance(error, Stalled)
        may_heal = heals(error, self._job.policies, tries)
        again_s = clock.now_s() + pause_s(tries) if may_heal else None
        self._faults[source] = Fault(error, again_s)

    def _take_failures(self) -> None:
        for source, error in self._stream.take_failures():
            copying = self._stream.parts.get(source)
            self._fault(source, error, moved=copying is not None and copying.records > 0)

    def _open_more(self) -> None:
        """Open what faulted and is due, and what waits for its turn."""
        now_s = clock.now_s()
        due = [
            self._parts[source]
            for source, fault in self._faults.items()
            if fault.again_s is not None and fault.again_s <= now_s and source not in self._opening
        ]
        self._must_look = bool(self._awake.stood_s()) or self._must_look
        if self._must_look and (due or self._errands.is_waiting):
            # Who took over meanwhile must not be fenced.
            self._watch.catch_up(Deadline.after(_START_TIMEOUT))
            self._must_look = False
        if not self._watch.why:
            self._open(due)
            self._errands.pump()
