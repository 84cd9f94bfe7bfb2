"""The voice of a link: what its driver tells people at once, and the topics every two seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

from heliograph.control.reconcile import Observed
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.links.group_sync import Synced
from heliograph.links.helm import Helm
from heliograph.model.control import (
    LINK,
    WAITING,
    LinkReport,
    LinkState,
    PartReport,
    Plan,
    row,
)
from heliograph.model.findings import some
from heliograph.model.steering import Course
from heliograph.model.topics import Partition

REPORT_EVERY = timedelta(seconds=2)
# A trouble that came back within this time is one trouble.
_FORGET_S = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How a link gets on, as its tasks last reported. None where that is not known yet.

    ``codes`` are those of the errors that partitions stopped by.
    """

    lag_records: int | None = None
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    partitions: int = 0
    faulted: int = 0
    codes: frozenset[str] = frozenset()

    @property
    def eta_s(self) -> float | None:
        """How long the lag takes at this rate; None if it does not shrink."""
        if self.lag_records is None or not self.records_per_second:
            return None
        return self.lag_records / self.records_per_second


class Voice:
    """Speaks for one link. ``progress`` may be read from any thread."""

    def __init__(self, link: str, helm: Helm, say: Callable[[str], None]) -> None:
        self._helm = helm
        self._link = link
        self._tell = say
        self._state: LinkState = "CREATED"
        self._since_ms = clock.wall_ms()
        self._due_s = 0.0
        self._troubles: dict[str, float] = {}
        self._notes: set[str] = set()
        self._faults: dict[Partition, tuple[str, ...]] = {}
        self.progress = Progress()

    def saw(self, observed: Observed) -> None:
        """Tell what was changed on the target, what could not be, and, once, what to know."""
        if observed.made:
            self._say(f"made {len(observed.made)} mirrors: {some(observed.made)}")
        if observed.altered:
            self._say(f"brought {len(observed.altered)} mirrors in step: {some(observed.altered)}")
        if observed.deleted:
            some_of = some(observed.deleted)
            self._say(f"deleted {len(observed.deleted)} mirrors with their sources: {some_of}")
        if observed.grants and (observed.grants.grant or observed.grants.revoke):
            granted, revoked = len(observed.grants.grant), len(observed.grants.revoke)
            self._say(f"ACLs on mirrors: granted {granted}, revoked {revoked}")
        for note in observed.notes:
            self.note(note)
        for error in observed.errors:
            self._trouble(error)

    def note(self, text: str) -> None:
        """Tell what to know, once."""
        if text not in self._notes:
            self._notes.add(text)
            self._say(text)

    def planned(self, plan: Plan, parts: Mapping[Partition, Partition]) -> None:
        """Tell of the first plan; those that follow are routine."""
        if plan.number == 1:
            topics = len({source.topic for source in parts})
            self._say(f"copies {len(parts)} partitions of {topics} topics in {plan.leases} tasks")

    def trouble(self, trouble: HeliographError) -> None:
        """Tell what went wrong, once for as long as it lasts."""
        self._trouble(str(trouble))

    def warn(self, text: str) -> None:
        """Tell of something that is dealt with, and leave it in the link's report for a while."""
        self._trouble(text)

    def synced(self, found: Synced | HeliographError | None) -> None:
        """Tell what went wrong with groups, and which were deleted; the rest is routine."""
        if isinstance(found, HeliographError):
            self._trouble(f"groups were not synced: {found}")
        elif found is not None:
            for error in found.errors:
                self._trouble(error)
            if found.deleted:
                self._say(f"deleted {len(found.deleted)} groups: {some(found.deleted)}")

    def reclaims(self, source: Partition) -> None:
        """Tell that a writer was fenced, and not by a newer driver."""
        self._trouble(
            f"{source}: its writer was fenced, though this driver is the newest. Claimed again. If"
            " this comes back, something else uses this link's transactional ids"
        )

    def report_if_due(self, observed: Observed, course: Course) -> None:
        """Put the link's report, every two seconds; tell of partitions that fault or heal."""
        if clock.now_s() >= self._due_s:
            self._due_s = clock.now_s() + REPORT_EVERY.total_seconds()
            self._tell_faults(observed)
            self._report(self._state_of(course), observed)

    def stopped(self, observed: Observed) -> None:
        """Put the last report."""
        self._tell_faults(observed)
        self._report("STOPPED", observed)

    def _tell_faults(self, observed: Observed) -> None:
        reports = {one: self._helm.heard_of(one) for one in observed.parts}
        self.progress = _progress(reports.values())
        faults = {source: one.error for source, one in reports.items() if one and one.error}
        for source, (code, *rest) in faults.items():
            if self._faults.get(source, ("",))[0] != code:
                self._say(f"{source} stopped: {code}: {' '.join(rest)}")
        for source in self._faults.keys() - faults.keys():
            self._say(f"{source} goes on")
        self._faults = faults

    def _state_of(self, course: Course) -> LinkState:
        if self._helm.wanted.state == "paused":
            return "PAUSED"
        if self._faults:
            return "FAULTED"
        return "ACTIVE" if course.number else "CREATED"

    def _report(self, state: LinkState, observed: Observed) -> None:
        if state != self._state:
            self._state, self._since_ms = state, clock.wall_ms()
        now_s = clock.now_s()
        self._troubles = {
            text: at_s for text, at_s in self._troubles.items() if now_s - at_s < _FORGET_S
        }
        report = LinkReport(
            state,
            self._since_ms,
            clock.wall_ms(),
            self._helm.generation,
            self._helm.name,
            len(observed.parts),
            dict(observed.topics),
            (*observed.errors, *self._troubles),
            tuple(one.pattern for one in observed.wanted.added),
            observed.wanted.removed,
        )
        rows: dict[bytes, bytes | None] = {LINK: row(report)}
        if WAITING in self._helm.state.rows:
            rows[WAITING] = None  # the link could not be started before
        self._helm.report(rows)

    def _say(self, text: str) -> None:
        self._tell(f"{self._link}: {text}")

    def _trouble(self, text: str) -> None:
        if text not in self._troubles:
            self._say(text)
        self._troubles[text] = clock.now_s()


def _progress(reports: Collection[PartReport | None]) -> Progress:
    seen = [report for report in reports if report is not None]
    lags = [max(one.source_end - one.source_next, 0) for one in seen if one.source_end >= 0]
    return Progress(
        sum(lags) if lags else None,
        sum(one.records_per_second for one in seen),
        sum(one.bytes_per_second for one in seen),
        len(reports),
        sum(bool(one.error) for one in seen),
        frozenset(one.error[0] for one in seen if one.error),
    )
