"""Clocks: what can be said of a moment that another machine's clock told. Pure.

No decision that could lose a record is made by comparing clocks. Ages that people read are, and one
that comes from the future is not zero: it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

AGREE = timedelta(seconds=1)
"""Clocks that are kept in step differ by less: what is this much ahead is now."""


def age_s(then_ms: int, now_ms: int) -> float | None:
    """Return how many seconds ago a moment was; None where it is still to come.

    >>> age_s(1_000, 3_500), age_s(1_500, 1_000), age_s(60_000, 1_000)
    (2.5, 0.0, None)
    """
    return None if ahead_s(then_ms, now_ms) else max(0.0, (now_ms - then_ms) / 1000)


def longest_s(ages: Iterable[float | None]) -> float | None:
    """Return the longest of some times; None where one is not known. Of none, it is 0.

    >>> longest_s([1.0, 2.0]), longest_s([1.0, None]), longest_s([])
    (2.0, None, 0.0)
    """
    found = list(ages)
    known = [one for one in found if one is not None]
    return max(known, default=0.0) if len(known) == len(found) else None


def ahead_s(then_ms: int, now_ms: int) -> float:
    """Return by how many seconds the clock that told a moment is ahead, at least; 0 if it agrees.

    >>> ahead_s(60_000, 1_000), ahead_s(1_500, 1_000)
    (59.0, 0.0)
    """
    ahead = (then_ms - now_ms) / 1000
    return ahead if ahead > AGREE.total_seconds() else 0.0
