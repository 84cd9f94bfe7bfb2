"""The ledger of a mirror partition: what was copied, as rows of a compacted topic.

Pure. One row, the head, holds the ends and the identities; numbered segments hold the runs, so
that only the newest is written again as it grows. All rows that change together are put as one
batch, which a log takes whole or not at all: a reader never sees half a change.

D. The ledger is never ahead of the data: only acknowledged batches enter it.
E. Source offsets below ``source_next`` are in a run, in a gap, or hold nothing to copy.
F. Every producer id that ever wrote the partition is in the head before its first batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heliograph.errors import LedgerUnreadable
from heliograph.model.runs import Run, Runs
from heliograph.model.topics import Partition

FORMAT = 1
SEGMENT_RUNS = 256


@dataclass(frozen=True, slots=True)
class Origin:
    """Which topics on which clusters a ledger is about: names can come back as something else."""

    source_cluster_id: str
    source_topic_id: str
    target_cluster_id: str
    mirror_topic_id: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Source offsets, half-open, that will never arrive."""

    source_start: int
    source_end: int
    why: str


@dataclass(slots=True)
class Ledger:
    """All that is known of one mirror partition. ``partition`` is the source's."""

    partition: Partition
    origin: Origin
    source_next: int = 0
    target_next: int = 0
    producer_ids: set[int] = field(default_factory=set)
    gaps: list[Gap] = field(default_factory=list)
    _segments: dict[int, Runs] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)
    _dropped: set[int] = field(default_factory=set)

    @property
    def runs(self) -> Runs:
        """All runs, in order."""
        return Runs(run for number in sorted(self._segments) for run in self._segments[number])

    def add(self, run: Run) -> None:
        """Enter an acknowledged run; the source is done up to its end."""
        assert run.source_start >= self.source_next, "invariant E: it was done already"
        newest = max(self._segments, default=0)
        segment = self._segments.setdefault(newest, Runs())
        if len(segment) >= SEGMENT_RUNS and not _touch(segment.last, run):
            newest, segment = newest + 1, Runs()
            self._segments[newest] = segment
        segment.add(run)
        self._changed.add(newest)
        self.source_next, self.target_next = run.source_end, run.target_end

    def skip_to(self, source_offset: int) -> None:
        """Enter that the source holds nothing more to copy below ``source_offset``."""
        assert source_offset >= self.source_next, "invariant E: it was done already"
        self.source_next = source_offset

    def add_gap(self, source_end: int, why: str) -> None:
        """Enter that nothing from ``source_next`` to ``source_end`` will ever arrive."""
        if source_end > self.source_next:
            self.gaps.append(Gap(self.source_next, source_end, why))
            self.skip_to(source_end)

    def drop_before(self, target_offset: int) -> None:
        """Forget segments that the target's retention has passed; the newest always stays."""
        for number in sorted(self._segments)[:-1]:
            last = self._segments[number].last
            if last is None or last.target_end > target_offset:
                return
            del self._segments[number]
            self._changed.discard(number)
            self._dropped.add(number)

    def take_changes(self) -> dict[bytes, bytes | None]:
        """Return the rows to put as one batch; None removes one. Counts as written from here on.

        If the put fails, the ledger is read again from the topic: this object is then stale.
        """
        rows: dict[bytes, bytes | None] = {_key(self.partition): self._head()}
        for number in sorted(self._changed):
            runs = [[r.source_start, r.target_start, r.length] for r in self._segments[number]]
            rows[_key(self.partition, number)] = _encode(runs)
        rows |= dict.fromkeys((_key(self.partition, number) for number in self._dropped), None)
        self._changed.clear()
        self._dropped.clear()
        return rows

    def _head(self) -> bytes:
        return _encode(
            {
                "format": FORMAT,
                "origin": asdict(self.origin),
                "source_next": self.source_next,
                "target_next": self.target_next,
                "producer_ids": sorted(self.producer_ids),
                "gaps": [asdict(gap) for gap in self.gaps],
                "segments": sorted(self._segments),
            }
        )


def read_ledger(partition: Partition, rows: Mapping[bytes, bytes]) -> Ledger | None:
    """Return a partition's ledger from the rows of the table, or None if there is none."""
    head = rows.get(_key(partition))
    if head is None:
        return None
    try:
        return _decode(partition, json.loads(head), rows)
    except (ValueError, KeyError, TypeError) as nonsense:
        raise LedgerUnreadable(
            f"the ledger of {partition} cannot be read ({type(nonsense).__name__}: {nonsense})."
            " Nothing was copied, since what was copied already is not known"
        ) from nonsense


def _decode(partition: Partition, head: Any, rows: Mapping[bytes, bytes]) -> Ledger:
    if head["format"] != FORMAT:
        raise ValueError(f"its format is {head['format']}, this version reads {FORMAT}")
    ledger = Ledger(
        partition,
        Origin(**head["origin"]),
        head["source_next"],
        head["target_next"],
        set(head["producer_ids"]),
        [Gap(**gap) for gap in head["gaps"]],
    )
    source_end = target_end = 0
    for number in sorted(head["segments"]):
        triples = json.loads(rows[_key(partition, number)])
        for source, target, length in triples:
            # Not an assertion: these bytes come from outside.
            if length < 1 or source < source_end or target < target_end:
                raise ValueError(f"run {[source, target, length]} is out of order")
            source_end, target_end = source + length, target + length
        ledger._segments[number] = Runs(Run(*triple) for triple in triples)
    if source_end > ledger.source_next or target_end > ledger.target_next:
        raise ValueError("its runs go beyond its ends")
    return ledger


def _touch(last: Run | None, run: Run) -> bool:
    if last is None:
        return False
    return last.source_end == run.source_start and last.target_end == run.target_start


def _key(partition: Partition, segment: int | None = None) -> bytes:
    # A slash cannot be in a topic's name.
    tail = "" if segment is None else f"/{segment}"
    return f"{partition.topic}/{partition.partition}{tail}".encode()


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
