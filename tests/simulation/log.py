"""One partition as its leader keeps it: the log, and what is remembered of producers.

The rules are Kafka's, each tried on a real broker by tests/contract.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import NO_PRODUCER, Header, seal, split_batches
from heliograph.kafka.isolation import Aborted
from heliograph.kafka.records import Record, decode, encode

CORRUPT, OUT_OF_RANGE, TOO_LARGE, NOT_ENOUGH_REPLICAS = 2, 1, 10, 19
OUT_OF_ORDER, STALE_EPOCH, NOT_AUTHORIZED, INVALID_RECORD = 45, 47, 53, 87
_REMEMBERED = 5
_PLACE = struct.Struct(">qii")
_LAST_SEQUENCE = 2**31 - 1
_ATTRIBUTES_AT = 21
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Refused(Exception):
    """The leader does not take a batch; ``code`` says why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch in the log, its offsets assigned."""

    header: Header
    data: bytes


@dataclass(slots=True)
class Refusal:
    """What a batch is refused for, after ``skip`` that pass; one of a single record always fits."""

    code: int
    skip: int = 0


@dataclass(slots=True)
class _Producer:
    """What a leader remembers of one producer id: ``(first, last sequence, offset)`` of five."""

    epoch: int
    last_timestamp_ms: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    transaction_start: int | None = None


class SimLog:
    """A partition's log. ``end`` is the high watermark too: there is one replica."""

    def __init__(self, max_batch_bytes: int = 1 << 20) -> None:
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.leader_epoch = 0
        self.max_batch_bytes = max_batch_bytes
        self.refusals: list[Refusal] = []
        self._epochs: list[tuple[int, int]] = [(0, 0)]  # leader epoch, its first offset
        self._producers: dict[int, _Producer] = {}
        self._aborted: list[tuple[Aborted, int]] = []  # with the offset of its marker

    # Writing

    def append(self, data: bytes, *, transactional: bool = False) -> int:
        """Store one batch as a client sent it and return its offset, or the first time's.

        ``transactional`` stands for a transactional id that has this partition in its transaction.
        """
        header = self._checked(data, transactional)
        self._refuse(header)
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            first_time = _repeat_of(producer, header)
            if first_time is not None:
                return first_time
            _check_turn(producer, header)
        offset = self._store(header, data)
        if header.producer_id != NO_PRODUCER:
            self._remember(header, offset, transactional)
        return offset

    def mark(self, producer_id: int, epoch: int, *, commit: bool, now_ms: int) -> None:
        """Write the marker that ends a transaction; from then on older epochs are refused."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise Refused(STALE_EPOCH)
        key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
        batch = encode(
            [Record(-1, now_ms, key, value)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=NO_PRODUCER,
        )
        batch[_ATTRIBUTES_AT + 1] |= _TRANSACTIONAL | _CONTROL
        seal(batch)
        ((header, _),) = split_batches(memoryview(batch))
        offset = self._store(header, bytes(batch))
        if producer is not None and producer.transaction_start is not None and not commit:
            self._aborted.append((Aborted(producer.transaction_start, producer_id), offset))
        if producer is None or producer.epoch != epoch:
            self._producers[producer_id] = _Producer(epoch, now_ms)
        else:
            producer.last_timestamp_ms, producer.transaction_start = now_ms, None

    def delete_before(self, offset: int) -> None:
        """Move the start, as DeleteRecords does; it may fall inside a batch."""
        self.start = max(self.start, min(offset, self.end))
        while self.batches and self.batches[0].header.next_offset <= self.start:
            del self.batches[0]

    def forget_producers(self, now_ms: int, limit_ms: int) -> None:
        """Drop producers whose last records are older than the limit, by the records' own time."""
        self._producers = {
            producer_id: producer
            for producer_id, producer in self._producers.items()
            if producer.transaction_start is not None
            or now_ms - producer.last_timestamp_ms < limit_ms
        }

    def elect(self) -> None:
        """Let the leader be elected anew; nothing is lost."""
        self.leader_epoch += 1
        self._epochs.append((self.leader_epoch, self.end))

    def lose_end(self, offset: int) -> None:
        """Lose every batch that reaches over an offset, as after an unclean election.

        The new leader remembers of producers what its own log tells.
        """
        self.batches = [one for one in self.batches if one.header.next_offset <= offset]
        self.end = self.batches[-1].header.next_offset if self.batches else self.start
        self._epochs = [pair for pair in self._epochs if pair[1] <= self.end]
        self._aborted = [pair for pair in self._aborted if pair[1] < self.end]
        self._producers.clear()
        for one in self.batches:
            header = one.header
            if header.is_control:
                self._producers[header.producer_id] = _Producer(
                    header.producer_epoch, header.max_timestamp
                )
            elif header.producer_id != NO_PRODUCER:
                self._remember(header, header.base_offset, transactional=False)
        self.elect()

    def compact(self) -> list[Header]:
        """Remove the batches of which every record is superseded by a later one of its key.

        The newest batch stays, as the active segment does. What was removed is returned.
        """
        newest: dict[bytes | None, int] = {}
        for one in self.batches:
            if not one.header.is_control:
                for record in decode(memoryview(one.data)):
                    newest[record.key] = record.offset
        kept, gone = [], []
        for one in self.batches:
            is_old = one is not self.batches[-1] and not one.header.is_control
            records = list(decode(memoryview(one.data))) if is_old else []
            superseded = [it.key is not None and newest[it.key] > it.offset for it in records]
            if superseded and all(superseded):
                gone.append(one.header)
            else:
                kept.append(one)
        self.batches = kept
        return gone

    # Reading

    @property
    def stable_end(self) -> int:
        """The last stable offset: where the oldest open transaction begins."""
        starts = (one.transaction_start for one in self._producers.values())
        return min((start for start in starts if start is not None), default=self.end)

    def read(self, offset: int, most_bytes: int, *, committed: bool) -> tuple[bytes, list[Aborted]]:
        """Return whole batches from the one that holds ``offset`` on, and the overlapping aborts.

        The first batch comes whole, however large it is.
        """
        if not self.start <= offset <= self.end:
            raise Refused(OUT_OF_RANGE)
        limit = self.stable_end if committed else self.end
        first = bisect_left(self.batches, offset, key=lambda one: one.header.last_offset)
        found: list[bytes] = []
        size = 0
        end = offset
        for one in self.batches[first:]:
            if one.header.base_offset >= limit or (found and size + len(one.data) > most_bytes):
                break
            found.append(one.data)
            size += len(one.data)
            end = one.header.next_offset
        aborted = [
            entry
            for entry, marker in self._aborted
            if committed and marker >= offset and entry.first_offset < end
        ]
        return b"".join(found), aborted

    def offset_at(self, timestamp_ms: int) -> int:
        """Return the first offset at or after a time, -1 where there is none."""
        for one in self.batches:
            if one.header.max_timestamp >= timestamp_ms and not one.header.is_control:
                for record in decode(memoryview(one.data)):
                    if record.timestamp >= timestamp_ms and record.offset >= self.start:
                        return record.offset
        return -1

    def diverges(self, last_epoch: int, offset: int) -> tuple[int, int] | None:
        """Return the epoch and end where this log parted from what the reader has, if it did."""
        known = [number for number, (epoch, _) in enumerate(self._epochs) if epoch <= last_epoch]
        if last_epoch < 0 or not known:
            return None
        epoch = self._epochs[known[-1]][0]
        later = self._epochs[known[-1] + 1 :]
        end = later[0][1] if later else self.end
        return (epoch, end) if epoch < last_epoch or end < offset else None

    # Details

    def _refuse(self, header: Header) -> None:
        """Refuse a batch before anything is asked about its producer, as a leader does."""
        for refusal in self.refusals:
            if refusal.skip:
                refusal.skip -= 1
            elif refusal.code != TOO_LARGE or header.count > 1:
                self.refusals.remove(refusal)
                raise Refused(refusal.code)

    def _checked(self, data: bytes, transactional: bool) -> Header:
        try:
            found = list(split_batches(memoryview(data), check=True))
        except CorruptBatch:
            raise Refused(CORRUPT) from None
        if len(found) != 1:
            raise Refused(INVALID_RECORD)
        header = found[0][0]
        if len(data) > self.max_batch_bytes:
            raise Refused(TOO_LARGE)
        if header.is_transactional and not transactional:
            raise Refused(NOT_AUTHORIZED)
        unsequenced = header.producer_id != NO_PRODUCER and header.base_sequence < 0
        if header.has_holes or header.base_offset or header.is_control or unsequenced:
            raise Refused(INVALID_RECORD)
        if not header.count:
            raise Refused(INVALID_RECORD)
        return header

    def _store(self, header: Header, data: bytes) -> int:
        offset = self.end
        stored = bytearray(data)
        _PLACE.pack_into(stored, 0, offset, header.length, self.leader_epoch)
        placed = header._replace(base_offset=offset, leader_epoch=self.leader_epoch)
        self.batches.append(Stored(placed, bytes(stored)))
        self.end = placed.next_offset
        return offset

    def _remember(self, header: Header, offset: int, transactional: bool) -> None:
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = _Producer(header.producer_epoch, header.max_timestamp)
            self._producers[header.producer_id] = producer
        producer.last_timestamp_ms = header.max_timestamp
        last = _sequence(header.base_sequence + header.count - 1)
        producer.batches.append((header.base_sequence, last, offset))
        if transactional and producer.transaction_start is None:
            producer.transaction_start = offset


def _repeat_of(producer: _Producer, header: Header) -> int | None:
    """Return the offset of the same batch, if it is among the last of the same epoch."""
    last = _sequence(header.base_sequence + header.count - 1)
    if producer.epoch == header.producer_epoch:
        for first, end, offset in producer.batches:
            if (first, end) == (header.base_sequence, last):
                return offset
    return None


def _check_turn(producer: _Producer, header: Header) -> None:
    """Refuse an older epoch, and a sequence that does not follow the last."""
    if header.producer_epoch < producer.epoch:
        raise Refused(STALE_EPOCH)
    expected = 0
    if header.producer_epoch == producer.epoch and producer.batches:
        expected = _sequence(producer.batches[-1][1] + 1)
    if header.base_sequence != expected:
        raise Refused(OUT_OF_ORDER)


def _sequence(number: int) -> int:
    return number if number <= _LAST_SEQUENCE else number - _LAST_SEQUENCE - 1
