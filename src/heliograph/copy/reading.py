"""Reading many partitions at once, each as far as it takes; one that fails leaves the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliograph.errors import DeadlinePassed, HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.model.topics import Partition

_TURN_S = 0.1


def read_each(
    cluster: Cluster,
    starts: Mapping[Partition, int],
    take: Callable[[Fetched], bool],
    deadline: Deadline,
    *,
    read_committed: bool = False,
    markers: bool = False,
    epochs: Mapping[Partition, int] | None = None,
) -> dict[Partition, HeliographError]:
    """Give ``take`` what arrives until it says of a partition that it is enough.

    Returns what could not be read in time, and why. The topics must be in the cluster's view.
    ``epochs`` are the leader epochs of what stands before ``starts``, as far as known.
    """
    fetcher = Fetcher(cluster, read_committed=read_committed, markers=markers)
    failed: dict[Partition, HeliographError] = {}
    left = set(starts)
    for partition in left:
        topic_id = cluster.view.topics[partition.topic].topic_id
        epoch = (epochs or {}).get(partition, -1)
        fetcher.start(partition, topic_id, starts[partition], epoch)
    while left and not deadline.passed:
        fetcher.pump()
        cluster.loop.turn(min(deadline.left_s, _TURN_S))
        for fetched in fetcher.take():
            try:
                if fetched.error is not None:
                    raise fetched.error
                if not take(fetched):
                    continue
            except HeliographError as failure:
                failed[fetched.partition] = failure
            fetcher.stop(fetched.partition)
            left.discard(fetched.partition)
    for partition in left:
        message = f"{partition} was not read in the time allowed"
        failed[partition] = DeadlinePassed(message, cluster=cluster.name)
    return failed
