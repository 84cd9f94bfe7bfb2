"""Kinds of settings: how each is read from its place, shown, and described to people."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from heliograph.config import values
from heliograph.config.document import Finding, Place, quoted

STEPS = ("where", "set", "sql", "python", "handler", "mask", "repartition")
MOMENTS = tuple(
    f"{when}_{verb}"
    for verb in ("promote", "failover", "switch", "failback")
    for when in ("before", "after")
)
# Nothing could be read; what was wrong is among the findings.
UNREAD = object()


class Kind(Protocol):
    """What a setting holds. ``type`` and ``allowed`` are for people."""

    @property
    def type(self) -> str:
        """What it is, in a word or two."""

    @property
    def allowed(self) -> str:
        """Which values it takes."""

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Return the value, or note what is wrong and return UNREAD."""

    def show(self, value: Any) -> str | list[str]:
        """Return the value as YAML: on one line, or the items of a list."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, given by a function from text and one back."""

    type: str
    allowed: str
    parse: Callable[[str], Any]
    shown: Callable[[Any], str] = str

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Parse the text as it was written."""
        text = place.text()
        try:
            if text is not None:
                return self.parse(text)
            wrong = "has no value" if place.is_empty else f"must be one value, not {place.what}"
        except ValueError as error:
            wrong = f"{quoted(text or '')} {error}"
        findings.append(place.wrong(f"{wrong}{_stop(wrong)} Allowed: {self.allowed}"))
        return UNREAD

    def show(self, value: Any) -> str:
        """Show it in quotes where YAML would need them."""
        text = self.shown(value)
        return text if re.fullmatch(r"\w[\w.:/-]*", text) else "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of single values of one kind."""

    item: Scalar
    may_be_empty: bool = True

    @property
    def type(self) -> str:
        """What it is."""
        return f"list of {self.item.type}"

    @property
    def allowed(self) -> str:
        """What each item may be."""
        return self.item.allowed

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Read every item, and note every mistake."""
        items = place.items()
        if items is None:
            wrong = "has no value" if place.is_empty else f"must be a list, not {place.what}"
            findings.append(place.wrong(f"{wrong}. Write a list, as in [one, another]"))
            return UNREAD
        if not items and not self.may_be_empty:
            findings.append(place.wrong(f"is empty. Allowed: {self.allowed}"))
        read = [self.item.read(item, findings) for item in items]
        for number, item in enumerate(read):
            if item is not UNREAD and item in read[:number]:
                findings.append(items[number].wrong(f"{quoted(item)} is listed twice"))
        return UNREAD if UNREAD in read else tuple(read)

    def show(self, value: Any) -> list[str]:
        """Show each item."""
        return [self.item.show(item) for item in value]


@dataclass(frozen=True, slots=True)
class TextMap:
    """Names and texts, such as the configuration of Spark. Values may be secrets: never quoted."""

    type: str
    allowed: str
    prefix: str = ""

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Read every entry's text."""
        entries = place.entries()
        if entries is None:
            findings.append(place.wrong(f"must be names and values, not {place.what}"))
            return UNREAD
        before = len(findings)
        for key, entry in entries.items():
            if not key.startswith(self.prefix):
                findings.append(entry.wrong(f"must begin with {self.prefix}"))
            elif entry.text() is None:
                wrong = "has no value" if entry.is_empty else f"must be one value, not {entry.what}"
                findings.append(entry.wrong(wrong))
        if len(findings) > before:
            return UNREAD
        return {key: entry.text() for key, entry in entries.items()}

    def show(self, value: Any) -> str:
        """Show that there is nothing: there is no other default."""
        assert not value
        return "{}"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a transform: its verb, and what was written for it, not judged yet."""

    verb: str
    argument: object


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a transform, in their order. Arguments are never quoted."""

    type: str = "list of steps"
    allowed: str = f"steps with one of {', '.join(STEPS)} each"

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Read every step as far as its verb."""
        items = place.items()
        if items is None:
            findings.append(place.wrong(f"must be a list of steps, not {place.what}"))
            return UNREAD
        steps = [self._step(item, number, findings) for number, item in enumerate(items, 1)]
        return UNREAD if UNREAD in steps else tuple(steps)

    def _step(self, place: Place, number: int, findings: list[Finding]) -> Any:
        entries = place.entries() or {}
        if len(entries) != 1:
            wrong = f"step {number} must have one verb and what it takes. Allowed: "
            findings.append(place.wrong(wrong + ", ".join(STEPS)))
            return UNREAD
        ((verb, entry),) = entries.items()
        try:
            values.parse_word(verb, STEPS)
            if entry.is_empty:
                raise ValueError("has no value")
            return Step(verb, entry.plain())
        except ValueError as error:
            wrong = f"{error}{_stop(str(error))} Allowed: {', '.join(STEPS)}"
            findings.append(entry.wrong(f"step {number}: {quoted(verb)} {wrong}"))
            return UNREAD

    def show(self, value: Any) -> str:
        """Show that there are none: there is no other default."""
        assert not value
        return "[]"


@dataclass(frozen=True, slots=True)
class Hooks:
    """Commands to run around recovery verbs, by moment. Commands are never quoted."""

    type: str = "lists of commands"
    allowed: str = ", ".join(MOMENTS)

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Read the commands of every moment."""
        entries = place.entries()
        if entries is None:
            findings.append(place.wrong(f"must be moments and commands, not {place.what}"))
            return UNREAD
        before = len(findings)
        hooks: dict[str, tuple[str | None, ...]] = {}
        for moment, entry in entries.items():
            commands = [item.text() for item in entry.items() or ()]
            if moment not in MOMENTS:
                guess = values.near(moment, MOMENTS) or "."
                findings.append(entry.wrong(f"no such moment{guess} Allowed: {self.allowed}"))
            elif entry.items() is None or not all(commands):
                findings.append(entry.wrong("must be a list of commands, each a text"))
            hooks[moment] = tuple(commands)
        return hooks if len(findings) == before else UNREAD

    def show(self, value: Any) -> str:
        """Show that there are none: there is no other default."""
        assert not value
        return "{}"


