"""The timeline of a link, read from its target."""

from datetime import timedelta

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.books import BooksReader
from heliograph.links.setup import Setup
from heliograph.model.recovery import Event, read_events

_TIMEOUT = timedelta(seconds=15)


def read_timeline(setup: Setup) -> list[Event]:
    """Return what recovery verbs did, in order; nothing for a link that never ran."""
    with Cluster(setup.target_settings, setup.link.target) as target:
        books = BooksReader(setup, target).read(Deadline.after(_TIMEOUT))
    return read_events(books.state)
