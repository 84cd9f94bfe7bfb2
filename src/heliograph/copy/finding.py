"""Finding out, for many partitions at once, which topics they are of and what their logs hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from heliograph.copy.opened import Ends
from heliograph.copy.unmatched import Unmatched
from heliograph.errors import DeadlinePassed, HeliographError, NotReady, TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, LATEST, is_compacted, list_offsets, try_offsets
from heliograph.model.ledger import Origin
from heliograph.model.policies import Start
from heliograph.model.topics import Partition

_LOOK_PAUSE = timedelta(seconds=0.2)
_LEADER_TIMEOUT = timedelta(seconds=5)

Offsets = Mapping[Partition, int | HeliographError]


def find_offsets(
    cluster: Cluster,
    wanted: Mapping[Partition, int],
    deadline: Deadline,
    *,
    read_committed: bool = False,
) -> Offsets:
    """Return the offset for each partition's time, or what is wrong with that partition.

    Where one of many does not answer, a third of the time is left to whoever needs the others.
    """
    third = timedelta(seconds=deadline.left_s / 3) if len(wanted) > 1 else None
    share = deadline if third is None else deadline.within(third)
    try:
        return list_offsets(cluster, wanted, share, read_committed=read_committed)
    except DeadlinePassed as failure:
        if third is None:
            return dict.fromkeys(wanted, failure)
    except HeliographError:  # of one of them
        pass
    share = deadline if third is None else deadline.within(third)
    return try_offsets(cluster, wanted, share, read_committed=read_committed)


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
    """Refresh the view of topics, as far as they exist; their partitions may have no leaders.

    Whoever asks a leader waits for it, and for it alone: one that is lost holds up no other.
    """
    try:
        cluster.describe(set(topics), deadline, led=())
    except TopicMissing:
        return  # the others were seen; of this one, whoever needs it is told


def find_leaderless(
    cluster: Cluster, partitions: Collection[Partition], deadline: Deadline
) -> dict[Partition, HeliographError]:
    """Return the partitions that nobody leads, once the time is over in which leaders change."""
    topics, patience = {one.topic for one in partitions}, deadline.within(_LEADER_TIMEOUT)
    look_at(cluster, topics, deadline)
    while True:
        left = set(partitions).intersection(cluster.view.leaderless(topics))
        if not left or patience.passed:
            break
        pause = patience.within(_LOOK_PAUSE)
        while not pause.passed:
            cluster.loop.turn(pause.left_s)
        look_at(cluster, topics, deadline)
    return {one: NotReady(f"{one} has no leader", cluster=cluster.name) for one in left}


def find_compacted(ends: Ends, case: Unmatched, deadline: Deadline) -> bool:
    """Find out what compacts the two logs; True when something does, as far as may be known."""
    topics = ((ends.source, case.source.topic), (ends.target, case.mirror.topic))
    try:
        source, mirror = (is_compacted(*one, deadline) for one in topics)
        case.compacted = source, mirror
    except HeliographError as failure:
        if failure.retriable:
            raise
        # Who may not know is told of what differs.
    return any(case.compacted or ())


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
