"""Reconcile: look at both ends, draw the blueprint, and carry it out. It blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal
from uuid import UUID

from heliograph.config.settings import SyncConfig
from heliograph.control.beginning import Beginning, begin
from heliograph.control.deleting import Deleting
from heliograph.errors import (
    ClusterError,
    HeliographError,
    NotAuthorized,
    RequestRefused,
    TopicExists,
)
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup
from heliograph.model.acls import AclFilter, Resource
from heliograph.model.blueprint import Blueprint, Ours, Seen, draw, name_mirrors
from heliograph.model.configs import ConfigEntry, NewTopic
from heliograph.model.control import Made, Wanted
from heliograph.model.grants import Grants
from heliograph.model.mirrors import (
    TIMESTAMP_TYPE,
    Alter,
    Delete,
    Grow,
    append_time,
    replaces_times,
)
from heliograph.model.selection import matches, select, selection
from heliograph.model.topics import Partition, TopicView

_TOPICS = AclFilter(resource=Resource.TOPIC)

Matter = Literal["configs", "times", "acls", "deletes"]
# How often mirrors are asked whether they keep the times of records, where settings do not follow.
_TIMES_EVERY = timedelta(seconds=30)


class All:
    """Looks at every matter that a link brings in step."""

    def __init__(self, sync: SyncConfig) -> None:
        self._sync = sync

    def is_due(self, matter: Matter) -> bool:
        """Claim: it is to be looked at now."""
        return self._every(matter) is not None

    def _every(self, matter: Matter) -> timedelta | None:
        return _TIMES_EVERY if matter == "times" else getattr(self._sync, matter)


class Due(All):
    """Looks at each matter as often as its setting says."""

    def __init__(self, sync: SyncConfig) -> None:
        super().__init__(sync)
        self._due_s: dict[Matter, float] = {}

    def is_due(self, matter: Matter) -> bool:
        """Claim: so much time has passed since the last claim."""
        every = self._every(matter)
        now_s = clock.now_s()
        if every is None or now_s < self._due_s.get(matter, 0.0):
            return False
        self._due_s[matter] = now_s + every.total_seconds()
        return True


@dataclass(frozen=True, slots=True)
class Observed:
    """What a link has to copy: mirror partitions by source partition, and what stood in the way.

    ``made`` are new mirrors by name, ``altered`` those that were grown, or whose settings were
    changed; ``grants`` is what was done about ACLs. ``gone`` are source topics that were deleted,
    and whose mirrors follow once nobody copies to them; ``deleted`` are mirrors that did.
    ``wanted`` is what was asked for when this was seen, and ``closed`` the mirrors, by source
    topic, that were their applications' already.
    """

    parts: Mapping[Partition, Partition] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, Made] = field(default_factory=dict)
    altered: tuple[str, ...] = ()
    gone: frozenset[str] = frozenset()
    deleted: tuple[str, ...] = ()
    grants: Grants | None = None
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    beginning: Beginning = field(default_factory=Beginning)
    wanted: Wanted = field(default_factory=Wanted)
    closed: Mapping[str, str] = field(default_factory=dict)


class Reconciler:
    """Looks at a link's two clusters, and changes the target. For one thread at a time."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._stack = ExitStack()
        self._due = Due(setup.link.sync)
        link = setup.link
        self._source = self._stack.enter_context(Admin(setup.source_settings, link.source))
        self._target = self._stack.enter_context(Admin(setup.target_settings, link.target))
        self._deleting = Deleting(setup, self._target)
        self._asked: dict[str, UUID] = {}
        self._unfit: dict[str, HeliographError] = {}

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def look(
        self, ours: Ours, wanted: Wanted, deadline: Deadline, leased: Collection[str] = ()
    ) -> Observed:
        """Select topics, bring their mirrors in step, and return what can be copied.

        A topic whose mirror cannot be made is left out, with the reason; the others go on.
        ``leased`` are the source topics that tasks copy now.
        """
        seen = self.see(ours, wanted, deadline, self._due)
        # Before the mirrors: what is written to a topic from now on has come after this look.
        beginning = begin(self._setup, seen.sources, ours, wanted, deadline)
        plan = draw(seen, self._setup.mirror_rules, ours)
        observed = self._carry_out(plan, seen, deadline)
        if self._setup.link.sync.deletes is not None:
            # Of a mirror that was deleted with its topic, and whose ledger was not before a crash.
            for made in [ours.made[name] for name in observed.made if name in ours.made]:
                self._deleting.forget(made.source, made.topic_id, deadline)
        late = beginning.errors
        parts = {one: it for one, it in observed.parts.items() if one.topic not in late}
        gone = self._deleting.confirm(plan.changes, seen)
        deleted, failed = self._deleting.delete(gone - frozenset(leased), plan.changes, deadline)
        return replace(
            observed,
            parts=parts,
            gone=gone,
            deleted=deleted,
            errors=(*observed.errors, *map(str, late.values()), *failed),
            beginning=beginning,
            wanted=wanted,
            closed=ours.closed,
            topics={**observed.topics, **ours.closed},
        )

    def see(self, ours: Ours, wanted: Wanted, deadline: Deadline, due: All) -> Seen:
        """Look at both ends; at the settings of topics whose mirrors are new, or of all."""
        link, rules = self._setup.link, self._setup.mirror_rules
        include, exclude = selection(wanted, link.topics, (*link.exclude, *ours.closed))
        every = self._source.topics.names(deadline)
        names = select(every, include, exclude)
        lonely = [one for one in include if not any(matches([one], name) for name in every)]
        sources = self._source.topics.describe(names, deadline)
        mirrors = name_mirrors(sources, rules)[0]
        targets = self._target.topics.describe(mirrors.values(), deadline)
        there = {topic: mirror for topic, mirror in mirrors.items() if mirror in targets}
        is_all = due.is_due("configs")
        asked = mirrors if is_all else mirrors.keys() - there
        here, hidden = self._settings(self._source, asked, deadline)
        mirrored, more = self._mirrored(there.values(), targets, due, deadline, is_all=is_all)
        notes = (f"{one!r} matches no topic of {link.source}" for one in lonely)
        seen = Seen(sources, targets, here, mirrored, notes=(*notes, *hidden, *more))
        if due.is_due("acls"):
            seen = self._with_acls(seen, deadline)
        if due.is_due("deletes"):
            lost = {one.source for one in ours.made.values()} - sources.keys()
            chosen = select(lost, include, exclude)
            seen = replace(seen, absent=self._absent(chosen, ours, deadline))
        return seen

    def _mirrored(
        self,
        there: Collection[str],
        targets: Mapping[str, TopicView],
        due: All,
        deadline: Deadline,
        *,
        is_all: bool,
    ) -> tuple[dict[str, dict[str, ConfigEntry]], list[str]]:
        """Return settings of mirrors: all, or at least how those keep times that are due.

        A mirror is asked before it is first copied to, whatever is due.
        """
        if is_all or (self._setup.link.sync.configs is None and due.is_due("times")):
            self._asked.clear()
        new = [one for one in there if self._asked.get(one) != targets[one].topic_id]
        only = None if is_all else [TIMESTAMP_TYPE]
        found, hidden = self._settings(self._target, new, deadline, only)
        self._asked |= {one: targets[one].topic_id for one in new}
        return found, hidden

    def _absent(self, topics: Collection[str], ours: Ours, deadline: Deadline) -> frozenset[str]:
        """Return those of the topics that are certainly not there.

        Asked by name: one that may not be described is an error, not an absence. Of another
        cluster in the place of the source, nothing follows.
        """
        if not topics or ours.first is None:
            return frozenset()
        if self._source.describe(deadline).cluster_id != ours.first.source_cluster_id:
            return frozenset()
        return frozenset(topics) - self._source.topics.describe(topics, deadline).keys()

    def _with_acls(self, seen: Seen, deadline: Deadline) -> Seen:
        """Look at the ACLs of both ends; where one has none or hides them, the rest goes on."""
        try:
            here = self._source.acls.matching(_TOPICS, deadline)
            there = self._target.acls.matching(_TOPICS, deadline)
        except ClusterError as hidden:
            return replace(seen, notes=(*seen.notes, f"ACLs are not followed: {hidden}"))
        return replace(seen, source_acls=here, target_acls=there)

    def _settings(
        self,
        admin: Admin,
        topics: Collection[str],
        deadline: Deadline,
        only: Collection[str] | None = None,
    ) -> tuple[dict[str, dict[str, ConfigEntry]], list[str]]:
        """Return settings, or a note why there are none: copying does not need them."""
        try:
            return (admin.configs.of_topics(topics, deadline, only=only) if topics else {}), []
        except NotAuthorized as hidden:
            return {}, [f"settings of topics are not followed: {hidden}"]

    # Changes

    def _carry_out(self, plan: Blueprint, seen: Seen, deadline: Deadline) -> Observed:
        """Make every change that can be made. A mirror without its partitions is not copied to."""
        new = [change for change in plan.changes if isinstance(change, NewTopic)]
        created = self._target.topics.create_many(new, known_only=True, deadline=deadline)
        sources = {mirror: topic for topic, mirror in plan.mirrors.items()}
        made = {
            name: Made(str(one), sources[name])
            for name, one in created.items()
            if isinstance(one, UUID)
        }
        refused = {name: one for name, one in created.items() if isinstance(one, HeliographError)}
        for mirror in seen.target_settings:
            self._unfit.pop(mirror, None)
        self._unfit |= plan.unfit
        altered: list[str] = []
        unaltered: list[str] = []
        for change in plan.changes:
            try:
                if isinstance(refused.get(change.topic), TopicExists):
                    assert isinstance(change, NewTopic) and change.partitions is not None
                    self._grow(change.topic, change.partitions, deadline)
                    del refused[change.topic]
                    self._refuse_append_time(change.topic, deadline)
                elif self._change(change, deadline):
                    altered.append(change.topic)
            except HeliographError as error:
                if isinstance(change, Alter) and TIMESTAMP_TYPE in change.put:
                    self._unfit[change.topic] = append_time(change.topic, str(error))
                elif isinstance(change, Alter):
                    unaltered.append(str(error))
                else:
                    refused[change.topic] = error
        refused |= {name: self._unfit[name] for name in sources.keys() & self._unfit.keys()}
        if made or altered:
            self._target.topics.await_leaders({*made, *altered} - refused.keys(), deadline)
        if plan.grants is not None:
            self._target.acls.create(plan.grants.grant, deadline)
            self._target.acls.delete(plan.grants.revoke, deadline)
        return Observed(
            _parts(plan.mirrors, seen.sources, refused),
            plan.mirrors,
            made,
            tuple(dict.fromkeys(altered)),
            grants=plan.grants,
            errors=(*plan.errors, *map(str, refused.values()), *unaltered),
            notes=plan.notes,
        )

    def _change(self, change: NewTopic | Grow | Alter | Delete, deadline: Deadline) -> bool:
        """Grow or alter a mirror; tell whether it was that."""
        if isinstance(change, Grow):
            self._grow(change.topic, change.partitions, deadline)
        elif isinstance(change, Alter):
            self._target.configs.change_topic(
                change.topic, put=change.put, remove=change.remove, deadline=deadline
            )
        return isinstance(change, Grow | Alter)

    def _refuse_append_time(self, mirror: str, deadline: Deadline) -> None:
        """Raise if a mirror that somebody else just made replaces times; the next look decides."""
        found, _ = self._settings(self._target, [mirror], deadline, [TIMESTAMP_TYPE])
        if replaces_times(found.get(mirror, {})):
            raise append_time(mirror, "somebody else made the topic just now")

    def _grow(self, topic: str, partitions: int, deadline: Deadline) -> None:
        """Give a mirror so many partitions, unless somebody else did: links may share a mirror."""
        try:
            self._target.topics.await_leaders([topic], deadline)
            if self._count(topic, deadline) < partitions:
                self._target.topics.grow(topic, partitions, deadline=deadline)
        except RequestRefused:
            if self._count(topic, deadline) < partitions:
                raise

    def _count(self, topic: str, deadline: Deadline) -> int:
        found = self._target.topics.describe([topic], deadline)
        return len(found[topic].partitions) if topic in found else 0


def _parts(
    mirrors: Mapping[str, str], sources: Mapping[str, TopicView], refused: Collection[str]
) -> dict[Partition, Partition]:
    return {
        Partition(topic, number): Partition(mirror, number)
        for topic, mirror in mirrors.items()
        if mirror not in refused
        for number in sources[topic].partitions
    }
