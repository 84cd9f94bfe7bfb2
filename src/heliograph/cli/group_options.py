"""What the commands of ``heliograph groups`` have in common."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.steer import who
from heliograph.config.values import parse_pattern
from heliograph.kafka.deadline import Deadline
from heliograph.links.group_changes import take_snapshot
from heliograph.links.group_ends import GroupEnds
from heliograph.links.group_sync import GroupSync
from heliograph.model.snapshots import Snapshot
from heliograph.wiring import load_config, setups

PATIENCE = timedelta(seconds=30)
_Command = Callable[..., Any]


def _patterns(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for one in value:
        try:
            parse_pattern(one)
        except ValueError as wrong:
            raise click.BadParameter(f"{one!r} {wrong}.") from None
    return value


def group_option(**settings: Any) -> Callable[[_Command], _Command]:
    """Make the option that names groups."""
    return option(
        "--group",
        "groups",
        multiple=True,
        metavar="GROUP",
        callback=_patterns,
        help="Only these groups: a name, or a regular expression for whole names; repeat it.",
        **settings,
    )


def of_link(command: _Command) -> _Command:
    """Give a command the link that it is about, and what all commands take."""
    for add in (click.pass_obj, shared_options, click.argument("link", metavar="LINK")):
        command = add(command)
    return command


def changing(command: _Command) -> _Command:
    """Give a command what all take that change something."""
    text = "Print what would change, and change nothing."
    return option("--dry-run", is_flag=True, help=text)(of_link(command))


@contextmanager
def opened(session: Session, link: str, doing: str) -> Iterator[GroupSync]:
    """Open both ends of a link for as long as the work takes."""
    (setup,) = setups(load_config(session.file), [link])
    with closing(GroupSync(setup)) as sync, render.busy(session, doing):
        yield sync


def within() -> Deadline:
    """Return by when a command has its answers."""
    return Deadline.after(PATIENCE)


def keep(session: Session, ends: GroupEnds, why: str, also: tuple[str, ...] = ()) -> Snapshot:
    """Take a snapshot before something changes, and say how to go back to it."""
    taken = take_snapshot(ends, who(), why, within(), also)
    link = ends.setup.link.name
    render.remark(
        session, f"to undo this on the target: heliograph groups rollback {link} {taken.id}"
    )
    if taken.lacks:
        render.remark(session, taken.lacks)
    return taken
