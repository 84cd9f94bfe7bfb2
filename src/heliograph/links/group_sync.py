"""One pass over the groups of a link: look at both ends, decide, set offsets, remember. It blocks.

What cannot be done for one group is told, and stops no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heliograph.errors import HeliographError, RequestRefused
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline
from heliograph.links.group_ends import GroupEnds, Offsets, Sight
from heliograph.links.setup import Setup
from heliograph.links.state_rows import put_state
from heliograph.model.checkpoints import checkpoint_key
from heliograph.model.control import read_passing, row
from heliograph.model.group_reports import (
    GROUPS,
    GroupReport,
    GroupsReport,
    lag,
    must_report,
    report_of,
)
from heliograph.model.group_sync import Decision, Ground, decide, may_delete


@dataclass(frozen=True, slots=True)
class Synced:
    """What came of a pass. ``failed`` are groups that could not be read or set, and why."""

    decisions: tuple[Decision, ...] = ()
    failed: Mapping[str, HeliographError] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    report: GroupsReport = field(default_factory=lambda: GroupsReport(0))

    @property
    def errors(self) -> list[str]:
        """Say what failed, once for groups that failed alike."""
        alike: dict[str, list[str]] = {}
        for group, error in sorted(self.failed.items()):
            alike.setdefault(str(error).replace(group, "…"), []).append(group)
        return [_told(groups, self.failed[groups[0]]) for groups in alike.values()]


class GroupSync:
    """Brings the offsets of a link's groups to the target. For one thread at a time."""

    def __init__(self, setup: Setup, mirrors: Mapping[str, str] | None = None) -> None:
        self._setup = setup
        self.ends = GroupEnds(setup, mirrors)

    def close(self) -> None:
        """Close the connections."""
        self.ends.close()

    def run(
        self,
        deadline: Deadline,
        *,
        sources: Mapping[str, Offsets] | None = None,
        deletes: bool = False,
    ) -> Synced:
        """Make one pass, from the live source, or from offsets that are known otherwise.

        Raises what stands in the way of all groups: an end that cannot be reached.
        """
        sight = self.ends.look(deadline, sources=sources)
        return self.carry_out(sight, decide_all(sight), deadline, deletes=deletes)

    def carry_out(
        self,
        sight: Sight,
        decisions: Sequence[Decision],
        deadline: Deadline,
        *,
        deletes: bool = False,
    ) -> Synced:
        """Set what was decided, and put what to remember and what to tell into the state topic."""
        target = self.ends.target.groups
        failed = target.commit_each({one.group: one.offsets for one in decisions}, deadline)
        decisions = self._joined(decisions, failed, sight.ground, deadline)
        now_ms = clock.wall_ms()
        rows: dict[bytes, bytes | None] = {}
        for one in decisions:
            found = one.checkpoint(now_ms, has_moved=one.group not in failed)
            if found is not None:
                rows[checkpoint_key(one.group)] = row(found)
        gone = self._gone(sight, deadline)
        deleted = self._delete(sight, gone, deadline) if deletes else ()
        rows |= {checkpoint_key(group): None for group in deleted}
        errors = {**sight.failed, **failed}
        left = sorted(gone - set(deleted))
        told = reports(sight, decisions, errors, has_moved=True)
        report = GroupsReport(now_ms, (*told, *map(_report_gone, left)))
        before = read_passing(sight.books.state, GROUPS, GroupsReport)
        if sight.is_whole and must_report(before, report):
            rows[GROUPS] = row(report)
        put_state(self.ends.target_cluster, self._setup.link.name, rows, deadline)
        return Synced(tuple(decisions), errors, deleted, report)

    def _joined(
        self,
        decisions: Sequence[Decision],
        failed: dict[str, HeliographError],
        ground: Ground,
        deadline: Deadline,
    ) -> list[Decision]:
        """Leave alone whatever group somebody joined since we looked: that is no failure."""
        refused = {group for group, one in failed.items() if isinstance(one, RequestRefused)}
        there = self.ends.listing(self.ends.target, deadline) if refused else {}
        active = {group for group in refused if group in there and there[group].is_active}
        for group in active:
            del failed[group]
        return [
            decide(replace(one.sides, is_active=True), ground) if one.group in active else one
            for one in decisions
        ]

    # Deletions

    def _gone(self, sight: Sight, deadline: Deadline) -> set[str]:
        """Return groups that we know and that are certainly not on the source any more.

        A listing leaves out what may not be described; asked by name, that is an error.
        """
        if not sight.is_whole or not sight.here:
            return set()  # it was not asked for all, or hides everything
        lost = [
            group
            for group in sight.checkpoints
            if group not in sight.here and self.ends.selects(group)
        ]
        found = self.ends.source.groups.committed_each(lost, deadline)
        return {group for group, offsets in found.items() if offsets == {}}

    def _delete(self, sight: Sight, gone: Collection[str], deadline: Deadline) -> tuple[str, ...]:
        """Delete groups on the target that are gone from the source, and that nobody uses here."""
        groups, places = self.ends.target.groups, set(sight.ground.mirrors.values())
        found = groups.committed_each(gone, deadline)
        deleted = []
        for group, offsets in sorted(found.items()):
            listed = sight.there.get(group)
            if isinstance(offsets, HeliographError) or (listed and listed.is_active):
                continue
            ours = {one: at for one, at in offsets.items() if one in places}
            if not may_delete(sight.checkpoints[group], ours, sight.ground.mirrors):
                continue
            if ours and offsets.keys() == ours.keys():
                groups.delete(group, deadline)
            elif ours:
                groups.forget(group, ours, deadline)
            deleted.append(group)
        return tuple(deleted)


def decide_all(sight: Sight) -> list[Decision]:
    """Return what to do for each group that was seen."""
    return [decide(one, sight.ground) for _, one in sorted(sight.sides.items())]


def reports(
    sight: Sight,
    decisions: Iterable[Decision],
    failed: Mapping[str, HeliographError],
    *,
    has_moved: bool,
) -> list[GroupReport]:
    """Return what to tell of each group, before its moves were made or after."""
    known = {one.group for one in decisions}
    found = [_report(sight, one, failed, has_moved) for one in decisions]
    unread = sorted(failed.keys() - known)
    return found + [GroupReport(group, sync="failed", why=str(failed[group])) for group in unread]


def _report(
    sight: Sight, decision: Decision, failed: Mapping[str, HeliographError], has_moved: bool
) -> GroupReport:
    group, ground = decision.group, sight.ground
    error = failed.get(group)
    is_due = error is None and not has_moved and bool(decision.moves)
    target = decision.sides.target
    if error is None and has_moved:
        target = {**target, **decision.offsets}
    lags = (lag(decision.sides.source, ground.source_logs), lag(target, ground.target_logs))
    here, there = sight.here.get(group), sight.there.get(group)
    found = report_of(decision, here, there, lags, str(error) if error else "")
    return replace(found, sync="due", why="") if is_due else found


def _report_gone(group: str) -> GroupReport:
    return GroupReport(group, sync="gone", why="the group is not on the source any more")


def _told(groups: Sequence[str], error: HeliographError) -> str:
    more = len(groups) - 1
    also = f" (and {more} more groups)" if more else ""
    return f"group {groups[0]}{also}: {error}"
