"""A cluster as observed: brokers, topics, partitions and who leads them.

Pure values, replaced as a whole when the cluster is looked at again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID


class Partition(NamedTuple):
    """A partition by name: the key of every map of partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker listens, and in which rack it stands."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as the cluster described it; no leader while an election is on."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as the cluster described it. The id is zero on brokers that have none."""

    topic: str
    topic_id: UUID
    partitions: Mapping[int, PartitionView]
    internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that one look at a cluster told; topics nobody asked about are absent."""

    cluster_id: str | None = None
    controller: int | None = None
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)

    def find(self, partition: Partition) -> PartitionView | None:
        """Return what is known of a partition, or None."""
        topic = self.topics.get(partition.topic)
        return topic.partitions.get(partition.partition) if topic else None

    def leaderless(self, topics: Iterable[str]) -> list[Partition]:
        """Return the partitions of topics that nobody leads, of topics that are there."""
        return [
            Partition(name, number)
            for name in topics
            if name in self.topics
            for number, one in self.topics[name].partitions.items()
            if one.leader is None
        ]
