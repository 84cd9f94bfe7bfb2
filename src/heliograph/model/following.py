"""Following: of which partitions a link knew what its source held, and until when. Pure.

What a task last reported of a partition stands as long as nobody says otherwise: it is old where
nothing changed, and it is old where nobody looked. The rows tell which.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.model.clocks import age_s
from heliograph.model.control import (
    LINK,
    WANTED,
    LinkReport,
    PartReport,
    Wanted,
    heard_ms,
    is_covered,
    part_key,
    read,
    read_heard,
)
from heliograph.model.drivers import PULSE
from heliograph.model.ledger import Ledger
from heliograph.model.selection import matches
from heliograph.model.status import Books
from heliograph.model.topics import Partition

# What tasks run into when a verb has closed a mirror, and when its topic was deleted.
_CLOSED_BY_US = frozenset({"superseded", "mirror-closed"})
_GONE = "topic-missing"


class Following:
    """What the rows of a link say of who followed its source. ``heard_ms`` is None for never."""

    def __init__(self, books: Books, ledgers: Mapping[Partition, Ledger]) -> None:
        self._state, self.ledgers = books.state, ledgers
        self._link = read(books.state, LINK, LinkReport)
        self._wanted = read(books.control, WANTED, Wanted) or Wanted()
        self._heard = read_heard(books.control, books.state)
        self._reports: dict[Partition, PartReport | None] = {}
        self.heard_ms = heard_ms(self._heard)

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
        return source.topic not in self._link.topics or is_covered(report, self._heard)

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

    def unwatched_s(self, now_ms: int) -> float | None:
        """Return how long the source may have lived on, unheard; None is not known.

        A source that falls silent while tasks listen may be dead, and may as well be cut off from
        them while producers write on: nobody on this side can tell the two apart. So all the time
        since its last answer counts, unless it is within the rhythm in which tasks tell. The
        driver's own reports tell nothing of the source: it goes on when all its tasks are dead.
        """
        age = None if self.heard_ms is None else age_s(self.heard_ms, now_ms)
        return 0.0 if age is not None and age <= PULSE.total_seconds() else age
