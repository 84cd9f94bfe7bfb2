"""Pairs of offsets, source and target, that grow on both sides: columns of integers.

Millions of records must fit: consecutive pairs are one row.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Span = tuple[int, int]
"""Offsets, half-open."""


def one(offset: int) -> Span:
    """Return the span of a single offset."""
    return offset, offset + 1


class Stretch(NamedTuple):
    """``length`` consecutive offsets on both sides."""

    source: int
    target: int
    length: int


class Pairs:
    """Which source offset goes with which target offset, in the order of both.

    >>> pairs = Pairs()
    >>> for pair in ((0, 0, 1), (1, 1, 1), (3, 2, 5)):
    ...     pairs.add(*pair)
    >>> list(pairs)
    [Stretch(source=0, target=0, length=2), Stretch(source=3, target=2, length=5)]
    >>> pairs.target_of(4), pairs.target_of(2), pairs.source_of(2), pairs.source_of(7)
    (3, None, 3, None)
    """

    def __init__(self) -> None:
        self._sources = array("q")
        self._targets = array("q")
        self._lengths = array("q")

    def __iter__(self) -> Iterator[Stretch]:
        return map(Stretch, self._sources, self._targets, self._lengths)

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def end(self) -> tuple[int, int]:
        """The source and the target offset after the last pair."""
        if not self._lengths:
            return 0, 0
        length = self._lengths[-1]
        return self._sources[-1] + length, self._targets[-1] + length

    def add(self, source: int, target: int, length: int = 1) -> None:
        """Append pairs that lie behind all others, on both sides."""
        end = self.end
        assert length > 0 and source >= end[0] and target >= end[1], (source, target, length)
        if self._lengths and (source, target) == end:
            self._lengths[-1] += length
            return
        self._sources.append(source)
        self._targets.append(target)
        self._lengths.append(length)

    def target_of(self, source: int) -> int | None:
        return self._other(self._sources, self._targets, source)

    def source_of(self, target: int) -> int | None:
        return self._other(self._targets, self._sources, target)

    def are_in_order_with(self, source: int, target: int) -> bool:
        """Claim: a pair that is not one of them would fit between them on both sides."""
        before = bisect_right(self._sources, source) - 1
        return before == bisect_right(self._targets, target) - 1

    def _other(self, ours: array[int], others: array[int], offset: int) -> int | None:
        row = bisect_right(ours, offset) - 1
        if row < 0 or offset >= ours[row] + self._lengths[row]:
            return None
        return others[row] + offset - ours[row]


def holes(spans: Sequence[Span], start: int, end: int) -> Iterator[Span]:
    """Yield what ``spans``, sorted and apart from each other, leave uncovered of another span.

    >>> list(holes([(2, 4), (4, 5), (7, 8)], 3, 10))
    [(5, 7), (8, 10)]
    """
    for at in range(max(bisect_right(spans, (start, end)) - 1, 0), len(spans)):
        first, last = spans[at]
        if first >= end:
            break
        if first > start:
            yield start, first
        start = max(start, last)
    if start < end:
        yield start, end
