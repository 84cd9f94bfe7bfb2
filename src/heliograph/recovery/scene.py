"""The scene of a recovery: a link's topics, mirrors and books, as its target shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.errors import ConfigError, LedgerUnreadable, Unsafe
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.books import BooksReader
from heliograph.links.setup import Setup
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.selection import matches
from heliograph.model.status import Books, known_partitions, mirrors_of
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class Scene:
    """What a verb is about. ``parts`` are mirror partitions by source partition.

    ``absent`` are source topics of the link whose mirrors are not there.
    """

    books: Books
    mirrors: Mapping[str, str]
    parts: Mapping[Partition, Partition]
    absent: tuple[str, ...] = ()
    ledgers: Mapping[Partition, Ledger] = field(default_factory=dict)

    def of(self, topics: Iterable[str]) -> dict[Partition, Partition]:
        """Return the partitions of some topics."""
        chosen = set(topics)
        return {one: it for one, it in self.parts.items() if one.topic in chosen}


def look(
    setup: Setup,
    target: Cluster,
    reader: BooksReader,
    patterns: str | None,
    deadline: Deadline,
) -> Scene:
    """Look at the topics that are meant, all unless told; raise where there are none."""
    books = reader.read(deadline)
    if not (books.control or books.state):
        raise Unsafe(
            f"link {setup.link.name} has never run: {setup.link.target} holds nothing of it."
            " Nothing was done"
        )
    mirrors = mirrors_of(reader.about, books)
    chosen = {
        topic: mirror
        for topic, mirror in mirrors.items()
        if patterns is None or matches([patterns], topic)
    }
    if not chosen:
        known = ", ".join(sorted(mirrors)) or "none"
        raise ConfigError(
            f"{patterns!r} matches no topic of link {setup.link.name}. Its topics: {known}"
        )
    there = target.look(chosen.values(), deadline).topics
    parts = {
        Partition(topic, number): Partition(mirror, number)
        for topic, mirror in chosen.items()
        if mirror in there
        for number in there[mirror].partitions
    }
    absent = tuple(topic for topic, mirror in chosen.items() if mirror not in there)
    return Scene(books, chosen, parts, absent, read_ledgers(books, parts))


def read_ledgers(books: Books, parts: Iterable[Partition]) -> dict[Partition, Ledger]:
    """Return the ledgers that can be read; verbs say what is wrong with the others."""
    known, found = known_partitions(books), {}
    for one in parts:
        if one in known:
            try:
                ledger = read_ledger(one, books.ledger)
            except LedgerUnreadable:
                continue
            if ledger is not None:
                found[one] = ledger
    return found
