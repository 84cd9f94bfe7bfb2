"""Reads a group of settings by its class, and gathers every mistake."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from heliograph.config.document import Finding, Place, quoted
from heliograph.config.kinds import NAME, UNREAD
from heliograph.config.settings import ClusterConfig, Config, Key, LinkConfig, keys
from heliograph.config.values import near, parse_name

_PROPERTY_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_LITERALS = "allow_literal_secrets"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was given in one group and is right, and where everything that was given stands.

    ``is_whole`` says that nothing in it was wrong, so that it can be built.
    """

    place: Place
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    is_whole: bool = True


def read_group(group: type, place: Place, findings: list[Finding]) -> Reading:
    """Read each key by its kind; unknown and missing ones are mistakes."""
    before = len(findings)
    entries = place.entries()
    if entries is None:
        findings.append(place.wrong(f"must be a group of settings, not {place.what}"))
        return Reading(place, is_whole=False)
    known = {key.name: key for key in keys(group)}
    reading = Reading(place, places=entries)
    for name, entry in entries.items():
        if name not in known:
            findings.append(entry.wrong(_unknown(name, known.values())))
        elif (value := _read(known[name], entry, findings)) is not UNREAD:
            reading.values[name] = value
    for key in known.values():
        if key.is_required and key.name not in entries:
            path = f"{place.path}.{key.name}".removeprefix(".")
            findings.append(Finding(path, place.line, f"is missing. {_takes(key)}"))
    return Reading(place, reading.values, entries, len(findings) == before)


def _read(key: Key, place: Place, findings: list[Finding]) -> Any:
    if key.kind is not None:
        return key.kind.read(place, findings)
    assert key.group is not None, "a setting has a kind or a group"
    if key.is_named:
        return _read_named(key, place, findings)
    below = read_group(key.group, place, findings)
    return key.group(**below.values) if below.is_whole else UNREAD


def _read_named(key: Key, place: Place, findings: list[Finding]) -> Any:
    entries = place.entries()
    if not entries:
        wrong = "names none" if entries == {} else f"must be groups by name, not {place.what}"
        findings.append(place.wrong(f"{wrong}. {_takes(key)}"))
        return UNREAD
    readings = {}
    for name, entry in entries.items():
        try:
            parse_name(name)
        except ValueError:
            wrong = f"cannot be a name here. Allowed: {NAME.allowed}"
            findings.append(entry.wrong(wrong))
        read = _read_cluster if key.group is ClusterConfig else _read_link
        readings[name] = read(entry, findings)
    return readings


def _read_link(place: Place, findings: list[Finding]) -> Reading:
    return read_group(LinkConfig, place, findings)


def _read_cluster(place: Place, findings: list[Finding]) -> Reading:
    """Take whatever is no setting of ours as a property, unchecked."""
    entries = place.entries()
    if entries is None:
        wrong = "must be a group of properties, as in {bootstrap.servers: host:9092}"
        findings.append(place.wrong(f"{wrong}, not {place.what}"))
        return Reading(place, is_whole=False)
    before = len(findings)
    values: dict[str, Any] = {}
    properties: dict[str, object] = {}
    literals = next(key for key in keys(ClusterConfig) if key.name == _LITERALS)
    for name, entry in entries.items():
        if name == _LITERALS:
            values[name] = _read(literals, entry, findings)
        elif _PROPERTY_NAME.fullmatch(name):
            properties[name] = _as_given(entry)
        else:
            # Not quoted: a line of a property file, with a password in it, can look like this.
            findings.append(entry.wrong("is no property. Write each as name: value"))
    values["properties"] = properties
    return Reading(place, values, entries, len(findings) == before)


def _as_given(place: Place) -> object:
    """Return texts as they were written: a property file knows nothing else."""
    items = place.items()
    if items is not None:
        return [_as_given(item) if item.items() is None else [] for item in items]
    return {} if place.text() is None and not place.is_empty else place.text()


def _takes(key: Key) -> str:
    return f"{key.help} Allowed: {key.kind.allowed}" if key.kind else key.help


def _unknown(name: str, known: Iterable[Key]) -> str:
    known = list(known)
    for key in known:
        if key.group and not key.is_named and name in {below.name for below in keys(key.group)}:
            return f"no such setting here. It belongs in {key.name}"
    names = [key.name for key in known]
    guess = near(name, names)
    return f"no such setting{guess}" if guess else f"no such setting. Known: {', '.join(names)}"


def read_config(place: Place, findings: list[Finding]) -> Reading:
    """Read the whole file."""
    if place.entries() is None:
        names = ", ".join(key.name for key in keys(Config))
        findings.append(place.wrong(f"the file must hold {names}, not {place.what}"))
        return Reading(place, is_whole=False)
    return read_group(Config, place, findings)


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """Say that a name means nothing, and which ones do."""
    known = list(known)
    guess = near(name, known) or "."
    return f"there is no {what} {quoted(name)}{guess} Known: {', '.join(known)}"
