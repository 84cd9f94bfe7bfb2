"""Reconcile: look at both ends, and make the mirrors that are missing. One pass; it blocks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from heliograph.control.setup import Setup
from heliograph.errors import HeliographError, NotAuthorized
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.model.configs import NewTopic
from heliograph.model.mirrors import Grow, mirror_configs, missing
from heliograph.model.selection import mirror_name, select
from heliograph.model.topics import Partition, TopicView


@dataclass(frozen=True, slots=True)
class Observed:
    """What a link has to copy: mirror partitions by source partition, and what stood in the way."""

    parts: Mapping[Partition, Partition] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class Reconciler:
    """Looks at a link's two clusters. For one thread at a time."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._stack = ExitStack()
        link = setup.link
        self._source = self._stack.enter_context(Admin(setup.source_settings, link.source))
        self._target = self._stack.enter_context(Admin(setup.target_settings, link.target))

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def look(self, deadline: Deadline) -> Observed:
        """Select topics, create and grow their mirrors, and return what can be copied.

        A topic whose mirror cannot be made is left out, with the reason; the others go on.
        """
        link = self._setup.link
        names = select(self._source.topics.names(deadline), link.topics, link.exclude)
        sources = self._source.topics.describe(names, deadline)
        mirrors, errors = self._names(sources)
        targets = self._target.topics.describe(mirrors.values(), deadline)
        configs = self._configs([t for t in mirrors if mirrors[t] not in targets], deadline)
        factor = link.mirrors.replication_factor
        made, refused = self._make(missing(sources, mirrors, targets, configs, factor), deadline)
        errors += refused.values()
        parts = {
            Partition(topic, number): Partition(mirror, number)
            for topic, mirror in mirrors.items()
            if mirror not in refused
            for number in sources[topic].partitions
        }
        return Observed(parts, mirrors, tuple(made), tuple(errors))

    def _names(self, sources: Mapping[str, TopicView]) -> tuple[dict[str, str], list[str]]:
        link = self._setup.link
        mirrors: dict[str, str] = {}
        errors: list[str] = []
        for topic in sources:
            try:
                name = mirror_name(link.naming, link.source, topic)
            except HeliographError as error:
                errors.append(str(error))
                continue
            if name in mirrors.values():
                errors.append(f"topic {topic} is not copied: another one is mirrored as {name} too")
            else:
                mirrors[topic] = name
        return mirrors, errors

    def _configs(self, topics: list[str], deadline: Deadline) -> dict[str, dict[str, str]]:
        exclude = self._setup.link.mirrors.configs_exclude
        try:
            found = self._source.configs.of_topics(topics, deadline)
        except NotAuthorized:
            # DescribeConfigs is for keeping settings in step; copying does not need it.
            return {topic: mirror_configs([], exclude) for topic in topics}
        return {topic: mirror_configs(found[topic].values(), exclude) for topic in topics}

    def _make(
        self, actions: list[NewTopic | Grow], deadline: Deadline
    ) -> tuple[list[str], dict[str, str]]:
        made: list[str] = []
        refused: dict[str, str] = {}
        new = [action for action in actions if isinstance(action, NewTopic)]
        for topic, outcome in self._target.topics.create_many(new, deadline=deadline).items():
            if isinstance(outcome, HeliographError):
                refused[topic] = str(outcome)
            else:
                made.append(topic)
        for action in actions:
            if isinstance(action, Grow):
                try:
                    self._target.topics.grow(action.topic, action.partitions, deadline=deadline)
                    made.append(action.topic)
                except HeliographError as error:
                    refused[action.topic] = str(error)
        if made:
            self._target.topics.await_leaders(made, deadline)
        return made, refused
