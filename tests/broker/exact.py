"""What a translated offset must be, found out from the two logs alone, and never from a ledger."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from heliograph.model.runs import Reason, Translation
from heliograph.model.topics import Partition
from tests.checker.reading import Reader

FAR = 1 << 62


@dataclass(frozen=True)
class Log:
    """The records that a partition ever held, by value, and the offsets that its log holds now."""

    records: dict[bytes, int] = field(default_factory=dict)
    held: range = range(0)

    def read(self, cluster: Any, here: Partition, *, committed: bool) -> Log:
        """Read a whole log with librdkafka; each value may stand there once."""
        with Reader(cluster.bootstrap, committed=committed) as reader:
            rows = [(seen.value or b"", offset) for offset, seen in reader.read(*here)]
            held = range(*reader.bounds(*here))
        assert len(dict(rows)) == len(rows), f"{here}: a record is there twice"
        return Log(self.records | dict(rows), held)


class Wrong(NamedTuple):
    """An offset that was not translated as it should be."""

    offset: int
    found: Translation
    wanted: str


@dataclass(frozen=True)
class Way:
    """One way of a translation: from the offsets of one log to those of another.

    ``pairs`` are the offsets of the records that are in both, in order. ``waits`` are the offsets
    where a reader that has read all of these may wait: there it misses nothing and repeats nothing.
    """

    log: Log
    pairs: list[tuple[int, int]]
    waits: range
    held: range

    def wrong(self, offset: int, found: Translation) -> Wrong | None:
        """Judge a translated offset; None if it is exact."""
        at = bisect_left(self.pairs, (offset, -1))
        if at == len(self.pairs):
            is_right = found.offset in self.waits and found.reason is Reason.END
            return None if is_right else Wrong(offset, found, f"to wait in {self.waits}")
        here, there = self.pairs[at]
        reason = Reason.EXACT if here == offset else Reason.NEXT if at else Reason.START
        if there < self.held.start:
            there, reason = self.held.start, Reason.START  # the oldest that is left
        is_right = found == Translation(there, reason)
        return None if is_right else Wrong(offset, found, f"{there}: {reason}")

    @property
    def edges(self) -> list[int]:
        """Return an offset before the first record, a hole if there is any, and the end."""
        known = {here for here, _ in self.pairs}
        last = self.pairs[-1][0]
        holes = (at for at in range(self.pairs[0][0], last) if at not in known)
        return [0, *islice(holes, 1), self.pairs[len(self.pairs) // 2][0], last + 1]

    def offsets(self, count: int, chance: random.Random) -> Iterator[int]:
        """Yield random offsets, some of them past the end, and those around both ends."""
        yield from (0, 1, FAR)
        for edge in (self.log.held.start, self.log.held.stop, self.pairs[-1][0]):
            yield from range(max(edge - 3, 0), edge + 4)
        for _ in range(count):
            yield chance.randrange(self.log.held.stop + 200)


def both_ways(source: Log, target: Log) -> tuple[Way, Way]:
    """Return what to expect of translations from a source to its mirror, and back."""
    common = sorted(
        (source.records[one], target.records[one]) for one in target.records.keys() & source.records
    )
    swapped = [(there, here) for here, there in common]
    assert swapped == sorted(swapped), "the mirror keeps the source's order"
    last_source = common[-1][0]
    # Whatever the source holds beyond the last copy is still to be read.
    uncopied = min(
        (at for at in source.records.values() if at > last_source), default=source.held.stop
    )
    past = max(target.records.values()) + 1
    there = Way(source, common, range(past, target.held.stop + 1), target.held)
    back = Way(target, swapped, range(last_source + 1, uncopied + 1), source.held)
    return there, back
