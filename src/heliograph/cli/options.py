"""Options that every command takes, and how options get their environment variables."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

_AS_VARIABLE = str.maketrans("-.", "__")
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass
class Session:
    """What the options common to all commands said. The last one on the line wins.

    ``words`` is the whole line, for a command that starts itself again.
    """

    file: Path | None = None
    output: str = "table"
    verbose: bool = False
    color: bool = True
    words: tuple[str, ...] = ()


def option(*names: str, **settings: Any) -> Callable[[_Command], _Command]:
    """Make an option that ``HELIOGRAPH_<OPTION>`` sets too."""
    long = next(name for name in names if name.startswith("--")).partition("/")[0]
    settings.setdefault("envvar", f"HELIOGRAPH_{long[2:].upper().translate(_AS_VARIABLE)}")
    return click.option(*names, **settings)


def shared_options(command: _Command) -> _Command:
    """Give a command the options of all commands, so that they may stand anywhere."""
    # Decorators apply from the last to the first; help shows the order below.
    for add in reversed(_shared()):
        command = add(command)
    return command


def _shared() -> list[Callable[[_Command], _Command]]:
    return [
        option(
            "-f",
            "--file",
            type=click.Path(path_type=Path),
            help="The configuration, heliograph.yaml unless told; `clusters` and `demo` need none.",
            expose_value=False,
            callback=_remember("file"),
        ),
        option(
            "-o",
            "--output",
            type=click.Choice(["table", "json", "yaml"]),
            help="A table for people (the default); JSON or YAML for programs.",
            expose_value=False,
            callback=_remember("output"),
        ),
        option(
            "-v",
            "--verbose",
            is_flag=True,
            default=None,
            help="Say more; show the traceback of an error.",
            expose_value=False,
            callback=_remember("verbose"),
        ),
        option(
            "--no-color",
            is_flag=True,
            default=None,
            help="No colours, even on a terminal.",
            expose_value=False,
            callback=_remember("color", lambda no_color: not no_color),
        ),
    ]


def _remember(
    field: str, turn: Callable[[Any], Any] = lambda value: value
) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
        # Absent here does not undo what was said further left on the line.
        if value is not None:
            setattr(context.ensure_object(Session), field, turn(value))

    return callback
