"""The consumer groups of a link, seen at both ends. It blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from heliograph.errors import HeliographError, NotAuthorized
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.transport import Loop
from heliograph.links.books import BooksReader
from heliograph.links.grounds import Grounds
from heliograph.links.setup import Setup
from heliograph.model.checkpoints import Checkpoint, read_checkpoints
from heliograph.model.group_sync import Ground, Sides
from heliograph.model.groups import Committed, GroupListing
from heliograph.model.selection import matches
from heliograph.model.stages import closed_topics, read_stages
from heliograph.model.status import Books, known_partitions, mirrors_of
from heliograph.model.topics import Partition, TopicView

# Share and streams groups keep other things than offsets of consumers. Old brokers do not tell.
_KINDS = ("", "classic", "consumer")

Offsets = Mapping[Partition, Committed]
Listings = Mapping[str, GroupListing]


@dataclass(frozen=True, slots=True)
class Sight:
    """The groups of a link at a moment. ``here`` and ``there`` are what source and target list.

    ``failed`` are groups that may not be read. It is whole if the source was asked for all groups.
    """

    ground: Ground
    sides: Mapping[str, Sides] = field(default_factory=dict)
    here: Listings = field(default_factory=dict)
    there: Listings = field(default_factory=dict)
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    failed: Mapping[str, HeliographError] = field(default_factory=dict)
    books: Books = field(default_factory=Books)
    is_whole: bool = False


class GroupEnds:
    """Connections to both ends of a link. For one thread at a time; close it at the end.

    ``mirrors`` are some by source topic, beside those that the link's driver tells of.
    """

    def __init__(self, setup: Setup, mirrors: Mapping[str, str] | None = None) -> None:
        self.setup, self._mirrors = setup, mirrors or {}
        link, self._stack = setup.link, ExitStack()
        loop = Loop()
        self._stack.callback(loop.close)
        enter = self._stack.enter_context
        self.source = enter(Admin(setup.source_settings, link.source))
        self.target = enter(Admin(setup.target_settings, link.target))
        self.source_cluster = enter(Cluster(setup.source_settings, link.source, loop))
        self.target_cluster = enter(Cluster(setup.target_settings, link.target, loop))
        self.grounds = Grounds(setup, self.source_cluster, self.target_cluster)
        self._reader = BooksReader(setup, self.target_cluster)

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def look(
        self,
        deadline: Deadline,
        *,
        only: Collection[str] = (),
        sources: Mapping[str, Offsets] | None = None,
        topics: Collection[str] | None = None,
        may_go_back: bool = False,
    ) -> Sight:
        """Return the link's groups as they are; ``only`` these names and patterns if given.

        ``sources`` are offsets as checkpoints tell them: the source is not asked for anything.
        ``topics`` are the source topics that count: those that the link still mirrors, unless told.
        """
        books, is_live = self.read(deadline), sources is None
        mirrors = self.mirrors(books)
        if topics is None:
            topics = {one.topic for one in mirrors} - closed_topics(
                read_stages(books.control)
            ).keys()
        mirrors = {one: mirror for one, mirror in mirrors.items() if one.topic in topics}
        # Before the offsets: one that is read of a topic made anew in between is not translated.
        ids = _ids(self.source_cluster, mirrors, deadline) if is_live else {}
        here = self.listing(self.source, deadline, only) if is_live else {}
        found, failed = self._offsets(self.source, here, deadline)
        wanted = _on(sources if sources is not None else found, mirrors)
        there = self.listing(self.target, deadline)
        targets, unread = self._offsets(self.target, wanted, deadline)
        checkpoints = read_checkpoints(books.state)
        sides = {
            group: Sides(
                group,
                wanted[group],
                offsets,
                checkpoints.get(group),
                group in there and there[group].is_active,
                may_go_back,
                ids if is_live else _topics_seen(checkpoints.get(group)),
            )
            for group, offsets in targets.items()
        }
        parts = {source for offsets in wanted.values() for source in offsets}
        ground = self.grounds.survey(parts, mirrors, books, deadline, is_live=is_live)
        is_whole = is_live and not only
        return Sight(ground, sides, here, there, checkpoints, failed | unread, books, is_whole)

    def read(self, deadline: Deadline) -> Books:
        """Return the rows of the link's topics."""
        return self._reader.read(deadline)

    def mirrors(self, books: Books) -> dict[Partition, Partition]:
        """Return the link's mirror partitions by source partition."""
        names = {**mirrors_of(self._reader.about, books), **self._mirrors}
        return {
            one: Partition(names[one.topic], one.partition)
            for one in known_partitions(books)
            if one.topic in names
        }

    def listing(self, admin: Admin, deadline: Deadline, only: Collection[str] = ()) -> Listings:
        """Return the groups of one end that the link selects."""
        return {
            one.group: one
            for one in admin.groups.listing(deadline=deadline)
            if one.kind in _KINDS and self.selects(one.group, only)
        }

    def selects(self, group: str, only: Collection[str] = ()) -> bool:
        """Claim: the link's settings mean this group, and so does ``only`` if it names any."""
        link = self.setup.link
        if not matches(link.groups, group) or matches(link.groups_exclude, group):
            return False
        return not only or matches(only, group)

    def _offsets(
        self, admin: Admin, groups: Collection[str], deadline: Deadline
    ) -> tuple[dict[str, Offsets], dict[str, HeliographError]]:
        """Return what groups have committed, and those that may not be read."""
        found = admin.groups.committed_each(groups, deadline)
        failed = {group: one for group, one in found.items() if isinstance(one, HeliographError)}
        known: dict[str, Offsets] = {}
        for group, one in found.items():
            if not isinstance(one, HeliographError):
                known[group] = one
        return known, failed


def topics_at(
    cluster: Cluster, topics: Collection[str], deadline: Deadline
) -> dict[str, TopicView]:
    """Return topics as they are now, of those that are there and may be described."""
    with suppress(NotAuthorized):  # of some; the others are in the view all the same
        cluster.look(topics, deadline)
    return {topic: view for topic, view in cluster.view.topics.items() if topic in topics}


def _ids(cluster: Cluster, parts: Iterable[Partition], deadline: Deadline) -> dict[str, str]:
    found = topics_at(cluster, {one.topic for one in parts}, deadline)
    return {topic: str(view.topic_id) for topic, view in found.items()}


def _topics_seen(seen: Checkpoint | None) -> Mapping[str, str]:
    return seen.topics if seen is not None else {}


def _on(
    offsets: Mapping[str, Offsets], parts: Collection[Partition]
) -> dict[str, dict[Partition, Committed]]:
    """Return the offsets of some partitions, of groups that have any."""
    found = {
        group: {one: at for one, at in some.items() if one in parts}
        for group, some in offsets.items()
    }
    return {group: some for group, some in found.items() if some}
