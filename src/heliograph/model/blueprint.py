"""The blueprint of a link: what is to change on its target, from what was seen at both ends. Pure.

``heliograph plan`` shows it, ``heliograph run`` carries it out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from heliograph.errors import ConfigError
from heliograph.model.acls import Acl
from heliograph.model.configs import NewTopic
from heliograph.model.control import MADE, NOTED, Made, Noted, Rows, read
from heliograph.model.grants import Grants, follow, mirrored_acls
from heliograph.model.mirrors import (
    Alter,
    Grow,
    SettingRules,
    Settings,
    alteration,
    mirror_configs,
    missing,
)
from heliograph.model.selection import mirror_name
from heliograph.model.topics import TopicView

Change = NewTopic | Grow | Alter


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen: topics, and the settings of those that were asked about.

    ACLs are None where nobody asked for them.
    """

    sources: Mapping[str, TopicView]
    targets: Mapping[str, TopicView]
    source_settings: Mapping[str, Settings] = field(default_factory=dict)
    target_settings: Mapping[str, Settings] = field(default_factory=dict)
    source_acls: Collection[Acl] | None = None
    target_acls: Collection[Acl] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ours:
    """What Heliograph did on the target before: ids of the mirrors it made, and ACLs it noted."""

    made: Mapping[str, str] = field(default_factory=dict)
    noted: frozenset[Acl] = frozenset()


@dataclass(frozen=True, slots=True)
class Rules:
    """How a link wants its mirrors. ``source`` is the source cluster's name."""

    naming: str
    source: str
    replication_factor: Literal["target", "source"] | int
    settings: SettingRules


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Mirrors by source topic, what to change, and what cannot be done or should be known."""

    mirrors: Mapping[str, str]
    changes: tuple[Change, ...]
    grants: Grants | None = None
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_ours(rows: Rows) -> Ours:
    """Return what Heliograph did on the target."""
    made, noted = read(rows, MADE, Made), read(rows, NOTED, Noted)
    return Ours(made.topics if made else {}, frozenset(noted.acls if noted else ()))


def name_mirrors(topics: Collection[str], rules: Rules) -> tuple[dict[str, str], list[str]]:
    """Return the mirror of each topic, and why some have none."""
    mirrors: dict[str, str] = {}
    taken: dict[str, str] = {}
    errors: list[str] = []
    for topic in topics:
        try:
            name = mirror_name(rules.naming, rules.source, topic)
        except ConfigError as unfit:
            errors.append(unfit.message)
            continue
        if name in taken:
            errors.append(
                f"topic {topic} is not copied: {taken[name]} is mirrored as {name} too. Change"
                " naming so that their names differ, or exclude one of them"
            )
        else:
            mirrors[topic], taken[name] = name, topic
    return mirrors, errors


def draw(seen: Seen, rules: Rules, ours: Ours) -> Blueprint:
    """Return what is to change: mirrors to create, to grow and to bring in step, and ACLs."""
    mirrors, errors = name_mirrors(seen.sources, rules)
    configs = {
        topic: mirror_configs(seen.source_settings.get(topic, {}), rules.settings)
        for topic, mirror in mirrors.items()
        if mirror not in seen.targets
    }
    factor = rules.replication_factor
    changes: list[Change] = [*missing(seen.sources, mirrors, seen.targets, configs, factor)]
    notes = list(seen.notes)
    for topic, mirror in mirrors.items():
        if mirror in seen.target_settings and topic in seen.source_settings:
            altered = _altered(seen, rules, topic, mirror, ours.made)
            if altered is not None and (altered.put or altered.remove):
                changes.append(altered)
            if altered is not None and altered.unknown:
                unknown = ", ".join(altered.unknown)
                notes.append(f"{mirror} goes without settings that its cluster lacks: {unknown}")
        notes += _shape(seen, topic, mirror)
    grants = None
    if seen.source_acls is not None:
        wanted = mirrored_acls(seen.source_acls, mirrors, rules.naming, rules.source)
        grants = follow(wanted, seen.target_acls, ours.noted)
    return Blueprint(mirrors, tuple(changes), grants, tuple(errors), tuple(notes))


def _altered(
    seen: Seen, rules: Rules, topic: str, mirror: str, made: Mapping[str, str]
) -> Alter | None:
    is_ours = made.get(mirror) == str(seen.targets[mirror].topic_id)
    here, there = seen.source_settings[topic], seen.target_settings[mirror]
    return alteration(mirror, here, there, rules.settings, is_ours=is_ours)


def _shape(seen: Seen, topic: str, mirror: str) -> list[str]:
    """Tell of a mirror that has more partitions than its source: records stay where they were."""
    there = seen.targets.get(mirror)
    count = len(seen.sources[topic].partitions)
    if there is None or len(there.partitions) <= count:
        return []
    return [
        f"{mirror} has {len(there.partitions)} partitions and {topic} has {count}: the others stay"
        " empty, and a producer that writes to the mirror after a failover spreads keys differently"
    ]
