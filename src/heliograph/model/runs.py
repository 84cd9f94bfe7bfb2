"""Runs: stretches where source and target offsets match one to one.

Pure values. Nothing here reaches a broker, a clock or Spark.

Invariants, cited below:

A. A run is never empty.
B. Runs are in order on both sides and do not overlap: the mirror keeps the source's order.
C. Two runs that touch on both sides are one run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Run:
    """``length`` consecutive offsets, in step on both sides."""

    source_start: int
    target_start: int
    length: int

    def __post_init__(self) -> None:
        assert self.length > 0, "invariant A"

    @property
    def source_end(self) -> int:
        """The first source offset after it."""
        return self.source_start + self.length

    @property
    def target_end(self) -> int:
        """The first target offset after it."""
        return self.target_start + self.length

    def translate(self, source_offset: int) -> int | None:
        """Return the matching target offset, or None outside the run.

        Never rounds to a neighbour. None means another run has the offset, or none has (a marker,
        a gap): only all runs together can tell.

        >>> run = Run(source_start=100, target_start=40, length=3)
        >>> run.translate(102), run.translate(103)
        (42, None)
        """
        step = source_offset - self.source_start
        return self.target_start + step if 0 <= step < self.length else None


class Reason(Enum):
    """How a translated offset came about."""

    EXACT = "the same record"
    NEXT = "that offset holds no record; this is the next one"
    END = "not copied yet; this is the end of what is"
    START = "older than anything known; this is the oldest"
    CUT = "the first record later than what every partition has reached"


class Translation(NamedTuple):
    """An offset on the other side, and why that one."""

    offset: int
    reason: Reason


Columns = tuple[list[int], list[int], list[int]]


class Runs:
    """Runs of a mirror partition, growing at the end and dropped at the start.

    >>> runs = Runs([Run(0, 0, 10)])
    >>> runs.add(Run(10, 10, 5))
    >>> list(runs)
    [Run(source_start=0, target_start=0, length=15)]
    """

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        # Three columns of integers, which bisect searches.
        self._sources: list[int] = []
        self._targets: list[int] = []
        self._lengths: list[int] = []
        for run in runs:
            self.add(run)

    def __iter__(self) -> Iterator[Run]:
        return map(Run, *self.columns)

    def __len__(self) -> int:
        return len(self._lengths)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"Runs({list(self)!r})"

    @property
    def last(self) -> Run | None:
        """The newest run."""
        if not self._lengths:
            return None
        return Run(self._sources[-1], self._targets[-1], self._lengths[-1])

    @property
    def start(self) -> tuple[int, int]:
        """The source and the target offset where the oldest run begins."""
        return (self._sources[0], self._targets[0]) if self._lengths else (0, 0)

    @property
    def end(self) -> tuple[int, int]:
        """The source and the target offset behind the newest run."""
        if not self._lengths:
            return 0, 0
        length = self._lengths[-1]
        return self._sources[-1] + length, self._targets[-1] + length

    @property
    def columns(self) -> Columns:
        """The runs as plain numbers: source offsets, target offsets, lengths."""
        return self._sources, self._targets, self._lengths

    def add(self, run: Run) -> None:
        """Append a run; it must lie behind all others, on both sides."""
        is_in_order = self.append(run.source_start, run.target_start, run.length)
        assert is_in_order, f"invariant B: {run} after {self.last}"

    def append(self, source_start: int, target_start: int, length: int) -> bool:
        """Append a run; return False, and do nothing, if it is empty or out of order."""
        source_end, target_end = self.end
        if length < 1 or source_start < source_end or target_start < target_end:
            return False
        if source_start == source_end and target_start == target_end and self._lengths:
            self._lengths[-1] += length  # invariant C
            return True
        self._sources.append(source_start)
        self._targets.append(target_start)
        self._lengths.append(length)
        return True

    def drop_before(self, target_offset: int) -> int:
        """Forget what the target's retention has passed; return how many whole runs went.

        A run that spans the offset stays whole: its older part does no harm.
        """
        gone = max(bisect_right(self._targets, target_offset) - 1, 0)
        if self._lengths and self._targets[gone] + self._lengths[gone] <= target_offset:
            gone += 1
        for column in (self._sources, self._targets, self._lengths):
            del column[:gone]
        return gone

    def drop_from(self, target_offset: int) -> int:
        """Forget everything from a target offset on; return how many records went."""
        gone = 0
        while self._lengths and self._targets[-1] + self._lengths[-1] > target_offset:
            kept = max(target_offset - self._targets[-1], 0)
            gone += self._lengths[-1] - kept
            if kept:
                self._lengths[-1] = kept
                break
            for column in (self._sources, self._targets, self._lengths):
                column.pop()
        return gone

    def translate(self, source_offset: int) -> Translation:
        """Return the target offset where a reader at ``source_offset`` goes on.

        No record is skipped and none is read twice: the same record if it was copied; the next
        one where that offset holds none; the end where it is not copied yet.
        """
        return translate(self._sources, self._targets, self._lengths, source_offset)

    def translate_back(self, target_offset: int) -> Translation:
        """Return the source offset where a reader at ``target_offset`` goes on."""
        return translate(self._targets, self._sources, self._lengths, target_offset)


def translate(starts: list[int], others: list[int], lengths: list[int], at: int) -> Translation:
    """Return where a reader at an offset of one side goes on, on the other: see ``Runs``."""
    if not starts:
        return Translation(0, Reason.END)
    found = bisect_right(starts, at) - 1
    if found < 0:
        return Translation(others[0], Reason.START)
    step = at - starts[found]
    if step < lengths[found]:
        return Translation(others[found] + step, Reason.EXACT)
    if found + 1 < len(starts):
        return Translation(others[found + 1], Reason.NEXT)
    return Translation(others[found] + lengths[found], Reason.END)
