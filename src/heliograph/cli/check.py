"""``heliograph check``: what would go wrong, each with its remedy."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.config.settings import Config
from heliograph.control.checks import Checked
from heliograph.control.checks import check as check_links
from heliograph.control.stretch import check_stretch
from heliograph.errors import LocalError
from heliograph.links.setup import Setup
from heliograph.local.java import find_java, java_version
from heliograph.model import findings
from heliograph.model.findings import Finding
from heliograph.wiring import load_config, settings_of, setups

GOOD, BAD = 0, 1
_COLUMNS = ("severity", "where", "finding", "remedy")


@click.command(short_help="Find what would go wrong, each with its remedy.")
@click.argument("links", nargs=-1, metavar="[LINK]...")
@option("--stretch", metavar="CLUSTER", help="Check a cluster, not links: may it lose a site?")
@shared_options
@click.pass_obj
def check(session: Session, /, links: tuple[str, ...], stretch: str | None) -> int:
    """Check settings, connections, permissions, identity of the clusters, mirrors and slots.

    Checks all links unless some are named. Changes nothing: what is allowed is found out by
    requests that cannot do anything. Everything is reported in one go; each check takes ten
    seconds at most. Exit code 1 means that a link would not work right; warnings leave it at 0.

    With --stretch, checks a cluster that is stretched over sites, each a rack of its brokers:
    whether any one site may be lost with no acknowledged record gone and writes going on. Exit
    code 1 means that it may not.

    \b
    Examples:
      heliograph check
      heliograph check paris-dublin -o json
      heliograph check --stretch paris
    """
    config = load_config(session.file, may_start=True)
    if stretch is not None:
        if links:
            raise click.UsageError("--stretch checks a cluster: name it alone, without links")
        settings = settings_of(config, stretch)
        with render.busy(session, f"looking at {stretch}"):
            checked = check_stretch(settings)
        return _report(session, checked, checked.findings)
    chosen = setups(config, links)
    with render.busy(session, "checking"):
        checked = check_links(chosen, config.links.values())
    return _report(session, checked, [*_here(config, chosen), *checked.findings])


def _report(session: Session, checked: Checked, found: Sequence[Finding]) -> int:
    found = findings.worst_first(found)
    if session.output != "table":
        render.show(session, [one.as_dict() for one in found], (), "")
    elif found:
        render.show_parts(session, [table(found)])
    render.remark(session, summary(checked, found))
    return BAD if any(one.severity == "error" for one in found) else GOOD


def _here(config: Config, chosen: Sequence[Setup]) -> Iterator[Finding]:
    """Check what runs the links: Spark's slots, and the Java that Spark runs on."""
    limits = [setup.link.limits.tasks for setup in chosen]
    tasks = [one if isinstance(one, int) else 1 for one in limits]
    yield from findings.slots(config.spark.master, tasks, os.cpu_count() or 1)
    try:
        command = find_java()
    except LocalError as missing:
        remedy = "Install Java 17 or newer, or set JAVA_HOME to one"
        yield Finding("error", "java-missing", "this machine", missing.message, remedy)
    else:
        yield from findings.java(java_version(command), command)


def table(found: Sequence[Finding]) -> render.Part:
    """Return findings for people; commands stand whole below, so that they can be copied."""
    commands = list(dict.fromkeys(one.remedy for one in found if one.remedy.startswith("kafka-")))
    rows = []
    for one in found:
        remedy = one.remedy
        if remedy in commands:
            remedy = f"run command {commands.index(remedy) + 1} below"
        rows.append({**one.as_dict(), "remedy": remedy})
    lines = [f"{number}. {command}" for number, command in enumerate(commands, 1)]
    return render.Part(rows, _COLUMNS, ["", *lines] if lines else [])


def summary(checked: Checked, found: Sequence[Finding]) -> str:
    """Say what was looked at, and how it is."""
    clusters = [f"{name} (brokers: {count})" for name, count in checked.clusters.items()]
    links = [f"{name} (topics: {count})" for name, count in checked.topics.items()]
    counts = Counter(one.severity for one in found)
    looked = "; ".join(filter(None, [", ".join(clusters), ", ".join(links)])) or "nothing answered"
    notes = f", notes: {counts['note']}" if counts["note"] else ""
    return f"Checked: {looked}. Errors: {counts['error']}, warnings: {counts['warning']}{notes}."
