"""Who leads a partition of exactly this topic, as far as the view tells."""

from uuid import UUID

from heliograph.errors import TopicMissing, TopicRecreated
from heliograph.kafka.cluster import PROPAGATION, Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.model.topics import Partition

# A topic is gone only when this many looks in a row did not find it: one broker may be behind.
_LOOKS = 2


def no_partition(partition: Partition, partitions: int, cluster: str) -> TopicMissing:
    """Return the error for a partition that its topic does not have."""
    return TopicMissing(
        f"topic {partition.topic} has no partition {partition.partition}, only {partitions}"
        " (from 0 on)",
        cluster=cluster,
    )


class Leaders:
    """Answers from the cluster's view, and has it refreshed when it does not know."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._absent_since: dict[str | Partition, tuple[int, Deadline]] = {}

    def find(self, partition: Partition, topic_id: UUID) -> int | None:
        """Return the leader, or None while there is none or it is being looked for.

        Raises what waiting cannot heal: the topic is gone, is another one by now, or may not be
        seen any more.
        """
        topic = self._cluster.view.topics.get(partition.topic)
        if topic is None:
            self._absent(partition.topic)
            return None
        self._absent_since.pop(partition.topic, None)
        if topic.topic_id != topic_id:
            raise TopicRecreated(
                f"topic {partition.topic} was deleted and made anew: it was {topic_id} and is now"
                f" {topic.topic_id}. The new one was neither read nor written",
                cluster=self._cluster.name,
            )
        known = topic.partitions.get(partition.partition)
        if known is None:
            self._beyond(partition, len(topic.partitions))
            return None
        if known.leader is None:
            self._cluster.look_again()
        return known.leader

    def _beyond(self, partition: Partition, partitions: int) -> None:
        if self._is_certain(partition):
            raise no_partition(partition, partitions, self._cluster.name)
        self._cluster.look_again()

    def _absent(self, topic: str) -> None:
        if topic not in self._cluster.refused:
            self._absent_since.pop(topic, None)  # nobody has looked for it yet
        if self._is_certain(topic):
            raise self._cluster.why_absent(topic)
        self._cluster.look_again()

    def _is_certain(self, absent: str | Partition) -> bool:
        """Tell whether enough looks over enough time agree that it is not there."""
        first = (self._cluster.looks, Deadline.after(PROPAGATION))
        looks, patience = self._absent_since.setdefault(absent, first)
        if self._cluster.looks - looks < _LOOKS or not patience.passed:
            return False
        del self._absent_since[absent]
        return True
