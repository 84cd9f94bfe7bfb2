"""Recording: put what changed of many ledgers, all at once, and wait until it stands."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from heliograph.copy.opened import Ends
from heliograph.errors import HeliographError
from heliograph.kafka import crash
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.produce import Producer
from heliograph.kafka.tables import Writer, rows_batch
from heliograph.model.ledger import Ledger
from heliograph.model.topics import Partition

_TURN_S = 0.1
# Each ledger has a producer id of its own, and all stand in one partition: a request carries one.
_MOST_REQUESTS = 256


def ledger_producer(cluster: Cluster) -> Producer:
    """Return what puts ledgers: many at once, so that a far broker takes thousands in a second."""
    return Producer(cluster, lane="ledger", most_requests=_MOST_REQUESTS)


def record(
    ends: Ends, ledgers: Collection[tuple[Ledger, Writer]], deadline: Deadline
) -> dict[Partition, HeliographError]:
    """Put ledgers, each as its own writer; return those that could not be, by source partition.

    The ledger's topic must be in the target's view, unless there is nothing to put.
    """
    if not ledgers:
        return {}
    books = Partition(ends.ledger_topic, 0)
    topic_id = ends.target.view.topics[books.topic].topic_id
    producer, failed = ledger_producer(ends.target), dict[Partition, HeliographError]()
    for ledger, writer in ledgers:
        done = partial(_told, failed, ledger.partition)
        # In order: a broker takes no batch of a writer without those before it.
        for rows in ledger.take_batches():
            producer.send(books, topic_id, rows_batch(rows, writer), done, deadline=deadline)
    while producer.unfinished:
        producer.pump()
        ends.target.loop.turn(_TURN_S)
    return failed


def _told(
    failed: dict[Partition, HeliographError], source: Partition, outcome: int | HeliographError
) -> None:
    crash.point("R-ledger-put")
    if isinstance(outcome, HeliographError):
        failed.setdefault(source, outcome)
