"""The anomalies, each under the one name it has in reports, and the report itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from tests.checker.pairs import Span


class Name(StrEnum):
    """What can be wrong with a mirror."""

    LOST = "lost"  # a source record below the position without an image, gap or quarantine entry
    DUPLICATE = "duplicate"  # two images of one source offset
    REORDERED = "reordered"  # images not in source order
    PHANTOM = "phantom"  # an image without a source record
    MISMATCH = "mismatch"  # a field differs
    ABORTED = "aborted"  # an image of an aborted record
    LEDGER_LIE = "ledger-lie"  # a run points at the wrong record, past the end, or nowhere
    STUCK = "stuck"  # no progress after healing
    GAP_UNREPORTED = "gap-unreported"  # missing offsets that no gap entry names


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that is wrong, with its offsets on either side where it has some."""

    name: Name
    topic: str
    partition: int
    detail: str
    source: Span | None = None
    target: Span | None = None


@dataclass(slots=True)
class Report:
    """What a check found. ``notes`` are for people; only anomalies make it red.

    ``unverified`` images stand where the ledger says, but their source records are gone by now.
    """

    anomalies: list[Anomaly] = field(default_factory=list)
    equal: int = 0
    unverified: int = 0
    not_copied: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The names of what was found."""
        return {str(one.name) for one in self.anomalies}

    def add(self, other: Report) -> None:
        self.anomalies += other.anomalies
        self.equal += other.equal
        self.unverified += other.unverified
        self.not_copied += other.not_copied
        self.notes += other.notes

    def __str__(self) -> str:
        lines = _table(self.anomalies) if self.anomalies else ["clean"]
        counts = f"{self.equal} equal, {self.unverified} unverified, {self.not_copied} not copied"
        return "\n".join([*lines, counts, *self.notes])

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def merge(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """Join neighbours that say the same into one with longer spans; sorted by offsets."""
    merged: list[Anomaly] = []
    for one in sorted(anomalies, key=_place):
        if merged and _continues(merged[-1], one):
            last = merged[-1]
            merged[-1] = replace(
                last, source=_join(last.source, one.source), target=_join(last.target, one.target)
            )
        else:
            merged.append(one)
    return merged


def _place(one: Anomaly) -> tuple[str, int, str, str, Span, Span]:
    nowhere = (-1, -1)
    return (
        one.topic,
        one.partition,
        one.name,
        one.detail,
        one.source or nowhere,
        one.target or nowhere,
    )


def _continues(last: Anomaly, one: Anomaly) -> bool:
    if (last.topic, last.partition, last.name, last.detail) != (
        one.topic,
        one.partition,
        one.name,
        one.detail,
    ):
        return False
    return _touch(last.source, one.source) and _touch(last.target, one.target)


def _touch(last: Span | None, one: Span | None) -> bool:
    if last is None or one is None:
        return last is one
    return last[1] == one[0]


def _join(last: Span | None, one: Span | None) -> Span | None:
    return (last[0], one[1]) if last is not None and one is not None else None


def _table(anomalies: Iterable[Anomaly]) -> list[str]:
    rows = [("ANOMALY", "PARTITION", "SOURCE", "TARGET", "DETAIL")]
    for one in anomalies:
        where = f"{one.topic}/{one.partition}"
        rows.append((one.name, where, _text(one.source), _text(one.target), one.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]


def _text(span: Span | None) -> str:
    if span is None:
        return "-"
    return str(span[0]) if span[1] == span[0] + 1 else f"{span[0]}..{span[1] - 1}"
