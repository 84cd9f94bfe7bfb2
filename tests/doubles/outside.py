"""What an outsider sees: topics made and logs read by confluent-kafka, never by Heliograph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_WITHIN_S = 20.0
ISOLATIONS = ("read_uncommitted", "read_committed")


class Seen(NamedTuple):
    """One record of a log."""

    offset: int
    key: bytes | None
    value: bytes | None


def make_topic(
    bootstrap: str | Mapping[str, str], topic: str, partitions: int = 1, **config: str
) -> None:
    """Create a topic and wait until its making is confirmed."""
    admin = AdminClient(_settings(bootstrap))
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

    producer = Producer(_settings(bootstrap) | {"linger.ms": 0} | settings)
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    left = producer.flush(_WITHIN_S)
    assert not left and not failed, (left, failed)


def read(
    bootstrap: str | Mapping[str, str],
    topic: str,
    partition: int = 0,
    isolation: str = "read_uncommitted",
) -> list[Seen]:
    """Read one partition from its start to its end, checksums checked, offsets growing."""
    consumer = Consumer(
        _settings(bootstrap)
        | {
            "group.id": "outside",
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), _WITHIN_S)
        consumer.assign([TopicPartition(topic, partition, start)])
        seen: list[Seen] = []
        while True:
            message = consumer.poll(_WITHIN_S)
            assert message is not None, f"{topic}-{partition} was not read to its end in time"
            error = message.error()
            if error and error.code() == KafkaError._PARTITION_EOF:
                break
            assert not error, error
            seen.append(Seen(message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    offsets = [record.offset for record in seen]
    assert offsets == sorted(set(offsets)), f"offsets do not grow: {offsets}"
    return seen


def read_both(bootstrap: str | Mapping[str, str], topic: str, partition: int = 0) -> list[Seen]:
    """Read with both isolation levels, which must see the same."""
    first, second = (read(bootstrap, topic, partition, level) for level in ISOLATIONS)
    assert first == second, "the isolation levels differ"
    return first


def values(bootstrap: str | Mapping[str, str], topic: str, partition: int = 0) -> list[bytes]:
    """Return the values of a partition, the same for every reader."""
    return [record.value or b"" for record in read_both(bootstrap, topic, partition)]


def _settings(bootstrap: str | Mapping[str, str]) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap} if isinstance(bootstrap, str) else dict(bootstrap)
