"""``heliograph groups``: the consumer groups of a link, on both sides."""

from collections.abc import Sequence
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.group_changes import reset, rollback, snapshot
from heliograph.cli.group_options import changing, group_option, keep, of_link, opened, within
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.status import GROUP, group_row
from heliograph.errors import RunFailed, Unsafe
from heliograph.links.group_sync import decide_all, reports
from heliograph.links.translating import Translated, translate_groups, translate_one
from heliograph.model.group_reports import statuses_of
from heliograph.model.group_sync import Decision, Left, Move, Why
from heliograph.model.selection import is_topic_name
from heliograph.model.topics import Partition

DONE = 0
_TRANSLATED = (
    "group", "topic", "partition", "mirror", "source_offset", "target_offset", "reason",
)  # fmt: skip
_SYNCED = ("group", "topic", "partition", "mirror", "source_offset", "before", "after", "outcome")


@click.group(short_help="Consumer groups of a link: offsets on both sides.")
@shared_options
def groups() -> None:
    """Consumer groups of a link: list, translate and sync their offsets, reset, go back.

    While a link runs, `sync.groups` brings the offsets of its groups to the target by itself.
    """


groups.add_command(reset)
groups.add_command(snapshot)
groups.add_command(rollback)


@groups.command("list", short_help="The groups of a link, with their lag on both sides.")
@group_option()
@of_link
def list_groups(session: Session, /, link: str, groups: tuple[str, ...]) -> int:
    """Show the groups that have offsets on topics of the link, as both clusters tell them now.

    `heliograph status LINK --groups` shows the same as it was last reported, without asking the
    source.

    \b
    Example:
      heliograph groups list paris-dublin
    """
    with opened(session, link, f"looking at the groups of {link}") as sync:
        sight = sync.ends.look(within(), only=groups)
    found = statuses_of(reports(sight, decide_all(sight), sight.failed, has_moved=False))
    if session.output == "table":
        columns = tuple(one for one in GROUP if one != "age")
        none = f"No group has an offset on a topic that {link} copies."
        render.show(session, [group_row(one) for one in found], columns, none)
    else:
        render.show(session, [one.as_dict() for one in found], (), "")
    return DONE


@groups.command(short_help="What offsets of the source are on the target.")
@group_option()
@option("--topic", metavar="TOPIC", help="A topic of the source, for one offset.")
@option("--partition", type=click.IntRange(0), help="Its partition; 0 unless told.")
@option("--offset", type=click.IntRange(0), help="The offset to translate.")
@option("--back", is_flag=True, help="The offset is one of the mirror: translate it back.")
@of_link
def translate(
    session: Session,
    /,
    link: str,
    groups: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    offset: int | None,
    back: bool,
) -> int:
    """Translate one offset, the offsets of some groups, or those of all; changes nothing.

    Exact: the offset of the same record. Where there is none, the reason says so: a hole or a
    marker gives the next record, what is not copied yet the end, what is gone the start.

    \b
    Examples:
      heliograph groups translate paris-dublin --topic orders --partition 3 --offset 4711
      heliograph groups translate paris-dublin --topic orders --offset 12 --back
      heliograph groups translate paris-dublin --group billing -o json
    """
    if (topic is None) != (offset is None) or (topic is None and (back or partition is not None)):
        raise click.UsageError(
            "--topic and --offset go together; --partition and --back with them."
        )
    if topic is not None and groups:
        raise click.UsageError("give an offset, or groups, not both.")
    with opened(session, link, f"translating offsets of {link}") as sync:
        if topic is None or offset is None:
            found = translate_groups(sync.ends.look(within(), only=groups))
        else:
            here = Partition(topic, partition or 0)
            found = [translate_one(sync.ends, here, offset, within(), back=back)]
    columns = _TRANSLATED if topic is None else _TRANSLATED[1:]
    render.show(session, list(map(_translated, found)), columns, "There is nothing to translate.")
    return DONE


@groups.command(short_help="Bring the offsets of groups to the target, once.")
@group_option()
@changing
def sync(session: Session, /, link: str, groups: tuple[str, ...], dry_run: bool) -> int:
    """Set the offsets of the link's groups on the target, translated, once and now.

    A group that is active on the target is left alone; named by --group, it is refused. Nothing
    goes backwards, unless the group was reset on the source and nobody has used it on the target.

    \b
    Examples:
      heliograph groups sync paris-dublin --dry-run
      heliograph groups sync paris-dublin --group billing
    """
    with opened(session, link, f"syncing the groups of {link}") as sync:
        sight = sync.ends.look(within(), only=groups)
        decisions = decide_all(sight)
        _refuse_active(decisions, [one for one in groups if is_topic_name(one)])
        failed = sight.failed
        moved = tuple(one.group for one in decisions if one.moves)
        if moved and not dry_run:
            keep(session, sync.ends, "sync", moved)
        if not dry_run:
            synced = sync.carry_out(sight, decisions, within())
            decisions, failed = list(synced.decisions), synced.failed
    rows = [row for one in decisions for row in _synced(one, dry_run, one.group in failed)]
    render.show(session, rows, _SYNCED, f"No group has an offset on a topic that {link} copies.")
    if failed:
        told = "\n  - ".join(f"{group}: {error}" for group, error in sorted(failed.items()))
        raise RunFailed(f"some groups could not be synced; the others were:\n  - {told}")
    return DONE


def _refuse_active(decisions: Sequence[Decision], named: Sequence[str]) -> None:
    active = [one.group for one in decisions if one.group in named and one.why is Why.ACTIVE]
    if active:
        raise Unsafe(
            f"{', '.join(active)}: the group is active on the target, and its members would go on"
            " from where they are. Nothing was changed. Stop them, then do this again"
        )


def _translated(one: Translated) -> dict[str, Any]:
    return {
        "group": one.group or None,
        "topic": one.source.topic,
        "partition": one.source.partition,
        "mirror": one.mirror.topic,
        "source_offset": one.source_offset,
        "target_offset": one.target_offset,
        "reason": one.reason.value if one.reason else Why.UNKNOWN.value,
    }


def _synced(decision: Decision, dry_run: bool, has_failed: bool) -> list[dict[str, Any]]:
    steps: list[Move | Left] = [*decision.moves, *decision.left]
    steps.sort(key=lambda one: one.source)
    return [_step(decision.group, one, dry_run, has_failed) for one in steps]


def _step(group: str, step: Move | Left, dry_run: bool, has_failed: bool) -> dict[str, Any]:
    before: int | None
    after: int | None
    if isinstance(step, Move):
        done = "would set" if dry_run else "failed" if has_failed else "set"
        before, after, outcome = step.before, step.after, f"{done}: {step.reason.value}"
    else:
        before, after, outcome = step.at, step.at, f"left: {step.why.value}"
    return {
        "group": group,
        "topic": step.source.topic,
        "partition": step.source.partition,
        "mirror": step.mirror.topic,
        "source_offset": step.source_offset,
        "before": before,
        "after": after,
        "outcome": outcome,
    }
