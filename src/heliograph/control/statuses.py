"""Statuses: what links do, read from their topics on the targets.

Nothing else is asked: this works from any machine, with no driver alive and with the source down.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import Self

from heliograph.control.setup import Setup
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.model.names import own_topics
from heliograph.model.status import About, Books, LinkStatus, link_status, mirrors_of, unreadable
from heliograph.model.topics import Partition


class Statuses:
    """Reads the statuses of links, again and again. For one thread; close it at the end."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        self._stack = ExitStack()
        targets: dict[str, Cluster] = {}
        for setup in setups:
            name = setup.link.target
            if name not in targets:
                targets[name] = self._stack.enter_context(Cluster(setup.target_settings, name))
        self._readers = [BooksReader(setup, targets[setup.link.target]) for setup in setups]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; once more does nothing."""
        self._stack.close()

    def read(self, within: timedelta) -> list[LinkStatus]:
        """Return every link's status; one whose target cannot be asked says so in its own.

        A target has ``within`` to answer for each link, and is asked no more once it did not.
        """
        failed: dict[str, HeliographError] = {}
        found = []
        for reader in self._readers:
            deadline, target = Deadline.after(within), reader.target.name
            try:
                if target in failed:
                    raise failed[target]
                found.append(reader.status(deadline))
            except HeliographError as error:
                if error.retriable or deadline.passed:
                    failed[target] = error
                found.append(unreadable(reader.about, str(error)))
        return found


class BooksReader:
    """Follows the three topics of a link."""

    def __init__(self, setup: Setup, target: Cluster) -> None:
        link = setup.link
        self.about = About(link.name, link.source, link.target, link.naming, link.objectives.rpo)
        self.target = target
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
