"""Mirrors: what must be made on the target, and how it is kept in step with its source. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from heliograph.errors import MirrorAppendTime
from heliograph.model.configs import (
    OLD_TIME_LIMIT,
    TIME_BEFORE,
    ConfigEntry,
    ConfigSource,
    NewTopic,
)
from heliograph.model.topics import TopicView

_ANY_TIME_MS = str((1 << 63) - 1)
TIMESTAMP_TYPE = "message.timestamp.type"
KEEPS_TIMES = {
    TIMESTAMP_TYPE: "CreateTime",
    TIME_BEFORE: _ANY_TIME_MS,
    "message.timestamp.after.max.ms": _ANY_TIME_MS,
}
"""Settings of a topic that takes records of any time, and leaves their times as they are."""
# So that batches pass untouched: see design.md, section 4.
_FIXED = {"compression.type": "producer", **KEEPS_TIMES}
_SIZE = "max.message.bytes"
# What Kafka allows unless told otherwise. Joined batches need no more than this.
_DEFAULT_SIZE = 1_048_588


Settings = Mapping[str, ConfigEntry]
_DECIDES_DELETION = ("cleanup.policy", "retention.ms", "retention.bytes")


@dataclass(frozen=True, slots=True)
class SettingRules:
    """Which settings a mirror takes from its source: all but some, and whose defaults hold.

    ``is_followed`` is False where existing mirrors keep the settings that they have.
    """

    exclude: Collection[str] = ()
    use_defaults_from: Literal["target", "source"] = "target"
    is_followed: bool = True


@dataclass(frozen=True, slots=True)
class Grow:
    """A mirror that needs more partitions."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Alter:
    """A mirror whose settings are to follow those of its source.

    ``unknown`` are settings of the source that brokers of the target do not know.
    """

    topic: str
    put: Mapping[str, str]
    remove: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """A mirror that Heliograph made, and whose source topic is gone."""

    topic: str
    topic_id: str
    source: str


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


def mirror_configs(source: Settings, rules: SettingRules) -> dict[str, str]:
    """Return the settings of a new mirror: what it takes from its source, and what we need."""
    return {**_followed(source, rules), **_FIXED}


def alteration(
    mirror: str,
    source: Settings,
    target: Settings,
    rules: SettingRules,
    *,
    is_ours: bool,
) -> Alter | None:
    """Return how the settings of a mirror must change, None where they are in step.

    What was set on the source topic is set on the mirror; what is not set there any more is unset.
    Settings that are left out, and those that let batches pass untouched, stay as they are. On a
    topic that Heliograph did not make (``is_ours``), so does what decides which records are
    deleted: they may be somebody else's.
    """
    wanted = _followed(source, rules)
    kept = {*_FIXED, OLD_TIME_LIMIT, *(() if is_ours else _DECIDES_DELETION)}
    put = {
        name: value
        for name, value in wanted.items()
        if name in target and name not in kept and not _is_in_step(target[name], value, source)
    }
    remove = tuple(
        name
        for name, entry in sorted(target.items())
        if entry.source is ConfigSource.TOPIC
        and name not in wanted
        and name not in kept
        and not is_left_out(name, rules.exclude)
    )
    unknown = tuple(name for name in sorted(wanted) if name not in target)
    return Alter(mirror, put, remove, unknown) if put or remove or unknown else None


def replaces_times(topic: Settings) -> bool:
    """True when brokers give each record of the topic the time at which it is stored."""
    entry = topic.get(TIMESTAMP_TYPE)
    return entry is not None and entry.value == "LogAppendTime"


def append_time(mirror: str, why: str) -> MirrorAppendTime:
    """Return the error for a mirror that replaces times, and why Heliograph leaves it so."""
    return MirrorAppendTime(
        f"the mirror {mirror} has {TIMESTAMP_TYPE}=LogAppendTime: its brokers would replace the"
        " time of every record. Nothing is copied to it, and Heliograph did not change the setting:"
        f" {why}. Change it on the target: kafka-configs.sh --alter --topic {mirror}"
        f" --add-config {TIMESTAMP_TYPE}=CreateTime"
    )


def _followed(source: Settings, rules: SettingRules) -> dict[str, str]:
    """Return what a mirror takes from its source: what was set there, and perhaps its defaults."""
    followed = {
        name: entry.value
        for name, entry in source.items()
        if entry.value is not None
        and (entry.source is ConfigSource.TOPIC or rules.use_defaults_from == "source")
        and not is_left_out(name, rules.exclude)
    }
    return {**followed, _SIZE: _size(source)}


def _is_in_step(entry: ConfigEntry, value: str, source: Settings) -> bool:
    """A default of the source needs not be set where the target's is the same."""
    is_set = entry.source is ConfigSource.TOPIC
    was_set = source[entry.name].source is ConfigSource.TOPIC if entry.name in source else True
    return entry.value == value and (is_set or not was_set)


def is_left_out(name: str, exclude: Collection[str]) -> bool:
    """True when mirrors do not take this setting from their sources."""
    return any(re.fullmatch(pattern, name) for pattern in exclude)


def _size(source: Settings) -> str:
    size = source.get(_SIZE)
    return str(max(_DEFAULT_SIZE, int(size.value)) if size and size.value else _DEFAULT_SIZE)


def _factor(topic: TopicView, wanted: Literal["target", "source"] | int) -> int | None:
    if wanted == "target":
        return None
    if wanted == "source":
        return max(len(one.replicas) for one in topic.partitions.values())
    return wanted
