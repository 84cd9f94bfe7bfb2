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

    What the reply says of a topic replaces what was known; a topic that was asked for and is not
    in the reply, or is refused, is gone. ``asked`` None means that all topics were asked for.
    """
    topics = {} if asked is None else dict(known.topics)
    for name in asked or ():
        topics.pop(name, None)
    refused = {}
    for topic in answer.topics:
        if topic.error_code:
            refused[topic.name] = topic.error_code
        else:
            topics[topic.name] = _topic(topic)
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


def _partition(partition: Any) -> PartitionView:
    return PartitionView(
        partition=partition.partition_index,
        leader=partition.leader_id if partition.leader_id >= 0 else None,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        in_sync=tuple(partition.isr_nodes),
    )
