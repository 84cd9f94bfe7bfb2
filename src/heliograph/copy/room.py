"""Room: what may wait for the target, of one partition and of all.

A source is read only while there is room. A fetch that is under way still arrives: the bound is
this and one reply a lane.
"""

from __future__ import annotations

from heliograph.copy.copying import Copying
from heliograph.kafka.fetch import Fetcher
from heliograph.model.topics import Partition

MOST_WAITING_BYTES = 16 << 20
MOST_WAITING_IN_ALL_BYTES = 64 << 20


class Room:
    """Counts what waits, and pauses the reading of partitions that have no room."""

    def __init__(self, fetcher: Fetcher, most_bytes: int) -> None:
        self._fetcher = fetcher
        self._most_bytes = most_bytes
        self._paused: dict[Partition, Copying] = {}
        self.waiting_bytes = 0

    def count(self, part: Copying) -> None:
        """Count one partition anew."""
        waits = part.read_bytes
        grows = waits > part.waiting_bytes
        self.waiting_bytes += waits - part.waiting_bytes
        part.waiting_bytes = waits
        is_full = self.waiting_bytes > self._most_bytes
        if grows and (is_full or waits > MOST_WAITING_BYTES):
            self._paused[part.opened.source] = part
            self._fetcher.pause(part.opened.source)
        elif self._paused and not is_full:
            self._resume()

    def leave(self, part: Copying) -> None:
        """Count it no more: nothing of it waits."""
        self.waiting_bytes -= part.waiting_bytes
        part.waiting_bytes = 0
        if self._paused.get(part.opened.source) is part:
            del self._paused[part.opened.source]

    def _resume(self) -> None:
        for source, part in list(self._paused.items()):
            if part.waiting_bytes <= MOST_WAITING_BYTES:
                del self._paused[source]
                self._fetcher.resume(source)
