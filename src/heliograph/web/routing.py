"""What a route is: an endpoint, what it takes, what it does and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from heliograph.web.desk import Desk
from heliograph.web.fields import Field

PREFIX = "/api/v1"
HTML = "text/html"
_LARGEST_JSON_BYTES = 16 << 10
_LARGEST_YAML_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that was let in and understood. ``body`` is a text where the route takes one."""

    who: str
    is_known: bool
    link: str = ""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back: a value for JSON, or a text of another kind."""

    value: Any
    status: int = 200
    media_type: str = "application/json"


Act = Callable[[Desk, Ask], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint. ``answer`` is a type, or a JSON Schema in which types may stand.

    ``statuses`` are those beside 200 and those of problems. ``is_health`` ones are answered without
    a token; ``is_short`` ones also without the prefix.
    """

    method: Literal["GET", "POST"]
    path: str
    act: Act
    help: str
    answer: Any
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | Literal["yaml"] | None = None
    statuses: Mapping[int, str] = field(default_factory=dict)
    is_health: bool = False
    is_short: bool = False

    @property
    def most_bytes(self) -> int:
        """How large a body may be."""
        return _LARGEST_YAML_BYTES if self.body == "yaml" else _LARGEST_JSON_BYTES
