"""A heliograph.yaml as it comes about: each setting with the key that it comes from."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from heliograph.config.output import to_yaml
from heliograph.errors import ConfigError
from heliograph.migrate.entries import Entry
from heliograph.model.mm2_positions import Keeping

Path = tuple[str, ...]
_WIDTH = 98


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of MirrorMaker's files.

    ``text`` is a whole heliograph.yaml, a comment at each setting. ``variables`` are the secrets
    that stood in the files, by the variable that the text refers to; they are in no repr.
    ``ignored`` is what has no effect any more, ``warnings`` what a person should think about.
    ``group`` is the consumer group of MirrorMaker 1, which holds its positions.
    """

    text: str
    variables: Mapping[str, str] = field(repr=False)
    ignored: tuple[str, ...]
    warnings: tuple[str, ...]
    group: str | None = None
    keepings: Mapping[str, Keeping] = field(default_factory=dict)
    """Where MirrorMaker 2 keeps its positions, by link."""


class Draft:
    """Gathers settings, comments and refusals. No comment and no refusal holds a value's secret.

    Every key must come by here, so that each is found in the result: as mapped, changed or not
    needed, or refused.
    """

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.warnings: list[str] = []
        self.seen: set[str] = set()
        self._values: dict[Path, object] = {}
        self._comments: dict[Path, list[str]] = {}
        self._ignored: list[str] = []
        self._variables: dict[str, str] = {}

    def map(self, path: Path, value: object, *entries: Entry, change: str = "") -> None:
        """Set what one key or several keys say; ``change`` tells how the meaning differs."""
        self.seen |= {entry.name for entry in entries}
        names = ", ".join(entry.shown for entry in entries)
        self._values[path] = value
        self._comment(path, f"changed: {names}: {change}" if change else f"mapped: {names}")
        if change:
            self._ignored.append(f"{names}: {change}")

    def default(self, path: Path, value: object, why: str) -> None:
        """Set what no key says, because MirrorMaker's default is another than ours."""
        self._values[path] = value
        self._comment(path, why)

    def drop(self, path: Path, entry: Entry, why: str) -> None:
        """Leave a key out; the comment stands in the group."""
        self.seen.add(entry.name)
        self._comment(path, f"not needed: {entry.shown}: {why}")
        self._ignored.append(f"{entry.shown}: {why}")

    def drop_unknown(self, entry: Entry) -> None:
        """Leave out a key that nobody knows; it is not shown if it may be a part of a secret."""
        self.seen.add(entry.name)
        words = f"{entry.guarded}: no setting that is known here, so it has no effect"
        self._comment((), f"not needed: {words}")
        self._ignored.append(words)

    def say(self, path: Path, words: str) -> None:
        """Put a comment that is about no key."""
        self._comment(path, words)

    def refuse(self, entry: Entry, why: str) -> None:
        """Note what cannot be kept to, and the remedy."""
        self.seen.add(entry.name)
        self.refusals.append(f"{entry.place}: {why}")

    def conceal(self, variable: str, value: str) -> str:
        """Keep a secret aside and return the reference that stands for it."""
        name, number = variable, 1
        while self._variables.get(name, value) != value:
            number += 1
            name = f"{variable}_{number}"
        self._variables[name] = value
        return f"${{env:{name}}}"

    def has(self, path: Path) -> bool:
        """Tell whether anything was set there or below."""
        return any(found[: len(path)] == path for found in self._values)

    def group(self, path: Path) -> dict[str, object]:
        """Return what was set right below."""
        return {found[-1]: value for found, value in self._values.items() if found[:-1] == path}

    def finish(self, head: str, name: str, group: str | None = None) -> Imported:
        """Return the result, or raise one error with every refusal; ``name`` is the file's."""
        if self.refusals:
            refusals = "".join(f"\n  - {one}" for one in dict.fromkeys(self.refusals))
            raise ConfigError(f"{name} cannot be imported as it is:{refusals}")
        lines = [*_commented(head, ""), "", *self._group((), "")]
        return Imported(
            "\n".join(lines) + "\n",
            dict(self._variables),
            tuple(dict.fromkeys(self._ignored)),
            tuple(dict.fromkeys(self.warnings)),
            group,
        )

    def _comment(self, path: Path, words: str) -> None:
        told = self._comments.setdefault(path, [])
        if words not in told:
            told.append(words)

    def _group(self, path: Path, indent: str) -> Iterator[str]:
        depth = len(path)
        below = [one for one in [*self._values, *self._comments] if one[:depth] == path]
        for key in dict.fromkeys(one[depth] for one in below if len(one) > depth):
            inner = (*path, key)
            if inner in self._values:
                yield from self._told(inner, indent)
                yield from _setting(key, self._values[inner], indent)
            else:
                yield f"{indent}{key}:"
                yield from self._group(inner, indent + "  ")
        yield from self._told(path, indent)

    def _told(self, path: Path, indent: str) -> Iterator[str]:
        for words in self._comments.get(path, ()):
            yield from _commented(words, indent)


def _setting(key: str, value: object, indent: str) -> Iterator[str]:
    for line in to_yaml({key: value}).splitlines():
        yield f"{indent}{line}" if line else ""


def _commented(words: str, indent: str) -> Iterator[str]:
    width = _WIDTH - len(indent)
    for part in words.splitlines():
        for line in textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False):
            yield f"{indent}# {line}"


def legal_name(text: str, taken: Mapping[str, str] | None = None) -> str:
    """Return a name that a cluster or a link may have and that is not taken.

    ``taken`` are names by the text that they came from.

    >>> legal_name("us.west"), legal_name("us.west", {"us-west": "us-west"})
    ('us-west', 'us-west-2')
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "-", text)[:90] or "unnamed"
    others = set((taken or {}).values())
    number, found = 1, name
    while found in others:
        number += 1
        found = f"{name}-{number}"
    return found


def variable_name(cluster: str, tail: str) -> str:
    """Return a name for the environment variable of a cluster's secret.

    >>> variable_name("us-west", "PASSWORD"), variable_name("2nd", "PASSWORD")
    ('US_WEST_PASSWORD', 'KAFKA_2ND_PASSWORD')
    """
    name = f"{cluster.upper().replace('-', '_')}_{tail}"
    return f"KAFKA_{name}" if name[0].isdigit() else name
