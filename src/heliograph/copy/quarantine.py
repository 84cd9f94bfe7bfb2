"""Quarantine: where records go that the target refuses, one topic for each mirror.

A record is kept as the bytes it was, under its place on the source: after a crash it may be put
there again, under the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from heliograph.copy.opened import Ends, Opened
from heliograph.copy.refusals import Refused
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.batch import read_header
from heliograph.kafka.produce import Producer
from heliograph.kafka.records import Record, encode
from heliograph.model.topics import Partition

Made = Callable[[UUID | HeliographError], None]
MakeTopic = Callable[[str, Made], None]
"""Make a topic unless it exists, without blocking; then call back, on the loop's thread."""


def quarantine_topic(mirror: str) -> str:
    """Name the topic that keeps what a mirror refused.

    >>> quarantine_topic("orders")
    'orders.quarantine'
    """
    return f"{mirror}.quarantine"


class Quarantine:
    """Puts refused records away. For the thread of the loop."""

    def __init__(self, ends: Ends, producer: Producer, make_topic: MakeTopic) -> None:
        self._ends = ends
        self._producer = producer
        self._make_topic = make_topic
        self._topics: dict[str, UUID] = {}
        self._waiting: dict[str, list[Made]] = {}

    def put(
        self, opened: Opened, refused: Refused, on_done: Callable[[HeliographError | None], None]
    ) -> None:
        """Keep one record; ``on_done`` is called when it is acknowledged, or cannot be kept."""
        topic = quarantine_topic(opened.mirror.topic)
        batch = quarantined(self._ends, opened.source, refused)

        def made(outcome: UUID | HeliographError) -> None:
            if isinstance(outcome, HeliographError):
                on_done(outcome)
                return
            self._producer.send(Partition(topic, 0), outcome, batch, partial(_tell, on_done))

        self._with_topic(topic, made)

    def _with_topic(self, topic: str, made: Made) -> None:
        if topic in self._topics:
            made(self._topics[topic])
        elif topic in self._waiting:
            self._waiting[topic].append(made)
        else:
            self._waiting[topic] = [made]
            self._make_topic(topic, partial(self._made, topic))

    def _made(self, topic: str, outcome: UUID | HeliographError) -> None:
        if isinstance(outcome, UUID):
            self._topics[topic] = outcome
        for made in self._waiting.pop(topic):
            made(outcome)


def _tell(
    on_done: Callable[[HeliographError | None], None], outcome: int | HeliographError
) -> None:
    on_done(outcome if isinstance(outcome, HeliographError) else None)


def quarantined(ends: Ends, source: Partition, refused: Refused) -> bytearray:
    """Return what is kept of a refused record: itself as a batch, and why it is here."""
    said = {
        "heliograph.link": ends.link,
        "source.cluster": ends.source.name,
        "source.topic": source.topic,
        "source.partition": source.partition,
        "source.offset": refused.source_offset,
        "timestamp": read_header(refused.record).max_timestamp,
        "error.code": refused.error.kafka_code,
        "error.message": refused.error.message,
    }
    headers = tuple((name.encode(), str(value).encode()) for name, value in said.items())
    key = f"{source.topic}/{source.partition}/{refused.source_offset}".encode()
    # The present time: what is wrong with it may be its own.
    return encode([Record(-1, clock.wall_ms(), key, bytes(refused.record), headers)])
