"""Beginning: find out where partitions begin that were never mirrored. It blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.copy.finding import find_starts
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup
from heliograph.model.blueprint import Ours
from heliograph.model.control import Begun, FirstLook, Wanted
from heliograph.model.leases import Begin
from heliograph.model.starts import noted, undecided
from heliograph.model.topics import Partition, TopicView


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where partitions begin. ``begun`` and ``first`` are to be noted before anything is copied.

    ``errors`` are why the start of some topics could not be found, by topic: they must wait.
    """

    begins: Mapping[Partition, Begin] = field(default_factory=dict)
    begun: Mapping[str, Begun] = field(default_factory=dict)
    first: FirstLook | None = None
    errors: Mapping[str, HeliographError] = field(default_factory=dict)


def begin(
    setup: Setup,
    topics: Mapping[str, TopicView],
    ours: Ours,
    wanted: Wanted,
    deadline: Deadline,
) -> Beginning:
    """Find what is not noted yet, and return all of it."""
    starts = undecided(topics, setup.starts, wanted.added, ours.begun, ours.first)
    patterns = tuple(one.pattern for one in wanted.added)
    first = ours.first
    found: Mapping[Partition, int | HeliographError] = {}
    if starts or first is None:
        with Cluster(setup.source_settings, setup.link.source) as source:
            found = find_starts(source, starts, deadline) if starts else {}
            cluster_id = str(source.describe([], deadline).cluster_id)
        first = first or FirstLook(clock.wall_ms(), cluster_id, patterns)
    errors = {one.topic: why for one, why in found.items() if isinstance(why, HeliographError)}
    begun = {
        topic: _noted_now(ours, topic, topics[topic], found)
        for topic in {one.topic for one in starts} - errors.keys()
    }
    begins = {
        Partition(topic, number): Begin(str(view.topic_id), offset)
        for topic, view in topics.items()
        if setup.starts.of(topic, wanted.added) != "earliest"
        for number, offset in enumerate(noted({**ours.begun, **begun}, topic, view))
    }
    first = FirstLook(first.at_ms, first.source_cluster_id, patterns, tuple(sorted(errors)))
    return Beginning(begins, begun, first if first != ours.first else None, errors)


def _noted_now(
    ours: Ours, topic: str, view: TopicView, found: Mapping[Partition, int | HeliographError]
) -> Begun:
    before = noted(ours.begun, topic, view)
    new = [found[Partition(topic, n)] for n in range(len(before), len(view.partitions))]
    return Begun(str(view.topic_id), (*before, *(one for one in new if isinstance(one, int))))
