"""Reads a topic with librdkafka: shares no code with Heliograph, which wrote it."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

CREATE_TIME = 1


class Seen(NamedTuple):
    """One record as a reader sees it. Its offset is not part of its content."""

    key: bytes | None
    value: bytes | None
    timestamp_type: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def read_partition(
    bootstrap: str, topic: str, partition: int, *, committed: bool
) -> Iterator[tuple[int, Seen]]:
    """Yield offset and content of every record, from the start to the present end.

    Fails when offsets do not grow, when a checksum is wrong, and when an offset is out of range.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, start)])
        yield from _to_the_end(consumer)
    finally:
        consumer.close()


def _to_the_end(consumer: Any) -> Iterator[tuple[int, Seen]]:
    last = -1
    heard_s = time.monotonic()
    while True:
        # consume() waits until it has that many, or for the whole timeout: keep that short.
        messages = consumer.consume(5000, timeout=0.1)
        if messages:
            heard_s = time.monotonic()
        assert time.monotonic() - heard_s < 20, "neither a record nor the end for 20 s"
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                raise KafkaException(error)
            offset = message.offset()
            assert offset > last, f"offset {offset} came after {last}"
            last = offset
            kind, timestamp = message.timestamp()
            headers = tuple(message.headers() or ())
            yield offset, Seen(message.key(), message.value(), kind, timestamp, headers)
