"""Tables for people, JSON or YAML for programs; progress and remarks on stderr.

Only results go to stdout, so that it can be piped.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from heliograph.cli.options import Session
from heliograph.config.output import to_yaml

# Off a terminal there is no edge to wrap at: a line is a row.
_NO_EDGE = 100_000
# How often lines that change are written where they cannot change in place.
_TICK_S = 10.0
_UNKNOWN = "-"
# Cells that are copied and typed again are never broken.
_WHOLE = {"name", "state", "nodes", "bootstrap", "link", "lag", "rate", "severity", "group"}
_FOR_PROGRAMS: Mapping[str, Callable[[Any], str]] = {
    "json": lambda rows: json.dumps(rows, indent=2),
    "yaml": lambda rows: to_yaml([dict(row) for row in rows]),
}
_COLORS = {
    "running": "green",
    "starting": "yellow",
    "partial": "yellow",
    "dead": "red",
    "ACTIVE": "green",
    "PAUSED": "yellow",
    "FAULTED": "red",
    "UNKNOWN": "red",
    "error": "red",
    "warning": "yellow",
    "missed": "red",
}


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
    _console(session, sys.stdout).print(_table(rows, columns))


@dataclass(frozen=True, slots=True)
class Part:
    """Rows to show as a table, and lines to show whole below it."""

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    lines: Sequence[str] = ()


def show_parts(session: Session, parts: Sequence[Part]) -> None:
    """Print tables with their lines, for people."""
    console = _console(session, sys.stdout)
    for at, part in enumerate(parts):
        if at:
            console.print()
        console.print(_table(part.rows, part.columns))
        for text in part.lines:
            console.print(text, markup=False, soft_wrap=True)


def document(session: Session, value: Any) -> None:
    """Print one of many documents that follow each other: a line of JSON, or a part of YAML."""
    text = json.dumps(value) if session.output == "json" else f"---\n{to_yaml(value)}".rstrip()
    print(text, flush=True)  # noqa: T201 - the result itself


def line(text: str) -> None:
    """Print a line of a result that grows."""
    print(text, flush=True)  # noqa: T201 - the result itself


@contextmanager
def redrawn(session: Session) -> Iterator[Callable[[Sequence[Part]], None] | None]:
    """Yield what to call to draw tables over those before; None off a terminal."""
    console = _console(session, sys.stdout)
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda parts: live.update(_group(parts), refresh=True)


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


def number(value: float | None) -> str:
    """Return a count for people; what is not known is a dash.

    >>> number(1234567), number(None)
    ('1,234,567', '-')
    """
    return _UNKNOWN if value is None else f"{value:,.0f}"


def span(seconds: float | None) -> str:
    """Return a length of time for people, in the unit that fits.

    >>> span(0.25), span(75), span(200_000), span(None)
    ('0.2 s', '75 s', '56 h', '-')
    """
    if seconds is None:
        return _UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s"
    for most, unit, size in ((120, "s", 1), (7200, "min", 60), (259_200, "h", 3600)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def size(count_bytes: float | None) -> str:
    """Return a number of bytes for people.

    >>> size(512), size(2_500_000)
    ('512 B', '2.5 MB')
    """
    if count_bytes is None:
        return _UNKNOWN
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count_bytes < 1000 or unit == "TB":
            break
        count_bytes /= 1000
    return f"{count_bytes:.0f} B" if unit == "B" else f"{count_bytes:.1f} {unit}"


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper(), overflow="fold", no_wrap=column in _WHOLE)
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    return table


def _group(parts: Sequence[Part]) -> RenderableType:
    shown: list[RenderableType] = []
    for part in parts:
        shown += [_table(part.rows, part.columns), *map(Text, part.lines), Text()]
    return Group(*shown[:-1])


@contextmanager
def ticker(session: Session) -> Iterator[Callable[[Sequence[str]], None]]:
    """Show lines that change: in place on a terminal, else as lines of their own now and then.

    Yields what to call with the lines as they are; call it as often as you like.
    """
    console = _console(session, sys.stderr)
    if console.is_terminal:
        with console.status("") as status:
            yield lambda lines: status.update("\n".join(lines))
        return
    said, said_s = "", time.monotonic()

    def tell(lines: Sequence[str]) -> None:
        nonlocal said, said_s
        text = "\n".join(lines)
        if text and text != said and time.monotonic() - said_s >= _TICK_S:
            said, said_s = text, time.monotonic()
            remark(session, text)

    yield tell


def _cell(value: Any) -> str:
    text = ", ".join(map(_text, value)) if isinstance(value, list) else _text(value)
    return f"[{_COLORS[text]}]{text}[/]" if text in _COLORS else text.replace("[", r"\[")


def _text(value: Any) -> str:
    return _UNKNOWN if value is None else str(value)


def _console(session: Session, file: Any) -> Console:
    is_terminal = file.isatty()
    return Console(
        file=file,
        no_color=not session.color or None,
        width=None if is_terminal else _NO_EDGE,
        highlight=False,
    )
