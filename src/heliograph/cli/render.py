"""Tables for people, JSON or YAML for programs; progress and remarks on stderr.

Only results go to stdout, so that it can be piped.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from heliograph.cli.options import Session
from heliograph.config.output import to_yaml

# Off a terminal there is no edge to wrap at: a line is a row.
_NO_EDGE = 100_000
# Cells that are copied and typed again are never broken.
_WHOLE = {"name", "state", "nodes", "bootstrap"}
_FOR_PROGRAMS: Mapping[str, Callable[[Any], str]] = {
    "json": lambda rows: json.dumps(rows, indent=2),
    "yaml": lambda rows: to_yaml([dict(row) for row in rows]),
}
_COLORS = {"running": "green", "starting": "yellow", "partial": "yellow", "dead": "red"}


def show(
    session: Session, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str
) -> None:
    """Print rows: chosen columns as a table, or everything as JSON or YAML."""
    if session.output != "table":
        as_text = _FOR_PROGRAMS[session.output](list(rows))
        print(as_text.rstrip())  # noqa: T201 - the result itself
        return
    if not rows:
        remark(session, empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper(), overflow="fold", no_wrap=column in _WHOLE)
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    _console(session, sys.stdout).print(table)


def settings(session: Session, title: str, values: Mapping[str, str]) -> None:
    """Print settings under a title, one on a line, whole; for people only."""
    if session.output == "table":
        lines = "".join(f"{key}={value}\n" for key, value in values.items())
        print(f"\n# {title}\n{lines}", end="")  # noqa: T201 - the result itself


def remark(session: Session, text: str) -> None:
    """Tell a person something that is not the result."""
    _console(session, sys.stderr).print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def busy(session: Session, text: str) -> Iterator[None]:
    """Show that work goes on: a spinner on a terminal, else one line."""
    console = _console(session, sys.stderr)
    if not console.is_terminal:
        remark(session, text)
        yield
        return
    with console.status(text):
        yield


@contextmanager
def count(session: Session, text: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a count that grows: a bar on a terminal, else a line for every ten.

    Yields what to call with the count and, once it is known, the total. Shows nothing at all
    before the first call.
    """
    console = _console(session, sys.stderr)
    bar = Progress(
        SpinnerColumn(), TextColumn(text), BarColumn(), MofNCompleteColumn(), console=console
    )
    task = bar.add_task(text, total=None)
    said = -1

    def update(done: int, total: int | None) -> None:
        nonlocal said
        if console.is_terminal:
            bar.start()
            bar.update(task, completed=done, total=total)
        elif done // 10 > said:
            said = done // 10
            remark(session, f"{text}: {done}" + (f" of {total}" if total else ""))

    try:
        yield update
    finally:
        # Stopping one that never started would print an empty line.
        if bar.live.is_started:
            bar.stop()


def _cell(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"[{_COLORS[text]}]{text}[/]" if text in _COLORS else text.replace("[", r"\[")


def _console(session: Session, file: Any) -> Console:
    is_terminal = file.isatty()
    return Console(
        file=file,
        no_color=not session.color or None,
        width=None if is_terminal else _NO_EDGE,
        highlight=False,
    )
