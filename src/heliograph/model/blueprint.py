"""The blueprint of a link: what is to change on its target, from what was seen at both ends. Pure.

``heliograph plan`` shows it, ``heliograph run`` carries it out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from heliograph.errors import ConfigError, HeliographError
from heliograph.model.acls import Acl, is_fence
from heliograph.model.configs import NewTopic
from heliograph.model.control import (
    FIRST,
    NOTED,
    Begun,
    FirstLook,
    Made,
    Noted,
    Rows,
    read,
    read_begun,
    read_made,
)
from heliograph.model.grants import Grants, follow, mirrored_acls
from heliograph.model.mirrors import (
    KEEPS_TIMES,
    TIMESTAMP_TYPE,
    Alter,
    Delete,
    Grow,
    SettingRules,
    Settings,
    alteration,
    append_time,
    is_left_out,
    mirror_configs,
    missing,
    replaces_times,
)
from heliograph.model.selection import mirror_name
from heliograph.model.stages import closed_topics, read_stages
from heliograph.model.topics import TopicView

Change = NewTopic | Grow | Alter | Delete


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen: topics, and the settings of those that were asked about.

    ACLs are None where nobody asked for them. ``absent`` are source topics that were asked for by
    name and are not there.
    """

    sources: Mapping[str, TopicView]
    targets: Mapping[str, TopicView]
    source_settings: Mapping[str, Settings] = field(default_factory=dict)
    target_settings: Mapping[str, Settings] = field(default_factory=dict)
    source_acls: Collection[Acl] | None = None
    target_acls: Collection[Acl] = ()
    absent: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ours:
    """What Heliograph did for a link before: the mirrors it made, by name, and what it noted.

    ``closed`` are mirrors, by source topic, that are their applications' by now.
    """

    made: Mapping[str, Made] = field(default_factory=dict)
    noted: frozenset[Acl] = frozenset()
    first: FirstLook | None = None
    begun: Mapping[str, Begun] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a link wants its mirrors. ``source`` is the source cluster's name.

    ``is_shared`` says that mirrors may have other writers, such as other links.
    """

    naming: str
    source: str
    replication_factor: Literal["target", "source"] | int
    settings: SettingRules
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Mirrors by source topic, what to change, and what cannot be done or should be known.

    ``unfit`` are mirrors that nothing may be copied to as they are, and why; of those whose
    settings were seen.
    """

    mirrors: Mapping[str, str]
    changes: tuple[Change, ...]
    unfit: Mapping[str, HeliographError] = field(default_factory=dict)
    grants: Grants | None = None
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_ours(rows: Rows) -> Ours:
    """Return what Heliograph did for a link."""
    noted = read(rows, NOTED, Noted)
    return Ours(
        read_made(rows),
        frozenset(noted.acls if noted else ()),
        read(rows, FIRST, FirstLook),
        read_begun(rows),
        closed_topics(read_stages(rows)),
    )


def name_mirrors(topics: Collection[str], rules: Rules) -> tuple[dict[str, str], list[str]]:
    """Return the mirror of each topic, and why some have none."""
    mirrors: dict[str, str] = {}
    errors: list[str] = []
    for topic in topics:
        try:
            mirrors[topic] = mirror_name(rules.naming, rules.source, topic)
        except ConfigError as unfit:
            errors.append(unfit.message)
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
    unfit: dict[str, HeliographError] = {}
    for topic, mirror in mirrors.items():
        if mirror in seen.target_settings and topic in seen.source_settings:
            altered = _altered(seen, rules, topic, mirror, ours.made)
            if altered is not None and (altered.put or altered.remove):
                changes.append(altered)
            if altered is not None and altered.unknown:
                unknown = ", ".join(altered.unknown)
                notes.append(f"{mirror} goes without settings that its cluster lacks: {unknown}")
        notes += _shape(seen, topic, mirror)
        if replaces_times(seen.target_settings.get(mirror, {})):
            why_not = _why_times_stay(seen, rules, mirror, ours.made)
            if why_not is not None:
                unfit[mirror] = append_time(mirror, why_not)
            else:
                changes.append(Alter(mirror, {TIMESTAMP_TYPE: KEEPS_TIMES[TIMESTAMP_TYPE]}))
                notes.append(
                    f"{mirror} had {TIMESTAMP_TYPE}=LogAppendTime, which replaces the time of every"
                    " record: CreateTime takes its place"
                )
    changes += [
        Delete(mirror, made.topic_id, made.source)
        for mirror, made in ours.made.items()
        if made.source in seen.absent and not rules.is_shared
    ]
    grants = None
    if seen.source_acls is not None:
        wanted = mirrored_acls(seen.source_acls, mirrors, rules.naming, rules.source)
        grants = follow(wanted | _kept(seen, ours), seen.target_acls, ours.noted)
    return Blueprint(mirrors, tuple(changes), unfit, grants, tuple(errors), tuple(notes))


def _kept(seen: Seen, ours: Ours) -> set[Acl]:
    """Return the rules of mirrors that are closed: who could read them still may.

    A fence that an earlier version mirrored is not among them: it would shut out every writer.
    """
    closed = tuple(ours.closed.values())
    return {
        acl
        for acl in ours.noted
        if acl in seen.target_acls
        and not is_fence(acl)
        and any(one.startswith(acl.name) for one in closed)
    }


def _altered(
    seen: Seen, rules: Rules, topic: str, mirror: str, made: Mapping[str, Made]
) -> Alter | None:
    is_ours = _is_ours(seen, mirror, made)
    if rules.is_shared and not is_ours:
        return None  # somebody else sees to it; two would undo each other's settings
    here, there = seen.source_settings[topic], seen.target_settings[mirror]
    return alteration(mirror, here, there, rules.settings, is_ours=is_ours)


def _is_ours(seen: Seen, mirror: str, made: Mapping[str, Made]) -> bool:
    """True when Heliograph made this very topic."""
    return mirror in made and made[mirror].topic_id == str(seen.targets[mirror].topic_id)


def _why_times_stay(seen: Seen, rules: Rules, mirror: str, made: Mapping[str, Made]) -> str | None:
    """Return why this link may not set how a mirror keeps times, None where it may."""
    if not rules.settings.is_followed:
        return "sync.configs of the link is off"
    if _is_ours(seen, mirror, made):
        return None
    if rules.is_shared:
        return "it did not make the topic, and others write to it"
    if is_left_out(TIMESTAMP_TYPE, rules.settings.exclude):
        return "it did not make the topic, and mirrors.configs_exclude of the link names it"
    return None


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
