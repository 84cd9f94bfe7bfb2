"""Segments: the runs of a ledger in rows of some hundreds, JSON that people can read. Pure.

    {"source":1000,"target":40,"runs":[[0,0,3],2,2,[5,0,1],2]}

A run is ``[source gap, target gap, length]``; the gaps count from the end of the previous run, for
the first from ``source`` and ``target``. A bare number is the length of a run with the gaps that a
transaction leaves: one on the source, which is its marker, none on the target. Rows of older
versions are lists of ``[source, target, length]``, in offsets; they stay readable.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from heliograph.model.runs import Columns, Run, Runs, Translation, translate

NONSENSE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What Python raises for JSON from outside that is not what was written."""


def encode_runs(runs: Runs) -> bytes:
    """Return runs as a row.

    >>> encode_runs(Runs([Run(1000, 40, 3), Run(1004, 43, 2), Run(1011, 45, 1)]))
    b'{"source":1000,"target":40,"runs":[[0,0,3],2,[5,0,1]]}'
    """
    source, target = runs.start
    row = {"source": source, "target": target, "runs": (items := list[int | list[int]]())}
    for source_start, target_start, length in zip(*runs.columns, strict=True):
        gaps = source_start - source, target_start - target
        items.append(length if gaps == (1, 0) else [*gaps, length])
        source, target = source_start + length, target_start + length
    return json.dumps(row, separators=(",", ":")).encode()


def decode_runs(row: bytes) -> Runs:
    """Return the runs of a row; one that makes no sense raises one of ``NONSENSE``."""
    content, runs = json.loads(row), Runs()
    if isinstance(content, list):
        for source, target, length in content:
            _append(runs, source, target, length)
    else:
        source, target = content["source"], content["target"]
        for item in content["runs"]:
            source_gap, target_gap, length = (1, 0, item) if isinstance(item, int) else item
            source, target = source + source_gap, target + target_gap
            _append(runs, source, target, length)
            source, target = source + length, target + length
    for column in runs.columns:
        array("q", column)  # raises for what is not an integer of 64 bits
    return runs


def _append(runs: Runs, source: int, target: int, length: int) -> None:
    # Not an assertion: these bytes come from outside.
    if not runs.append(source, target, length):
        raise ValueError(f"run {[source, target, length]} is empty or out of order")


@dataclass(frozen=True, slots=True)
class FullSegment:
    """A segment that no longer grows: its row, decoded each time its runs are asked for."""

    source_start: int
    target_start: int
    end: tuple[int, int]
    count: int
    row: bytes

    @classmethod
    def of(cls, runs: Runs, row: bytes | None = None) -> FullSegment:
        """Return runs, at least one, as they are kept; ``row`` is their row where it is known."""
        row = encode_runs(runs) if row is None else row
        return cls(*runs.start, runs.end, len(runs), row)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Run]:
        return iter(self.decode())

    def decode(self) -> Runs:
        """Return its runs."""
        return decode_runs(self.row)


class AllRuns:
    """All runs of a ledger as it was when asked for them, in order.

    Segments are decoded when an offset falls into them, and stay so as long as this is held.
    """

    def __init__(self, segments: Iterable[FullSegment]) -> None:
        self._segments = list(segments)
        self._source_starts = [one.source_start for one in self._segments]
        self._target_starts = [one.target_start for one in self._segments]
        self._seen: list[Columns | None] = [None] * (len(self._segments) + 1)

    def __iter__(self) -> Iterator[Run]:
        return (run for segment in self._segments for run in segment)

    def __reversed__(self) -> Iterator[Run]:
        return (run for segment in reversed(self._segments) for run in reversed(list(segment)))

    def __len__(self) -> int:
        return sum(map(len, self._segments))

    @property
    def last(self) -> Run | None:
        """The newest run."""
        return next(reversed(self), None)

    def translate(self, source_offset: int) -> Translation:
        """Return the target offset where a reader at ``source_offset`` goes on: see ``Runs``."""
        begun = bisect_right(self._source_starts, source_offset)
        sources, targets, lengths = self._seen[begun] or self._look(begun)
        return translate(sources, targets, lengths, source_offset)

    def translate_back(self, target_offset: int) -> Translation:
        """Return the source offset where a reader at ``target_offset`` goes on."""
        begun = bisect_right(self._target_starts, target_offset)
        sources, targets, lengths = self._seen[begun] or self._look(begun)
        return translate(targets, sources, lengths, target_offset)

    def _look(self, begun: int) -> Columns:
        """Return the runs of the last of so many segments, and the first one of the next."""
        number = max(begun - 1, 0)
        runs = self._segments[number].decode() if self._segments else Runs()
        for after in self._segments[number + 1 : number + 2]:
            runs.append(after.source_start, after.target_start, 1)
        self._seen[begun] = columns = runs.columns
        return columns
