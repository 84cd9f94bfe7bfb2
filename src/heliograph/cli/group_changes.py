"""``heliograph groups reset | snapshot | rollback``: offsets that people change, and back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.group_options import changing, group_option, keep, of_link, opened, within
from heliograph.cli.options import Session, option
from heliograph.cli.steer import pattern, who
from heliograph.config.values import parse_start
from heliograph.errors import HeliographError, RunFailed
from heliograph.links.group_changes import (
    End,
    To,
    carry_out,
    plan_reset,
    plan_rollback,
    take_snapshot,
)
from heliograph.model.group_changes import Change
from heliograph.model.moments import moment
from heliograph.model.snapshots import Snapshot, read_snapshots

DONE = 0
_CHANGED = ("group", "topic", "partition", "before", "after", "outcome")
_SNAPSHOT = ("id", "at", "by", "why", "groups", "unread")


def _time(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = parse_start(value)
    except ValueError as wrong:
        raise click.BadParameter(f"{value!r} {wrong}.") from None
    if not isinstance(found, datetime):
        raise click.BadParameter(f"{value!r} is not a time: see --to-earliest and --to-latest.")
    return found


@click.command(short_help="Set groups to a time, an end or an offset.")
@group_option(required=True)
@option("--topics", metavar="REGEX", callback=pattern, help="Only these topics of the source.")
@option("--to-time", metavar="TIME", callback=_time, help="To the first record at or after it.")
@option("--to-earliest", is_flag=True, help="To the oldest record.")
@option("--to-latest", is_flag=True, help="To the end: only what comes from now on is read.")
@option(
    "--to-offset",
    type=click.IntRange(0),
    help="To this offset in every partition, as far as its log holds it.",
)
@option(
    "--on",
    type=click.Choice(["source", "target"]),
    default="target",
    help="Which cluster's offsets to set; the target's unless told.",
)
@changing
def reset(
    session: Session,
    /,
    link: str,
    groups: tuple[str, ...],
    topics: str | None,
    to_time: datetime | None,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    on: End,
    dry_run: bool,
) -> int:
    """Set groups to another place, in all partitions of the link's topics.

    The groups must be idle there. Where nothing moves on the source, `sync.groups` leaves a group
    that was set back on the target as it is; where its consumers go on, it follows them again.

    Before offsets on the target are set, all are kept (see `groups snapshot`). With --on source
    nothing is kept: note what it prints under BEFORE.

    \b
    Examples:
      heliograph groups reset paris-dublin --group billing --to-time 2026-01-31T08:00
      heliograph groups reset paris-dublin --group billing --topics orders --to-earliest --dry-run
      heliograph groups reset paris-dublin --group 'b.*' --on source --to-latest
    """
    to = _where_to(to_time, to_earliest, to_latest, to_offset)
    with opened(session, link, f"resetting groups of {link}") as sync:
        changes = plan_reset(sync.ends, on, groups, topics, to, within())
        failed: Mapping[str, HeliographError] = {}
        if changes and not dry_run:
            if on == "target":
                keep(session, sync.ends, "reset", tuple({one.group for one in changes}))
            failed = carry_out(sync.ends, on, changes, within())
    return _show(session, changes, failed, dry_run)


def _where_to(time: datetime | None, earliest: bool, latest: bool, offset: int | None) -> To:
    given: list[To] = [one for one in (time, offset) if one is not None]
    given += ["earliest"] if earliest else []
    given += ["latest"] if latest else []
    if len(given) != 1:
        raise click.UsageError(
            "give exactly one of --to-time, --to-earliest, --to-latest and --to-offset."
        )
    return given[0]


@click.command(short_help="Keep where groups are on the target, to go back to.")
@option("--list", "is_list", is_flag=True, help="Show the snapshots that there are.")
@of_link
def snapshot(session: Session, /, link: str, is_list: bool) -> int:
    """Keep the offsets of the link's groups on the target, in the link's own topics there.

    Taken by itself before `groups sync`, `groups reset`, `groups rollback` and recovery verbs set
    an offset on the target. The last twenty are kept.

    \b
    Examples:
      heliograph groups snapshot paris-dublin
      heliograph groups snapshot paris-dublin --list
    """
    with opened(session, link, f"looking at the groups of {link}") as sync:
        if is_list:
            found = read_snapshots(sync.ends.read(within()).state)
        else:
            found = [take_snapshot(sync.ends, who(), "snapshot", within())]
            if found[0].lacks:
                render.remark(session, found[0].lacks)
    none = f"There are no snapshots of {link}."
    render.show(session, list(map(_snapshot, found)), _SNAPSHOT, none)
    return DONE


@click.command(short_help="Set groups on the target back to a snapshot.")
@changing
@click.argument("snapshot_id", metavar="[ID]", required=False)
def rollback(session: Session, /, link: str, snapshot_id: str | None, dry_run: bool) -> int:
    """Set the offsets of groups on the target back to a snapshot, the newest unless one is named.

    Offsets that were not there then are deleted. Groups that the snapshot does not hold, and
    mirrors that were made anew since, are left alone. The groups that change must be idle. Takes a
    snapshot itself, so it can be taken back.

    \b
    Examples:
      heliograph groups rollback paris-dublin --dry-run
      heliograph groups rollback paris-dublin 20260131T080000.123Z
    """
    with opened(session, link, f"setting the groups of {link} back") as sync:
        say = partial(render.remark, session)
        taken, changes = plan_rollback(sync.ends, snapshot_id, within(), say)
        render.remark(session, f"to the snapshot {taken.id}, before {taken.why}, by {taken.by}")
        failed: Mapping[str, HeliographError] = {}
        if changes and not dry_run:
            keep(session, sync.ends, "rollback", tuple({one.group for one in changes}))
            failed = carry_out(sync.ends, "target", changes, within())
    return _show(session, changes, failed, dry_run)


def _show(
    session: Session,
    changes: Sequence[Change],
    failed: Mapping[str, HeliographError],
    dry_run: bool,
) -> int:
    rows = [_changed(one, dry_run, one.group in failed) for one in changes]
    render.show(session, rows, _CHANGED, "Everything is there already: nothing to change.")
    if failed:
        told = "\n  - ".join(f"{group}: {error}" for group, error in sorted(failed.items()))
        raise RunFailed(f"some groups could not be changed; the others were:\n  - {told}")
    return DONE


def _changed(one: Change, dry_run: bool, has_failed: bool) -> dict[str, Any]:
    done = "set" if one.after else "deleted"
    would = "would set" if one.after else "would delete"
    return {
        "group": one.group,
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "before": one.before,
        "after": one.after.offset if one.after else None,
        "outcome": would if dry_run else "failed" if has_failed else done,
    }


def _snapshot(one: Snapshot) -> dict[str, Any]:
    return {
        "id": one.id,
        "at": moment(one.at_ms),
        "by": one.by,
        "why": one.why,
        "groups": one.groups,
        "unread": one.unread,
    }
