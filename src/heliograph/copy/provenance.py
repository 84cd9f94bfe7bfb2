"""Provenance: which producer ids of a source cluster are those of links that write to it.

A link's writer is on record in its ledger before its first batch (invariant F of the ledger). So
whoever meets an id, and reads the ledgers of all links into that cluster to their end afterwards,
knows whether a link wrote under it. Which ledgers there are, every broker is asked: a link may be
brand new, and one broker may not have heard of its topics. No answer is needed twice, since a
cluster gives out an id once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.model.ledger import ids_in
from heliograph.model.names import is_ledger, ledger_topic


class Provenance:
    """Reads the ledgers of links into a cluster. It blocks; for one thread at a time.

    ``inbound`` are links that are known to write to it: of these it is told when their ledgers may
    not be read. Brokers hide other topics that the user may not describe without a word.
    """

    def __init__(self, settings: ClientSettings, inbound: Collection[str] = ()) -> None:
        self._cluster = Cluster(settings, settings.cluster)
        self._inbound = [ledger_topic(link) for link in inbound]
        self._tables: dict[tuple[str, UUID], Table] = {}
        self._ids: set[int] = set()
        self._others: set[int] = {-1}  # nobody's id

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def of_links(self, producer_ids: Iterable[int], deadline: Deadline) -> set[int]:
        """Return those of the ids under which links wrote. Each is looked up once."""
        asked = set(producer_ids)
        if not asked <= self._ids | self._others:
            self._look(deadline)
            self._others |= asked - self._ids
        return asked & self._ids

    def _look(self, deadline: Deadline) -> None:
        self._cluster.look(self._inbound, deadline)  # raises where one may not be read
        topics = self._cluster.look_everywhere(deadline)
        for topic in filter(is_ledger, topics):
            self._read(topic, topics[topic].topic_id, deadline)

    def _read(self, topic: str, topic_id: UUID, deadline: Deadline) -> None:
        """Read a ledger's topic to its end; one that was made anew is another."""
        key = (topic, topic_id)
        table = self._tables.pop(key, None)
        if table is None:
            table = Table(self._cluster, topic)
            changes = list(table.load(deadline).items())
        else:
            changes = [(one.key, one.value or b"") for one in table.catch_up(deadline)]
        for name, value in changes:
            self._ids |= ids_in(name, value) if value else set()
        self._tables[key] = table  # only now: what failed half-way is read anew
