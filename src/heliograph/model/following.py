"""Following: of which partitions a link knew what its source held, and until when. Pure.

What a task last reported of a partition stands as long as nobody says otherwise: it is old where
nothing changed, and it is old where nobody looked. The rows tell which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from heliograph.model.clocks import AGREE, age_s
from heliograph.model.control import (
    LINK,
    WANTED,
    LinkReport,
    PartReport,
    Wanted,
    part_key,
    read,
    read_heard,
)
from heliograph.model.ledger import Ledger
from heliograph.model.selection import matches
from heliograph.model.status import Books
from heliograph.model.topics import Partition

SILENT = timedelta(seconds=2)
"""A broker that is alive answers a fetch within a tenth of a second; one that did not for this long
while a task asked for more was gone."""

PULSE = timedelta(seconds=4)
"""How often tasks tell what they heard when all is well, and a little more."""

# What tasks run into when a verb has closed a mirror, and when its topic was deleted.
_CLOSED_BY_US = frozenset({"superseded", "mirror-closed"})
_GONE = "topic-missing"


class Following:
    """What the rows of a link say of who followed its source. ``heard_ms`` is None for never."""

    def __init__(self, books: Books, ledgers: Mapping[Partition, Ledger]) -> None:
        self._state, self.ledgers = books.state, ledgers
        self._link = read(books.state, LINK, LinkReport)
        self._wanted = read(books.control, WANTED, Wanted) or Wanted()
        self._heard = read_heard(books.state, self._link.generation) if self._link else []
        self._reports: dict[Partition, PartReport | None] = {}
        self.heard_ms = min((one.at_ms for one in self._heard), default=None)

    def report(self, source: Partition) -> PartReport | None:
        """Return what a task last said of a partition."""
        if source not in self._reports:
            self._reports[source] = read(self._state, part_key(source), PartReport)
        return self._reports[source]

    def is_followed(self, source: Partition) -> bool:
        """Claim: whatever the source held of a partition when it was last heard from was reported.

        Not where the partition has faulted, is paused or done, nor where no task of the present
        plan has it: the source may have more of it by then. What is not on the source any more
        cannot grow.
        """
        report = self.report(source)
        if report is None or self._link is None or self._is_halted(source.topic):
            return False
        if report.state != "ACTIVE":
            return self._is_excused(source, report)
        if source.topic not in self._link.topics or not self._heard:
            return True
        # Where plans change, tasks tell one after the other: the plan before is as good.
        newest = self._heard[0]
        return (report.generation, report.number + 1) >= (newest.generation, newest.number)

    def _is_halted(self, topic: str) -> bool:
        assert self._link is not None
        is_active = self._wanted.state == "active" and self._link.state in ("ACTIVE", "FAULTED")
        return not is_active or matches(self._wanted.paused, topic)

    def _is_excused(self, source: Partition, report: PartReport) -> bool:
        """Claim: it faulted because a verb has closed its mirror, or its topic was deleted."""
        ledger, code = self.ledgers.get(source), next(iter(report.error), "")
        if ledger is None or report.state != "FAULTED":
            return False
        return code == _GONE or (ledger.closing is not None and code in _CLOSED_BY_US)

    def unwatched_s(self, parts: Iterable[Partition], now_ms: int) -> float | None:
        """Return how long nobody listened to the source before now, at most; None is not known.

        Where a source dies, its tasks live on: they wait for answers, and say every two seconds how
        long they have waited and when the last answer came. Both times are in one row, by one
        clock. Where they are further apart than a living broker ever takes, the source fell silent
        while somebody listened: then it does not matter how long ago that was, nor what became of
        the tasks since. That has to be so of every task, for each listens to other brokers.

        Where they are not apart, the tasks were stopped or killed while the source answered, and it
        may have lived on: until now, for all that is known. A machine that dies a moment before its
        source leaves the very same rows, so nobody can say then that an objective was kept, unless
        it is longer than all the time since. The driver's own reports tell nothing of the source:
        it goes on reporting when all its tasks are dead.
        """
        if self.heard_ms is None or self._link is None:
            return None
        if self._saw_it_die(parts):
            return 0.0
        age = age_s(self.heard_ms, now_ms)
        return None if age is None else max(0.0, age - PULSE.total_seconds())

    def _saw_it_die(self, parts: Iterable[Partition]) -> bool:
        assert self._link is not None and self.heard_ms is not None
        if all(_is_apart(one.at_ms, one.listened_ms) for one in self._heard):
            return True
        # It may have died when a plan ended: the tasks of the next one took the partitions on and
        # never heard a word. Not where the link was paused in between: then its state has changed.
        if self._link.since_ms > self.heard_ms + AGREE / timedelta(milliseconds=1):
            return False
        reports = [self.report(one) for one in parts]
        return all(
            one is not None
            and (one.generation, one.number) > (self._heard[0].generation, self._heard[0].number)
            and _is_apart(self.heard_ms, one.at_ms)
            for one in reports
        )


def _is_apart(heard_ms: int, listened_ms: int) -> bool:
    return listened_ms - heard_ms >= SILENT / timedelta(milliseconds=1)
