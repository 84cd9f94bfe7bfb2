"""The settings described to people: rows for the documentation, a file to begin with."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from heliograph.config.kinds import PROPERTY
from heliograph.config.settings import ClusterConfig, Config, Key, LinkConfig, keys

REQUIRED = "required"
_WIDTH = 96

_HEAD = """\
heliograph.yaml: the Kafka clusters there are, and what is mirrored between them.
A line with # and no space after it is a setting and its default. To change it, take the # away,
and that of its group if it stands in one.\
"""
_MINIMAL_HEAD = "heliograph.yaml: `heliograph init` without --minimal shows every setting."

# What the example gives, and what it shows of a cluster's properties beside.
_CLUSTERS = {"paris": "paris-1:9092,paris-2:9092", "dublin": "dublin-1:9092"}
_LINK = "paris-dublin"
_GIVEN = {"source": "paris", "target": "dublin", "topics": r"[orders, 'payments\..*']"}
_SECURED = """\
A cluster with a login needs these too. A password is a reference, ${env:NAME} or ${file:PATH}.
#security.protocol: SASL_SSL
#sasl.mechanism: SCRAM-SHA-512
#sasl.username: mirror
#sasl.password: ${env:PARIS_PASSWORD}
#ssl.ca.location: /etc/kafka/ca.pem\
"""


class Row(NamedTuple):
    """One setting, all in words."""

    path: str
    type: str
    default: str
    allowed: str
    help: str


def reference() -> list[Row]:
    """Return every setting, groups before what is in them, in the order of the file."""
    return list(_rows(Config, ""))


def _rows(group: type, above: str) -> Iterator[Row]:
    for key in keys(group):
        path = f"{above}{'<property>' if key.kind is PROPERTY else key.name}"
        if key.group is None:
            assert key.kind is not None, "a setting has a kind or a group"
            default = REQUIRED if key.is_required else _default(key)
            yield Row(path, key.kind.type, default, key.kind.allowed, key.help)
        else:
            kind, below = ("groups by name", f"{path}.<name>.") if key.is_named else ("group", "")
            yield Row(path, kind, REQUIRED if key.is_required else "", "", key.help)
            yield from _rows(key.group, below or f"{path}.")


def _default(key: Key) -> str:
    assert key.kind is not None, "a group has no default of its own"
    shown = key.kind.show(key.default)
    return shown if isinstance(shown, str) else f"[{', '.join(shown)}]"


def example(*, minimal: bool = False) -> str:
    """Return a heliograph.yaml that loads: an example, and every default as a comment.

    The minimal one has only what must be given.
    """
    lines = [*_comment(_MINIMAL_HEAD if minimal else _HEAD), ""]
    for key in keys(Config):
        if minimal and not key.is_required:
            continue
        lines += _comment(key.help) if not minimal else ()
        if key.group is ClusterConfig:
            lines += [f"{key.name}:", *_indent(_clusters(minimal))]
        elif key.group is LinkConfig:
            lines += [
                f"{key.name}:",
                *_indent([f"{_LINK}:", *_indent(_group(LinkConfig, minimal))]),
            ]
        else:
            lines += _setting(key)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _clusters(minimal: bool) -> Iterator[str]:
    extra = [] if minimal else [*_secured(), *_group(ClusterConfig, minimal)]
    for number, (name, servers) in enumerate(_CLUSTERS.items()):
        yield f"{name}:"
        yield from _indent([f"bootstrap.servers: {servers}", *(() if number else extra)])


def _secured() -> Iterator[str]:
    for line in _SECURED.splitlines():
        yield from [line] if line.startswith("#") else _comment(line)


def _group(group: type, minimal: bool) -> Iterator[str]:
    for key in keys(group):
        if key.kind is PROPERTY or (minimal and not key.is_required):
            continue
        if not minimal:
            yield from _comment(_words(key))
        if key.name in _GIVEN and key.is_required:
            yield f"{key.name}: {_GIVEN[key.name]}"
        else:
            yield from _setting(key)


def _setting(key: Key) -> Iterator[str]:
    """Yield a setting that is commented out, so that taking the ``#`` away sets its default."""
    if key.group is not None:
        yield f"#{key.name}:"
        yield from _indent(_group(key.group, minimal=False))
        return
    assert key.kind is not None, "a setting has a kind or a group"
    line = f"#{key.name}: {_default(key)}"
    shown = key.kind.show(key.default)
    if isinstance(shown, str) or len(line) < _WIDTH - 10:
        yield line
    else:
        yield f"#{key.name}:"
        yield from (f"  #- {item}" for item in shown)


def _words(key: Key) -> str:
    return f"{key.help}\nAllowed: {key.kind.allowed}" if key.kind else key.help


def _comment(text: str) -> list[str]:
    return [f"# {line}" for part in text.splitlines() for line in textwrap.wrap(part, _WIDTH - 10)]


def _indent(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines)
