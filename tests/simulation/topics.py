"""What a simulated cluster holds, and what a test may do to it behind its clients' backs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID, uuid5

from heliograph.kafka.properties import Endpoint
from heliograph.model.topics import Partition
from tests.simulation.log import SimLog
from tests.simulation.transactions import SimCoordinator
from tests.simulation.world import World

_NAMESPACE = UUID(int=1)
_MARKER_DELAY_S = 0.005


@dataclass(slots=True)
class SimTopic:
    """One topic; made anew under the same name it is another, with another id."""

    name: str
    topic_id: UUID
    partitions: list[SimLog]
    is_compacted: bool = False


class SimCluster:
    """Topics, their logs, and the transactions of a cluster of one broker."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.endpoint = Endpoint(name, 9092)
        self.topics: dict[str, SimTopic] = {}
        self.coordinator = SimCoordinator(world, self.find_log, _MARKER_DELAY_S)
        self._world = world
        self._made = 0

    def create_topic(self, name: str, partitions: int = 1, max_batch_bytes: int = 1 << 20) -> None:
        self._made += 1
        topic_id = uuid5(_NAMESPACE, f"{self.name} {name} {self._made}")
        logs = [SimLog(max_batch_bytes) for _ in range(partitions)]
        self.topics[name] = SimTopic(name, topic_id, logs)

    def delete_topic(self, name: str) -> None:
        del self.topics[name]

    def log(self, partition: Partition) -> SimLog:
        log = self.find_log(partition)
        assert log is not None, f"no {partition}"
        return log

    def find_log(self, partition: Partition) -> SimLog | None:
        topic = self.topics.get(partition.topic)
        return _pick(topic, partition.partition) if topic else None

    def log_of(self, topic_id: UUID, number: int) -> SimLog | None:
        for topic in self.topics.values():
            if topic.topic_id == topic_id:
                return _pick(topic, number)
        return None

    def forget_producers(self, limit_ms: int) -> None:
        """Run the check that ``producer.id.expiration.ms`` is about."""
        for log in self._logs():
            log.forget_producers(self._world.wall_ms, limit_ms)

    def elect(self) -> None:
        """Elect every leader anew, as after a restart."""
        for log in self._logs():
            log.elect()

    def _logs(self) -> Iterator[SimLog]:
        return (log for topic in self.topics.values() for log in topic.partitions)


def _pick(topic: SimTopic, number: int) -> SimLog | None:
    return topic.partitions[number] if 0 <= number < len(topic.partitions) else None
