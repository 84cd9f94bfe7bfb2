"""Values as JSON text, and back: what our own topics hold and what travels to a Spark task.

Pure. The classes are the format: frozen dataclasses of plain values, of each other, of tuples and
of maps by name. A key that this version does not know is left aside, so that an older reader
understands a newer writer; one that is missing takes its default.
"""

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_text(value: Any) -> str:
    """Return a dataclass as one line of JSON; keys in the order of its fields."""
    return json.dumps(asdict(value), separators=(",", ":"))


def from_text(kind: type[T], text: str | bytes) -> T:
    """Return the value that ``to_text`` wrote.

    Raises ValueError for anything else: bytes from a topic are from outside.
    """
    try:
        value = _build(kind, json.loads(text))
    except (TypeError, KeyError, AttributeError) as nonsense:
        message = f"not a {kind.__name__} ({type(nonsense).__name__}: {nonsense})"
        raise ValueError(message) from nonsense
    assert isinstance(value, kind)
    return value


def _build(kind: Any, plain: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _build_fields(kind, plain)
    if origin in (Union, types.UnionType):
        return _build_any(parts, plain)
    if origin is tuple:
        return tuple(_build(parts[0], one) for one in plain)
    if origin is Mapping:
        return {name: _build(parts[1], one) for name, one in plain.items()}
    if origin is Literal:
        if plain not in parts:
            raise ValueError(f"{plain!r} is none of {parts}")
        return plain
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(plain)
    if hasattr(kind, "_fields"):  # a named tuple travels as a list
        return kind(*plain)
    return _plain(kind, plain)


def _build_any(kinds: tuple[Any, ...], plain: Any) -> Any:
    if plain is None and type(None) in kinds:
        return None
    wrong: ValueError | None = None
    for kind in kinds:
        try:
            return _build(kind, plain)
        except ValueError as nonsense:
            wrong = nonsense
    raise wrong or ValueError("no kind at all")


def _plain(kind: Any, plain: Any) -> Any:
    if kind is float and type(plain) is int:
        return float(plain)
    if type(plain) is not kind:
        raise ValueError(f"{plain!r} is not {kind.__name__}")
    return plain


def _build_fields(kind: Any, plain: Any) -> Any:
    values = {}
    for name, (hint, is_required) in _hints(kind).items():
        if name in plain:
            values[name] = _build(hint, plain[name])
        elif is_required:
            raise ValueError(f"{name} is missing")
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(kind)
    return {
        one.name: (hints[one.name], one.default is MISSING and one.default_factory is MISSING)
        for one in fields(kind)
    }
