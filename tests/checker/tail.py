"""Reads topics on and on, all partitions at once, through every absence of a broker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.checker.digests import of_record
from tests.checker.reading import Settings, content_of, new_consumer, take
from tests.checker.walk import image_of

Place = tuple[str, int]
"""A topic, under the name of the source's, and a partition."""

_WITHIN_S = 10.0
_LOOK_EVERY_S = 1.0
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class Arrived(NamedTuple):
    """A record by its digest, as its image shows it; ``trouble`` instead where there is none."""

    place: Place
    offset: int
    digest: int
    trouble: str = ""


class Tail:
    """Follows topics from the oldest record that they have when they are first seen.

    Topics and partitions that are made later are found within a second or so. ``names`` gives each
    topic here the name under which it is told.
    """

    def __init__(self, cluster: Settings, names: Mapping[str, str], *, committed: bool) -> None:
        self._consumer = new_consumer(cluster, committed=committed)
        self._names = dict(names)
        self._look_s = 0.0
        self.positions: dict[Place, int] = {}

    def close(self) -> None:
        self._consumer.close()

    def take(self, wait_s: float) -> list[Arrived]:
        """Return what has arrived; wait for it at most that long."""
        if time.monotonic() >= self._look_s:
            self._look()
            self._look_s = time.monotonic() + _LOOK_EVERY_S
        if not self.positions:
            time.sleep(wait_s)
            return []
        messages = take(self._consumer, wait_s)
        return [arrived for message in messages for arrived in self._arrived(message)]

    def ends(self) -> dict[Place, int]:
        """Return where each partition ends now, for a reader of this isolation level.

        The topics must exist. For any thread.
        """
        return {place: self._bounds(where)[1] for place, where in self._there().items()}

    def _there(self) -> dict[Place, Any]:
        found: dict[Place, Any] = {}
        for topic, name in self._names.items():
            partitions = (
                self._consumer.list_topics(topic, timeout=_WITHIN_S).topics[topic].partitions
            )
            found |= {(name, number): TopicPartition(topic, number) for number in partitions}
        return found

    def _bounds(self, where: Any) -> tuple[int, int]:
        start, end = self._consumer.get_watermark_offsets(where, timeout=_WITHIN_S)
        return start, end

    def _arrived(self, message: Any) -> Iterator[Arrived]:
        error, offset = message.error(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            # Anything else passes: the client asks again until a broker answers.
            if error.code() in _GONE and message.topic() in self._names:
                place = (self._names[message.topic()], message.partition())
                yield Arrived(place, offset, 0, f"the reader's offset is gone: {error}")
            return
        place = (self._names[message.topic()], message.partition())
        if error is not None:
            self.positions[place] = max(self.positions[place], offset)
            return
        trouble = f"it came after {self.positions[place] - 1}"
        is_next = offset >= self.positions[place]
        digest = of_record(image_of(content_of(message)))
        self.positions[place] = offset + 1
        yield Arrived(place, offset, digest, "" if is_next else trouble)

    def _look(self) -> None:
        """Assign partitions that were not there before; all others go on where they are."""
        try:
            there = self._there()
            new = {
                place: self._bounds(where)[0]
                for place, where in there.items()
                if place not in self.positions
            }
        except KafkaException:
            return  # no broker answers; look again later
        if new:
            self.positions |= new
            for place, where in there.items():
                where.offset = self.positions[place]
            self._consumer.assign(list(there.values()))
