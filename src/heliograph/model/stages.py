"""Stages: where a topic of a link is between its source and its target, and what may follow.

Pure. A row ``stage/<topic>`` of the link's control topic, put by recovery verbs. A topic without
one is mirrored as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from heliograph.model.control import Rows, read

StageState = Literal["PROMOTING", "PROMOTED", "FAILED_OVER", "REVERSING", "FAILING_BACK"]
Verb = Literal["promote", "failover", "switch", "switch-back", "failback"]

_STAGE = b"stage/"

MIRRORED = None
"""The stage of a topic that no recovery verb has touched."""

LEGAL: Mapping[Verb, frozenset[StageState | None]] = {
    "promote": frozenset({MIRRORED, "PROMOTING"}),
    # A promotion whose source dies half-way is finished as a failover.
    "failover": frozenset({MIRRORED, "PROMOTING"}),
    "switch": frozenset({MIRRORED, "PROMOTING"}),
    "switch-back": frozenset({"REVERSING"}),
    "failback": frozenset({"PROMOTED", "FAILED_OVER", "FAILING_BACK"}),
}
"""From which stages of its own direction each verb may begin; ``directions`` judges by both."""

REACHED: Mapping[Verb, StageState | None] = {
    "promote": "PROMOTED",
    "failover": "FAILED_OVER",
    "switch": "REVERSING",
    "switch-back": MIRRORED,
    "failback": "REVERSING",
}
"""What a verb leads to: begun from there, it has nothing to do."""

OPEN: frozenset[str | None] = frozenset({"PROMOTED", "FAILED_OVER", "FAILING_BACK", "REVERSING"})
"""Stages that a topic enters when its mirror is opened for applications, or later."""

TARGET_IS_PRIMARY: frozenset[StageState | None] = frozenset(
    {"PROMOTED", "FAILING_BACK", "REVERSING"}
)
"""Stages in which applications use the target already, by another verb than a failover: one of
other topics leaves these alone, since a source that is lost is no loss for them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a topic is. ``copies`` says that its link copies it all the same."""

    state: StageState
    since_ms: int
    mirror: str
    recovery: str
    copies: bool = False


def stage_key(topic: str) -> bytes:
    """Name the row of a topic's stage.

    >>> stage_key("orders")
    b'stage/orders'
    """
    return _STAGE + topic.encode()


def is_stage(key: bytes) -> bool:
    """Tell whether a row of the control topic is a topic's stage."""
    return key.startswith(_STAGE)


def read_stages(rows: Rows) -> dict[str, Stage]:
    """Return the stages of a link's topics, by source topic."""
    keys = [key for key in rows if is_stage(key)]
    found = {key.removeprefix(_STAGE).decode(): read(rows, key, Stage) for key in keys}
    return {topic: one for topic, one in found.items() if one is not None}


def closed_topics(stages: Mapping[str, Stage]) -> dict[str, str]:
    """Return the mirrors that the link leaves alone, by source topic."""
    return {topic: one.mirror for topic, one in stages.items() if not one.copies}


def is_turned(stages: Mapping[str, Stage]) -> bool:
    """Tell whether some topics of a link are turned round, so that its opposite direction is on.

    >>> is_turned({"a": Stage("REVERSING", 0, "a", "id"), "b": Stage("PROMOTED", 0, "b", "id")})
    True
    """
    return any(one.state in ("FAILING_BACK", "REVERSING") for one in stages.values())


def link_state(state: str, topics: Iterable[str], stages: Mapping[str, Stage]) -> str:
    """Return the state of a link: that of its topics, where recovery brought all of them there.

    >>> link_state("ACTIVE", ["a"], {"a": Stage("PROMOTED", 0, "a", "id")})
    'PROMOTED'
    """
    states = {stages[one].state if one in stages else None for one in topics}
    if len(states) == 1:
        (only,) = states
        return only or state
    return state
