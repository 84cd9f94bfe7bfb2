"""Finding out, for many partitions at once, which topics they are of and what their logs hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from heliograph.copy.opened import Ends
from heliograph.errors import DeadlinePassed, HeliographError, TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets, try_offsets
from heliograph.model.ledger import Origin
from heliograph.model.policies import Start
from heliograph.model.topics import Partition

Offsets = Mapping[Partition, int | HeliographError]


def find_offsets(
    cluster: Cluster,
    wanted: Mapping[Partition, int],
    deadline: Deadline,
    *,
    read_committed: bool = False,
) -> Offsets:
    """Return the offset for each partition's time, or what is wrong with that partition."""
    try:
        found = list_offsets(cluster, wanted, deadline, read_committed=read_committed)
    except DeadlinePassed as failure:
        return dict.fromkeys(wanted, failure)
    except HeliographError:  # of one of them
        return try_offsets(cluster, wanted, deadline, read_committed=read_committed)
    return found


def find_ranges(
    cluster: Cluster, partitions: Collection[Partition], deadline: Deadline
) -> dict[Partition, range | HeliographError]:
    """Return the offsets that each log holds, or what is wrong with that partition."""
    starts = find_offsets(cluster, dict.fromkeys(partitions, EARLIEST), deadline)
    ends = find_offsets(cluster, dict.fromkeys(partitions, LATEST), deadline)
    found: dict[Partition, range | HeliographError] = {}
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        if isinstance(start, HeliographError):
            found[partition] = start
        elif isinstance(end, HeliographError):
            found[partition] = end
        else:
            found[partition] = range(start, end)
    return found


def find_starts(
    cluster: Cluster, starts: Mapping[Partition, Start], deadline: Deadline
) -> dict[Partition, int | HeliographError]:
    """Return where partitions begin that were never mirrored.

    The end is that of what is committed: a transaction that is open now came after, if it is
    committed at all, and it comes whole. A time after the last record is the end.
    """
    words: Mapping[Start, int] = {"earliest": EARLIEST, "latest": LATEST}
    times = {
        one: words[start] if isinstance(start, str) else start for one, start in starts.items()
    }
    found = dict(find_offsets(cluster, times, deadline, read_committed=True))
    late = [partition for partition, offset in found.items() if offset == -1]
    if late:
        found |= find_offsets(cluster, dict.fromkeys(late, LATEST), deadline, read_committed=True)
    return found


def look_at(cluster: Cluster, topics: Iterable[str], deadline: Deadline) -> None:
    """Refresh the view of topics, as far as they exist."""
    try:
        cluster.describe(set(topics), deadline)
    except TopicMissing:
        return  # the others were seen; of this one, whoever needs it is told


def origin_of(ends: Ends, topic: str, mirror: str) -> Origin:
    """Say who is who, from what was looked at."""
    there, here = ends.source.view, ends.target.view
    if topic not in there.topics:
        raise ends.source.why_absent(topic)
    if mirror not in here.topics:
        raise ends.target.why_absent(mirror)
    return Origin(
        source_cluster_id=str(there.cluster_id),
        source_topic_id=str(there.topics[topic].topic_id),
        target_cluster_id=str(here.cluster_id),
        mirror_topic_id=str(here.topics[mirror].topic_id),
    )
