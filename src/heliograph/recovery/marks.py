"""Marks: headers that say of a saved record where it stood, and which recovery saved it.

By them a recovery that is taken up again knows what it has saved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from heliograph.kafka.records import Record
from heliograph.model.topics import Partition

OFFSET, TIME, PARTITION, TOPIC, TOPIC_ID, SIDE, RECOVERY = (
    b"heliograph.source.offset",
    b"heliograph.source.timestamp",
    b"heliograph.source.partition",
    b"heliograph.source.topic",
    b"heliograph.source.topic.id",
    b"heliograph.diverged.side",
    b"heliograph.diverged.recovery",
)


def marks(topic_id: UUID, side: str, recovery: str) -> dict[bytes, bytes]:
    """Return the headers that are the same on all that a recovery saves of a topic."""
    return {
        TOPIC_ID: str(topic_id).encode(),
        SIDE: side.encode(),
        RECOVERY: recovery.encode(),
    }


def marked(source: Partition, ours: Mapping[bytes, bytes], record: Record) -> Record:
    """Return a record with its marks, behind whatever headers it has."""
    headers = (
        (TOPIC, source.topic.encode()),
        (PARTITION, b"%d" % source.partition),
        (OFFSET, b"%d" % record.offset),
        (TIME, b"%d" % record.timestamp),
        *ours.items(),
    )
    return record._replace(headers=(*record.headers, *headers))


def stood_at(saved: Record, ours: Mapping[bytes, bytes]) -> int | None:
    """Return the offset at which a saved record stood; None if its marks are not ours."""
    told = dict(saved.headers)  # of two that are named alike, the last counts
    return int(told[OFFSET] or b"") if ours.items() <= told.items() else None


def spans(offsets: Iterable[int]) -> list[range]:
    """Return offsets, most of which follow one another, as ranges in order.

    >>> spans([6, 7, 8, 3, 4, 20])
    [range(3, 5), range(6, 9), range(20, 21)]
    """
    found: list[range] = []
    for at in offsets:
        if found and found[-1].stop == at:
            found[-1] = range(found[-1].start, at + 1)
        else:
            found.append(range(at, at + 1))
    return sorted(found, key=lambda span: span.start)


def holds(spans: Sequence[range], offset: int) -> bool:
    """Claim: an offset is in one of the ranges.

    >>> [holds([range(3, 5), range(6, 9)], offset) for offset in (2, 4, 5, 8)]
    [False, True, False, True]
    """
    at = bisect_right(spans, offset, key=lambda span: span.start)
    return at > 0 and offset in spans[at - 1]
