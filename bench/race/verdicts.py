"""Percentiles, and bars that are met or missed. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of the values do not exceed.

    ``ordered`` must be sorted and not empty.

    >>> percentile([1, 2, 3, 4], 0.5), percentile([1, 2, 3, 4], 0.99), percentile([7], 0.5)
    (2, 4, 7)
    """
    assert ordered, "no value, no percentile"
    rank = -(-round(share * len(ordered) * 1e6) // 10**6)  # a ceiling, without 0.99 * 100 = 99.01
    return ordered[max(0, rank - 1)]


def median(values: Iterable[float]) -> float | None:
    """Return the median, or None of nothing: a tool that did not run."""
    known = list(values)
    return statistics.median(known) if known else None


class Wanted(StrEnum):
    """Which side of a bar is good."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True)
class Bar:
    """One thing that must hold: ours is at least, or at most, so many times theirs."""

    what: str
    ours: float | None
    theirs: float | None
    wanted: Wanted
    times: float
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times theirs ours is; None if one of the two was not measured."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs

    @property
    def is_met(self) -> bool | None:
        """Whether it holds; None if that was not measured."""
        if self.ratio is None:
            return None
        if self.wanted is Wanted.AT_LEAST:
            return self.ratio >= self.times
        return self.ratio <= self.times

    @property
    def verdict(self) -> str:
        """The same, as one word."""
        return {True: "pass", False: "FAIL", None: "not measured"}[self.is_met]
