"""A Metadata reply as a view of the cluster. Pure."""

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from heliograph.model.topics import Broker, ClusterView, PartitionView, TopicView

_NO_TOPIC_ID = UUID(int=0)


def merge(
    known: ClusterView, answer: Any, asked: Collection[str] | None
) -> tuple[ClusterView, dict[str, int]]:
    """Return the new view and the error code of each topic that was refused.

    What the reply says of a topic replaces what was known, unless it is older; a topic that was
    asked for and is not in the reply, or is refused, is gone. ``asked`` None means all topics.
    """
    topics = {} if asked is None else dict(known.topics)
    for name in asked or ():
        topics.pop(name, None)
    refused = {}
    for topic in answer.topics:
        if topic.error_code:
            refused[topic.name] = topic.error_code
        else:
            topics[topic.name] = _newest(known.topics.get(topic.name), _topic(topic))
    brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
    view = replace(
        known,
        cluster_id=answer.cluster_id,
        controller=answer.controller_id if answer.controller_id >= 0 else None,
        brokers=MappingProxyType(brokers),
        topics=MappingProxyType(topics),
    )
    return view, refused


def _topic(topic: Any) -> TopicView:
    partitions = {p.partition_index: _partition(p) for p in topic.partitions}
    return TopicView(
        topic=topic.name,
        topic_id=topic.topic_id or _NO_TOPIC_ID,
        partitions=MappingProxyType(dict(sorted(partitions.items()))),
        internal=bool(topic.is_internal),
    )


def _newest(known: TopicView | None, told: TopicView) -> TopicView:
    """Keep what is known of a partition where a broker that is behind tells an older epoch."""
    if known is None or known.topic_id != told.topic_id:
        return told
    partitions = {
        number: old
        if (old := known.partitions.get(number)) and old.leader_epoch > new.leader_epoch
        else new
        for number, new in told.partitions.items()
    }
    return replace(told, partitions=MappingProxyType(partitions))


def _partition(partition: Any) -> PartitionView:
    return PartitionView(
        partition=partition.partition_index,
        leader=partition.leader_id if partition.leader_id >= 0 else None,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        in_sync=tuple(partition.isr_nodes),
    )
