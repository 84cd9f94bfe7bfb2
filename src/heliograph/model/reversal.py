"""Reversal: a mirror partition turns round, and what was the source is copied to. Pure.

N. The ledger of the opposite direction holds the same pairs of offsets. So every offset of one
   side translates into the other for ever, however often a topic turns round.
O. It begins where the direction before it ended: what only the new source has is copied, what only
   the new target has is diverged. Nothing is in both.
"""

from __future__ import annotations

from heliograph.model.ledger import Gap, Ledger, Origin
from heliograph.model.runs import Run
from heliograph.model.topics import Partition


def parting(ended: Ledger) -> tuple[int, int]:
    """Return where the two sides part: the first source and target offset that were not copied.

    On the target, markers of our own may follow the last copy: nothing is lost by reading them.
    """
    last = ended.runs.last
    return ended.source_next, last.target_end if last is not None else _first_free(ended)


def holes(ended: Ledger) -> list[range]:
    """Return the offsets of the mirror before its last copy where no copy stands, in order.

    Before the first known run only if none was ever dropped: else copies may have stood there.
    """
    found: list[range] = []
    at: int | None = 0 if _has_all_runs(ended) else None
    for run in ended.runs:
        if at is not None and run.target_start > at:
            found.append(range(at, run.target_start))
        at = run.target_end
    return found


def _has_all_runs(ended: Ledger) -> bool:
    first = next(iter(ended.runs), None)
    is_first = first is not None and first.source_start == 0
    return is_first and sum(run.length for run in ended.runs) == ended.records


def _first_free(ended: Ledger) -> int:
    # Nothing was ever copied: whatever the mirror holds is its applications'.
    return 0 if not ended.records else ended.target_next


def reverse(
    ended: Ledger, mirror: Partition, target_end: int, diverged: int, before: Ledger | None
) -> Ledger:
    """Return the ledger of the opposite direction; ``ended`` is that of the direction before.

    ``mirror`` was the mirror, and is the source now. ``target_end`` is where the new target ends;
    ``diverged`` of its records were never copied. ``before`` is the ledger that stands in the
    place of the new one, from an earlier turn.
    """
    origin = Origin(
        source_cluster_id=ended.origin.target_cluster_id,
        source_topic_id=ended.origin.mirror_topic_id,
        target_cluster_id=ended.origin.source_cluster_id,
        mirror_topic_id=ended.origin.source_topic_id,
    )
    _, source_next = parting(ended)
    runs = [Run(run.target_start, run.source_start, run.length) for run in ended.runs]
    gaps = [
        Gap(source_next, source_next, f"{diverged} records of the target were never copied")
    ] * bool(diverged)
    place = before if before is not None else Ledger(mirror, origin)
    return place.replaced(origin, source_next, target_end, runs=runs, gaps=gaps)
