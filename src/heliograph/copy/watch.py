"""Watch: how a task learns from the control topic what to copy, and when that is over."""

from __future__ import annotations

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import DEFAULT_LIMITS, Fetcher
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import Record, decode
from heliograph.model.control import (
    DRIVER,
    PLAN,
    RECALL,
    Driver,
    Plan,
    Recall,
    Rows,
    Seats,
    lease_key,
    read,
    read_lease,
    seats_key,
)
from heliograph.model.leases import Job, Lease, Seat
from heliograph.model.names import control_topic
from heliograph.model.topics import Partition

_LIMITS = DEFAULT_LIMITS._replace(max_wait_ms=500)


class Watch:
    """Follows the control topic from where a task's seats stand. For the loop's thread.

    ``lease`` is what to copy, once there is a plan; ``why`` says why that is over, once it is.
    """

    def __init__(self, target: Cluster, job: Job, seat: Seat, offset: int) -> None:
        self.why = ""
        self.lease: Lease | None = None
        self._offered: dict[bytes, bytes] = {}
        self._target = target
        self._lane, self._index, self._key = job.lane, seat.index, lease_key(seat.index)
        self._mine = (seat.generation, seat.number)
        self._position = offset
        self._fetcher = Fetcher(target, read_committed=False, limits=_LIMITS, lane="recall")
        self._place = Partition(control_topic(job.link), 0)
        topic_id = target.view.topics[self._place.topic].topic_id
        self._fetcher.start(self._place, topic_id, offset)

    def catch_up(self, deadline: Deadline) -> None:
        """Read to the present end: whoever took over before now is known then.

        A task may have been held up on its way here for so long that another driver has claimed
        and copied old records since, and brokers have forgotten both.
        """
        end = list_offsets(self._target, {self._place: LATEST}, deadline)[self._place]
        self._target.loop.wait(
            lambda: self._has_read(end), deadline, "reading the control topic", self._target.name
        )

    def _has_read(self, end: int) -> bool:
        self.look()
        return bool(self.why) or self._position >= end

    def look(self) -> None:
        """Read what has arrived."""
        self._fetcher.pump()
        for fetched in self._fetcher.take():
            self._position = fetched.next_offset
            if fetched.error is not None:
                self.why = f"the control topic cannot be read: {fetched.error}"
            for _, batch in fetched.batches:
                for record in decode(batch):
                    self._hear(record)

    def _hear(self, record: Record) -> None:
        if record.key is None or record.value is None:
            return
        rows = {record.key: record.value}
        try:
            if record.key == self._key or record.key.startswith(self._key + b"/"):
                self._offered |= rows
            elif plan := read(rows, PLAN, Plan):
                self._hear_plan(plan)
            else:
                self.why = self.why or self._end_in(rows)
        except HeliographError as nonsense:
            self.why = str(nonsense)

    def _hear_plan(self, plan: Plan) -> None:
        """A plan comes behind its leases, put by the same driver, one batch after the other."""
        if (plan.generation, plan.number) > self._mine:
            self.why = "there is a newer plan"
        elif (plan.generation, plan.number) == self._mine:
            self.lease = read_lease(self._offered, self._index, *self._mine)
            self._offered.clear()
            if self.lease is None:
                self.why = "the plan has no lease for this seat"

    def _end_in(self, rows: Rows) -> str:
        if (driver := read(rows, DRIVER, Driver)) and driver.generation > self._mine[0]:
            return f"another driver took over: {driver.name}"
        recall = read(rows, RECALL, Recall)
        if recall and (recall.generation, recall.number) >= self._mine:
            return "recalled"
        seats = read(rows, seats_key(self._lane), Seats)
        if seats and (seats.generation, seats.number) > self._mine:
            return "there are newer seats"
        return ""
