"""``heliograph topics``: the topics of a link; ``add`` and ``remove`` change them as it runs."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option
from heliograph.cli.status import topic_table
from heliograph.cli.steer import DONE, ask, steering
from heliograph.config.values import parse_start, parse_topic_pattern
from heliograph.control.commands import Asked, add_topics, remove_topics
from heliograph.control.statuses import Statuses
from heliograph.links.setup import Setup, in_ms
from heliograph.model.policies import Start
from heliograph.model.selection import matches
from heliograph.wiring import load_config, setups

_VERBS = ("add", "remove")
_PATIENCE = timedelta(seconds=10)


def _start(_: click.Context, __: click.Parameter, value: str | None) -> Start | None:
    try:
        return None if value is None else in_ms(parse_start(value))
    except ValueError as wrong:
        raise click.BadParameter(f"{value!r} {wrong}.") from None


@click.command(short_help="The topics of a link; add and remove some while it runs.")
@click.argument("words", nargs=-1, required=True, metavar="LINK [add|remove TOPIC...]")
@option(
    "--start",
    callback=_start,
    metavar="WHEN",
    help="With add: where they begin, earliest, latest or a time; else as the file says.",
)
@steering
def topics(
    session: Session,
    /,
    words: tuple[str, ...],
    start: Start | None,
    dry_run: bool,
    no_wait: bool,
) -> int:
    """Show the topics of a link, or add and remove some; the other topics are not disturbed.

    TOPIC is a name, or a regular expression for whole names. What is added or removed is kept
    with the link, on its target, and counts until it is taken back by the opposite; what the file
    excludes stays excluded. A topic that is removed keeps its mirror, and goes on where it ended
    once it is added again.

    \b
    Examples:
      heliograph topics paris-dublin
      heliograph topics paris-dublin add invoices 'audit\\..*'
      heliograph topics paris-dublin add clicks --start latest
      heliograph topics paris-dublin remove clicks --dry-run
    """
    verb, link, patterns = _read(words)
    (setup,) = setups(load_config(session.file), [link])
    if verb is None:
        return _show(session, setup)
    wish = partial(remove_topics, patterns)
    if verb == "add":
        wish = partial(add_topics, patterns, start)
    elif start is not None:
        raise click.UsageError("--start goes with add.")

    def warn(asked: Asked) -> None:
        for text in _warnings(setup, asked, verb, patterns):
            render.remark(session, f"warning: {text}")

    return ask(session, setup, wish, dry_run=dry_run, wait=not no_wait, warn=warn)


def _read(words: Sequence[str]) -> tuple[str | None, str, tuple[str, ...]]:
    """Return the verb, the link and the topics; the verb may stand before or behind the link."""
    if len(words) == 1:
        return None, words[0], ()
    link, verb = words[:2] if words[1] in _VERBS else (words[1], words[0])
    if verb not in _VERBS:
        raise click.UsageError(f"{verb!r} is neither add nor remove.")
    if not words[2:]:
        raise click.UsageError(f"no topic to {verb} is named.")
    for one in words[2:]:
        try:
            parse_topic_pattern(one)
        except ValueError as wrong:
            raise click.UsageError(f"{one!r} {wrong}.") from None
    return verb, link, tuple(dict.fromkeys(words[2:]))


def _warnings(setup: Setup, asked: Asked, verb: str, patterns: Sequence[str]) -> list[str]:
    link = setup.link
    if verb == "add":
        excluded = [
            f"{one} stays excluded: exclude of {link.name} in the file wins"
            for one in patterns
            if matches(link.exclude, one)
        ]
        return excluded + [
            f"{one} stays removed: {', '.join(asked.after.removed)} was removed, and wins. Add that"
            " again to take it back"
            for one in patterns
            if matches(asked.after.removed, one)
        ]
    return [
        f"{one} fits no topic of {link.name} by now"
        for one in patterns
        if asked.topics and not any(matches([one], topic) for topic in asked.topics)
    ]


def _show(session: Session, setup: Setup) -> int:
    with Statuses([setup]) as statuses:
        (found,) = statuses.read(_PATIENCE)
    if session.output == "table":
        render.show_parts(session, [topic_table([found])])
        return DONE
    rows: list[dict[str, Any]] = found.as_dict()["topics"]
    render.show(session, rows, (), "")
    return DONE
