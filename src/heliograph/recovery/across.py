"""The opposite direction of a link, as its own rows on the link's source show it."""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.books import BooksReader
from heliograph.links.setup import Setup
from heliograph.model.control import WANTED, Wanted, read
from heliograph.model.ledger import partitions_in
from heliograph.model.recovery import Across, under_way
from heliograph.model.stages import read_stages


def read_across(
    opposite: Setup, target: Cluster, mirrors: Mapping[str, str], deadline: Deadline
) -> Across:
    """Read the stages of topics in the opposite direction; ``target`` is where it writes to.

    ``mirrors`` are by the names of topics in the direction that was named, and are what the
    opposite one calls them. It knows those that it was told to copy; a link itself knows them all.
    """
    books = BooksReader(opposite, target).read(deadline)
    stages, unfinished = read_stages(books.control), under_way(books.control)
    wanted = read(books.control, WANTED, Wanted) or Wanted()
    known = {*stages, *(one.pattern for one in wanted.added)}
    known |= {one.topic for one in partitions_in(books.ledger)}
    if opposite.reverses is None and books.control:
        known |= set(mirrors.values())
    busy = unfinished.topics if unfinished is not None and unfinished.has_changed else ()
    verbs = dict.fromkeys(busy, unfinished.verb) if unfinished is not None else {}
    return Across(
        {topic: stages.get(mirror) for topic, mirror in mirrors.items() if mirror in known},
        {topic: verbs[mirror] for topic, mirror in mirrors.items() if mirror in verbs},
    )
