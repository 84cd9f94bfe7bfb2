"""Reads topics with librdkafka: shares no code with Heliograph, which wrote them.

The only reader of the tests. Whatever it yields was sound: checksums are checked, offsets grow,
and an offset out of range is an error, never a jump.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

NO_TIMESTAMP, CREATE_TIME, APPEND_TIME = range(3)
ISOLATIONS = ("read_uncommitted", "read_committed")
Settings = str | Mapping[str, str]
"""Where a cluster is: bootstrap servers, or all that a client needs."""

_WITHIN_S = 20.0
_AT_ONCE = 5000


class Unreadable(Exception):
    """A log could not be read soundly to its end; nothing can be said about it."""


class Seen(NamedTuple):
    """One record as a reader sees it. Its offset is not part of its content."""

    key: bytes | None
    value: bytes | None
    timestamp_type: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def client_settings(cluster: Settings) -> dict[str, Any]:
    return {"bootstrap.servers": cluster} if isinstance(cluster, str) else dict(cluster)


def new_consumer(cluster: Settings, *, committed: bool) -> Any:
    """Return a consumer without a single default that could hide something."""
    return Consumer(
        client_settings(cluster)
        | {
            "group.id": "checker",
            "isolation.level": ISOLATIONS[committed],
            "auto.offset.reset": "error",
            "check.crcs": True,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            # Bounds the memory of a reader that waits for its neighbour, to some 30 MB.
            "queued.max.messages.kbytes": 4096,
            "queued.min.messages": 20_000,
            # Otherwise a full queue stops fetching for a second.
            "fetch.queue.backoff.ms": 10,
        }
    )


def take(consumer: Any, wait_s: float) -> list[Any]:
    """Return what a consumer has; wait for the first of it at most that long."""
    first = consumer.poll(wait_s)
    # consume() waits until it has that many, or for the whole of its timeout: hence poll().
    return [] if first is None else [first, *consumer.consume(_AT_ONCE, timeout=0)]


def content_of(message: Any) -> Seen:
    kind, timestamp = message.timestamp()
    try:
        headers = tuple(message.headers() or ())
    except SystemError as unable:
        where = f"{message.topic()}/{message.partition()} at {message.offset()}"
        raise Unreadable(
            f"{where}: a header's key is not UTF-8, and this client cannot show it"
        ) from unable
    return Seen(message.key(), message.value(), kind, timestamp, headers)


class Reader:
    """Reads partitions of one cluster at one isolation level, one after the other."""

    def __init__(self, cluster: Settings, *, committed: bool) -> None:
        self._consumer = new_consumer(cluster, committed=committed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic."""
        found = self._consumer.list_topics(topic, timeout=_WITHIN_S).topics[topic]
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(found.error)
        return len(found.partitions)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return where a partition starts and where it ends, to a reader of this isolation level.

        Waits for a leader: a topic that was just made, or whose broker just came back, has none.
        """
        over_s = time.monotonic() + _WITHIN_S
        while True:
            try:
                where = TopicPartition(topic, partition)
                start, end = self._consumer.get_watermark_offsets(where, timeout=_WITHIN_S)
                return start, end
            except KafkaException:
                if time.monotonic() > over_s:
                    raise
                self._consumer.poll(0.1)

    def read(
        self, topic: str, partition: int, start: int | None = None, end: int | None = None
    ) -> Iterator[tuple[int, Seen]]:
        """Yield offset and content of every record from ``start`` to ``end``, or to what is there.

        Ends an earlier reading by the same reader.
        """
        if start is None:
            start, _ = self.bounds(topic, partition)
        self._consumer.assign([TopicPartition(topic, partition, start)])
        for message in self._messages(f"{topic}/{partition}"):
            if end is not None and message.offset() >= end:
                return
            yield message.offset(), content_of(message)

    def _messages(self, name: str) -> Iterator[Any]:
        last = -1
        heard_s = time.monotonic()
        while True:
            messages = take(self._consumer, wait_s=0.5)
            if messages:
                heard_s = time.monotonic()
            if time.monotonic() - heard_s > _WITHIN_S:
                raise Unreadable(f"{name}: neither a record nor the end for {_WITHIN_S} s")
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    raise Unreadable(f"{name}: {error}")
                if message.offset() <= last:
                    raise Unreadable(f"{name}: offset {message.offset()} came after {last}")
                last = message.offset()
                yield message


def read_partition(
    cluster: Settings, topic: str, partition: int, *, committed: bool
) -> Iterator[tuple[int, Seen]]:
    """Yield offset and content of every record, from the start to the present end."""
    with Reader(cluster, committed=committed) as reader:
        yield from reader.read(topic, partition)
