"""Fields: what a query or a body may hold, read by type, with every mistake told at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from heliograph.config.document import quoted
from heliograph.config.values import near, parse_flag, parse_limit, parse_pattern, parse_start
from heliograph.web.problems import bad_input

_MOST_SECONDS = 1e9
_MOST_PATTERN = 1_000


@dataclass(frozen=True, slots=True)
class Field:
    """One value by name; ``pattern`` is a text that selects topics."""

    name: str
    type: Literal["pattern", "boolean", "seconds", "start", "limit"]
    help: str
    default: Any = None
    is_required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema says it."""
        kinds: dict[str, dict[str, Any]] = {
            "pattern": {"type": "string", "format": "regex"},
            "boolean": {"type": "boolean"},
            "seconds": {"type": "number", "minimum": 0},
            "start": {"type": "string"},
            "limit": {"type": ["string", "integer"]},
        }
        default = {} if self.default is None else {"default": self.default}
        return kinds[self.type] | default | {"description": self.help}

    def read(self, value: Any) -> Any:
        """Return what was given as what it should be, or raise ValueError."""
        if self.type == "pattern":
            if not isinstance(value, str):
                raise ValueError("must be a text")
            if len(value) > _MOST_PATTERN:
                raise ValueError(f"is longer than {_MOST_PATTERN} characters")
            return parse_pattern(value)
        if self.type == "boolean":
            return value if isinstance(value, bool) else parse_flag(str(value))
        if self.type == "start":
            return parse_start(str(value))
        if self.type == "limit":
            return parse_limit(str(value))
        return _seconds(value)


def _seconds(value: Any) -> float:
    wrong = ValueError("is not a number of seconds")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise wrong
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        raise wrong from None
    if not 0 <= seconds <= _MOST_SECONDS:
        raise wrong
    return seconds


def read_query(fields: Sequence[Field], given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the values of a query, defaults where nothing was given."""
    values: dict[str, Any] = {}
    twice = []
    for name, text in given:
        twice += [name] if name in values else []
        values[name] = text
    if twice:
        raise bad_input(f"given twice: {', '.join(twice)}")
    return _read(fields, values)


def read_json(fields: Sequence[Field], body: bytes) -> dict[str, Any]:
    """Return the values of a JSON object; no body at all is an empty one."""
    try:
        given = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise bad_input("the body is not JSON") from None
    if not isinstance(given, dict):
        raise bad_input("the body must be a JSON object")
    return _read(fields, given)


def _read(fields: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name: field for field in fields}
    found = {field.name: field.default for field in fields}
    missing = [one.name for one in fields if one.is_required and one.name not in given]
    wrong = [f"{name} is missing" for name in missing]
    for name, value in given.items():
        if name not in known:
            guess = near(name, known) or f". Known: {', '.join(known) or 'none at all'}"
            wrong.append(f"there is no {quoted(name)} here{guess}")
            continue
        try:
            found[name] = known[name].read(value)
        except ValueError as error:
            told = f"{quoted(value)} " if isinstance(value, str) else ""
            wrong.append(f"{name}: {told}{error}")
    if wrong:
        raise bad_input("; ".join(wrong))
    return found
