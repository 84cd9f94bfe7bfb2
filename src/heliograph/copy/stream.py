"""Stream: copy opened partitions, batch by batch, and keep their ledgers.

Fetches from all source brokers and produces to all target brokers overlap; a partition that is
slow or fails holds up no other. The ledger follows the data by a second at most and is never
ahead of it: only what was acknowledged enters.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from heliograph.copy.opening import Ends, Opened
from heliograph.errors import HeliographError
from heliograph.kafka.batch import Header, restamp, sequence_after
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.kafka.produce import Producer
from heliograph.kafka.rebuild import crop, rebuild
from heliograph.kafka.tables import rows_batch
from heliograph.model.runs import Run
from heliograph.model.topics import Partition

LEDGER_EVERY = timedelta(seconds=1)
# What may wait for the target, of one partition and of all, before sources are no longer read. A
# fetch that is under way still arrives: the bound is this and one reply a lane.
MOST_WAITING_BYTES = 16 << 20
MOST_WAITING_IN_ALL_BYTES = 64 << 20
_TURN_S = 0.1

Stretches = tuple[tuple[int, int], ...]
"""Where the records of a batch come from: ``(first source offset, length)``, in order."""


@dataclass(slots=True)
class _Copying:
    """One partition on its way. ``landing`` is what was sent and not yet acknowledged, in order:
    a batch's stretches, or a source offset below which nothing more is to be copied.
    """

    opened: Opened
    position: int
    sequence: int = 0
    landing: deque[Stretches | int] = field(default_factory=deque)
    waiting_bytes: int = 0
    is_recorded: bool = True
    is_recording: bool = False
    error: HeliographError | None = None


class Stream:
    """Copies partitions that were opened, until told to stop. For the thread of the loop."""

    def __init__(
        self,
        ends: Ends,
        opened: Iterable[Opened],
        *,
        lanes: int = 1,
        most_waiting_bytes: int = MOST_WAITING_IN_ALL_BYTES,
    ) -> None:
        assert ends.source.loop is ends.target.loop, "one loop drives both ends"
        self._ends = ends
        self._loop = ends.source.loop
        self._fetcher = Fetcher(ends.source, lanes=lanes)
        self._producer = Producer(ends.target, lanes=lanes)
        self._parts: dict[Partition, _Copying] = {}
        self._paused: set[Partition] = set()
        self._most_waiting_bytes = most_waiting_bytes
        self.waiting_bytes = 0
        self._record_s = time.monotonic() + LEDGER_EVERY.total_seconds()
        for one in opened:
            self._parts[one.source] = _Copying(one, one.ledger.source_next)
            topic_id = ends.source.view.topics[one.source.topic].topic_id
            self._fetcher.start(one.source, topic_id, one.ledger.source_next)

    @property
    def positions(self) -> dict[Partition, int]:
        """The next source offset of each partition: everything below it is acknowledged."""
        return {source: part.opened.ledger.source_next for source, part in self._parts.items()}

    @property
    def errors(self) -> dict[Partition, HeliographError]:
        """The partitions that stopped, and why."""
        return {source: part.error for source, part in self._parts.items() if part.error}

    def step(self) -> None:
        """Do what can be done now; wait a moment where that is nothing."""
        self._fetcher.pump()
        self._producer.pump()
        self._loop.turn(_TURN_S)
        for fetched in self._fetcher.take():
            self._take(self._parts[fetched.partition], fetched)
        if time.monotonic() >= self._record_s:
            self._record_s = time.monotonic() + LEDGER_EVERY.total_seconds()
            self._record_all()
        self._producer.pump()

    def finish(self, deadline: Deadline) -> None:
        """Read no more; wait until all that was sent is acknowledged and on record."""
        for source in self._parts:
            self._fetcher.stop(source)
        while not deadline.passed:
            if not self._producer.unfinished:
                self._record_all()
                if not self._producer.unfinished:
                    return
            self._producer.pump()
            self._loop.turn(min(deadline.left_s, _TURN_S))

    # Records

    def _take(self, part: _Copying, fetched: Fetched) -> None:
        if part.error is not None:
            return
        if fetched.error is not None:
            self._stop(part, fetched.error)
            return
        for header, batch in fetched.batches:
            prepared = _prepare(header, batch, part.position)
            if prepared is not None:
                self._send(part, *prepared)
            part.position = header.next_offset
        part.position = fetched.next_offset
        self._land(part, fetched.next_offset)

    def _send(self, part: _Copying, batch: memoryview | bytearray, stretches: Stretches) -> None:
        claim = part.opened.claim
        restamp(batch, claim.producer_id, claim.epoch, part.sequence)
        count = sum(length for _, length in stretches)
        part.sequence = sequence_after(part.sequence, count)
        part.landing.append(stretches)
        self._wait_for(part, len(batch))
        mirror = part.opened.mirror
        topic_id = self._ends.target.view.topics[mirror.topic].topic_id
        self._producer.send(mirror, topic_id, batch, partial(self._sent, part, len(batch)))

    def _land(self, part: _Copying, source_offset: int) -> None:
        """Remember that the source holds nothing more below ``source_offset``."""
        part.landing.append(source_offset)
        self._settle(part)

    def _sent(self, part: _Copying, size_bytes: int, outcome: int | HeliographError) -> None:
        self._wait_for(part, -size_bytes)
        if part.error is not None:
            return
        if isinstance(outcome, HeliographError):
            self._stop(part, outcome)
            return
        stretches = part.landing.popleft()
        assert isinstance(stretches, tuple), "acknowledged in the order they were sent"
        for source_start, length in stretches:
            part.opened.ledger.add(Run(source_start, outcome, length))
            outcome += length
        part.is_recorded = False
        self._settle(part)

    def _wait_for(self, part: _Copying, size_bytes: int) -> None:
        """Count what waits for the target, and read only what there is room for."""
        part.waiting_bytes += size_bytes
        self.waiting_bytes += size_bytes
        is_full = self.waiting_bytes > self._most_waiting_bytes
        if size_bytes > 0 and (is_full or part.waiting_bytes > MOST_WAITING_BYTES):
            self._paused.add(part.opened.source)
            self._fetcher.pause(part.opened.source)
        elif not is_full:
            for source in list(self._paused):
                if self._parts[source].waiting_bytes <= MOST_WAITING_BYTES:
                    self._paused.discard(source)
                    self._fetcher.resume(source)

    def _settle(self, part: _Copying) -> None:
        """Enter what has become certain: everything before it is acknowledged."""
        while part.landing and isinstance(part.landing[0], int):
            done = part.landing.popleft()
            assert isinstance(done, int)
            if done > part.opened.ledger.source_next:
                part.opened.ledger.skip_to(done)
                part.is_recorded = False

    def _stop(self, part: _Copying, error: HeliographError) -> None:
        part.error = error
        self._fetcher.stop(part.opened.source)

    # The ledger

    def _record_all(self) -> None:
        for part in self._parts.values():
            if not (part.is_recorded or part.is_recording or part.error):
                self._record(part)

    def _record(self, part: _Copying) -> None:
        part.is_recorded, part.is_recording = True, True
        batch = rows_batch(part.opened.ledger.take_changes(), part.opened.writer)
        books = Partition(self._ends.ledger_topic, 0)
        topic_id = self._ends.target.view.topics[books.topic].topic_id
        self._producer.send(books, topic_id, batch, partial(self._recorded, part))

    def _recorded(self, part: _Copying, outcome: int | HeliographError) -> None:
        part.is_recording = False
        if isinstance(outcome, HeliographError) and part.error is None:
            self._stop(part, outcome)


def _prepare(
    header: Header, batch: memoryview, position: int
) -> tuple[memoryview | bytearray, Stretches] | None:
    """Return a batch that can be restamped, and where its records come from; None if it is empty.

    Untouched where possible: only the header is ours to change then.
    """
    if header.base_offset < position:
        rebuilt = crop(batch, position)
    elif header.needs_rebuild:
        rebuilt = rebuild(batch)
    else:
        return batch, ((header.base_offset, header.count),)
    return None if rebuilt is None else (rebuilt.batch, rebuilt.source_offsets)
