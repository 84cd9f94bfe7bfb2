"""Mirrors: what must be made on the target before anything is copied. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from heliograph.model.configs import ConfigEntry, ConfigSource, NewTopic
from heliograph.model.topics import TopicView

_ANY_TIME_MS = str((1 << 63) - 1)
# So that batches pass untouched: see design.md, section 4.
_FIXED = {
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY_TIME_MS,
    "message.timestamp.after.max.ms": _ANY_TIME_MS,
}
_SIZE = "max.message.bytes"
# What Kafka allows unless told otherwise. Joined batches need no more than this.
_DEFAULT_SIZE = 1_048_588


@dataclass(frozen=True, slots=True)
class Grow:
    """A mirror that needs more partitions."""

    topic: str
    partitions: int


def missing(
    sources: Mapping[str, TopicView],
    mirrors: Mapping[str, str],
    targets: Mapping[str, TopicView],
    configs: Mapping[str, Mapping[str, str]],
    replication_factor: Literal["target", "source"] | int,
) -> list[NewTopic | Grow]:
    """Return what to create and what to grow; ``mirrors`` are names by source topic.

    ``configs`` are the settings of new mirrors, see ``mirror_configs``. A mirror with more
    partitions than its source is left as it is: the others stay empty.
    """
    actions: list[NewTopic | Grow] = []
    for topic, mirror in mirrors.items():
        count = len(sources[topic].partitions)
        there = targets.get(mirror)
        if there is None:
            factor = _factor(sources[topic], replication_factor)
            actions.append(NewTopic(mirror, count, factor, configs.get(topic, {})))
        elif len(there.partitions) < count:
            actions.append(Grow(mirror, count))
    return actions


def mirror_configs(source: Iterable[ConfigEntry], exclude: Collection[str]) -> dict[str, str]:
    """Return the settings of a new mirror: what was set on the source topic, and what we need."""
    entries = {entry.name: entry for entry in source}
    wanted = {
        name: entry.value
        for name, entry in entries.items()
        if entry.source is ConfigSource.TOPIC
        and entry.value is not None
        and not any(re.fullmatch(pattern, name) for pattern in exclude)
    }
    size = entries.get(_SIZE)
    most = max(_DEFAULT_SIZE, int(size.value)) if size and size.value else _DEFAULT_SIZE
    return {**wanted, **_FIXED, _SIZE: str(most)}


def _factor(topic: TopicView, wanted: Literal["target", "source"] | int) -> int | None:
    if wanted == "target":
        return None
    if wanted == "source":
        return max(len(one.replicas) for one in topic.partitions.values())
    return wanted
