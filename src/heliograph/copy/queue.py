"""What one partition has read and not sent, and how the next batch to send is composed.

Pure. Composition is decided when there is room to send, not when a fetch arrives: a source whose
producers do not batch would otherwise cost one request a record. Only what waits already is
joined; nothing ever waits for more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heliograph.kafka import crash
from heliograph.kafka.batch import Header, read_header
from heliograph.kafka.rebuild import join

# A batch is a view, and a whole reply lives as long as one of its batches. A partition may keep so
# many times its own bytes alive of what came with them, or this much: else a few bytes of a slow
# one would keep megabytes of the others.
_OTHERS = 8
_SMALL_REPLY_BYTES = 64 << 10

Stretches = tuple[tuple[int, int], ...]
"""Where the records of a batch come from: ``(first source offset, length)``, in order."""


class Bounds(NamedTuple):
    """Batches below ``small_bytes`` are joined, up to ``most_bytes``; others go untouched."""

    small_bytes: int
    most_bytes: int


@dataclass(slots=True, eq=False)
class Prepared:
    """A batch that can be restamped and sent, and sent again with other sequences.

    ``read_bytes`` is what it took of the bound on what waits; ``source_epoch`` the leader epoch of
    its last record on the source. ``follows`` is the source offset behind the record before its
    first one: what is below must be on the mirror, or on record as left out, when it is entered.
    """

    batch: memoryview | bytearray
    stretches: Stretches
    count: int
    newest_ms: int
    source_epoch: int
    read_bytes: int
    follows: int
    is_old: bool = False
    sequence: int = -1
    sent_s: float = 0.0


class Queue:
    """Batches in source order: those to be sent again, then those that came by fetch.

    ``wanted`` are the source offsets to copy: a fetch may bring a batch that begins before them,
    or ends behind.
    """

    def __init__(self, wanted: range) -> None:
        self._wanted = wanted
        self._taken_to = wanted.start
        self._again: deque[Prepared] = deque()
        self._read: deque[tuple[Header, memoryview]] = deque()
        self.waiting_bytes = 0

    def __len__(self) -> int:
        return len(self._again) + len(self._read)

    @property
    def newest_ms(self) -> int:
        """The newest time in the batch that is next; the one composed may only be newer."""
        return self._again[0].newest_ms if self._again else self._read[0][0].max_timestamp

    @property
    def source_next(self) -> int:
        """The first source offset in the batch that is next."""
        return self._again[0].stretches[0][0] if self._again else self._read[0][0].base_offset

    def begin_at(self, source_offset: int) -> None:
        """Want nothing below an offset from now on; the queue must be empty."""
        assert not len(self), "what waits was wanted"
        self._wanted = range(source_offset, self._wanted.stop)
        self._taken_to = source_offset

    def put(self, batches: Sequence[tuple[Header, memoryview]]) -> None:
        """Add what a fetch brought."""
        end = self._wanted.stop
        if batches and batches[-1][0].next_offset > end:
            # Of a compressed set of an old format, this is the last offset.
            batches = [pair for pair in batches if pair[0].base_offset < end or pair[0].is_old]
        if not batches:
            return
        size_bytes = sum(len(batch) for _, batch in batches)
        reply_bytes = memoryview(batches[0][1].obj).nbytes
        if reply_bytes > max(_OTHERS * size_bytes, _SMALL_REPLY_BYTES):
            batches = _owned(batches)
        self._read.extend(batches)
        self.waiting_bytes += size_bytes

    def put_back(self, prepared: Iterable[Prepared]) -> None:
        """Put what must be sent again, or in pieces, before everything else, in this order."""
        some = list(prepared)
        self._again.extendleft(reversed(some))
        self.waiting_bytes += sum(one.read_bytes for one in some)

    def keep_before(self, source_offset: int) -> None:
        """Forget what stands at a source offset and behind; nothing put back reaches over it."""
        kept = [one for one in self._again if one.stretches[0][0] < source_offset]
        self.clear()
        self.put_back(kept)

    def clear(self) -> None:
        """Forget all that waits."""
        self._again.clear()
        self._read.clear()
        self.waiting_bytes = 0

    def take(self, bounds: Bounds) -> Prepared | None:
        """Compose the next batch to send; None if nothing waits that holds records."""
        if self._again:
            again = self._again.popleft()
            self.waiting_bytes -= again.read_bytes
            return again
        while self._read:
            chosen, size_bytes = self._choose(bounds)
            self.waiting_bytes -= size_bytes
            prepared = self._prepare(chosen, size_bytes)
            if prepared is not None:
                return prepared
        return None

    def _choose(self, bounds: Bounds) -> tuple[list[tuple[Header, memoryview]], int]:
        read, small = self._read, bounds.small_bytes
        chosen = [read.popleft()]
        size_bytes = len(chosen[0][1])
        room = bounds.most_bytes - size_bytes if size_bytes < small else 0
        while read:
            more = len(read[0][1])
            if more >= small or more > room:
                break
            chosen.append(read.popleft())
            room -= more
            size_bytes += more
        return chosen, size_bytes

    def _prepare(self, chosen: list[tuple[Header, memoryview]], read_bytes: int) -> Prepared | None:
        first, last = chosen[0][0], chosen[-1][0]
        batch: memoryview | bytearray
        stretches: Stretches
        is_whole = self._wanted.start <= first.base_offset and last.next_offset <= self._wanted.stop
        # Where a compressed set of an old format begins, only unpacking it tells.
        is_whole = is_whole and not first.is_old
        if is_whole and len(chosen) == 1 and not first.needs_rebuild:
            batch, stretches = chosen[0][1], ((first.base_offset, first.count),)
            count, newest_ms = first.count, first.max_timestamp
        else:
            rebuilt = join(chosen, None if is_whole else self._wanted)
            if rebuilt is None:
                return None
            crash.point("C10")
            batch, stretches = rebuilt.batch, rebuilt.source_offsets
            header = read_header(batch)
            count, newest_ms = header.count, header.max_timestamp
        follows, self._taken_to = self._taken_to, sum(stretches[-1])
        return Prepared(batch, stretches, count, newest_ms, last.leader_epoch, read_bytes, follows)


def _owned(batches: Sequence[tuple[Header, memoryview]]) -> list[tuple[Header, memoryview]]:
    """Copy batches out of the reply that brought them."""
    whole = memoryview(bytearray().join(batch for _, batch in batches))
    owned, start = [], 0
    for header, batch in batches:
        end = start + len(batch)
        owned.append((header, whole[start:end]))
        start = end
    return owned
