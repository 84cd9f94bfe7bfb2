"""Recall: how a task learns that its lease is over, while it copies."""

from __future__ import annotations

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import DEFAULT_LIMITS, Fetcher
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
        self._lease = lease
        self._fetcher = Fetcher(target, read_committed=False, limits=_LIMITS, lane="recall")
        topic = control_topic(lease.link)
        self._fetcher.start(Partition(topic, 0), target.view.topics[topic].topic_id, offset)

    def look(self) -> None:
        """Read what has arrived; ``why`` says from then on why the lease is over, if it is."""
        self._fetcher.pump()
        for fetched in self._fetcher.take():
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
