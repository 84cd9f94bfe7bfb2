"""``heliograph promote | failover | timeline``: recovery verbs, and what they did."""

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.steer import DONE, topics_option, who
from heliograph.config.values import parse_span
from heliograph.errors import ConfigError, Unsafe
from heliograph.links.setup import Setup
from heliograph.model.findings import counted
from heliograph.model.outlook import Outlook
from heliograph.model.recovery import as_rows
from heliograph.model.selection import one_pattern
from heliograph.recovery import failover as failing_over
from heliograph.recovery import promote as promoting
from heliograph.recovery.command import Options, Report
from heliograph.recovery.timeline import read_timeline
from heliograph.wiring import load_config, setups

_TOPIC_COLUMNS = (
    "topic", "mirror", "partitions", "missing_records", "missing_seconds", "unknown_partitions",
)  # fmt: skip
_GROUP_COLUMNS = ("group", "topic", "partition", "source_offset", "before", "after", "why")
_EVENT_COLUMNS = ("at", "verb", "step", "outcome", "seconds", "said")
_SHOWN_GROUPS = 20

_Command = Callable[..., Any]


def span(_: click.Context, __: click.Parameter, value: str) -> timedelta:
    """Read how long something may take; off is for ever."""
    try:
        found = parse_span(value)
    except ValueError as wrong:
        raise click.BadParameter(f"{value!r} {wrong}.") from None
    return found or timedelta(days=365)


timeout_option = option(
    "--timeout",
    default="60s",
    show_default=True,
    callback=span,
    metavar="TIME",
    help="How long to wait for the last records.",
)


def recovering(command: _Command) -> _Command:
    """Give a command what all recovery verbs take."""
    for add in (
        click.pass_obj,
        shared_options,
        option("--dry-run", is_flag=True, help="Print what would be done, and do nothing."),
        option("--no-hooks", is_flag=True, help="Leave the hooks of the configuration out."),
        click.argument("link", metavar="LINK"),
        option("--set", "named", metavar="NAME", help="Only the topics of a set of the link."),
        topics_option,
    ):
        command = add(command)
    return command


@click.command(short_help="Planned: make the mirrors the applications' own, with nothing missing.")
@recovering
@timeout_option
def promote(
    session: Session,
    /,
    link: str,
    topics: str | None,
    named: str | None,
    dry_run: bool,
    no_hooks: bool,
    timeout: timedelta,
) -> int:
    """Let the mirrors of a link, or of some topics, belong to the applications of the target.

    Waits until every record has arrived, syncs the groups a last time, and closes the mirrors: the
    link never writes to them again. Refuses (exit code 3) while records are missing when the time
    is over: then the link goes on as before. Stop the producers first.

    \b
    Examples:
      heliograph promote paris-dublin --dry-run
      heliograph promote paris-dublin
      heliograph promote paris-dublin --topics 'payments\\..*' --timeout 5m
    """
    setup = setup_of(session, link)
    options = Options(who(), meant(setup, topics, named), timeout, not no_hooks)
    if dry_run:
        return show(session, promoting.foresee(setup, options))
    return show(session, promoting.promote(setup, options, say_to(session)))


@click.command(short_help="The source is gone: make the mirrors the applications' own, now.")
@recovering
@option(
    "--consistent",
    is_flag=True,
    help="Cut all groups at the newest time that every partition has reached.",
)
@option("--yes", is_flag=True, help="Do not ask whether what is missing may be left behind.")
def failover(
    session: Session,
    /,
    link: str,
    topics: str | None,
    named: str | None,
    dry_run: bool,
    no_hooks: bool,
    consistent: bool,
    yes: bool,
) -> int:
    """Let the mirrors belong to the applications of the target, whether the source answers or not.

    Closes every mirror partition, so that no writer of the link, however late it wakes up, writes
    to it again; moves the consumer groups to what has arrived; and says what is missing of what
    the source was known to hold. A command that was interrupted goes on when it is given again.

    \b
    Examples:
      heliograph failover paris-dublin --dry-run
      heliograph failover paris-dublin --yes
      heliograph failover paris-dublin --topics 'payments\\..*'
      heliograph failover paris-dublin --set billing --consistent
    """
    setup = setup_of(session, link)
    pattern = meant(setup, topics, named)
    options = Options(who(), pattern, has_hooks=not no_hooks, is_consistent=consistent)
    if dry_run:
        return show(session, failing_over.foresee(setup, options))
    if not yes:
        _ask(failing_over.foresee(setup, options))
    return show(session, failing_over.failover(setup, options, say_to(session)))


@click.command(short_help="What recovery verbs did, step by step, with times.")
@click.argument("link", metavar="LINK")
@click.pass_obj
@shared_options
def timeline(session: Session, /, link: str) -> int:
    """Show what the recovery verbs of a link did: each step, when, for how long, and its words.

    \b
    Examples:
      heliograph timeline paris-dublin
      heliograph timeline paris-dublin -o json
    """
    events = read_timeline(setup_of(session, link))
    rows = as_rows(events)
    if session.output == "table":
        rows = [{**one, "said": "\n".join(one["lines"])} for one in rows]
    render.show(session, rows, _EVENT_COLUMNS, f"{link}: no recovery verb was ever used.")
    return DONE


