"""Recall: how a task learns that its lease is over, while it copies."""

from __future__ import annotations

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import DEFAULT_LIMITS, Fetcher
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import Record, decode
from heliograph.model.control import DRIVER, PLAN, RECALL, Driver, Plan, Recall, read
from heliograph.model.leases import Lease
from heliograph.model.names import control_topic
from heliograph.model.topics import Partition

_LIMITS = DEFAULT_LIMITS._replace(max_wait_ms=500)


class RecallWatch:
    """Follows the control topic from where the lease's plan stands. For the loop's thread."""

    def __init__(self, target: Cluster, lease: Lease, offset: int) -> None:
        self.why = ""
        self._target = target
        self._lease = lease
        self._position = offset
        self._fetcher = Fetcher(target, read_committed=False, limits=_LIMITS, lane="recall")
        self._place = Partition(control_topic(lease.link), 0)
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
        """Read what has arrived; ``why`` says from then on why the lease is over, if it is."""
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
        mine = (self._lease.generation, self._lease.number)
        try:
            if (driver := read(rows, DRIVER, Driver)) and driver.generation > mine[0]:
                self.why = f"another driver took over: {driver.name}"
            elif (recall := read(rows, RECALL, Recall)) and (
                recall.generation,
                recall.number,
            ) >= mine:
                self.why = "recalled"
            elif (plan := read(rows, PLAN, Plan)) and (plan.generation, plan.number) > mine:
                self.why = "there is a newer plan"
        except HeliographError as nonsense:
            self.why = str(nonsense)
