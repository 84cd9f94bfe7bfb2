"""A second reading of the ledger, written from its description and not from Heliograph's code.

The topic holds rows, the last of a key counts: ``topic/partition`` is the head, JSON with the
ends, the gaps and the range of the segments, half-open; ``topic/partition/n`` is a segment. Older
ones are lists of runs ``[source, target, length]``. Newer ones hold ``runs``, each ``[source gap,
target gap, length]``: gaps from the end of the previous run, for the first from ``source`` and
``target``. A bare number is the length of a run with the gaps 1 and 0. Keys not named here are not
looked at.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.checker.pairs import Pairs, Span
from tests.checker.reading import Reader

QUARANTINED = "quarantined"
RECREATED = "topic recreated"


class Gap(NamedTuple):
    """Source offsets, half-open, that the ledger gives up, and its reason."""

    source_start: int
    source_end: int
    why: str


@dataclass(slots=True)
class Ledger:
    """What the ledger says of one mirror partition; ``faults`` are its contradictions."""

    source_next: int = 0
    target_next: int = 0
    runs: Pairs = field(default_factory=Pairs)
    gaps: list[Gap] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    exists: bool = True

    def gap_at(self, source_offset: int) -> Gap | None:
        before = bisect_right(self.gaps, source_offset, key=lambda gap: gap.source_start)
        gap = self.gaps[before - 1] if before else None
        return gap if gap is not None and source_offset < gap.source_end else None

    @property
    def restart_target(self) -> int:
        """The target offset up to which images belong to a source topic that is no more."""
        if not any(gap.why.startswith(RECREATED) for gap in self.gaps):
            return 0
        return next((run.target for run in self.runs), self.target_next)

    @property
    def accounted(self) -> list[Span]:
        """The source offsets in runs and gaps, sorted."""
        runs = [(run.source, run.source + run.length) for run in self.runs]
        return sorted(runs + [(gap.source_start, gap.source_end) for gap in self.gaps])


def read_rows(reader: Reader, ledger_topic: str) -> dict[bytes, bytes]:
    """Return the rows of the ledger's topic; none if there is no such topic."""
    rows: dict[bytes, bytes] = {}
    for partition in range(reader.partitions(ledger_topic)):
        for _, record in reader.read(ledger_topic, partition):
            if record.key is None:
                continue
            if record.value is None:
                rows.pop(record.key, None)
            else:
                rows[record.key] = record.value
    return rows


def parse(rows: Mapping[bytes, bytes], topic: str, partition: int) -> Ledger:
    """Return what the rows say of a source partition, as far as it can be read."""
    key = f"{topic}/{partition}"
    if key.encode() not in rows:
        return Ledger(exists=False)
    ledger = Ledger()
    try:
        head = json.loads(rows[key.encode()])
        ledger.source_next, ledger.target_next = head["source_next"], head["target_next"]
        gaps = [Gap(gap["source_start"], gap["source_end"], gap["why"]) for gap in head["gaps"]]
        ledger.gaps = sorted(gaps)
        for number in range(*head["segments"]):
            for run in triples(json.loads(rows[f"{key}/{number}".encode()])):
                _add(ledger, run)
    except (ValueError, KeyError, TypeError) as nonsense:
        ledger.faults.append(f"cannot be read: {type(nonsense).__name__}: {nonsense}")
    _contradict(ledger)
    return ledger


def triples(segment: Any) -> Iterator[list[int]]:
    """Yield source and target offset and length of each run of a segment, old or new."""
    if isinstance(segment, list):
        yield from segment
        return
    at = [segment["source"], segment["target"]]
    for step in segment["runs"]:
        *gaps, length = step if isinstance(step, list) else [1, 0, step]
        at = [end + gap for end, gap in zip(at, gaps, strict=True)]
        yield [*at, length]
        at = [start + length for start in at]


def _add(ledger: Ledger, run: list[int]) -> None:
    source, target, length = run
    source_end, target_end = ledger.runs.end
    if length < 1 or source < source_end or target < target_end:
        ledger.faults.append(f"run {run} is empty or out of order")
    else:
        ledger.runs.add(source, target, length)


def _contradict(ledger: Ledger) -> None:
    """Note what the ledger's own rows already disprove."""
    source_end, target_end = ledger.runs.end
    if source_end > ledger.source_next or target_end > ledger.target_next:
        ledger.faults.append("a run goes beyond the ends that the head names")
    last = 0
    for start, end in ledger.accounted:
        if start < last:
            ledger.faults.append(f"source offsets from {start} on are named twice")
        last = max(last, end)
