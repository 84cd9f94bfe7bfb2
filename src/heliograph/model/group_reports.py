"""Reports of groups: how far each is on both sides, for `status`, which asks only the target.

Pure. One row ``groups`` of the state topic, of all groups: lags change all the time, and a row for
each would be written as often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from heliograph.model.control import Rows, read_passing
from heliograph.model.group_sync import Decision, Why
from heliograph.model.groups import Committed, GroupListing
from heliograph.model.topics import Partition

GROUPS = b"groups"
QUIET = timedelta(seconds=30)
"""Where nothing changed, the row is put anew after this time: it also says that somebody looks."""

SyncState = Literal[
    "in_sync", "due", "ahead", "set_back", "unknown", "shared", "active", "failed", "gone"
]
_STATES: Mapping[Why, SyncState] = {
    Why.THERE: "in_sync",
    Why.AHEAD: "ahead",
    Why.SET_BACK: "set_back",
    Why.UNKNOWN: "unknown",
    Why.ANEW: "unknown",
    Why.SHARED: "shared",
    Why.ACTIVE: "active",
}


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group. States are Kafka's words; lags are of the mirrored topics, None if not known.

    ``sync`` is in_sync; due if offsets are to be set; ahead, set_back or active, which are the
    target's own doing; unknown where nothing is copied yet; shared where others write to the
    mirrors; failed with the reason; or gone from the source.
    """

    group: str
    kind: str = ""
    state: str = ""
    target_state: str = ""
    lag_source: int | None = None
    lag_target: int | None = None
    sync: SyncState = "in_sync"
    why: str = ""


@dataclass(frozen=True, slots=True)
class GroupsReport:
    """What the last look at the groups of a link found."""

    at_ms: int
    groups: tuple[GroupReport, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group of a link as status shows it; ``age_seconds`` is how old that is."""

    group: str
    kind: str | None
    state: str | None
    target_state: str | None
    lag_source: int | None
    lag_target: int | None
    sync: str
    why: str | None
    age_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return asdict(self)


def lag(offsets: Mapping[Partition, Committed], logs: Mapping[Partition, range]) -> int | None:
    """Return how many offsets a group has before it; None if that is not known of any partition.

    >>> orders = Partition("orders", 0)
    >>> lag({orders: Committed(3)}, {orders: range(0, 10)})
    7
    >>> lag({orders: Committed(3)}, {orders: range(5, 10)})
    5
    """
    known = [
        max(logs[one].stop - max(at.offset, logs[one].start), 0)
        for one, at in offsets.items()
        if one in logs
    ]
    return sum(known) if known else None


def report_of(
    decision: Decision,
    here: GroupListing | None,
    there: GroupListing | None,
    lags: tuple[int | None, int | None],
    failed: str = "",
) -> GroupReport:
    """Return what is told of a group after a pass; ``failed`` is why its offsets were not set."""
    why = decision.why
    return GroupReport(
        decision.group,
        here.kind if here else "",
        here.state if here else "",
        there.state if there else "",
        *lags,
        "failed" if failed else _STATES[why],
        failed or ("" if why is Why.THERE else why.value),
    )


def must_report(before: GroupsReport | None, now: GroupsReport) -> bool:
    """Claim: the row says something else now, or is old."""
    if before is None or before.groups != now.groups:
        return before is not None or bool(now.groups)
    return now.at_ms - before.at_ms >= QUIET / timedelta(milliseconds=1)


def group_statuses(rows: Rows, now_ms: int) -> tuple[GroupStatus, ...]:
    """Return the groups of a link, the worst first, as its rows tell."""
    report = read_passing(rows, GROUPS, GroupsReport)
    if report is None:
        return ()
    return statuses_of(report.groups, round(max(0, now_ms - report.at_ms) / 1000, 1))


def statuses_of(groups: Iterable[GroupReport], age_s: float = 0.0) -> tuple[GroupStatus, ...]:
    """Return groups as status shows them, the worst first."""
    return tuple(_status(one, age_s) for one in worst_first(groups))


def worst_first(groups: Iterable[GroupReport]) -> list[GroupReport]:
    """Return groups that failed first, then by their lag."""
    return sorted(groups, key=lambda one: (one.sync != "failed", -(one.lag_source or 0), one.group))


def _status(one: GroupReport, age_s: float) -> GroupStatus:
    return GroupStatus(
        one.group,
        one.kind or None,
        one.state or None,
        one.target_state or None,
        one.lag_source,
        one.lag_target,
        one.sync,
        one.why or None,
        age_s,
    )
