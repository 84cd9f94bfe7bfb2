"""A mirror made by hand, with librdkafka: right, or wrong in any way that a test wants."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.checker.anomalies import Report
from tests.checker.check import Scope, check
from tests.checker.reading import Reader, Seen
from tests.making import create_topic

LINK = "checked"
LEDGER = f"__heliograph.{LINK}.ledger"


@dataclass
class Image:
    """A record to write to the mirror, and the source offset that the ledger gives it."""

    seen: Seen
    source: int | None
    target: int = -1


@dataclass
class Pair:
    """A source topic with one partition and, once written, its mirror."""

    source: str
    target: str
    topic: str
    images: list[Image] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)

    def fill(self, records: int = 30) -> None:
        """Write records of many shapes to the source and take them over as images."""
        producer = Producer({"bootstrap.servers": self.source})
        for number in range(records):
            producer.produce(self.topic, **shape(number))
        assert producer.flush(20) == 0
        self.take_over()

    def fill_in_transactions(self, chance: random.Random) -> None:
        """Write transactions, every third aborted."""
        settings = {"bootstrap.servers": self.source, "transactional.id": self.topic}
        producer = Producer(settings)
        producer.init_transactions(20)
        for number in range(12):
            producer.begin_transaction()
            for step in range(chance.randrange(1, 6)):
                producer.produce(self.topic, **shape(number * 10 + step))
            assert producer.flush(20) == 0
            end = producer.abort_transaction if number % 3 == 1 else producer.commit_transaction
            end(20)
        self.take_over()

    def take_over(self) -> None:
        """Take what the source holds as the images that the mirror should hold."""
        with Reader(self.source, committed=True) as reader:
            self.images = [Image(seen, at) for at, seen in reader.read(self.topic, 0)]

    def write(self) -> None:
        """Write the images in committed transactions, which leave markers, and a true ledger."""
        settings = {"bootstrap.servers": self.target, "transactional.id": self.topic}
        producer = Producer(settings)
        producer.init_transactions(20)
        for at in range(0, len(self.images), 10):
            producer.begin_transaction()
            for image in self.images[at : at + 10]:
                self.send(producer, image)
            producer.commit_transaction(20)
        self.record()

    def send(self, producer: Any, image: Image) -> None:
        def delivered(error: object, message: Any) -> None:
            assert error is None, error
            image.target = message.offset()

        seen = image.seen
        producer.produce(
            self.topic,
            value=seen.value,
            key=seen.key,
            timestamp=seen.timestamp,
            headers=list(seen.headers),
            on_delivery=delivered,
        )

    def record(self, runs: list[list[int | None]] | None = None, **head: int) -> None:
        """Put the ledger: as true as the images are, but for what is given."""
        if runs is None:
            runs = [[one.source, one.target, 1] for one in self.images if one.source is not None]
        ends = {
            "source_next": self.source_end(),
            "target_next": max((one.target + 1 for one in self.images), default=0),
        }
        rows = {
            f"{self.topic}/0": ends
            | {"gaps": self.gaps, "segments": [3, 4], "producer_ids": []}
            | head,
            f"{self.topic}/0/3": runs,
        }
        write_rows(self.target, LEDGER, {key: json.dumps(row) for key, row in rows.items()})

    def source_end(self) -> int:
        with Reader(self.source, committed=False) as reader:
            return reader.bounds(self.topic, 0)[1]

    def check(self, **more: Any) -> Report:
        scope = Scope(self.source, self.target, LINK, {self.topic: self.topic})
        return check(replace(scope, **more))


def shape(number: int) -> dict[str, Any]:
    keys, values = (None, b"", b"key"), (None, b"", "日本 é".encode(), b"plain")
    headers = [("id", b"%d" % number), ("h", None), ("h", b""), ("é", b"1")]
    return {
        "key": keys[number % 3],
        "value": values[number % 4],
        "headers": headers[: 1 + number % 4],
        "timestamp": 1_700_000_000_000 + number,
        "partition": 0,
    }


def write_rows(bootstrap: str, topic: str, rows: dict[str, str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in rows.items():
        producer.produce(topic, value, key, 0)
    assert producer.flush(20) == 0


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    done.result(20)


def ensure_ledger(bootstrap: str) -> None:
    with Reader(bootstrap, committed=True) as reader:
        if reader.partitions(LEDGER) == 0:
            create_topic(bootstrap, LEDGER, config={"cleanup.policy": "compact"})