def meant(setup: Setup, topics: str | None, named: str | None) -> str | None:
    """Return the pattern of the topics that are meant: by --topics, by --set, or all of them."""
    if named is None:
        return topics
    if topics is not None:
        raise click.UsageError("--topics and --set do not go together.")
    if named not in setup.link.sets:
        known = ", ".join(setup.link.sets) or "none"
        raise ConfigError(f"link {setup.link.name} has no set {named!r}. It has: {known}")
    return one_pattern(setup.link.sets[named])


def setup_of(session: Session, link: str) -> Setup:
    """Return the link that was named."""
    (setup,) = setups(load_config(session.file), [link])
    return setup


def say_to(session: Session) -> Callable[[str], None]:
    """Return what tells a person how a verb gets on."""
    return lambda text: render.remark(session, text)


def _ask(found: Report) -> None:
    """Show what would be left behind, and ask; nobody to ask is no consent."""
    if not found.steps:
        return
    lost, many = found.outlook.missing_records, counted(len(found.outlook.topics), "topic")
    told = (
        "nobody knows what the source held"
        if lost is None
        else f"{at_least(found.outlook)}{lost} records that the source was known to hold have not"
        " arrived"
    )
    consent(f"{found.link}: {told}; {_heard(found.outlook)}. Fail over {many} now?")


def _heard(found: Outlook) -> str:
    if found.heard_seconds is not None:
        return f"it was last heard from {found.heard_seconds:.0f} s ago"
    if found.ahead_seconds:
        return "when it was last heard from is not known"
    return "it was never heard from"


def consent(text: str) -> None:
    """Ask; raise Unsafe where the answer is no. Nobody to ask is no consent."""
    if not sys.stdin.isatty():
        raise Unsafe(
            f"{text} Nobody is there to answer, so nothing was done. With --yes nobody is asked"
        )
    if not click.confirm(text, err=True):
        raise Unsafe("nobody agreed, so nothing was done")


def show(session: Session, found: Report) -> int:
    """Show what was done, or would be. An objective that was missed is no failure of the verb.

    Raises RecoveryError at the end where something could not be done.
    """
    if session.output != "table":
        render.show(session, [found.as_dict()], (), "")
        found.raise_failed()
        return DONE
    rows = found.as_dict()["topics"]
    # Of a failback, what is missing is not a question: what diverged is.
    columns = _TOPIC_COLUMNS[:3] if found.verb == "failback" else _TOPIC_COLUMNS
    parts = [render.Part(rows, columns)]
    if found.groups:
        parts.append(render.Part(found.groups[:_SHOWN_GROUPS], _GROUP_COLUMNS))
    render.show_parts(session, parts)
    for text in _sentences(found):
        render.line(text)
    found.raise_failed()
    return DONE


def _sentences(found: Report) -> list[str]:
    """Say what came of it, and how it stands against the objectives."""
    lines = [_outcome(found)]
    if found.diverged:
        lines.append(_diverged(found))
    elif found.verb != "failback":
        lines.append(_missing(found.outlook))
    elif found.steps:
        lines.append("Nothing diverged.")
    heard_s = found.outlook.heard_seconds
    if heard_s is not None and found.verb == "failover" and not found.outlook.is_lower_bound:
        lines.append(
            f"The source was last heard from {heard_s:.0f} s ago; what it took after that nobody"
            " can know."
        )
    more = len(found.groups) - _SHOWN_GROUPS
    if more > 0:
        lines.append(f"{more} more offsets of groups: see -o json.")
    verdicts = {True: "kept", False: "missed", None: "not known"}
    if found.rpo_ok is not None or (found.rpo is not None and found.verb == "failover"):
        lines.append(f"RPO: {verdicts[found.rpo_ok]}.")
    if found.rto_ok is not None:
        lines.append(f"RTO: {verdicts[found.rto_ok]}.")
    return [*lines, *found.notes]


def _outcome(found: Report) -> str:
    if found.seconds is not None:
        return f"{found.link}: {found.state} after {found.seconds:.1f} s."
    if found.steps:
        return f"{found.link}: would take these steps: {', '.join(found.steps)}."
    return f"{found.link}: nothing to do."


def _diverged(found: Report) -> str:
    records = sum(one["records"] for one in found.diverged)
    if not records:
        return "What diverged had expired before it could be saved."
    count = counted(records, "record")
    kept = "to be kept" if found.seconds is None else "kept"
    return f"{count} diverged: {kept} in the topics named below, and not mirrored."


def at_least(found: Outlook) -> str:
    """Say before a number of missing records that there may be more."""
    return "at least " if found.is_lower_bound else ""


def _missing(found: Outlook) -> str:
    lost, unknown = found.missing_records, found.unknown_partitions
    if lost is None:
        return "What the source held is not known."
    beside = f" Of {unknown} partitions nobody knows what it held." if unknown else ""
    if lost or unknown:
        count = f"{at_least(found)}{lost}".capitalize()
        held = f"that the source was known to hold{_as_of(found)}"
        return f"{count} records {held} have not arrived.{beside}"
    return f"Everything that the source was known to hold{_as_of(found)} has arrived."


def _as_of(found: Outlook) -> str:
    """Say how old what is known is, where that matters."""
    return f" {found.heard_seconds:.0f} s ago" if found.unwatched_seconds else ""
