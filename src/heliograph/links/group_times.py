"""Where a group that is set to a time goes on. It blocks.

A broker's answer to a time is not enough on a mirror: the marker of a claim bears the time of the
claim, and may stand before records that are years older. No record before the answer is as late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import decode
from heliograph.kafka.waiting import scan
from heliograph.links.group_ends import GroupEnds
from heliograph.model.stages import closed_topics, read_stages
from heliograph.model.topics import Partition

_SOURCE_TIMEOUT = timedelta(seconds=5)


def mirror_offsets_at(
    ends: GroupEnds, mirrors: Mapping[Partition, Partition], time_ms: int, deadline: Deadline
) -> dict[Partition, int]:
    """Return the offsets of the first records of mirrors at or after a time; their ends if none.

    ``mirrors`` are by source partition. Where the source answers, it is asked, and what it says is
    translated: that reads nothing. Else they are read; so are mirrors that others write to, and
    those that are closed: the source knows nothing of what applications wrote there since.
    """
    found: dict[Partition, int] = {}
    if not ends.setup.policies.is_shared:
        try:
            found = _translated(ends, mirrors, time_ms, deadline.within(_SOURCE_TIMEOUT))
        except HeliographError:
            found = {}  # the source is away; the mirrors are there
    left = [mirror for mirror in mirrors.values() if mirror not in found]
    return found | (_read(ends.target_cluster, left, time_ms, deadline) if left else {})


def _translated(
    ends: GroupEnds, mirrors: Mapping[Partition, Partition], time_ms: int, deadline: Deadline
) -> dict[Partition, int]:
    books = ends.read(deadline)
    closed = closed_topics(read_stages(books.control))
    parts = [one for one in mirrors if one.topic not in closed]
    if not parts:
        return {}
    # Before the logs are looked at: what the source drops in between is then seen below.
    offsets = list_offsets(ends.source_cluster, dict.fromkeys(parts, time_ms), deadline)
    ground = ends.grounds.survey(parts, mirrors, books, deadline)
    found = {}
    for source, translator in ground.translators.items():
        if translator.is_closed:
            continue  # a recovery that has not ended marks its topics only later
        offset, log = offsets[source], ground.source_logs.get(source, range(0))
        if log.start and not (offset > log.start or (offset < 0 and log)):
            continue  # the mirror may hold records that the source has dropped by now
        end = ground.target_logs[mirrors[source]].stop
        found[mirrors[source]] = end if offset < 0 else translator.to_target(offset).offset
    return found


def _read(
    cluster: Cluster, parts: Collection[Partition], time_ms: int, deadline: Deadline
) -> dict[Partition, int]:
    starts = list_offsets(cluster, dict.fromkeys(parts, time_ms), deadline)
    logs = list_offsets(cluster, dict.fromkeys(parts, LATEST), deadline)
    return {
        one: _first(cluster, one, range(starts[one], logs[one]), time_ms, deadline)
        if starts[one] >= 0
        else logs[one]
        for one in parts
    }


def _first(
    cluster: Cluster, here: Partition, among: range, time_ms: int, deadline: Deadline
) -> int:
    """Read until a record is as late as that."""
    for fetched in scan(cluster, {here: among.start}, deadline, ends={here: among.stop}):
        for header, batch in fetched.batches:
            if header.max_timestamp < time_ms:
                continue
            for record in decode(batch):
                if record.offset >= among.start and record.timestamp >= time_ms:
                    return record.offset
    return among.stop