@dataclass(frozen=True, slots=True)
class ByTopic:
    """Starts by the names of topics, or patterns for them, in their order."""

    type: str = "times by topic"
    allowed: str = "names or regular expressions, each with a start as above"

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Read every pattern and its start."""
        entries = place.entries()
        if entries is None:
            findings.append(place.wrong(f"must be topics and starts, not {place.what}"))
            return UNREAD
        before, starts = len(findings), {}
        for pattern, entry in entries.items():
            try:
                starts[values.parse_topic_pattern(pattern)] = START.read(entry, findings)
            except ValueError as error:
                findings.append(entry.wrong(f"{quoted(pattern)} {error}{_stop(str(error))}"))
        return starts if len(findings) == before else UNREAD

    def show(self, value: Any) -> str:
        """Show that there are none: there is no other default."""
        assert not value
        return "{}"


@dataclass(frozen=True, slots=True)
class Sets:
    """Topics that belong together, under a name."""

    type: str = "lists of topics by name"
    allowed: str = "names, each with topics as above"

    def read(self, place: Place, findings: list[Finding]) -> Any:
        """Read the topics of every set."""
        entries = place.entries()
        if entries is None:
            findings.append(place.wrong(f"must be names and lists of topics, not {place.what}"))
            return UNREAD
        before = len(findings)
        listing = Listing(TOPIC_PATTERN, may_be_empty=False)
        sets = {name: listing.read(entry, findings) for name, entry in entries.items()}
        return sets if len(findings) == before else UNREAD

    def show(self, value: Any) -> str:
        """Show that there are none: there is no other default."""
        assert not value
        return "{}"


def choice(*allowed: str) -> Scalar:
    """Make a kind with a few words."""
    words = ", ".join(allowed[:-1]) + f" or {allowed[-1]}"
    return Scalar("word", words, partial(values.parse_word, allowed=allowed))


def word_or_count(*allowed: str, most: int) -> Scalar:
    """Make a kind with a few words and numbers."""
    parse = partial(values.parse_word_or_count, allowed=allowed, most=most)
    return Scalar("word or number", f"{', '.join(allowed)} or a number from 1 to {most}", parse)


def _stop(sentence: str) -> str:
    return "" if sentence.endswith((".", "?")) else "."


_TIME = "a time such as 500ms, 5s, 2m, 1h or 1d"
_PATTERN = "a name, or a regular expression that matches whole names"

FLAG = Scalar("flag", "true or false", values.parse_flag, values.show_flag)
NAME = Scalar("name", "1 to 100 letters, digits, - and _ (no dots)", values.parse_name)
SPAN = Scalar("duration", f"{_TIME}, or off", values.parse_span, values.show_span)
SIZE = Scalar(
    "size",
    "a number of bytes such as 500kB, 50MB, 1GiB or 1048576, or off",
    values.parse_size,
    values.show_size,
)
START = Scalar(
    "time",
    "earliest, latest, or a time: ISO 8601 (UTC unless it has a zone) or epoch milliseconds",
    values.parse_start,
    values.show_start,
)
NAMING = Scalar(
    "template",
    "same, prefix (paris.orders), or a template with {topic} and perhaps {source}",
    values.parse_naming,
    values.show_naming,
)
MASTER = Scalar(
    "Spark master",
    "local, local[N], local[N,RETRIES], yarn, spark://HOST:PORT or k8s://HOST",
    values.parse_master,
)
ADDRESS = Scalar("address", "host:port", values.parse_address)
SECRET = Scalar(
    "secret",
    "a reference, ${env:NAME} or ${file:PATH}, or off",
    values.parse_secret,
    values.show_secret,
)
PATTERN = Scalar("names", _PATTERN, values.parse_pattern)
TOPIC_PATTERN = Scalar("names", _PATTERN, values.parse_topic_pattern)
PROPERTY = Scalar("Java client property", "see client properties", values.parse_text)
CLUSTER = Scalar("name", "the name of a cluster in this file", values.parse_text)
