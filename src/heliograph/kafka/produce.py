"""Produce: idempotent writes of ready batches; each one acknowledged or raised.

A :class:`Producer` sends to every broker at once. One request carries the next batch of many
partitions (Kafka takes one batch per partition and request), several requests are in flight on
each connection, and the batches of a partition reach the log in the order they were given, also
through lost replies and leader moves: the broker knows a repeated sequence and answers with the
offset of the first time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TypeAlias
from uuid import UUID

from heliograph.errors import (
    DeadlinePassed,
    HeliographError,
    NotReady,
    OutcomeUnknown,
    ProtocolBroken,
    RecordsRefused,
    Superseded,
)
from heliograph.kafka import clock, crash, produce_codec
from heliograph.kafka.batch import NO_PRODUCER, producer_of
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for
from heliograph.kafka.leaders import Leaders
from heliograph.kafka.produce_codec import Entry, PartitionAck
from heliograph.kafka.transport import Bytes, Channel, Reply
from heliograph.model.topics import Partition

IN_FLIGHT = 5
"""Batches in flight of one producer id: the broker recognises repeats of its last five."""
_REQUEST_BYTES = 8 << 20
DELIVERY_TIMEOUT = timedelta(seconds=120)
_SUSPICIOUS_S = 1.5
_CORRUPT, _CORRUPT_TRIES = 2, 3
_OUT_OF_ORDER = 45
_UNKNOWN_TOPIC_CODES = (3, 100, 103)
_RETRY_PAUSE_S = 0.05
# Timed out waiting for replicas, too few replicas after the append, or nobody knows.
_MAY_BE_STORED = (-1, 7, 20)


class _Fate(Enum):
    """What is known of a batch."""

    WAITING = "not sent, or to be sent again"
    FLYING = "sent, not answered"
    STORED = "stored, waiting for the ones before it"
    AGAIN = "not stored, or not known; the same bytes go out again"
    REFUSED = "refused for good"


@dataclass(slots=True)
class _Write:
    """One batch on its way.

    ``doubtful`` is set for good once an attempt ended without a clear answer.
    """

    batch: Bytes
    on_done: Callable[[int | HeliographError], None]
    deadline: Deadline
    once: bool
    on_lost: Callable[[], None]
    fate: _Fate = _Fate.WAITING
    attempt: int = 0
    offset: int = -1
    error: HeliographError | None = None
    doubtful: bool = False


@dataclass(slots=True)
class _Line:
    """The writes of one producer id in one partition, in order: ``sent``, then ``waiting``."""

    partition: Partition
    producer_id: int
    topic_id: UUID
    lane: str
    sent: deque[_Write] = field(default_factory=deque)
    waiting: deque[_Write] = field(default_factory=deque)
    channel: Channel | None = None
    broker: int = -1
    not_before_s: float = 0.0

    @property
    def is_ordered(self) -> bool:
        """True when the broker keeps the order: it does so for batches that are somebody's."""
        return self.producer_id != NO_PRODUCER

    def any_sent(self, *fates: _Fate) -> bool:
        return any(write.fate in fates for write in self.sent)

    def next_may_fly(self) -> bool:
        """Whether the next batch may join those in flight."""
        alone = self.waiting[0].once or (bool(self.sent) and self.sent[-1].once)
        return not (alone and self.sent) and len(self.sent) < IN_FLIGHT


