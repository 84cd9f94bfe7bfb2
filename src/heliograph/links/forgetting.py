"""Forgetting: ledgers that must not be gone on with are removed. It blocks."""

from __future__ import annotations

from collections.abc import Callable

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import claim
from heliograph.kafka.tables import Table, Writer
from heliograph.links.state_rows import put_state
from heliograph.model.control import Rows, part_key
from heliograph.model.ledger import keys_of, partitions_in
from heliograph.model.names import ledger_topic, transactional_id
from heliograph.model.topics import Partition


def forget(
    target: Cluster, link: str, is_meant: Callable[[Partition, Rows], bool], deadline: Deadline
) -> None:
    """Remove the ledgers of a link that are meant, each claimed first: who writes it is fenced.

    ``is_meant`` is asked twice. What another driver put before the claim may be about something
    else, and after it nobody else puts anything.
    """
    table = Table(target, ledger_topic(link))
    books = Partition(table.topic, 0)
    for one in sorted(partitions_in(table.load(deadline))):
        if is_meant(one, table.rows):
            writer = Writer.of(claim(target, transactional_id(link, *one), [books], deadline))
            table.catch_up(deadline)
            if is_meant(one, table.rows):
                # Reports first: of a partition that was reported, a ledger is missed.
                put_state(target, link, {part_key(one): None}, deadline)
                table.put(dict.fromkeys(keys_of(one, table.rows)), deadline, writer=writer)
