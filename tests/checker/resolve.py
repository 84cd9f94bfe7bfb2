"""Explains what a walk left: every record without its image, every image out of place.

Pure, but for the question where else a content stands in the source, which the caller answers
with a second scan. Each cause is reported once, under its own name.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from tests.checker.anomalies import Name
from tests.checker.ledger import Ledger
from tests.checker.pairs import Span, holes, one
from tests.checker.walk import Bounds, Missing, Stray, Walked


class Origin(NamedTuple):
    """Where a content stands in the source."""

    source: int
    is_committed: bool


class Finding(NamedTuple):
    """An anomaly of a partition that is known from the context."""

    name: Name
    detail: str
    source: Span | None = None
    target: Span | None = None


Lookup = Callable[[set[int]], dict[int, Origin]]
Moved = tuple[Missing, Stray]


def resolve(walked: Walked, ledger: Ledger, *, complete: bool, look_up: Lookup) -> list[Finding]:
    """Return what is wrong, one finding an offset.

    ``complete``: records behind the mirror's end count as lost, not as not copied yet.
    """
    moved, missing, strays = _reunite(walked)
    findings = list(_explain_moved(moved, walked, ledger))
    partners = {record.source: record for record in missing}
    origins = look_up({stray.digest for stray in strays}) if strays else {}
    for stray in strays:
        origin = origins.get(stray.digest)
        if origin and walked.stopped_at is not None and origin.source >= walked.stopped_at:
            continue  # the walk did not get to its source record
        finding = _explain_stray(stray, origin, partners)
        if finding.name is Name.MISMATCH:
            assert stray.source is not None
            del partners[stray.source]
        findings.append(finding)
    last_source = max([walked.backed.end[0], *(record.source for record, _ in moved)])
    for record in partners.values():
        is_behind = record.source >= max(ledger.source_next, last_source)
        if complete or not is_behind:
            findings += _explain_missing(record, ledger)
    return findings


def _reunite(walked: Walked) -> tuple[list[Moved], list[Missing], list[Stray]]:
    """Give each stray image the oldest missing record of its content, if there is one."""
    waiting: dict[int, deque[Missing]] = defaultdict(deque)
    for record in walked.missing:
        waiting[record.digest].append(record)
    moved, strays = [], []
    for stray in walked.strays:
        if waiting[stray.digest]:
            moved.append((waiting[stray.digest].popleft(), stray))
        else:
            strays.append(stray)
    found = {record.source for record, _ in moved}
    return moved, [record for record in walked.missing if record.source not in found], strays


def _explain_moved(moved: list[Moved], walked: Walked, ledger: Ledger) -> Iterator[Finding]:
    """Tell images out of order from images in order that the ledger has in the wrong place."""
    before = list(accumulate((record.source for record, _ in moved), max))
    after = list(accumulate((record.source for record, _ in reversed(moved)), min))[::-1]
    for at, (record, stray) in enumerate(moved):
        offsets = one(record.source), one(stray.target)
        is_in_order = before[at] == record.source == after[at]
        if not is_in_order or not walked.backed.are_in_order_with(record.source, stray.target):
            yield Finding(Name.REORDERED, "the image is not in source order", *offsets)
        elif record.source < ledger.source_next or stray.target < ledger.target_next:
            yield Finding(Name.LEDGER_LIE, _misplaced(record, stray), *offsets)


def _misplaced(record: Missing, stray: Stray) -> str:
    if record.target is None:
        return "the image stands there, and no run says so"
    shift = record.target - stray.target
    side = "behind" if shift > 0 else "before"
    return f"the image stands there; the run points {abs(shift)} {side} it"


def _explain_stray(stray: Stray, origin: Origin | None, partners: dict[int, Missing]) -> Finding:
    target = one(stray.target)
    if origin is not None and origin.is_committed:
        detail = "a second image of that source record"
        return Finding(Name.DUPLICATE, detail, one(origin.source), target)
    if origin is not None:
        detail = "the source record was never committed"
        return Finding(Name.ABORTED, detail, one(origin.source), target)
    if stray.source in partners:
        assert stray.source is not None
        detail = "key, value, headers or timestamp differ"
        return Finding(Name.MISMATCH, detail, one(stray.source), target)
    return Finding(Name.PHANTOM, "no source record has this content", None, target)


def _explain_missing(record: Missing, ledger: Ledger) -> Iterator[Finding]:
    yield Finding(Name.LOST, "no image, and no gap names it", one(record.source))
    if record.target is not None and record.source < ledger.source_next:
        detail = "a run points there, and the image does not stand there"
        yield Finding(Name.LEDGER_LIE, detail, one(record.source), one(record.target))


def check_runs(ledger: Ledger, walked: Walked, bounds: Bounds) -> Iterator[Finding]:
    """Yield what the ledger says and the logs do not bear out, as far as not explained elsewhere.

    With this every offset translates exactly: each run holds pairs that were seen on both sides,
    and what lies between runs translates to the next of them.
    """
    for fault in ledger.faults:
        yield Finding(Name.LEDGER_LIE, fault)
    if ledger.target_next > bounds.target[1]:
        past = (bounds.target[1], ledger.target_next)
        yield Finding(Name.LEDGER_LIE, "the ledger's end is past the mirror's", None, past)
    if ledger.source_next > bounds.source[1]:
        past = (bounds.source[1], ledger.source_next)
        yield Finding(Name.LEDGER_LIE, "the ledger's position is past the source's end", past)
    if not ledger.exists and (walked.backed or walked.strays):
        yield Finding(Name.LEDGER_LIE, "there is no ledger, and the mirror is not empty")
    yield from _unbacked(ledger, walked, bounds)


def _unbacked(ledger: Ledger, walked: Walked, bounds: Bounds) -> Iterator[Finding]:
    """Yield the parts of runs that point from nothing, or at nothing."""
    explained = {record.source for record in walked.missing}
    explained |= {stray.source for stray in walked.strays if stray.source is not None}
    backed = [(record.source, record.source + record.length) for record in walked.backed]
    known = sorted(backed + [one(source) for source in explained])
    for run in ledger.runs:
        start = run.source + max(0, bounds.target[0] - run.target)
        end = run.source + run.length
        if walked.stopped_at is not None:
            end = min(end, walked.stopped_at)
        for hole in holes(known, start, end):
            target = (hole[0] - run.source + run.target, hole[1] - run.source + run.target)
            yield Finding(Name.LEDGER_LIE, "a run holds offsets without a record", hole, target)
