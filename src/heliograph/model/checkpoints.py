"""Checkpoints: consumer groups of the source as they were last seen, kept on the target.

Pure. A row ``group/<group>`` of the state topic. With the source gone, this is all that is known of
where its groups were; and a group whose offset is lower than here was reset by somebody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.model.control import Rows, read_passing
from heliograph.model.groups import Committed
from heliograph.model.topics import Partition

_GROUP = b"group/"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group was on the source, and what was set for it on the target; -1 is nothing."""

    source_offset: int
    target_offset: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One group. ``places`` are by source partition, written as ``topic/partition``.

    ``topics`` are the ids of the source topics that the places are of: a name can come back as
    something else. One that is missing was not known.
    """

    at_ms: int
    places: Mapping[str, Place]
    topics: Mapping[str, str] = field(default_factory=dict)

    def place(self, source: Partition) -> Place | None:
        """Return where the group was in a partition, None if it had no offset there."""
        return self.places.get(place_key(source))

    @property
    def committed(self) -> dict[Partition, Committed]:
        """Where the group was on the source, as if the source told it."""
        return {
            partition_of(key): Committed(place.source_offset, None, place.metadata)
            for key, place in self.places.items()
        }


def checkpoint_key(group: str) -> bytes:
    """Name the row of a group.

    >>> checkpoint_key("billing")
    b'group/billing'
    """
    return _GROUP + group.encode()


def place_key(source: Partition) -> str:
    """Name a partition inside a checkpoint.

    >>> place_key(Partition("orders", 3))
    'orders/3'
    """
    return f"{source.topic}/{source.partition}"


def partition_of(key: str) -> Partition:
    """Return the partition that was named by ``place_key``; a topic's name holds no slash.

    >>> partition_of("orders/3")
    Partition(topic='orders', partition=3)
    """
    topic, _, number = key.rpartition("/")
    return Partition(topic, int(number))


def read_checkpoints(rows: Rows) -> dict[str, Checkpoint]:
    """Return the groups that were seen, by name."""
    keys = [key for key in rows if key.startswith(_GROUP)]
    found = {key.removeprefix(_GROUP).decode(): read_passing(rows, key, Checkpoint) for key in keys}
    return {group: one for group, one in found.items() if one is not None}
