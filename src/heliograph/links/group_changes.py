"""Changes of groups that people ask for: what they would be, and carrying them out. It blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Literal

from heliograph.copy.finding import find_ranges
from heliograph.errors import ConfigError, HeliographError, Unsafe
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.links.group_ends import GroupEnds, topics_at
from heliograph.links.group_times import mirror_offsets_at
from heliograph.links.own_topics import make_own_topics
from heliograph.links.state_rows import put_state
from heliograph.model.control import Rows
from heliograph.model.findings import some
from heliograph.model.group_changes import (
    Change,
    active_groups,
    on,
    reset_changes,
    rollback_changes,
    within,
)
from heliograph.model.groups import Committed
from heliograph.model.moments import stamp
from heliograph.model.selection import is_topic_name, matches
from heliograph.model.snapshots import (
    KEPT,
    Held,
    Mirror,
    Snapshot,
    expired_rows,
    name_ms,
    read_saved,
    read_snapshots,
    snapshot_rows,
)
from heliograph.model.topics import Partition

End = Literal["source", "target"]
To = Literal["earliest", "latest"] | datetime | int
"""Where to: an end of the log, a time, or an offset."""
Groups = dict[str, dict[Partition, Committed]]


def plan_reset(
    ends: GroupEnds,
    where: End,
    groups: Collection[str],
    topics: str | None,
    to: To,
    deadline: Deadline,
) -> list[Change]:
    """Return what a reset would change; raise Unsafe where a group is active.

    ``groups`` are names and patterns, ``topics`` a pattern of source topics. A name is taken as
    it is: a group may be set up before anybody has ever been in it.
    """
    admin = ends.target if where == "target" else ends.source
    listed = {one.group: one for one in admin.groups.listing(deadline=deadline)}
    chosen = {one for one in groups if is_topic_name(one)}
    chosen |= {group for group in listed if matches(groups, group)}
    if not chosen:
        raise ConfigError(
            f"no group on the {where} fits {', '.join(groups)}. Nothing was changed. heliograph"
            f" groups list {ends.setup.link.name} shows those of the link"
        )
    mirrors = _chosen(ends, topics, deadline)
    wanted = _wanted(ends, where, mirrors, to, deadline)
    now = {
        group: on(offsets, wanted)
        for group, offsets in admin.groups.committed(chosen, deadline).items()
    }
    changes = reset_changes(chosen, now, wanted)
    _refuse_active(ends, where, changes, deadline)
    return changes


def plan_rollback(
    ends: GroupEnds,
    wanted: str | None,
    deadline: Deadline,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Snapshot, list[Change]]:
    """Return a snapshot, the newest unless told, and what going back to it would change.

    What it does not hold stays as it is: other groups, and mirrors that were made anew since, of
    which it knows nothing. ``say`` is told of what it should hold and does not.
    """
    books, link = ends.read(deadline), ends.setup.link.name
    taken, held = _find(link, books.state, wanted)
    places = {*ends.mirrors(books).values(), *chain.from_iterable(held.groups.values())}
    mirrors = _mirrors(ends, places, deadline)
    places = {one for one in places if held.is_about(one, mirrors)}
    then = {group: on(offsets, places) for group, offsets in held.groups.items()}
    _tell_left(link, taken, held, then, say)
    now, _ = _read(ends, then, places, deadline)
    changes = rollback_changes(now, then)
    _refuse_active(ends, "target", changes, deadline)
    return taken, changes


def _find(link: str, rows: Rows, wanted: str | None) -> tuple[Snapshot, Held]:
    """Return a snapshot that is whole, the newest unless told."""
    snapshots = read_snapshots(rows)
    taken = next((one for one in snapshots if wanted in (None, one.id)), None)
    if taken is None:
        known = ", ".join(one.id for one in snapshots) or "none"
        named = "no snapshot" if wanted is None else f"no snapshot {wanted}"
        raise ConfigError(f"link {link} has {named}. Nothing was changed. Known: {known}")
    held = read_saved(rows, taken)
    if held is None:
        raise ConfigError(
            f"the snapshot {taken.id} is not whole any more. Nothing was changed. Choose another:"
            f" heliograph groups snapshot {link} --list"
        )
    return taken, held


def take_snapshot(
    ends: GroupEnds, by: str, why: str, deadline: Deadline, also: Collection[str] = ()
) -> Snapshot:
    """Keep where the link's groups are on the target, and ``also`` others, if only nowhere.

    Groups that cannot be read are counted and named, and not held: nobody may conclude that they
    were nowhere. Of earlier snapshots, the last few stay.
    """
    link = ends.setup.link.name
    books = ends.read(deadline)
    places = set(ends.mirrors(books).values())
    # Before the offsets: those of a mirror that is made anew in between are not gone back to.
    mirrors = _mirrors(ends, places, deadline)
    wanted = {*ends.listing(ends.target, deadline), *also}
    known, unread = _read(ends, wanted, places, deadline)
    groups = {group: here for group, here in known.items() if here or group in also}
    if not books.state:
        make_own_topics(ends.target, link, deadline)
    at_ms = name_ms(books.state, clock.wall_ms())
    taken = Snapshot(stamp(at_ms), at_ms, by, why, len(groups)).without(unread)
    put_state(ends.target_cluster, link, snapshot_rows(taken, groups, mirrors), deadline)
    put_state(ends.target_cluster, link, expired_rows(books.state, KEPT - 1), deadline)
    return taken


def carry_out(
    ends: GroupEnds, where: End, changes: Sequence[Change], deadline: Deadline
) -> dict[str, HeliographError]:
    """Make the changes, group by group; return those that failed."""
    admin = ends.target if where == "target" else ends.source
    failed: dict[str, HeliographError] = {}
    for group in sorted({one.group for one in changes}):
        try:
            _change(admin, group, [one for one in changes if one.group == group], deadline)
        except HeliographError as failure:
            failed[group] = failure
    return failed


def _change(admin: Admin, group: str, changes: Sequence[Change], deadline: Deadline) -> None:
    put = {one.partition: one.after for one in changes if one.after is not None}
    gone = [one.partition for one in changes if one.after is None]
    if put:
        admin.groups.commit(group, put, deadline)
    if gone:
        admin.groups.forget(group, gone, deadline)


def _refuse_active(
    ends: GroupEnds, where: End, changes: Sequence[Change], deadline: Deadline
) -> None:
    admin = ends.target if where == "target" else ends.source
    listed = {one.group: one for one in admin.groups.listing(deadline=deadline)}
    active = active_groups(changes, listed)
    if active:
        name = getattr(ends.setup.link, where)
        raise Unsafe(
            f"{', '.join(active)}: somebody is in the group on {name}, and would go on from where"
            " it is. Nothing was changed. Stop its consumers there, wait until the group is Empty"
            f" (heliograph groups list {ends.setup.link.name}), then do this again"
        )


def _chosen(ends: GroupEnds, topics: str | None, deadline: Deadline) -> dict[Partition, Partition]:
    """Return the mirror partitions of some topics, by source partition."""
    mirrors = ends.mirrors(ends.read(deadline))
    chosen = {
        one: mirror
        for one, mirror in mirrors.items()
        if topics is None or matches([topics], one.topic)
    }
    if not mirrors:
        raise ConfigError(
            f"link {ends.setup.link.name} has copied no topic yet. Nothing was changed"
        )
    if not chosen:
        known = ", ".join(sorted({one.topic for one in mirrors}))
        raise ConfigError(
            f"{topics} fits no topic that {ends.setup.link.name} has copied. Nothing was changed."
            f" Its topics: {known}"
        )
    return chosen


def _wanted(
    ends: GroupEnds,
    where: End,
    mirrors: Mapping[Partition, Partition],
    to: To,
    deadline: Deadline,
) -> dict[Partition, int]:
    """Return where to set groups, by partition of the cluster where that is done."""
    if isinstance(to, datetime) and where == "target":
        return mirror_offsets_at(ends, mirrors, _in_ms(to), deadline)
    if where == "target":
        return _offsets(ends.target_cluster, set(mirrors.values()), to, deadline)
    return _offsets(ends.source_cluster, mirrors.keys(), to, deadline)


def _offsets(
    cluster: Cluster, parts: Collection[Partition], to: To, deadline: Deadline
) -> dict[Partition, int]:
    if isinstance(to, int):
        logs = find_ranges(cluster, parts, deadline)
        for log in logs.values():
            if isinstance(log, HeliographError):
                raise log
        return {one: within(to, log) for one, log in logs.items() if isinstance(log, range)}
    at = {"earliest": EARLIEST, "latest": LATEST}[to] if isinstance(to, str) else _in_ms(to)
    found = list_offsets(cluster, dict.fromkeys(parts, at), deadline)
    late = [one for one, offset in found.items() if offset < 0]
    return found | (list_offsets(cluster, dict.fromkeys(late, LATEST), deadline) if late else {})


def _read(
    ends: GroupEnds, groups: Collection[str], places: Collection[Partition], deadline: Deadline
) -> tuple[Groups, list[str]]:
    """Return the offsets of groups in some partitions, and the groups that may not be read."""
    found = ends.target.groups.committed_each(groups, deadline)
    known: Groups = {}
    for group, offsets in found.items():
        if not isinstance(offsets, HeliographError):
            known[group] = on(offsets, places)
    return known, sorted(found.keys() - known.keys())


def _mirrors(
    ends: GroupEnds, parts: Collection[Partition], deadline: Deadline
) -> dict[str, Mirror]:
    found = topics_at(ends.target_cluster, {one.topic for one in parts}, deadline)
    return {
        topic: Mirror(str(view.topic_id), len(view.partitions)) for topic, view in found.items()
    }


def _tell_left(
    link: str, taken: Snapshot, held: Held, then: Groups, say: Callable[[str], None]
) -> None:
    """Say what of a snapshot cannot be gone back to; raise Unsafe where that is all of it."""
    topics = {one.topic for offsets in held.groups.values() for one in offsets}
    gone = topics - {one.topic for offsets in then.values() for one in offsets}
    if gone and gone == topics:
        raise Unsafe(
            f"{some(sorted(gone))}: made anew since the snapshot {taken.id}, or gone. Its offsets"
            " mean nothing in another topic. Nothing was changed. Choose another:"
            f" heliograph groups snapshot {link} --list"
        )
    if gone:
        say(
            f"{some(sorted(gone))}: made anew since, or gone. The offsets of the snapshot mean"
            " nothing in another topic: groups stay there where they are"
        )
    if taken.lacks:
        say(taken.lacks)


def _in_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
