"""Judges what is missing by the ledger's own word: gaps, quarantine, and holes without a name.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from tests.checker.anomalies import Name
from tests.checker.ledger import QUARANTINED, Ledger
from tests.checker.pairs import Span, holes, one
from tests.checker.resolve import Finding
from tests.checker.walk import Bounds, Walked, first_kept

Acknowledged = Callable[[Span], bool]
"""Whether a write into these source offsets is known to have been acknowledged."""


def check_gaps(
    ledger: Ledger,
    walked: Walked,
    bounds: Bounds,
    quarantined: Collection[int],
    acknowledged: Acknowledged,
    *,
    gaps_ok: bool,
) -> Iterator[Finding]:
    """Yield what is missing and may not be."""
    for source in walked.named_by_gap:
        gap = ledger.gap_at(source)
        assert gap is not None
        if gap.why.startswith(QUARANTINED):
            if source not in quarantined:
                detail = "quarantined by the ledger, and no entry is in the quarantine topic"
                yield Finding(Name.LOST, detail, one(source))
        elif not gaps_ok:
            detail = "named by a gap, though the source still has it"
            yield Finding(Name.LOST, detail, one(source))
    if not gaps_ok:
        yield from _given_up(ledger, bounds, acknowledged)
    yield from _unreported(ledger, walked, bounds, acknowledged)


def _given_up(ledger: Ledger, bounds: Bounds, acknowledged: Acknowledged) -> Iterator[Finding]:
    for gap in ledger.gaps:
        gone = (gap.source_start, min(gap.source_end, bounds.source[0]))
        if not gap.why.startswith(QUARANTINED) and gone[0] < gone[1] and acknowledged(gone):
            yield Finding(Name.LOST, "acknowledged, and given up by a gap", gone)


def _unreported(
    ledger: Ledger, walked: Walked, bounds: Bounds, acknowledged: Acknowledged
) -> Iterator[Finding]:
    """Yield offsets below the position that the source no longer has and the ledger never names.

    Transaction markers, aborted records and compaction leave such holes too: where the source
    still shows holes, only a journal can tell that records stood in one.
    """
    accounted = ledger.accounted
    if not accounted:
        return
    start = max(accounted[0][0], first_kept(ledger, bounds))
    held_records = not (bounds.is_compacted or walked.has_source_holes)
    for hole in holes(accounted, start, min(ledger.source_next, bounds.source[0])):
        if held_records or acknowledged(hole):
            yield Finding(Name.GAP_UNREPORTED, "neither copied nor named by a gap", hole)
