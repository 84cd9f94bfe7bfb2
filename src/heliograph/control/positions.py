"""Positions of a consumer group that copied before: found, so that nothing begins on a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.errors import TopicMissing
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.links.setup import Setup
from heliograph.model.groups import Committed
from heliograph.model.ledger import partitions_in
from heliograph.model.names import ledger_topic
from heliograph.model.selection import select
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class Positions:
    """How far a link's topics were copied: by this link, and by a group on the source.

    ``known`` has a ledger of the link itself: it goes on by that, whatever the group has committed.
    """

    known: frozenset[Partition]
    committed: Mapping[Partition, Committed]


def find_positions(setup: Setup, group: str, deadline: Deadline) -> Positions:
    """Ask both clusters; of the group's offsets, those of the link's topics count."""
    return Positions(_known(setup, deadline), _committed(setup, group, deadline))


def _known(setup: Setup, deadline: Deadline) -> frozenset[Partition]:
    try:
        with Cluster(setup.target_settings, setup.link.target) as target:
            rows = Table(target, ledger_topic(setup.link.name)).load(deadline)
    except TopicMissing:
        return frozenset()
    return frozenset(partitions_in(rows))


def _committed(setup: Setup, group: str, deadline: Deadline) -> dict[Partition, Committed]:
    link = setup.link
    with Admin(setup.source_settings, link.source) as admin:
        found = admin.groups.committed([group], deadline).get(group, {})
    wanted = set(select({one.topic for one in found}, link.topics, link.exclude))
    return {one: at for one, at in sorted(found.items()) if one.topic in wanted}
