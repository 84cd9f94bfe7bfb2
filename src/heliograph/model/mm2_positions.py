"""What MirrorMaker 2 keeps of its progress, in topics on the clusters it mirrors. Pure.

``offsets`` is Kafka Connect's: the last source offset that was copied, as JSON. ``syncs`` are pairs
of offsets that belong to one record, as binary.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.model.topics import Partition

Rows = Mapping[bytes, bytes]
_PARTITION = struct.Struct(">i")
_SYNC = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where MirrorMaker 2 keeps what, for one source and one target, by their aliases."""

    source: str
    target: str
    separator: str = "."
    is_on_target: bool = False
    """Whether the syncs are on the target; by default they are on the source."""

    @property
    def offsets_topic(self) -> str:
        """The topic with the progress; on the target."""
        return f"mm2-offsets.{self.source}.internal"

    @property
    def syncs_topic(self) -> str:
        """The topic with pairs of offsets."""
        other = self.source if self.is_on_target else self.target
        return self.separator.join(("mm2-offset-syncs", other, "internal"))

    @property
    def group(self) -> str:
        """The group of its workers, on the target: it has members while MirrorMaker 2 runs."""
        return f"{self.source}-mm2"


def read_progress(rows: Rows, source: str) -> dict[Partition, int]:
    """Return the last source offset that was copied, by source partition.

    >>> key = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]'
    >>> read_progress({key: b'{"offset":41}'}, "A")
    {Partition(topic='orders', partition=0): 41}
    """
    found = {}
    for key, value in rows.items():
        try:
            _, place = json.loads(key)
            if place.get("cluster") == source:
                where = Partition(str(place["topic"]), int(place["partition"]))
                found[where] = int(json.loads(value)["offset"])
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # of another connector: heartbeats and checkpoints keep theirs here as well
    return found


def read_syncs(rows: Rows) -> dict[Partition, tuple[int, int]]:
    """Return the newest pair of source and target offset, by source partition.

    >>> key = b"\\0\\1a" + (2).to_bytes(4, "big")
    >>> read_syncs({key: (7).to_bytes(8, "big") + (9).to_bytes(8, "big")})
    {Partition(topic='a', partition=2): (7, 9)}
    """
    found = {}
    for key, value in rows.items():
        size = int.from_bytes(key[:2], "big")
        topic, number = key[2 : 2 + size], key[2 + size :]
        if len(number) == _PARTITION.size and len(value) >= _SYNC.size:
            where = Partition(topic.decode(errors="replace"), _PARTITION.unpack(number)[0])
            found[where] = _SYNC.unpack_from(value)
    return {where: (source, target) for where, (source, target) in found.items()}
