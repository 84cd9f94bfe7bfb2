"""The demo's orders: a producer that never stops, and the proof that all of them arrived once."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from datetime import timedelta

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.properties import ClientSettings
from heliograph.kafka.records import Record, decode, encode
from heliograph.kafka.waiting import scan, write
from heliograph.model.topics import Partition

TOPIC = "orders"
PARTITIONS = 3
_EVERY_S = 0.05
_AT_ONCE = 20
_PATIENCE = timedelta(seconds=30)


class Shop(threading.Thread):
    """Writes orders, numbered within each partition, until told to stop."""

    def __init__(self, settings: ClientSettings, name: str) -> None:
        super().__init__(name="shop", daemon=True)
        self._settings, self._cluster_name = settings, name
        self._closed = threading.Event()
        self.written = dict.fromkeys(range(PARTITIONS), 0)
        self.error: HeliographError | None = None

    def close(self) -> None:
        """Write no more; wait for what is on its way."""
        self._closed.set()
        self.join()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        """Write a few orders to each partition, twenty times a second."""
        try:
            with Cluster(self._settings, self._cluster_name) as cluster:
                deadline = Deadline.after(_PATIENCE)
                topic_id = cluster.describe([TOPIC], deadline).topics[TOPIC].topic_id
                while not self._closed.wait(_EVERY_S):
                    for number, count in self.written.items():
                        batch = encode(_orders(count), codec=Codec.LZ4)
                        place = Partition(TOPIC, number)
                        write(cluster, place, topic_id, [batch], Deadline.after(_PATIENCE))
                        self.written[number] = count + _AT_ONCE
        except HeliographError as failure:
            self.error = failure


def _orders(first: int) -> list[Record]:
    now_ms = int(time.time() * 1000)
    numbers = range(first, first + _AT_ONCE)
    return [Record(-1, now_ms, b"%d" % n, b'{"order": %d, "item": "mirror"}' % n) for n in numbers]


@dataclass(frozen=True, slots=True)
class Proof:
    """What both clusters hold of one partition, compared record by record."""

    partition: int
    written: int
    mirrored: int
    lost: int
    doubled: int
    equal: bool

    def as_row(self) -> dict[str, object]:
        """Return it under the names that JSON shows."""
        return asdict(self)


def prove(
    source: Cluster, target: Cluster, written: dict[int, int], deadline: Deadline
) -> list[Proof]:
    """Read both logs from start to end, as a reader of uncommitted records would, and compare."""
    theirs, ours = _read(source, deadline), _read(target, deadline)
    proofs = []
    for number, count in written.items():
        there, here = theirs[number], ours[number]
        lost = len(set(there) - set(here))
        doubled = len(here) - len(set(here))
        proofs.append(Proof(number, count, len(here), lost, doubled, there == here))
    return proofs


def _read(cluster: Cluster, deadline: Deadline) -> dict[int, list[tuple[object, ...]]]:
    places = [Partition(TOPIC, number) for number in range(PARTITIONS)]
    starts = list_offsets(cluster, dict.fromkeys(places, EARLIEST), deadline)
    ends = list_offsets(cluster, dict.fromkeys(places, LATEST), deadline)
    found: dict[int, list[tuple[object, ...]]] = {number: [] for number in range(PARTITIONS)}
    for fetched in scan(cluster, starts, deadline, ends=ends):
        for _, batch in fetched.batches:
            records = (record[1:] for record in decode(batch))  # all but the offset
            found[fetched.partition.partition] += records
    return found
