"""Rows for a link's state topic, many at a time."""

from collections.abc import Mapping

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.model.names import state_topic

# A batch of rows must stay below what brokers take.
_MOST_ROWS = 500
_MOST_BYTES = 4 << 20


def put_state(
    cluster: Cluster, link: str, rows: Mapping[bytes, bytes | None], deadline: Deadline
) -> None:
    """Put rows in their order, acknowledged; the last put of a row counts."""
    table = Table(cluster, state_topic(link))
    batch: dict[bytes, bytes | None] = {}
    size_bytes = 0
    for key, value in rows.items():
        if batch and (len(batch) == _MOST_ROWS or size_bytes > _MOST_BYTES):
            table.put(batch, deadline)
            batch, size_bytes = {}, 0
        batch[key] = value
        size_bytes += len(key) + len(value or b"")
    if batch:
        table.put(batch, deadline)
