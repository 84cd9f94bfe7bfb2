"""What the source is filled with: records of about 300 B of JSON, in batches of a given make."""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle, islice
from typing import Any

import confluent_kafka

from bench.raw_copy import within
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.records import Record, encode
from heliograph.kafka.waiting import write
from heliograph.model.topics import Partition

RECORD_BYTES = 300
_PATTERNS = 50
_FILL_S = 600


@dataclass(frozen=True)
class Make:
    """How a topic is made."""

    topic: str
    partitions: int
    codec: Codec
    batch_records: int
    age: timedelta = timedelta()


@dataclass(frozen=True)
class Filled:
    """A topic on the source, ready to be mirrored."""

    make: Make
    records: int
    size_bytes: int

    @property
    def batch_bytes(self) -> float:
        """The size of a batch, on average."""
        return self.size_bytes / (self.records / self.make.batch_records)

    def __str__(self) -> str:
        make = self.make
        age = f", {make.age.days} days old" if make.age else ""
        each = "1 record" if make.batch_records == 1 else f"{make.batch_records} records"
        return (
            f"{self.records:,} records of {RECORD_BYTES} B JSON and a key{age}, batches of {each}"
            f" ({self.batch_bytes / 1000:.1f} KB, {make.codec.name.lower()}),"
            f" {make.partitions} partitions, {self.size_bytes / 1e6:.0f} MB"
        )


def fill(cluster: Cluster, bootstrap: str, make: Make, records: int) -> Filled:
    """Write about so many records into an empty topic: whole batches, the same number everywhere.

    Batches are made once and repeated: they are compressed one by one, so that changes nothing.
    """
    a_partition = max(1, records // make.partitions // make.batch_records)
    if make.batch_records == 1:
        _write_singles(bootstrap, make, a_partition)
        size_bytes = sum(map(len, _patterns(make))) * a_partition * make.partitions // _PATTERNS
    else:
        size_bytes = _write_batches(cluster, make, a_partition)
    return Filled(make, a_partition * make.partitions * make.batch_records, size_bytes)


def _write_batches(cluster: Cluster, make: Make, a_partition: int) -> int:
    topic_id = cluster.describe([make.topic], within(20)).topics[make.topic].topic_id
    batches = list(islice(cycle(_patterns(make)), a_partition))
    for number in range(make.partitions):
        write(cluster, Partition(make.topic, number), topic_id, batches, within(_FILL_S))
    return sum(map(len, batches)) * make.partitions


def _write_singles(bootstrap: str, make: Make, a_partition: int) -> None:
    """Write batches of one record each.

    A broker takes one batch per partition and request, so each costs a request. librdkafka may
    have any number of them in flight; one connection per partition keeps all cores busy.
    """
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 1}
    producers = [confluent_kafka.Producer(settings) for _ in range(make.partitions)]
    failures: list[object] = []
    records = list(islice(_records(random.Random(7), _at_ms(make)), _PATTERNS))

    def done(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for record in islice(cycle(records), a_partition):
        for number, producer in enumerate(producers):
            _produce(producer, make.topic, number, record, done)
    for producer in producers:
        producer.flush()
    if failures:
        raise RuntimeError(f"{make.topic} was not filled: {failures[0]}")


def _produce(
    producer: Any, topic: str, number: int, record: Record, done: Callable[[object, object], None]
) -> None:
    while True:
        try:
            producer.produce(
                topic, record.value, record.key, number, done, timestamp=record.timestamp
            )
        except BufferError:
            producer.poll(0.01)
        else:
            return


def _patterns(make: Make) -> list[bytes]:
    chance = random.Random(7)
    rows = _records(chance, _at_ms(make))
    return [
        bytes(encode(islice(rows, make.batch_records), codec=make.codec)) for _ in range(_PATTERNS)
    ]


def _at_ms(make: Make) -> int:
    return int((time.time() - make.age.total_seconds()) * 1000)


def _records(chance: random.Random, at_ms: int) -> Iterator[Record]:
    while True:
        user = chance.randrange(10**6)
        row = {
            "order": chance.randrange(10**12),
            "user": f"user-{user}",
            "at": at_ms,
            "amount": chance.randrange(10**6) / 100,
            "currency": chance.choice(("EUR", "USD", "GBP", "JPY")),
            "items": [chance.randrange(10**5) for _ in range(6)],
            "token": chance.randbytes(36).hex(),
        }
        text = json.dumps(row)
        note = chance.choice(("shipped", "pending", "returned")) * 20
        value = f'{text[:-1]}, "note": "{note[: RECORD_BYTES - len(text) - 12]}"}}'
        yield Record(-1, at_ms, b"%d" % user, value.encode())
