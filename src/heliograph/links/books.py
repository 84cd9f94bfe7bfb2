"""A link's books: the rows of its three topics on the target, read to their ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.links.setup import Setup
from heliograph.model.names import own_topics
from heliograph.model.stages import is_turned, read_stages
from heliograph.model.status import About, Books, LinkStatus, link_status, mirrors_of
from heliograph.model.topics import Partition


class BooksReader:
    """Follows the three topics of a link."""

    def __init__(self, setup: Setup, target: Cluster) -> None:
        link = setup.link
        runs = setup.reverses.link.name if setup.reverses else link.name
        rpo = link.objectives.rpo
        self.about = About(link.name, link.source, link.target, link.naming, rpo, runs)
        self.target = target
        self.is_turned = False
        """Claim: when the status was last read, topics of the link were turned round."""
        self._tables: dict[str, Table] = {}

    def read(self, deadline: Deadline) -> Books:
        """Return the rows as they are now; none of a topic that does not exist."""
        topics = own_topics(self.about.link)
        try:
            there = self.target.look(topics, deadline).topics
            rows = [self._rows(topic, deadline) if topic in there else {} for topic in topics]
        except HeliographError:
            self._tables.clear()  # whoever reads again begins anew
            raise
        return Books(*rows)

    def status(self, deadline: Deadline) -> LinkStatus:
        """Return the link's status as it is now."""
        books = self.read(deadline)
        self.is_turned = is_turned(read_stages(books.control))
        leaders = self._leaders(set(mirrors_of(self.about, books).values()), deadline)
        return link_status(self.about, books, clock.wall_ms(), leaders)

    def _rows(self, topic: str, deadline: Deadline) -> Mapping[bytes, bytes]:
        if topic in self._tables:
            self._tables[topic].catch_up(deadline)
        else:
            table = Table(self.target, topic)
            table.load(deadline)
            self._tables[topic] = table
        return self._tables[topic].rows

    def _leaders(self, mirrors: Collection[str], deadline: Deadline) -> dict[Partition, int]:
        """Return who leads the mirrors' partitions; nobody where that may not be asked."""
        try:
            topics = self.target.look(mirrors, deadline).topics if mirrors else {}
        except HeliographError:
            return {}
        return {
            Partition(mirror, number): view.leader
            for mirror in mirrors
            if mirror in topics
            for number, view in topics[mirror].partitions.items()
            if view.leader is not None
        }
