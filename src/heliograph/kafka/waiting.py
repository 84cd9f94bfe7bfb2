"""Fetch and produce for callers that wait: small reads and writes under a deadline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from heliograph.errors import DeadlinePassed, HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.kafka.produce import Producer
from heliograph.kafka.transport import Bytes
from heliograph.model.topics import Partition

_TURN_S = 0.1


def scan(
    cluster: Cluster,
    starts: Mapping[Partition, int],
    deadline: Deadline,
    *,
    ends: Mapping[Partition, int] | None = None,
    read_committed: bool = False,
    markers: bool = False,
) -> Iterator[Fetched]:
    """Read partitions from ``starts``; yield what arrives, and raise what cannot be read.

    With ``ends``, stop when each is reached, and raise DeadlinePassed when that takes too long.
    Without, go on until the deadline. The topics must be in the cluster's view.
    """
    fetcher = Fetcher(cluster, read_committed=read_committed, markers=markers)
    left = {p for p in starts if ends is None or starts[p] < ends[p]}
    for partition in left:
        topic = cluster.view.topics.get(partition.topic)
        if topic is None:
            raise cluster.why_absent(partition.topic)
        fetcher.start(partition, topic.topic_id, starts[partition])
    while left:
        if deadline.passed:
            if ends is None:
                return
            names = ", ".join(map(str, sorted(left)[:5]))
            raise DeadlinePassed(f"{names} was not read to its end in time", cluster=cluster.name)
        fetcher.pump()
        cluster.loop.turn(min(deadline.left_s, _TURN_S))
        for fetched in fetcher.take():
            if fetched.error is not None:
                raise fetched.error
            yield fetched
            if ends is not None and fetched.next_offset >= ends[fetched.partition]:
                fetcher.stop(fetched.partition)
                left.discard(fetched.partition)


def write(
    cluster: Cluster,
    partition: Partition,
    topic_id: UUID,
    batches: Iterable[Bytes],
    deadline: Deadline,
) -> list[int]:
    """Write batches in order and return their base offsets; raise the first that failed."""
    producer = Producer(cluster)
    outcomes: list[int | HeliographError] = []
    sent = 0
    for batch in batches:
        producer.send(partition, topic_id, batch, outcomes.append, deadline=deadline)
        sent += 1
    while len(outcomes) < sent:
        producer.pump()
        cluster.loop.turn(_TURN_S)
    for outcome in outcomes:
        if isinstance(outcome, HeliographError):
            raise outcome
    return [offset for offset in outcomes if isinstance(offset, int)]
