"""Short words for driving the wire in tests: clusters, batches, writers, readers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from heliograph.errors import HeliographError
from heliograph.kafka.batch import NO_PRODUCER, sequence_after
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import Claim, claim
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.kafka.produce import Producer
from heliograph.kafka.properties import parse
from heliograph.kafka.records import Record, decode, encode
from heliograph.model.topics import Partition

Outcome = int | HeliographError


def within(seconds: float = 20.0) -> Deadline:
    return Deadline.after(timedelta(seconds=seconds))


def connect_to(bootstrap: str, name: str = "under-test", **properties: str) -> Cluster:
    """Return a cluster of ours; ``request_timeout_ms`` and the like become properties."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    settings = parse(name, {"bootstrap.servers": bootstrap} | named, allow_literal_secrets=True)
    return Cluster(settings, name)


def batch_of(
    values: Iterable[bytes], identity: Claim | None = None, sequence: int = NO_PRODUCER
) -> bytearray:
    # The present time: a broker forgets the producers of old records.
    now_ms = int(time.time() * 1000)
    records = [Record(-1, now_ms, None, value) for value in values]
    if identity is None:
        return encode(records)
    return encode(
        records,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
    )


def claim_of(cluster: Cluster, topic: str, *partitions: int) -> Claim:
    wanted = [Partition(topic, number) for number in partitions or (0,)]
    return claim(cluster, f"heliograph.test.{topic}.{wanted[0].partition}", wanted, within())


def offsets_of(outcomes: list[Outcome]) -> list[int]:
    assert all(isinstance(outcome, int) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, int)]


class Writing:
    """Batches of one claimed partition, one after the other, and what became of each."""

    def __init__(
        self,
        cluster: Cluster,
        partition: Partition,
        identity: Claim,
        producer: Producer | None = None,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.producer = producer or Producer(cluster)
        self._cluster = cluster
        self._partition = partition
        self._topic_id = (
            cluster.describe([partition.topic], within()).topics[partition.topic].topic_id
        )
        self._identity = identity
        self._sequence = 0
        self._sent = 0

    def send(self, *values: bytes, once: bool = False, seconds: float = 30.0) -> None:
        batch = batch_of(values, self._identity, self._sequence)
        self._sequence = sequence_after(self._sequence, len(values))
        self._sent += 1
        self.producer.send(
            self._partition,
            self._topic_id,
            batch,
            self.outcomes.append,
            once=once,
            deadline=within(seconds),
        )

    @property
    def is_done(self) -> bool:
        return len(self.outcomes) == self._sent

    def finish(self) -> list[Outcome]:
        """Pump until every batch is answered; return the answers in order."""
        pump(self._cluster, self.producer, lambda: self.is_done)
        return self.outcomes


def pump(
    cluster: Cluster, part: Producer | Fetcher, met: Callable[[], bool], seconds: float = 30.0
) -> None:
    """Drive a producer or a fetcher until a condition is met; fail when it is not in time."""
    deadline = within(seconds)
    while not met():
        assert not deadline.passed, "not done in the time allowed"
        part.pump()
        cluster.loop.turn(0.02)


def read_values(
    cluster: Cluster, partition: Partition, count: int
) -> tuple[list[bytes], HeliographError | None]:
    """Read the values of ``count`` records from the start, or up to an error."""
    found, error = read_records(cluster, partition, count)
    return [record.value or b"" for record in found], error


def read_records(
    cluster: Cluster, partition: Partition, count: int
) -> tuple[list[Record], HeliographError | None]:
    """Read ``count`` records from the start by our fetcher, or up to an error."""
    view = cluster.describe([partition.topic], within())
    fetcher = Fetcher(cluster)
    fetcher.start(partition, view.topics[partition.topic].topic_id, 0)
    found: list[Record] = []
    errors: list[HeliographError] = []

    def enough() -> bool:
        for fetched in fetcher.take():
            found.extend(records_of(fetched))
            if fetched.error is not None:
                errors.append(fetched.error)
        return bool(errors) or len(found) >= count

    pump(cluster, fetcher, enough)
    return found, errors[0] if errors else None


def records_of(fetched: Fetched) -> list[Record]:
    return [record for _, batch in fetched.batches for record in decode(batch)]