class Producer:
    """Writes batches to one cluster. For the thread of the cluster's loop.

    Call :meth:`pump` after each turn of the loop. The batches must be restamped already: producer
    id, epoch and growing sequences are the caller's, and so is the bound on what waits.

    ``most_requests`` is how many may be in flight on a connection. Where many producer ids write
    one partition, each request carries one batch, and no id has more than its five in flight.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        lanes: int = 1,
        lane: str = "produce",
        most_requests: int = IN_FLIGHT,
    ) -> None:
        self._cluster = cluster
        self._leaders = Leaders(cluster)
        self._lane, self._lanes = lane, lanes
        self._most_requests = most_requests
        self._lines: dict[tuple[Partition, int], _Line] = {}

    def send(
        self,
        partition: Partition,
        topic_id: UUID,
        batch: Bytes,
        on_done: Callable[[int | HeliographError], None],
        *,
        deadline: Deadline | None = None,
        once: bool = False,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Queue a batch; ``on_done`` is called once, in order: its base offset, or why not.

        When one batch fails, every later one of the same producer id in that partition that was
        queued by then fails with it, after all replies are in: from then on the two may be used
        again. Only the first is told of refused records. ``OutcomeUnknown`` means that the batch
        may stand in the log; Superseded, that only the new writer can tell; any other error, that
        it does not. ``once`` is for batches whose repeat the broker might not recognise: they fly
        alone and are never sent again in doubt. The bytes must not change before ``on_done``, and
        never after ``OutcomeUnknown``: they may still be on their way. ``on_lost`` is called when a
        request was given up that may still arrive, whatever comes of its repeat.

        What was stored behind a batch that was not is out of order, which only a broker does that
        has forgotten the writer, or lost it: then all are ``OutcomeUnknown``, the refused one, too.
        """
        producer_id = producer_of(batch)
        line = self._lines.get((partition, producer_id))
        if line is None:
            lane = f"{self._lane}{hash(partition) % self._lanes}"
            line = _Line(partition, producer_id, topic_id, lane)
            self._lines[partition, producer_id] = line
            self._cluster.watch([partition.topic])
        if not (line.sent or line.waiting):
            line.topic_id = topic_id
        assert line.topic_id == topic_id, "a partition under way belongs to one topic id"
        deadline = deadline or Deadline.after(DELIVERY_TIMEOUT)
        line.waiting.append(_Write(batch, on_done, deadline, once, on_lost))

    def forget(self, partition: Partition, producer_id: int, *, cut: bool = False) -> None:
        """Drop what is queued or in flight; ``on_done`` is not called, only a claim can go on.

        With ``cut`` not a byte more of it leaves: its connection is closed.
        """
        if (line := self._lines.pop((partition, producer_id), None)) is None:
            return
        flying = [write for write in line.sent if write.fate is _Fate.FLYING]
        for write in flying:
            write.attempt += 1  # a reply that still comes is nobody's
        line.sent.clear()
        line.waiting.clear()
        if cut and flying and line.channel is not None:
            line.channel.close()

    @property
    def unfinished(self) -> int:
        """Batches queued or in flight."""
        return sum(len(line.sent) + len(line.waiting) for line in self._lines.values())

    def pump(self) -> None:
        """Send what can be sent now."""
        ready: dict[tuple[int, str], list[_Line]] = {}
        for line in list(self._lines.values()):
            leader = self._prepare(line)
            if leader is not None:
                ready.setdefault((leader, line.lane), []).append(line)
            elif not (line.sent or line.waiting):
                self._lines.pop((line.partition, line.producer_id), None)  # idle costs nothing
        for (broker, lane), lines in ready.items():
            self._fill(broker, lane, lines)

    # One partition

    def _prepare(self, line: _Line) -> int | None:
        """Settle what is decided; return the broker to send the next batch to, if now."""
        if not (line.sent or line.waiting):
            return None
        self._expire(line)
        leader = self._leader_of(line)
        if line.any_sent(_Fate.FLYING):
            self._suspect(line, leader)
        elif line.any_sent(_Fate.AGAIN, _Fate.REFUSED):
            self._recover(line)
        stumbled = line.any_sent(_Fate.AGAIN, _Fate.REFUSED)
        if leader is None or stumbled or not line.waiting or not line.next_may_fly():
            return None
        if line.not_before_s > clock.now_s():
            return None
        # Order: a batch may follow others in flight only on the connection that carries them.
        if line.sent and (leader != line.broker or not self._is_open(line.channel)):
            return None
        return leader

    def _is_open(self, channel: Channel | None) -> bool:
        return channel is not None and channel.error is None and not channel.retiring

    def _leader_of(self, line: _Line) -> int | None:
        try:
            return self._leaders.find(line.partition, line.topic_id)
        except HeliographError as gone:
            self._fail(line, gone)
            return None

    def _suspect(self, line: _Line, leader: int | None) -> None:
        """Give an overdue reply up once another broker leads: a stopped one never answers.

        Its request may still be carried out; the repeat carries the same sequence.
        """
        if line.channel is None or line.channel.waited_s() < _SUSPICIOUS_S:
            return
        self._cluster.look_again()
        if leader is not None and leader != line.broker:
            for write in line.sent:
                if write.fate is _Fate.FLYING:
                    self._lost(write, NotReady("its leader moved", cluster=self._cluster.name))

    def _recover(self, line: _Line) -> None:
        """All replies are in, and not all are good: give up, or send the same bytes again.

        Also those that were stored go out again, in their order: they are among the last five
        batches, so the broker answers with their offsets and stores nothing.
        """
        first, stored = line.sent[0], [one for one in line.sent if one.fate is _Fate.STORED]
        error = first.error
        if stored and error and line.is_ordered and not first.doubtful:
            fenced = isinstance(error, Superseded)
            self._fail(line, error if fenced else self._out_of_order(line, stored[0].offset, error))
            return
        if first.fate is _Fate.REFUSED:
            assert error is not None
            self._fail(line, error)
            return
        # One refused behind the first is refused again, when those before it are through.
        for write in line.sent:
            write.doubtful = write.doubtful or write.fate is _Fate.STORED
            write.fate = _Fate.WAITING
        line.waiting.extendleft(reversed(line.sent))
        line.sent.clear()
        line.channel = None

    def _expire(self, line: _Line) -> None:
        first = line.sent[0] if line.sent else line.waiting[0]
        if not first.deadline.passed:
            return
        last = f"; last: {first.error}" if first.error else ""
        message = f"{line.partition} did not take a batch in the time allowed{last}"
        self._fail(line, DeadlinePassed(message, cluster=self._cluster.name))

    def _fail(self, line: _Line, error: HeliographError) -> None:
        """Answer every batch of the line: nothing of it is sent any more."""
        writes = [*line.sent, *line.waiting]
        line.sent.clear()
        line.waiting.clear()
        line.channel = None
        for write in writes:
            unclear = write.doubtful or write.fate in (_Fate.FLYING, _Fate.STORED)
            write.attempt += 1  # a reply that still comes is nobody's
            if write.fate is _Fate.STORED and not line.is_ordered:
                write.on_done(write.offset)
            elif unclear and not isinstance(error, Superseded):
                write.on_done(self._unknown(line, error))
            else:
                write.on_done(error)
            if isinstance(error, RecordsRefused):  # those behind are not at fault
                message = f"not written to {line.partition}: a batch before it was refused"
                error = NotReady(message, cluster=self._cluster.name)

    def _unknown(self, line: _Line, error: HeliographError) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"a batch for {line.partition} was sent and not clearly answered; it may or may not"
            f" stand in the log ({error.message})",
            cluster=self._cluster.name,
        )

    def _out_of_order(self, line: _Line, offset: int, error: HeliographError) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"a batch stands in {line.partition} at offset {offset}, although one that was sent"
            f" before it was refused ({error.message}). The broker has forgotten who writes there."
            " Where the log goes on is not known; a claim and a match will tell",
            cluster=self._cluster.name,
        )

    # Requests

    def _fill(self, broker: int, lane: str, lines: list[_Line]) -> None:
        """Send requests to one broker until its connection has enough in flight."""
        try:
            channel = self._cluster.channel(broker, lane)
        except HeliographError as refused:  # by this broker: the others go on
            for line in lines:
                self._fail(line, refused)
            return
        if channel is None or channel.quiet_until_s > clock.now_s():
            return
        version = produce_codec.version_of(channel)
        places = len({line.partition for line in lines})
        while channel.in_flight < self._most_requests and channel.error is None:
            cargo = self._load(channel, broker, lines, places)
            if not cargo:
                return
            entries = [
                Entry(line.partition.topic, line.topic_id, line.partition.partition, write.batch)
                for line, write, _ in cargo
            ]
            timeout = self._cluster.settings.request_timeout
            timeout_ms = int(timeout.total_seconds() * 1000)
            channel.send(
                produce_codec.request(version, entries, timeout_ms),
                partial(self._replied, channel, version, cargo),
                Deadline.after(timeout),
            )
            crash.point("C7")

    def _load(self, channel: Channel, broker: int, lines: list[_Line], places: int) -> _Cargo:
        """Take the next batch of each line, as far as one request goes: one for each place."""
        cargo: _Cargo = []
        size_bytes = 0
        taken: set[Partition] = set()
        for line in lines:
            if not line.waiting or not line.next_may_fly() or line.partition in taken:
                continue
            if line.sent and line.channel is not channel:
                continue
            size_bytes += len(line.waiting[0].batch)
            if cargo and size_bytes > _REQUEST_BYTES:
                break
            write = line.waiting.popleft()
            write.fate = _Fate.FLYING
            write.attempt += 1
            line.sent.append(write)
            line.channel, line.broker = channel, broker
            taken.add(line.partition)
            cargo.append((line, write, write.attempt))
            if len(taken) == places:
                break
        lines.append(lines.pop(0))  # the next request begins with another partition
        return cargo

    # Replies

    def _replied(self, channel: Channel, version: int, cargo: _Cargo, reply: Reply) -> None:
        current = [(line, write) for line, write, attempt in cargo if write.attempt == attempt]
        if isinstance(reply, HeliographError):
            for line, write in current:
                self._lost(write, reply)
                line.not_before_s = clock.now_s() + _RETRY_PAUSE_S
            self._cluster.look_again()
            return
        try:
            throttle_ms, acks = produce_codec.parse(version, reply, channel)
        except ProtocolBroken as nonsense:
            self._replied(channel, version, cargo, nonsense)
            channel.close(nonsense)
            return
        channel.quiet_until_s = clock.now_s() + throttle_ms / 1000
        by_id = version >= produce_codec.BY_ID
        found = {(ack.topic, ack.partition): ack for ack in acks}
        for line, write in current:
            topic = line.topic_id if by_id else line.partition.topic
            self._judge(line, write, found.get((topic, line.partition.partition)))

    def _lost(self, write: _Write, why: HeliographError) -> None:
        """No answer came: the batch may be stored."""
        write.on_lost()
        write.error, write.doubtful = why, True
        write.attempt += 1
        write.fate = _Fate.REFUSED if write.once else _Fate.AGAIN

    def _judge(self, line: _Line, write: _Write, ack: PartitionAck | None) -> None:
        if write.fate is not _Fate.FLYING:
            return
        if ack is None or (ack.code == 0 and ack.base_offset < 0):
            self._lost(write, self._silent(line))
        elif ack.code == 0:
            write.fate, write.offset = _Fate.STORED, ack.base_offset
            while line.sent and line.sent[0].fate is _Fate.STORED:
                done = line.sent.popleft()
                done.on_done(done.offset)
        else:
            self._refused(line, write, ack)

    def _silent(self, line: _Line) -> ProtocolBroken:
        message = f"a produce reply gave no offset for {line.partition}"
        return ProtocolBroken(message, cluster=self._cluster.name)

    def _refused(self, line: _Line, write: _Write, ack: PartitionAck) -> None:
        doing, name = f"writing to {line.partition}", self._cluster.name
        write.error = error_for(ack.code, cluster=name, doing=doing, detail=ack.message)
        if isinstance(write.error, RecordsRefused):
            write.error.indexes = ack.bad_records
        follows = ack.code == _OUT_OF_ORDER and line.sent[0] is not write
        heals = write.error.retriable or ack.code in _UNKNOWN_TOPIC_CODES
        # We wrote the checksum: if it is wrong over there, the bytes changed on the way.
        heals = heals or (ack.code == _CORRUPT and write.attempt < _CORRUPT_TRIES)
        # With an offset the batch was appended, and what failed was the wait for the replicas.
        appended = ack.base_offset >= 0 or ack.code in _MAY_BE_STORED
        write.doubtful = write.doubtful or appended
        if follows or (heals and not (write.once and write.doubtful)):
            write.fate = _Fate.AGAIN
            line.not_before_s = clock.now_s() + _RETRY_PAUSE_S
            self._cluster.look_again()
        else:
            write.fate = _Fate.REFUSED


_Cargo: TypeAlias = list[tuple[_Line, _Write, int]]
