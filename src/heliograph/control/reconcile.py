"""Reconcile: look at both ends, draw the blueprint, and carry it out. It blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from heliograph.control.setup import Setup
from heliograph.errors import ClusterError, HeliographError, NotAuthorized
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.model.acls import AclFilter, Resource
from heliograph.model.blueprint import Blueprint, Ours, Seen, draw, name_mirrors
from heliograph.model.configs import ConfigEntry, NewTopic
from heliograph.model.grants import Grants
from heliograph.model.mirrors import Alter, Grow
from heliograph.model.selection import select
from heliograph.model.topics import Partition, TopicView

_TOPICS = AclFilter(resource=Resource.TOPIC)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a link has to copy: mirror partitions by source partition, and what stood in the way.

    ``made`` are the ids of new mirrors by name; ``altered`` are mirrors that were grown, or whose
    settings were changed; ``grants`` is what was done about ACLs, and is to be noted.
    """

    parts: Mapping[Partition, Partition] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)
    altered: tuple[str, ...] = ()
    grants: Grants | None = None
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Reconciler:
    """Looks at a link's two clusters, and changes the target. For one thread at a time."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._stack = ExitStack()
        self._due_s: dict[str, float] = {}
        link = setup.link
        self._source = self._stack.enter_context(Admin(setup.source_settings, link.source))
        self._target = self._stack.enter_context(Admin(setup.target_settings, link.target))

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def look(self, ours: Ours, deadline: Deadline) -> Observed:
        """Select topics, bring their mirrors in step, and return what can be copied.

        A topic whose mirror cannot be made is left out, with the reason; the others go on.
        """
        sync = self._setup.link.sync
        seen = self.see(
            deadline,
            with_settings=self._is_time("settings", sync.configs),
            with_acls=self._is_time("acls", sync.acls),
        )
        return self._carry_out(draw(seen, self._setup.mirror_rules, ours), seen, deadline)

    def see(self, deadline: Deadline, *, with_settings: bool, with_acls: bool) -> Seen:
        """Look at both ends; at the settings of topics whose mirrors are new, or of all."""
        link, rules = self._setup.link, self._setup.mirror_rules
        names = select(self._source.topics.names(deadline), link.topics, link.exclude)
        sources = self._source.topics.describe(names, deadline)
        mirrors = name_mirrors(sources, rules)[0]
        targets = self._target.topics.describe(mirrors.values(), deadline)
        there = {topic: mirror for topic, mirror in mirrors.items() if mirror in targets}
        asked = mirrors if with_settings else mirrors.keys() - there.keys()
        seen = Seen(
            sources,
            targets,
            self._settings(self._source, asked, deadline),
            self._settings(self._target, there.values() if with_settings else (), deadline),
        )
        return self._with_acls(seen, deadline) if with_acls else seen

    def _with_acls(self, seen: Seen, deadline: Deadline) -> Seen:
        """Look at the ACLs of both ends; where one has none or hides them, the rest goes on."""
        try:
            here = self._source.acls.matching(_TOPICS, deadline)
            there = self._target.acls.matching(_TOPICS, deadline)
        except ClusterError as hidden:
            return replace(seen, notes=(f"ACLs are not followed: {hidden}",))
        return replace(seen, source_acls=here, target_acls=there)

    def _is_time(self, what: str, every: timedelta | None) -> bool:
        now_s = clock.now_s()
        if every is None or now_s < self._due_s.get(what, 0.0):
            return False
        self._due_s[what] = now_s + every.total_seconds()
        return True

    def _settings(
        self, admin: Admin, topics: Collection[str], deadline: Deadline
    ) -> dict[str, dict[str, ConfigEntry]]:
        if not topics:
            return {}
        try:
            return admin.configs.of_topics(topics, deadline)
        except NotAuthorized:
            # DescribeConfigs is for keeping settings in step; copying does not need it.
            return {}

    # Changes

    def _carry_out(self, plan: Blueprint, seen: Seen, deadline: Deadline) -> Observed:
        """Make every change that can be made. A mirror without its partitions is not copied to."""
        new = [change for change in plan.changes if isinstance(change, NewTopic)]
        created = self._target.topics.create_many(new, deadline=deadline)
        made = {name: str(one) for name, one in created.items() if isinstance(one, UUID)}
        refused = {name: one for name, one in created.items() if not isinstance(one, UUID)}
        altered: list[str] = []
        unaltered: list[str] = []
        for change in plan.changes:
            try:
                if isinstance(change, Grow):
                    self._target.topics.grow(change.topic, change.partitions, deadline=deadline)
                    altered.append(change.topic)
                elif isinstance(change, Alter):
                    self._alter(change, deadline)
                    altered.append(change.topic)
            except HeliographError as error:
                if isinstance(change, Grow):
                    refused[change.topic] = error
                else:
                    unaltered.append(str(error))
        if made or altered:
            self._target.topics.await_leaders({*made, *altered} - refused.keys(), deadline)
        if plan.grants is not None:
            self._target.acls.create(plan.grants.grant, deadline)
            self._target.acls.delete(plan.grants.revoke, deadline)
        errors = (*plan.errors, *map(str, refused.values()), *unaltered)
        parts = _parts(plan.mirrors, seen.sources, refused)
        return Observed(parts, plan.mirrors, made, tuple(altered), plan.grants, errors, plan.notes)

    def _alter(self, change: Alter, deadline: Deadline) -> None:
        self._target.configs.change_topic(
            change.topic, put=change.put, remove=change.remove, deadline=deadline
        )


def _parts(
    mirrors: Mapping[str, str], sources: Mapping[str, TopicView], refused: Collection[str]
) -> dict[Partition, Partition]:
    return {
        Partition(topic, number): Partition(mirror, number)
        for topic, mirror in mirrors.items()
        if mirror not in refused
        for number in sources[topic].partitions
    }
