"""``heliograph drill``: a failover, rehearsed and measured."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.recover import span
from heliograph.cli.steer import DONE, FAILED, topics_option, who
from heliograph.links.setup import Setup
from heliograph.model.drill_page import drill_page
from heliograph.model.drills import Drilled
from heliograph.recovery import drill as drilling
from heliograph.recovery.drill import Wish
from heliograph.wiring import load_config, setups

_TOPIC_COLUMNS = (
    "topic", "partitions", "arrived_records", "missing_records", "rpo_seconds", "rto_seconds",
)  # fmt: skip
_PLAN_COLUMNS = ("action", "name", "detail")
# Well below what the next drill takes for the life of one.
_LONGEST = timedelta(minutes=10)
_SUFFIXES = (".md", ".json")


def _report(_: click.Context, __: click.Parameter, value: Path | None) -> list[Path]:
    """Return the files to write, before anything is done for them."""
    if value is None:
        return []
    if value.suffix and value.suffix not in _SUFFIXES:
        raise click.BadParameter(
            f"{value} is neither FILE.md nor FILE.json; without a suffix, both are written."
        )
    if not value.parent.is_dir():
        raise click.BadParameter(f"there is no folder {value.parent}: make it first.")
    return [value] if value.suffix else [value.with_suffix(one) for one in _SUFFIXES]


@click.command(short_help="Rehearse a failover on scratch topics; measure RPO and RTO.")
@topics_option
@option(
    "--records",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="How many of the newest records of a partition are sampled.",
)
@option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="How many partitions are sampled at most: of every topic the first, then the second.",
)
@option(
    "--copy-for",
    default="5s",
    show_default=True,
    callback=span,
    metavar="TIME",
    help="How long copying goes on once the sample has arrived, before it is killed.",
)
@option(
    "--timeout",
    default="60s",
    show_default=True,
    callback=span,
    metavar="TIME",
    help="How long to wait for the sample.",
)
@option("--with-hooks", is_flag=True, help="Run the failover hooks of the configuration, too.")
@option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_report,
    metavar="FILE",
    help="Write the evidence to FILE.md or FILE.json; to both where FILE has no suffix.",
)
@option("--clean", is_flag=True, help="Only remove what a drill that was killed left behind.")
@click.argument("link", metavar="LINK")
@option("--dry-run", is_flag=True, help="Print what would be made and removed, and do nothing.")
@shared_options
@click.pass_obj
def drill(
    session: Session,
    /,
    link: str,
    topics: str | None,
    records: int,
    partitions: int,
    copy_for: timedelta,
    timeout: timedelta,
    with_hooks: bool,
    report: list[Path],
    clean: bool,
    dry_run: bool,
) -> int:
    """Rehearse a failover of a link, and say whether it would keep to its objectives.

    Copies the newest records of the link's topics to scratch topics on the target, kills the
    copying, fails over as if the source were gone, lets a consumer group move, compares what it
    reads with the source, and removes everything again. The link itself, its mirrors and its
    driver are not touched, and nothing is written to the source, which must answer.

    Exit code 1 means that an objective was missed, or that something was not exact. The verdict is
    in the timeline of the link.

    \b
    Examples:
      heliograph drill paris-dublin --dry-run
      heliograph drill paris-dublin --report evidence/2026-q3
      heliograph drill paris-dublin --topics 'payments\\..*' --records 100
      heliograph drill paris-dublin --clean
    """
    (setup,) = setups(load_config(session.file), [link])
    if clean:
        return _clean(session, setup, dry_run=dry_run)
    if copy_for + timeout > _LONGEST:
        raise click.UsageError(f"--copy-for and --timeout are more than {_LONGEST} together.")
    wish = Wish(who(), topics, partitions, records, copy_for, timeout, with_hooks)
    if dry_run:
        render.show(session, drilling.foresee(setup, wish), _PLAN_COLUMNS, "")
        return DONE
    with _ended_by_sigterm():
        found = drilling.drill(setup, wish, lambda text: render.remark(session, text))
    _write(report, found.as_dict())
    _show(session, found, report)
    return FAILED if found.verdict == "fail" else DONE


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a drill as Ctrl-C does: what it made is removed first."""

    def hear(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _clean(session: Session, setup: Setup, *, dry_run: bool) -> int:
    removed, left = drilling.clean(setup, dry_run=dry_run)
    rows = [{"name": one, "removed": not dry_run} for one in removed]
    rows += [{"name": one, "removed": False} for one in left]
    render.show(session, rows, ("name", "removed"), "No drill left anything behind.")
    return FAILED if left else DONE


def _write(files: list[Path], found: dict[str, Any]) -> None:
    for file in files:
        is_page = file.suffix == ".md"
        text = drill_page(found) if is_page else f"{json.dumps(found, indent=2)}\n"
        file.write_text(text, encoding="utf-8")


def _show(session: Session, found: Drilled, files: list[Path]) -> None:
    rows = found.as_dict()
    if session.output != "table":
        render.show(session, [rows], (), "")
        return
    render.show_parts(session, [render.Part(rows["topics"], _TOPIC_COLUMNS)])
    exact = sum(one["exact"] for one in rows["groups"])
    render.line(f"{exact} of {len(rows['groups'])} offsets of the group moved exactly.")
    now = found.foreseen["missing_records"]
    least = "at least " if found.foreseen["unknown_partitions"] else ""
    known = "not known" if now is None else f"{least}{now} records"
    render.line(f"A real failover now would miss, by what the target knows: {known}.")
    for text in (*found.lines, *found.notes, *(f"written: {one}" for one in files)):
        render.line(text)
