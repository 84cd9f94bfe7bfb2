"""The flags of MirrorMaker 1, for all commands that take them."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from heliograph.cli.options import option
from heliograph.errors import ConfigError
from heliograph.migrate.draft import Imported
from heliograph.migrate.entries import Entry, read_properties
from heliograph.migrate.mm1 import Flags, import_mm1

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path)
_IGNORED = "Ignored, and noted."
_OBSOLETE: Mapping[str, dict[str, Any]] = {
    "--new.consumer": {"is_flag": True},
    "--new.producer": {"is_flag": True},
    "--num.producers": {"metavar": "N"},
    "--queue.size": {"metavar": "N"},
}


def mm1_flags(command: _Command) -> _Command:
    """Give a command MirrorMaker's flags; ``imported`` makes something of them."""
    for add in reversed([*_options(), *_obsolete()]):
        command = add(command)
    return command


def _options() -> list[Callable[[_Command], _Command]]:
    return [
        _flag(
            "--consumer.config",
            type=_FILE,
            required=True,
            multiple=True,
            help="Properties of the source.",
        ),
        _flag("--producer.config", type=_FILE, required=True, help="Properties of the target."),
        _flag("--include", metavar="REGEX", help="Topics to copy; a comma means or."),
        _flag("--whitelist", metavar="REGEX", help="The older name of --include, which wins."),
        _flag("--blacklist", metavar="REGEX", help="Topics to leave out, instead of --include."),
        _flag("--num.streams", type=click.IntRange(1, 10_000), help="Becomes limits.tasks."),
        _flag("--offset.commit.interval.ms", type=int, help=_IGNORED),
        _flag(
            "--abort.on.send.failure",
            type=click.BOOL,
            help="Whether a partition stops at a refused record, or keeps it aside and goes on.",
        ),
        _flag("--message.handler", metavar="CLASS", help="Refused: it is a Java class."),
        _flag("--message.handler.args", metavar="ARGS", help=_IGNORED),
        _flag("--consumer.rebalance.listener", metavar="CLASS", help=_IGNORED),
        _flag("--rebalance.listener.args", metavar="ARGS", help=_IGNORED),
    ]


def _obsolete() -> list[Callable[[_Command], _Command]]:
    return [_flag(name, help=_IGNORED, **more) for name, more in _OBSOLETE.items()]


def _flag(name: str, **settings: Any) -> Callable[[_Command], _Command]:
    return option(name, _parameter(name), **settings)


def _parameter(name: str) -> str:
    return name.removeprefix("--").replace(".", "_")


def imported(words: Mapping[str, Any]) -> Imported:
    """Read the files that the flags name, and return what becomes of all of it."""
    if len(words["consumer_config"]) > 1:
        raise ConfigError("a link has one source: call it once for each --consumer.config")
    obsolete = tuple(name for name in _OBSOLETE if words[_parameter(name)])
    given = {one.name: words[one.name] for one in fields(Flags) if one.name != "obsolete"}
    return import_mm1(
        _entries(words["consumer_config"][0], "consumer.config: "),
        _entries(words["producer_config"], "producer.config: "),
        Flags(**given, obsolete=obsolete),
    )


def _entries(file: Path, origin: str) -> list[Entry]:
    return read_properties(read_text(file), origin)


def read_text(file: Path) -> str:
    """Return a property file's text as Java reads it: each byte is a character."""
    try:
        return file.read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
