"""Diverged records: what only one side has goes to ``<topic>.diverged``, and is told.

Each record keeps its key, value, time and headers; where it stood is in headers of ours, and so is
the recovery that saved it. They are written in order, as one writer: what the same recovery wrote
there already is not written again after a crash. What another one saved does not count, for a log
may have been cut since, and written anew: saved twice is better than not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal

from heliograph.copy.finding import find_ranges, look_at
from heliograph.errors import (
    HeliographError,
    NotAuthorized,
    RecoveryError,
    RequestRefused,
    TopicExists,
)
from heliograph.kafka.admin import Admin
from heliograph.kafka.batch import sequence_after
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import claim
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import Record, decode, encode
from heliograph.kafka.waiting import scan, write
from heliograph.model.configs import NewTopic
from heliograph.model.findings import counted
from heliograph.model.mirrors import KEEPS_TIMES
from heliograph.model.moments import moment
from heliograph.model.names import diverged_claim, diverged_topic
from heliograph.model.topics import Partition
from heliograph.recovery.journal import Journal
from heliograph.recovery.marks import holds, marked, marks, spans, stood_at

_SAMPLE = 5
_SHOWN_LETTERS = 64
OPEN_PATIENCE = timedelta(seconds=15)
_PAUSE = timedelta(seconds=0.3)
_TOGETHER = 500
_TOGETHER_BYTES = 512 * 1024
_CONFIGS = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": str(32 << 20),
    **KEEPS_TIMES,
}


@dataclass(slots=True)
class Found:
    """What diverged of one partition: how many, when, and a few of their keys.

    ``stood`` is the side of the link that has it. ``expired`` is at how many offsets records may
    have stood that retention took before anybody could save them.
    """

    partition: Partition
    saved_as: str = ""
    count: int = 0
    first_ms: int = -1
    last_ms: int = -1
    keys: list[str] = field(default_factory=list)
    stood: Literal["source", "target"] = "source"
    expired: int = 0

    def see(self, record: Record) -> None:
        """Count a record."""
        self.count += 1
        self.first_ms = (
            record.timestamp if self.count == 1 else min(self.first_ms, record.timestamp)
        )
        self.last_ms = max(self.last_ms, record.timestamp)
        if record.key is not None and len(self.keys) < _SAMPLE:
            shown = record.key[: 4 * _SHOWN_LETTERS].decode(errors="replace")[:_SHOWN_LETTERS]
            if shown not in self.keys:
                self.keys.append(shown)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "side": self.stood,
            "records": self.count,
            "first": moment(self.first_ms),
            "last": moment(self.last_ms),
            "keys": self.keys,
            "saved_as": self.saved_as,
            "expired_offsets": self.expired,
            **({} if self.count else {"first": None, "last": None, "saved_as": None}),
        }

    def line(self) -> str:
        """Say it."""
        if not self.expired:
            return self._what_is_saved()
        offsets = counted(self.expired, "offset")
        gone = f"what stood at {offsets} on the {self.stood} expired before it could be saved"
        return f"{self._what_is_saved()}; {gone}" if self.count else f"{self.partition}: {gone}"

    def _what_is_saved(self) -> str:
        keys = f"; keys such as {', '.join(map(repr, self.keys))}" if self.keys else ""
        span = f"from {moment(self.first_ms)} to {moment(self.last_ms)}"
        where, count = f"saved to {self.saved_as}", counted(self.count, "record")
        if self.stood == "target":
            # They were there before the last copy came, so they are not copied back.
            what = f"{count} {span}, of others than this link, among its copies"
            return f"{self.partition}: {what} on the target and nowhere else, {where}{keys}"
        return f"{self.partition}: {count} {span} diverged, {where}{keys}"


class Saving:
    """Saves the diverged records of many partitions. ``source`` holds them, ``side`` takes them.

    ``recovery`` is the id of the one that is under way; who only surveys has none.
    """

    stood: Literal["source", "target"] = "source"

    def __init__(self, link: str, source: Cluster, side: Cluster, recovery: str) -> None:
        self._link, self._source, self._side = link, source, side
        self._recovery = recovery

    def survey(
        self,
        starts: Mapping[Partition, int],
        deadline: Deadline,
        ends: Mapping[Partition, int] | None = None,
    ) -> dict[Partition, Found]:
        """Count what diverged, from where the sides part; changes nothing.

        Of a transaction that is open, nobody knows yet whether it counts.
        """
        logs = self._logs(starts, ends or {}, deadline)
        stable = self._stable(logs, deadline)
        found = self._count(
            {one: range(log.start, min(log.stop, stable[one])) for one, log in logs.items()},
            deadline,
        )
        for source, gone in self._gone(starts, logs).items():
            self._of(source, found).expired = len(gone)
        return found

    def save(
        self,
        starts: Mapping[Partition, int],
        deadline: Deadline,
        ends: Mapping[Partition, int] | None = None,
    ) -> dict[Partition, Found]:
        """Save what diverged, and return it; what this recovery saved before is not saved again.

        Up to ``ends``, the present ends unless told. Raises where a transaction stays open.
        """
        assert self._recovery, "what is saved says by which recovery"
        logs = self._logs(starts, ends or {}, deadline)
        self._await_stable(logs, deadline)
        found = self._count(logs, deadline)
        if found:
            self._make({source.topic for source in found}, deadline)
        for source in found:
            self._save(source, logs[source], deadline.within(timedelta(minutes=10)))
        for source, gone in self._gone(starts, logs).items():
            self._count_gone(self._of(source, found), gone, deadline)
        return found

    def _logs(
        self, starts: Mapping[Partition, int], ends: Mapping[Partition, int], deadline: Deadline
    ) -> dict[Partition, range]:
        """Return the offsets to look at, as far as retention has left them."""
        look_at(self._source, {one.topic for one in starts}, deadline)
        logs: dict[Partition, range] = {}
        for one, log in find_ranges(self._source, list(starts), deadline).items():
            if isinstance(log, HeliographError):
                raise log
            logs[one] = range(max(starts[one], log.start), ends.get(one, log.stop))
        return logs

    def _gone(
        self, starts: Mapping[Partition, int], logs: Mapping[Partition, range]
    ) -> dict[Partition, range]:
        """Return the offsets that retention took of those to look at.

        Not where a log is looked at from its very beginning: there the two sides never met, or
        cannot be compared, and what expired long ago may well have been copied. Nor on the target,
        where nearly nothing but markers of our own is looked for.
        """
        if self.stood == "target":
            return {}
        gone = {one: range(starts[one], min(log.start, log.stop)) for one, log in logs.items()}
        return {one: offsets for one, offsets in gone.items() if offsets and starts[one] > 0}

    def _stable(self, logs: Mapping[Partition, range], deadline: Deadline) -> dict[Partition, int]:
        """Return up to where it is known what is committed."""
        return list_offsets(
            self._source, dict.fromkeys(logs, LATEST), deadline, read_committed=True
        )

    def _await_stable(self, logs: Mapping[Partition, range], deadline: Deadline) -> None:
        """Wait a moment for transactions that are open; raise where one stays so."""
        patience = deadline.within(OPEN_PATIENCE)
        while logs:
            stable = self._stable(logs, deadline)
            logs = {one: log for one, log in logs.items() if stable[one] < log.stop}
            if logs and patience.passed:
                raise _still_open(self._source.name, logs, stable)
            pause = patience.within(_PAUSE)
            while logs and not pause.passed:
                self._source.loop.turn(pause.left_s)

    def _count(self, logs: Mapping[Partition, range], deadline: Deadline) -> dict[Partition, Found]:
        found: dict[Partition, Found] = {}
        for source, record in self._records(logs, deadline):
            self._of(source, found).see(record)
        return found

    def _of(self, source: Partition, found: dict[Partition, Found]) -> Found:
        if source not in found:
            found[source] = Found(source, diverged_topic(source.topic), stood=self.stood)
        return found[source]

    def _count_gone(self, found: Found, gone: range, deadline: Deadline) -> None:
        """Count what expired, but for what this recovery had saved before that."""
        place = Partition(found.saved_as, found.partition.partition)
        look_at(self._side, [place.topic], deadline)
        there = self._side.view.topics.get(place.topic)
        found.expired = len(gone)
        if there is None or place.partition not in there.partitions:
            return
        for at, record in self._saved(place, self._marks(found.partition), deadline):
            if at in gone:
                found.see(record)
                found.expired = max(0, found.expired - 1)

    def _make(self, topics: set[str], deadline: Deadline) -> None:
        """Make the topics that take what diverged, as wide as those that it is from."""
        view = self._source.describe(topics, deadline).topics
        wide = {diverged_topic(one): len(view[one].partitions) for one in sorted(topics)}
        with Admin(self._side.settings, self._side.name) as admin:
            there = admin.topics.describe(list(wide), deadline)
            missing = [
                NewTopic(one, count, None, _CONFIGS)
                for one, count in wide.items()
                if one not in there
            ]
            for outcome in admin.topics.create_many(
                missing, known_only=True, deadline=deadline
            ).values():
                if isinstance(outcome, HeliographError) and not isinstance(outcome, TopicExists):
                    raise outcome
            for one, known in there.items():
                if len(known.partitions) < wide[one]:
                    admin.topics.grow(one, wide[one], deadline=deadline)
                for setting in KEEPS_TIMES.items():  # older clusters lack some
                    with suppress(NotAuthorized, RequestRefused):  # what it does not take is told
                        admin.configs.change_topic(one, put=dict([setting]), deadline=deadline)
            admin.topics.await_leaders(list(wide), deadline)

    def _save(self, source: Partition, log: range, deadline: Deadline) -> None:
        """Write what is not there yet, in order, as the only writer."""
        place = Partition(diverged_topic(source.topic), source.partition)
        look_at(self._side, [place.topic], deadline)
        held = claim(self._side, diverged_claim(self._link, *source), [place], deadline)
        topic_id = self._side.view.topics[place.topic].topic_id
        ours = self._marks(source)
        saved = spans(at for at, _ in self._saved(place, ours, deadline))
        left = (
            one for _, one in self._records({source: log}, deadline) if not holds(saved, one.offset)
        )
        sequence = 0
        for some in _together(left):
            batch = encode(
                [marked(source, ours, one) for one in some],
                producer_id=held.producer_id,
                producer_epoch=held.epoch,
                base_sequence=sequence,
            )
            write(self._side, place, topic_id, [batch], deadline)
            sequence = sequence_after(sequence, len(some))

    def _marks(self, source: Partition) -> dict[bytes, bytes]:
        topic_id = self._source.view.topics[source.topic].topic_id
        return marks(topic_id, self.stood, self._recovery)

    def _saved(
        self, place: Partition, ours: Mapping[bytes, bytes], deadline: Deadline
    ) -> Iterator[tuple[int, Record]]:
        """Yield the records that have our marks, with the offsets at which they stood."""
        log = find_ranges(self._side, [place], deadline)[place]
        if isinstance(log, HeliographError):
            raise log
        for fetched in scan(self._side, {place: log.start}, deadline, ends={place: log.stop}):
            for _, batch in fetched.batches:
                for record in decode(batch):
                    if (at := stood_at(record, ours)) is not None:
                        yield at, record

    def _records(
        self, logs: Mapping[Partition, range], deadline: Deadline
    ) -> Iterator[tuple[Partition, Record]]:
        """Yield the records of some offsets, of what is committed."""
        begins = {one: log.start for one, log in logs.items()}
        ends = {one: log.stop for one, log in logs.items()}
        for fetched in scan(self._source, begins, deadline, ends=ends, read_committed=True):
            log = logs[fetched.partition]
            for header, batch in fetched.batches:
                if not header.is_control:
                    for record in decode(batch):
                        if record.offset in log:
                            yield fetched.partition, record


def kept(journal: Journal, name: str) -> dict[Partition, Found]:
    """Return what a recovery has kept of this under a name."""
    return from_text(journal.kept(name))


def keep(journal: Journal, name: str, found: Mapping[Partition, Found]) -> dict[Partition, Found]:
    """Keep more of it, for later steps and the report; return all that is kept."""
    every = {**kept(journal, name), **found}
    if found:
        journal.keep(name, as_text(every))
    return every


def as_text(found: Mapping[Partition, Found]) -> str:
    """Return what to keep for later steps."""
    return json.dumps([{**asdict(one), "partition": list(source)} for source, one in found.items()])


def from_text(text: str) -> dict[Partition, Found]:
    """Return what was kept."""
    rows = json.loads(text or "[]")
    found = [Found(**{**row, "partition": Partition(*row["partition"])}) for row in rows]
    return {one.partition: one for one in found}


def _still_open(
    cluster: str, logs: Mapping[Partition, range], stable: Mapping[Partition, int]
) -> RecoveryError:
    named = ", ".join(f"{one} (from {stable[one]} to {log.stop})" for one, log in logs.items())
    return RecoveryError(
        f"on {cluster} a transaction is open in {named}: whether what follows it counts is not"
        " known, so nothing was saved. Let its producer end it, or abort it"
        " (kafka-transactions.sh abort), and do this again."
    )


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
