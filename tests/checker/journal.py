"""The journal of a load: what became of each write, one JSON object a line.

``{"topic": "t", "partition": 0, "outcome": "ok", "offset": 42, "digest": 123, "unique": true}``

``ok``: acknowledged, and its transaction committed. ``fail``: it cannot stand in the log for a
reader of committed records. ``unknown``: either. Only ok has an offset. ``unique``: no other write
has this content.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.checker.anomalies import Name
from tests.checker.digests import of_payload
from tests.checker.pairs import Span, one
from tests.checker.reading import Seen
from tests.checker.resolve import Finding
from tests.checker.walk import Bounds, Sourced


class Outcome(StrEnum):
    """What the producer was told."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Entry(NamedTuple):
    """One write."""

    topic: str
    partition: int
    outcome: Outcome
    offset: int | None
    digest: int
    unique: bool

    def to_line(self) -> str:
        return json.dumps(self._asdict()) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Entry:
        fields = json.loads(line)
        return cls(**fields | {"outcome": Outcome(fields["outcome"])})


class Account:
    """What the journal says of one partition, held against the source as it is read."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._digests = array("Q")
        self._failed: set[int] = set()

    def add(self, entry: Entry) -> None:
        if entry.outcome is Outcome.OK:
            assert entry.offset is not None, entry
            self._offsets.append(entry.offset)
            self._digests.append(entry.digest)
        elif entry.outcome is Outcome.FAIL and entry.unique:
            self._failed.add(entry.digest)

    def sort(self) -> None:
        """Call it once, when all is added: acknowledgements of two batches may change places."""
        order = sorted(range(len(self._offsets)), key=self._offsets.__getitem__)
        self._offsets = array("q", (self._offsets[at] for at in order))
        self._digests = array("Q", (self._digests[at] for at in order))

    def acknowledged(self, span: Span) -> bool:
        """Claim: a write into these source offsets was acknowledged."""
        return bisect_left(self._offsets, span[0]) < bisect_left(self._offsets, span[1])

    def remember(self, source: int, seen: Seen) -> bool | None:
        """Return whether this was acknowledged at that offset; None if nothing was."""
        at = bisect_left(self._offsets, source)
        if at == len(self._offsets) or self._offsets[at] != source:
            return None
        return self._digests[at] == _digest(seen)

    def watch(
        self, source: Iterator[Sourced], bounds: Bounds, findings: list[Finding]
    ) -> Iterator[Sourced]:
        """Pass the source on; note where it contradicts the journal."""
        if not self._offsets and not self._failed:
            yield from source
            return
        at = bisect_left(self._offsets, bounds.source[0])
        for record in source:
            yield record
            if not record.is_committed:
                continue
            reached = bisect_left(self._offsets, record.offset, at)
            findings += self._absent(range(at, reached), bounds)
            is_known = reached < len(self._offsets) and self._offsets[reached] == record.offset
            findings += self._contradicted(record, self._digests[reached] if is_known else None)
            at = reached + is_known
        findings += self._absent(range(at, len(self._offsets)), bounds)

    def _absent(self, rows: range, bounds: Bounds) -> Iterator[Finding]:
        if bounds.is_compacted:
            return
        for at in rows:
            detail = "acknowledged, and not at the source"
            yield Finding(Name.LOST, detail, one(self._offsets[at]))

    def _contradicted(self, record: Sourced, written: int | None) -> Iterator[Finding]:
        digest = _digest(record.seen)
        if written is not None and written != digest:
            detail = "the source holds another than was acknowledged"
            yield Finding(Name.MISMATCH, detail, one(record.offset))
        if digest in self._failed:
            detail = "the journal says that this write failed"
            yield Finding(Name.PHANTOM, detail, one(record.offset))


def read_journal(lines: Iterable[str]) -> dict[tuple[str, int], Account]:
    """Return the accounts of all partitions that a journal names."""
    accounts: dict[tuple[str, int], Account] = {}
    for line in lines:
        entry = Entry.of_line(line)
        accounts.setdefault((entry.topic, entry.partition), Account()).add(entry)
    for account in accounts.values():
        account.sort()
    return accounts


def _digest(seen: Seen) -> int:
    return of_payload(seen.key, seen.value, seen.headers)
