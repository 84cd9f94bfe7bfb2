"""``heliograph pause | resume | stop``: what is wanted of a link."""

import getpass
import socket
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.config.values import parse_pattern
from heliograph.control.commands import Asked, Effect, Steering, Verb, Wish
from heliograph.control.commands import steer as steered
from heliograph.links.setup import Setup
from heliograph.model.selection import matches
from heliograph.wiring import load_config, setups

DONE, FAILED = 0, 1
WAIT = timedelta(seconds=10)
_COLUMNS = (
    "link", "wanted", "paused", "added", "removed", "bytes_per_second", "changed", "effect",
)  # fmt: skip
_SHOWN_TOPICS = 20

_Command = Callable[..., Any]


def pattern(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Read an option that is a name or a regular expression."""
    try:
        return None if value is None else parse_pattern(value)
    except ValueError as wrong:
        raise click.BadParameter(f"{value!r} {wrong}.") from None


def steering(command: _Command) -> _Command:
    """Give a command what all take that change what is wanted of a link."""
    for add in (
        click.pass_obj,
        shared_options,
        option("--dry-run", is_flag=True, help="Print what would change, and change nothing."),
        option("--no-wait", is_flag=True, help="Do not wait until it has taken effect."),
    ):
        command = add(command)
    return command


topics_option = option(
    "--topics",
    metavar="REGEX",
    callback=pattern,
    help="Only these topics of the source: a name, or a regular expression for whole names.",
)


@click.command(short_help="Stop copying a link, or some of its topics, for a while.")
@topics_option
@click.argument("link", metavar="LINK")
@steering
def pause(session: Session, /, link: str, topics: str | None, dry_run: bool, no_wait: bool) -> int:
    """Stop copying a link, or some of its topics, until `resume`.

    What is on its way lands first; nothing is lost, and nothing is copied twice. Holds also for
    a `run` that is started later. Pausing what is paused already changes nothing.

    \b
    Examples:
      heliograph pause paris-dublin
      heliograph pause paris-dublin --topics 'payments\\..*'
      heliograph pause paris-dublin --dry-run
    """
    return steer(session, "pause", link, topics, dry_run=dry_run, wait=not no_wait)


@click.command(short_help="Go on with what was paused.")
@topics_option
@click.argument("link", metavar="LINK")
@steering
def resume(session: Session, /, link: str, topics: str | None, dry_run: bool, no_wait: bool) -> int:
    """Go on copying where it was paused; without --topics, everything that was paused.

    With --topics, takes back a `pause --topics` with the same REGEX, and nothing else.

    \b
    Examples:
      heliograph resume paris-dublin
      heliograph resume paris-dublin --topics 'payments\\..*'
    """
    return steer(session, "resume", link, topics, dry_run=dry_run, wait=not no_wait)


@click.command(short_help="End the run of a link.")
@click.argument("link", metavar="LINK")
@steering
def stop(session: Session, /, link: str, dry_run: bool, no_wait: bool) -> int:
    """End the run of a link, wherever it runs, in good order; other links of that run go on.

    `heliograph run` starts it again, and goes on where it ended.

    \b
    Example:
      heliograph stop paris-dublin
    """
    return steer(session, "stop", link, None, dry_run=dry_run, wait=not no_wait)


def steer(
    session: Session, verb: Verb, link: str, topics: str | None, *, dry_run: bool, wait: bool
) -> int:
    """Pause, resume or stop a link."""
    (setup,) = setups(load_config(session.file), [link])

    def warn(asked: Asked) -> None:
        _warn(session, verb, setup, asked, topics)

    return ask(
        session, setup, partial(steered, verb, topics), dry_run=dry_run, wait=wait, warn=warn
    )


def ask(
    session: Session,
    setup: Setup,
    wish: Wish,
    *,
    dry_run: bool,
    wait: bool,
    warn: Callable[[Asked], None] = lambda _: None,
) -> int:
    """Put what is wanted, and see it come true."""
    with Steering(setup) as steering:
        asked = steering.look(wish)
        warn(asked)
        if dry_run:
            return _show(session, setup, asked, "dry_run")
        is_long = wait and asked.is_driven
        waiting = render.busy(session, f"waiting until {setup.link.name} does so")
        with waiting if is_long else nullcontext():
            effect = steering.carry_out(asked, who(), WAIT if wait else None)
    return _show(session, setup, asked, effect)


def who() -> str:
    """Say who asks, for whoever wonders later; a container may have no name for its user."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def _warn(session: Session, verb: Verb, setup: Setup, asked: Asked, topics: str | None) -> None:
    link = setup.link.name
    if topics is None:
        return
    if asked.topics and not any(matches([topics], one) for one in asked.topics):
        more = len(asked.topics) - _SHOWN_TOPICS
        shown = ", ".join(asked.topics[:_SHOWN_TOPICS]) + (f" and {more} more" if more > 0 else "")
        render.remark(
            session,
            f"warning: {topics!r} matches no topic of {link} by now. Its topics: {shown}. A"
            " regular expression must match the whole name.",
        )
    if verb == "resume" and not asked.changes:
        paused = ", ".join(map(repr, asked.before.paused)) or "none"
        render.remark(
            session,
            f"warning: {topics!r} was not paused; name it as it was paused. Paused: {paused}.",
        )
    if verb == "resume" and asked.after.state != "active":
        render.remark(
            session,
            f"{link} as a whole is {asked.after.state}; to go on: heliograph resume {link}",
        )


def _show(session: Session, setup: Setup, asked: Asked, effect: Effect) -> int:
    link = setup.link.name
    if session.output != "table":
        render.show(session, [asked.as_dict(link, effect)], _COLUMNS, "")
    else:
        render.line(_sentence(link, asked, effect))
    return FAILED if effect == "not_confirmed" else DONE


def _sentence(link: str, asked: Asked, effect: Effect) -> str:
    """Say in words what came of it."""
    changes = "; ".join(asked.changes)
    if effect == "dry_run":
        return f"{link}: would change {changes}" if changes else f"{link}: nothing would change"
    what = f"{link}: {changes}" if changes else f"{link}: nothing to change"
    wanted = asked.after.state
    if effect == "noted" and wanted == "stopped":
        return f"{what}. No driver is alive, so nothing was running."
    tails = {
        "noted": f"Noted. No driver is alive: it takes effect at the next heliograph run {link}.",
        "asked": f"Its driver follows within seconds: see heliograph status {link}.",
        "done": "In effect.",
        "not_confirmed": f"Asked, but its driver did not follow within {WAIT.seconds} s. It will,"
        f" unless it is in trouble: see heliograph status {link}.",
    }
    return f"{what}. {tails[effect]}"
