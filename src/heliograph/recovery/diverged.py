"""Diverged records: what only the old source has goes to ``<topic>.diverged``, and is told.

Each record keeps its key, value, time and headers; where it stood is in headers of ours. They are
written in order, as one writer: what stands there already tells where to go on after a crash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from heliograph.copy.finding import find_ranges, look_at
from heliograph.errors import HeliographError, TopicExists
from heliograph.kafka.admin import Admin
from heliograph.kafka.batch import sequence_after
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import claim
from heliograph.kafka.records import Record, decode, encode
from heliograph.kafka.waiting import scan, write
from heliograph.model.configs import NewTopic
from heliograph.model.names import diverged_claim, diverged_topic
from heliograph.model.topics import Partition

OFFSET, TIME, PARTITION, TOPIC, TOPIC_ID = (
    b"heliograph.source.offset",
    b"heliograph.source.timestamp",
    b"heliograph.source.partition",
    b"heliograph.source.topic",
    b"heliograph.source.topic.id",
)
_SAMPLE = 5
_TOGETHER = 500
_TOGETHER_BYTES = 512 * 1024
_CONFIGS = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": str(32 << 20),
}


@dataclass(slots=True)
class Found:
    """What diverged of one partition: how many, when, and a few of their keys."""

    partition: Partition
    saved_as: str = ""
    count: int = 0
    first_ms: int = -1
    last_ms: int = -1
    keys: list[str] = field(default_factory=list)

    def see(self, record: Record) -> None:
        """Count a record."""
        self.count += 1
        self.first_ms = (
            record.timestamp if self.count == 1 else min(self.first_ms, record.timestamp)
        )
        self.last_ms = max(self.last_ms, record.timestamp)
        if record.key is not None and len(self.keys) < _SAMPLE:
            shown = record.key.decode(errors="replace")
            if shown not in self.keys:
                self.keys.append(shown)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "records": self.count,
            "first": _moment(self.first_ms),
            "last": _moment(self.last_ms),
            "keys": self.keys,
            "saved_as": self.saved_as,
        }

    def line(self) -> str:
        """Say it."""
        keys = f"; keys such as {', '.join(map(repr, self.keys))}" if self.keys else ""
        span = f"from {_moment(self.first_ms)} to {_moment(self.last_ms)}"
        where = f"saved to {self.saved_as}"
        return f"{self.partition}: {self.count} records {span} diverged, {where}{keys}"


class Saving:
    """Saves the diverged records of many partitions. ``source`` holds them, ``side`` takes them."""

    def __init__(
        self, link: str, source: Cluster, side: Cluster, side_settings: ClientSettings
    ) -> None:
        self._link, self._source, self._side = link, source, side
        self._settings = side_settings

    def survey(self, starts: Mapping[Partition, int], deadline: Deadline) -> dict[Partition, Found]:
        """Count what diverged, from where the sides part; changes nothing."""
        found: dict[Partition, Found] = {}
        for source, batch in self._batches(starts, deadline):
            one = found.setdefault(source, Found(source, diverged_topic(source.topic)))
            for record in decode(batch):
                if record.offset >= starts[source]:
                    one.see(record)
        return {source: one for source, one in found.items() if one.count}

    def save(self, starts: Mapping[Partition, int], deadline: Deadline) -> dict[Partition, Found]:
        """Save what diverged, and return it; what was saved before is not saved again."""
        found = self.survey(starts, deadline)
        if found:
            self._make({source.topic for source in found}, deadline)
        for source, one in found.items():
            self._save(source, starts[source], deadline.within(timedelta(minutes=10)))
            assert one.count
        return found

    def _make(self, topics: set[str], deadline: Deadline) -> None:
        view = self._source.describe(topics, deadline).topics
        new = [
            NewTopic(diverged_topic(one), len(view[one].partitions), None, _CONFIGS)
            for one in sorted(topics)
        ]
        with Admin(self._settings, self._side.name) as admin:
            there = admin.topics.describe([one.topic for one in new], deadline)
            missing = [one for one in new if one.topic not in there]
            for outcome in admin.topics.create_many(missing, deadline=deadline).values():
                if isinstance(outcome, HeliographError) and not isinstance(outcome, TopicExists):
                    raise outcome
            admin.topics.await_leaders([one.topic for one in new], deadline)

    def _save(self, source: Partition, start: int, deadline: Deadline) -> None:
        """Write what is not there yet, in order, as the only writer."""
        place = Partition(diverged_topic(source.topic), source.partition)
        look_at(self._side, [place.topic], deadline)
        held = claim(self._side, diverged_claim(self._link, *source), [place], deadline)
        topic_id = self._side.view.topics[place.topic].topic_id
        source_id = str(self._source.view.topics[source.topic].topic_id).encode()
        sequence, last = 0, self._last_saved(place, source_id, deadline)
        for some in _together(self._records({source: max(start, last + 1)}, deadline)):
            batch = encode(
                [_marked(source, source_id, one) for one in some],
                producer_id=held.producer_id,
                producer_epoch=held.epoch,
                base_sequence=sequence,
            )
            write(self._side, place, topic_id, [batch], deadline)
            sequence = sequence_after(sequence, len(some))

    def _last_saved(self, place: Partition, source_id: bytes, deadline: Deadline) -> int:
        """Return the offset of the last record of this very topic that was saved; -1 is none."""
        log = find_ranges(self._side, [place], deadline)[place]
        if isinstance(log, HeliographError):
            raise log
        last = -1
        for fetched in scan(self._side, {place: log.start}, deadline, ends={place: log.stop}):
            for _, batch in fetched.batches:
                for record in decode(batch):
                    told = dict(record.headers)
                    if told.get(TOPIC_ID) == source_id:
                        last = max(last, int(told[OFFSET] or b""))
        return last

    def _records(self, starts: Mapping[Partition, int], deadline: Deadline) -> Iterator[Record]:
        for source, batch in self._batches(starts, deadline):
            yield from (one for one in decode(batch) if one.offset >= starts[source])

    def _batches(
        self, starts: Mapping[Partition, int], deadline: Deadline
    ) -> Iterator[tuple[Partition, memoryview | bytes]]:
        """Yield the data batches from ``starts`` to the present ends, of what is committed."""
        look_at(self._source, {one.topic for one in starts}, deadline)
        held = find_ranges(self._source, list(starts), deadline)
        logs = {one: log for one, log in held.items() if isinstance(log, range)}
        for log in held.values():
            if isinstance(log, HeliographError):
                raise log
        begins = {one: max(starts[one], log.start) for one, log in logs.items()}
        ends = {one: log.stop for one, log in logs.items()}
        for fetched in scan(self._source, begins, deadline, ends=ends, read_committed=True):
            for header, batch in fetched.batches:
                if not header.is_control:
                    yield fetched.partition, batch


def as_text(found: Mapping[Partition, Found]) -> str:
    """Return what to keep for later steps."""
    return json.dumps([{**asdict(one), "partition": list(source)} for source, one in found.items()])


def from_text(text: str) -> dict[Partition, Found]:
    """Return what was kept."""
    rows = json.loads(text or "[]")
    found = [Found(**{**row, "partition": Partition(*row["partition"])}) for row in rows]
    return {one.partition: one for one in found}


def _marked(source: Partition, source_id: bytes, record: Record) -> Record:
    """Return a record that says where it stood."""
    headers = (
        (TOPIC, source.topic.encode()),
        (TOPIC_ID, source_id),
        (PARTITION, b"%d" % source.partition),
        (OFFSET, b"%d" % record.offset),
        (TIME, b"%d" % record.timestamp),
    )
    return record._replace(headers=(*record.headers, *headers))


def _together(records: Iterator[Record]) -> Iterator[list[Record]]:
    some: list[Record] = []
    size = 0
    for record in records:
        weight = len(record.key or b"") + len(record.value or b"")
        if some and (len(some) == _TOGETHER or size + weight > _TOGETHER_BYTES):
            yield some
            some, size = [], 0
        some.append(record)
        size += weight
    if some:
        yield some


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
