"""Cutting: one time that every partition of related topics has reached, and what lies behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from heliograph.copy.finding import find_ranges
from heliograph.errors import Unsafe
from heliograph.kafka.deadline import Deadline
from heliograph.links.group_ends import GroupEnds, Sight
from heliograph.links.group_times import mirror_offsets_at
from heliograph.model.findings import counted
from heliograph.model.moments import moment
from heliograph.model.outlook import reached_ms
from heliograph.model.topics import Partition
from heliograph.recovery.scene import read_ledgers


@dataclass(frozen=True, slots=True)
class Cut:
    """A time, the first offset behind it by mirror partition, and how many follow from there."""

    at_ms: int
    offsets: Mapping[Partition, int]
    beyond: Mapping[Partition, int]

    def lines(self) -> list[str]:
        """Say where groups are cut, and what lies beyond."""
        by_topic: dict[str, int] = {}
        for mirror, count in self.beyond.items():
            by_topic[mirror.topic] = by_topic.get(mirror.topic, 0) + count
        return [
            f"every partition has reached {moment(self.at_ms)}: no group is set past that",
            *(
                f"{topic}: beyond that, up to {counted(count, 'record')}"
                for topic, count in by_topic.items()
            ),
        ]


def newest_common_ms(ends: GroupEnds, sight: Sight, topics: Collection[str]) -> int:
    """Return the newest time that every partition of some topics has reached.

    Raises Unsafe where that is not known of one: nothing consistent can be promised then.
    """
    mirrors = _mirrors(ends, sight, topics)
    reached = reached_ms(sight.books, mirrors, read_ledgers(sight.books, mirrors))
    known = {one: at for one, at in reached.items() if at is not None and at >= 0}
    unknown = sorted(set(reached) - set(known))
    if unknown or not known:
        names = ", ".join(map(str, unknown[:5])) or "these topics"
        raise Unsafe(
            f"up to which time the records of {names} have arrived is not known, so there is no"
            " consistent time to cut at. Fail over without --consistent"
        )
    return min(known.values())


def find_cut(
    ends: GroupEnds, sight: Sight, topics: Collection[str], at_ms: int, deadline: Deadline
) -> Cut:
    """Find where to cut the mirrors of some topics at a time."""
    mirrors = _mirrors(ends, sight, topics)
    offsets = mirror_offsets_at(ends, mirrors, at_ms + 1, deadline)
    logs = find_ranges(ends.target_cluster, list(mirrors.values()), deadline)
    beyond = {
        mirror: log.stop - offsets[mirror]
        for mirror, log in logs.items()
        if isinstance(log, range) and log.stop > offsets[mirror]
    }
    return Cut(at_ms, offsets, beyond)


def _mirrors(ends: GroupEnds, sight: Sight, topics: Collection[str]) -> dict[Partition, Partition]:
    return {one: it for one, it in ends.mirrors(sight.books).items() if one.topic in topics}
