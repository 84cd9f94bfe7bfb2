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

_ENDLESS = 1 << 63


def parting(ended: Ledger) -> tuple[int, int]:
    """Return where the two sides part: the first source and target offset that were not copied.

    On the target, markers of our own may follow the last copy: nothing is lost by reading them.
    What diverged before this direction began stays where it is.
    """
    last = ended.runs.last
    copied = last.target_end if last is not None else _first_free(ended)
    return ended.source_next, max(copied, ended.target_begin)


def holes(ended: Ledger) -> list[range]:
    """Return the offsets of the mirror before its last copy where no copy stands, in order.

    Before the first known run only if none was ever dropped: else copies may have stood there. None
    before this direction began: what stood there was seen to when it did.
    """
    found: list[range] = []
    at: int | None = 0 if _has_all_runs(ended) else None
    for run in ended.runs:
        if at is not None and run.target_start > max(at, ended.target_begin):
            found.append(range(max(at, ended.target_begin), run.target_start))
        at = run.target_end
    return found


def _has_all_runs(ended: Ledger) -> bool:
    first = next(iter(ended.runs), None)
    is_first = first is not None and first.source_start == 0
    return is_first and sum(run.length for run in ended.runs) == ended.records


def _first_free(ended: Ledger) -> int:
    # Nothing was ever copied: whatever the mirror holds is its applications'.
    return 0 if not ended.records else ended.target_next


def uncopied(ended: Ledger | None, mirror_start: int) -> list[range]:
    """Return the source offsets of which the mirror holds no copy, in order; the last is endless.

    The mirror's log begins at ``mirror_start``: the copies before that are gone. Without a ledger
    nothing is known to be copied.

    >>> ledger = Ledger(Partition("orders", 0), Origin("A", "topic", "B", "mirror"))
    >>> ledger.add(Run(10, 1, 5)); ledger.add(Run(20, 7, 5))
    >>> uncopied(ledger, 3)[:2]
    [range(0, 12), range(15, 20)]
    """
    found, at = list[range](), 0
    for run in ended.runs if ended is not None else ():
        start = run.source_start + max(0, mirror_start - run.target_start)
        if start < run.source_end:
            if start > at:
                found.append(range(at, start))
            at = run.source_end
    return [*found, range(at, _ENDLESS)]


def is_outrun(ended: Ledger, before: Ledger | None) -> bool:
    """Tell whether the opposite direction went on since this one ended.

    ``before`` is its ledger. A ledger that is turned round holds all that the one before it holds
    (N): one that knows less of the same log is from an earlier turn, and must not replace it.
    """
    if before is None or before.origin.source_topic_id != ended.origin.mirror_topic_id:
        return False
    return before.source_next > ended.target_next


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
    ledger = place.replaced(origin, source_next, target_end, runs=runs, gaps=gaps)
    ledger.target_begin = target_end
    return ledger
