"""What an outsider sees: topics made and logs read by confluent-kafka, never by Heliograph."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.checker.reading import ISOLATIONS, Settings, client_settings, read_partition

_WITHIN_S = 20.0


class Seen(NamedTuple):
    """One record of a log."""

    offset: int
    key: bytes | None
    value: bytes | None


def make_topic(bootstrap: Settings, topic: str, partitions: int = 1, **config: str) -> None:
    """Create a topic and wait until its making is confirmed."""
    admin = AdminClient(client_settings(bootstrap))
    named = {key.replace("_", "."): value for key, value in config.items()}
    made = admin.create_topics([NewTopic(topic, partitions, 1, config=named)])
    made[topic].result(_WITHIN_S)


def fill(
    bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any
) -> None:
    """Write records as any producer would; each is acknowledged."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(client_settings(bootstrap) | {"linger.ms": 0} | settings)
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    left = producer.flush(_WITHIN_S)
    assert not left and not failed, (left, failed)


def read(
    bootstrap: Settings, topic: str, partition: int = 0, isolation: str = "read_uncommitted"
) -> list[Seen]:
    """Read one partition from its start to its end, checksums checked, offsets growing."""
    found = read_partition(bootstrap, topic, partition, committed=isolation == "read_committed")
    return [Seen(offset, record.key, record.value) for offset, record in found]


def read_both(bootstrap: Settings, topic: str, partition: int = 0) -> list[Seen]:
    """Read with both isolation levels, which must see the same."""
    first, second = (read(bootstrap, topic, partition, level) for level in ISOLATIONS)
    assert first == second, "the isolation levels differ"
    return first


def values(bootstrap: Settings, topic: str, partition: int = 0) -> list[bytes]:
    """Return the values of a partition, the same for every reader."""
    return [record.value or b"" for record in read_both(bootstrap, topic, partition)]
