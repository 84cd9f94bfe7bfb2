"""Watching: what a series of statuses tells that a single one does not.

Pure. Whoever reads statuses again and again keeps the marks and hands them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from heliograph.model.control import PartState
from heliograph.model.drivers import SILENCE
from heliograph.model.status import LinkStatus
from heliograph.model.topics import Partition

_ASKED_FOR = ("PAUSED", "DONE")
"""Partitions in these states stand still because somebody wants them to."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a partition stood, with something left to copy, and since when it was seen there."""

    source_position: int
    since_ms: int


Marks = Mapping[Partition, Mark]


@dataclass(frozen=True, slots=True)
class Standing:
    """A partition that has something to copy and does not move."""

    topic: str
    partition: int
    state: PartState
    source_position: int
    lag_records: int
    standing_seconds: float
    error: str | None


def mark(before: Marks, status: LinkStatus, now_ms: int) -> dict[Partition, Mark]:
    """Return the marks of a link after its status was read. ``now_ms`` only grows.

    Positions never go back, so one that is met again was not left in between, however long ago it
    was seen. One without lag has no mark: it did not stand, it was done. What could not be read
    leaves the marks as they were.
    """
    if status.state is None:
        return dict(before)
    marks = {}
    for topic in status.topics:
        for part in topic.partitions:
            if not part.lag_records or part.source_position is None or part.state in _ASKED_FOR:
                continue
            here = Partition(topic.topic, part.partition)
            seen = before.get(here)
            stays = seen is not None and seen.source_position == part.source_position
            marks[here] = seen if seen and stays else Mark(part.source_position, now_ms)
    return marks


def standing(
    status: LinkStatus, marks: Marks, now_ms: int, least: timedelta
) -> tuple[Standing, ...]:
    """Return the partitions that have not moved for at least so long, the longest first."""
    found = []
    for topic in status.topics:
        for part in topic.partitions:
            seen = marks.get(Partition(topic.topic, part.partition))
            if seen is None or part.lag_records is None:
                continue
            seconds = round((now_ms - seen.since_ms) / 1000, 1)
            if seconds >= least.total_seconds():
                found.append(
                    Standing(
                        topic.topic,
                        part.partition,
                        part.state,
                        seen.source_position,
                        part.lag_records,
                        seconds,
                        part.error,
                    )
                )
    return tuple(sorted(found, key=lambda one: -one.standing_seconds))


def why_unready(status: LinkStatus) -> list[str]:
    """Say why a link does not do its work; nothing where it does, or is not meant to.

    A link that was stopped or never started is in order: nobody asked for more.
    """
    if status.state is None:
        return list(status.errors)
    reasons = []
    age_s, heard_s = status.heartbeat_age_seconds, status.source_heard_age_seconds
    if age_s is None and status.since is not None:
        reasons.append("the clock of its driver is ahead: whether it is alive is not known")
    if age_s is not None and status.state != "STOPPED" and age_s > SILENCE.total_seconds():
        reasons.append(f"no driver has reported for {age_s:.0f} s")
    is_copied = status.state in ("ACTIVE", "FAULTED") and status.lag_records is not None
    if is_copied and heard_s is not None and heard_s > SILENCE.total_seconds():
        reasons.append(f"{status.source} was last heard from {heard_s:.0f} s ago")
    if status.partitions_faulted:
        reasons.append(f"{status.partitions_faulted} of {status.partitions} partitions are faulted")
    elif status.state == "FAULTED":
        reasons.append("the link is faulted")
    return reasons


def unready(statuses: Sequence[LinkStatus]) -> list[dict[str, str]]:
    """Return every reason of every link, as JSON shows it."""
    return [
        {"link": status.link, "reason": reason}
        for status in statuses
        for reason in why_unready(status)
    ]
