"""The scene of a recovery: a link's topics, mirrors and books, as its target shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.errors import ConfigError, HeliographError, Unsafe
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.books import BooksReader
from heliograph.links.setup import Setup
from heliograph.model.control import WANTED, Wanted, read
from heliograph.model.ledger import Ledger, origin_in, partitions_in
from heliograph.model.selection import matches, mirror_name, select, selection
from heliograph.model.stages import read_stages
from heliograph.model.status import Books, find_ledger, known_partitions, mirrors_of
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class Scene:
    """What a verb is about. ``mirrors`` are by source topic, ``parts`` by source partition.

    ``absent`` are source topics of the link whose mirrors are not there; ``lost`` are what is known
    of their partitions. ``unfit`` is why nobody can tell what was copied of a partition.
    """

    books: Books
    mirrors: Mapping[str, str]
    parts: Mapping[Partition, Partition]
    absent: tuple[str, ...] = ()
    lost: Mapping[Partition, Partition] = field(default_factory=dict)
    ledgers: Mapping[Partition, Ledger] = field(default_factory=dict)
    unfit: Mapping[Partition, HeliographError] = field(default_factory=dict)

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
    *,
    also_deleted: bool = False,
) -> Scene:
    """Look at the topics that are meant, all unless told; raise where there are none.

    Topics that were deleted on the source have mirrors, too, but their driver does not know of
    them once it was started again: they count for whoever needs nothing of the source.
    """
    books = reader.read(deadline)
    if not (books.control or books.state):
        raise Unsafe(
            f"link {setup.link.name} has never run: {setup.link.target} holds nothing of it."
            " Nothing was done"
        )
    mirrors = mirrors_of(reader.about, books)
    if also_deleted:
        mirrors |= _deleted(setup, target, books, mirrors, deadline)
    chosen = {
        topic: mirror
        for topic, mirror in mirrors.items()
        if patterns is None or matches([patterns], topic)
    }
    if not mirrors:
        raise ConfigError(f"link {setup.link.name} has no topics yet. Nothing was done")
    if not chosen:
        raise ConfigError(
            f"{patterns!r} matches no topic of link {setup.link.name}. Nothing was done. Its"
            f" topics: {', '.join(sorted(mirrors))}"
        )
    there = target.look(chosen.values(), deadline).topics
    parts = {
        Partition(topic, number): Partition(mirror, number)
        for topic, mirror in chosen.items()
        if mirror in there
        for number in there[mirror].partitions
    }
    absent = tuple(topic for topic, mirror in chosen.items() if mirror not in there)
    lost = {
        one: Partition(chosen[one.topic], one.partition)
        for one in known_partitions(books)
        if one.topic in absent
    }
    return Scene(books, chosen, parts, absent, lost, *find_ledgers(books, parts))


def _deleted(
    setup: Setup, target: Cluster, books: Books, known: Collection[str], deadline: Deadline
) -> dict[str, str]:
    """Return mirrors that nobody tells of, by source topic: what their ledgers are about is there.

    Not of topics that were taken off the link.
    """
    link, stages = setup.link, read_stages(books.control)
    wanted = read(books.control, WANTED, Wanted) or Wanted()
    parts = {one for one in partitions_in(books.ledger) if one.topic not in known}
    names = {
        topic: stages[topic].mirror
        if topic in stages
        else mirror_name(link.naming, link.source, topic)
        for topic in select(
            {one.topic for one in parts}, *selection(wanted, link.topics, link.exclude)
        )
    }
    there = target.look(names.values(), deadline).topics if names else {}
    copied: dict[str, set[str | None]] = {}
    for one in parts:
        origin = origin_in(one, books.ledger)
        copied.setdefault(one.topic, set()).add(origin.mirror_topic_id if origin else None)
    return {
        topic: mirror
        for topic, mirror in names.items()
        # What a ledger that cannot be read is about is for whoever closes the mirror to say.
        if mirror in there and {str(there[mirror].topic_id), None} & copied[topic]
    }


def find_ledgers(
    books: Books, parts: Iterable[Partition]
) -> tuple[dict[Partition, Ledger], dict[Partition, HeliographError]]:
    """Return the ledgers that can be read, and what is wrong with the others."""
    known = known_partitions(books)
    found = {one: find_ledger(books, one) for one in parts if one in known}
    return (
        {one: it for one, it in found.items() if isinstance(it, Ledger)},
        {one: it for one, it in found.items() if isinstance(it, HeliographError)},
    )


def read_ledgers(books: Books, parts: Iterable[Partition]) -> dict[Partition, Ledger]:
    """Return the ledgers that can be read, for whoever only measures."""
    return find_ledgers(books, parts)[0]
