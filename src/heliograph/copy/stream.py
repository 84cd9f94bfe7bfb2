"""Stream: copy opened partitions, batch by batch, and keep their ledgers.

Fetches from all source brokers and produces to all target brokers overlap; a partition that is
slow or fails holds up no other. The ledger follows the data by a second at most and is never
ahead of it: only what was acknowledged enters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from uuid import UUID

from heliograph.copy.allowance import Allowance
from heliograph.copy.books import Books
from heliograph.copy.copying import Copying
from heliograph.copy.gaps import epoch_lost, overtaken, past_the_end, step_over
from heliograph.copy.opened import Ends, Opened, stalled
from heliograph.copy.provenance import Provenance
from heliograph.copy.quarantine import MakeTopic
from heliograph.copy.queue import Queue
from heliograph.copy.room import MOST_WAITING_IN_ALL_BYTES, Room
from heliograph.copy.sending import Sender
from heliograph.copy.sieve import Sieve
from heliograph.copy.standstill import Tick
from heliograph.errors import (
    HeliographError,
    OffsetOutOfRange,
    OutcomeUnknown,
    Stalled,
    Superseded,
)
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition

_TURN_S = 0.1
_MISSES = 3


class Stream:
    """Copies the partitions that were added, until told to stop. For the thread of the loop.

    One stream at a time uses a pair of clusters; ``close`` gives them back.
    """

    def __init__(
        self,
        ends: Ends,
        *,
        policies: Policies | None = None,
        expiration: timedelta = timedelta(days=1),
        lanes: int = 1,
        most_waiting_bytes: int = MOST_WAITING_IN_ALL_BYTES,
        until: Mapping[Partition, int] | None = None,
        make_topic: MakeTopic | None = None,
        tick: Tick | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        assert ends.source.loop is ends.target.loop, "one loop drives both ends"
        self._ends = ends
        self._loop = ends.source.loop
        self._policies = policies or Policies()
        self.until = until
        self._parts: dict[Partition, Copying] = {}
        self._moved: set[Copying] = set()
        self._failures: list[tuple[Partition, HeliographError]] = []
        self._fetcher = Fetcher(ends.source, lanes=lanes)
        self._sieve = _sieve(ends, self._policies)
        self._room = Room(self._fetcher, most_waiting_bytes)
        self._allowance = allowance or Allowance()
        self._books = Books(ends, self._moved.add, self._fail)
        self._sender = Sender(
            ends,
            self._policies,
            expiration,
            lanes=lanes,
            make_topic=make_topic,
            allowance=self._allowance,
            on_move=self._moved.add,
            on_failure=self._fail,
        )
        self._clock = tick or Tick()
        self._loop.on_wake = self._tick

    @property
    def parts(self) -> Mapping[Partition, Copying]:
        """The partitions under way, and those that failed and were not dropped since."""
        return MappingProxyType(self._parts)

    @property
    def waiting_bytes(self) -> int:
        """What was read and is not acknowledged."""
        return self._room.waiting_bytes

    def take_failures(self) -> list[tuple[Partition, HeliographError]]:
        """Return the partitions that failed since the last call, and why."""
        failures, self._failures = self._failures, []
        return failures

    def add(self, opened: Opened) -> None:
        """Begin to copy a partition; also one that failed or was dropped, once opened again."""
        source, ledger = opened.source, opened.ledger
        self.drop(source)
        self._books.forget(opened.claim.producer_id)
        until = self.until.get(source) if self.until is not None else None
        end = sys.maxsize if until is None else until
        queue = Queue(range(ledger.source_next, max(end, ledger.source_next)))
        part = Copying(opened, until, queue, ledger.source_next, ledger.source_epoch)
        self._parts[source] = part
        if stood_s := opened.tick.stood_s():
            self._fail(part, stalled(source, stood_s))
        elif part.until is not None and part.position >= part.until:
            part.is_reading = False
        else:
            self._read_from(part, ledger.source_next, ledger.source_epoch)

    def drop(self, source: Partition) -> None:
        """Stop copying one partition, without a word. What is on its way may still arrive."""
        part = self._parts.pop(source, None)
        if part is not None:
            self._halt(part)

    def step(self) -> None:
        """Do what can be done now; wait a moment where that is nothing."""
        self._tick()
        self._fetcher.pump()
        self._pump()
        self._loop.turn(_TURN_S)
        for fetched in self._fetcher.take():
            self._take(fetched)
        self._go_on()
        if self._books.is_due:
            self._books.record_all(self._alive())
        self._pump()

    def finish(self, deadline: Deadline) -> None:
        """Read and send no more; wait until what was sent is acknowledged and on record.

        Each partition that did not fail can then be handed over as it is. One that is not done in
        time fails: what became of its last batches is not known.
        """
        for part in self._alive():
            self._fetcher.stop(part.opened.source)
            if not part.is_idle:
                part.read_to = part.position  # what is not sent was not read
            part.forget_unsent()
        while not self._is_finished():
            if deadline.passed:
                self._fail_unfinished()
                return
            self._tick()
            self._pump()
            self._loop.turn(min(deadline.left_s, _TURN_S))

    def close(self) -> None:
        """Give the clusters back; partitions that were not finished are left as they are."""
        for source in list(self._parts):
            self.drop(source)
        if self._loop.on_wake == self._tick:
            self._loop.on_wake = lambda: None
        if self._sieve is not None:
            self._sieve.close()

    # The clock

    def _tick(self) -> None:
        """Give everything up where the process stood still."""
        if stood_s := self._clock.stood_s():
            for part in self._alive():
                self._fail(part, stalled(part.opened.source, stood_s))

    # One partition

    def _alive(self) -> list[Copying]:
        return [part for part in self._parts.values() if part.error is None]

    def _read_from(self, part: Copying, source_offset: int, source_epoch: int) -> None:
        topic_id = UUID(part.opened.ledger.origin.source_topic_id)
        self._fetcher.start(part.opened.source, topic_id, source_offset, source_epoch)

    def _take(self, fetched: Fetched) -> None:
        part = self._parts.get(fetched.partition)
        if part is None or part.is_over or not part.is_reading:
            return
        if fetched.error is not None:
            part.ending = fetched.error
        else:
            part.unsorted.append(fetched)
            self._sort(part)
        self._moved.add(part)
        self._room.count(part)

    def _sort(self, part: Copying) -> None:
        """Put into the queue what is to be copied, as far as it is known who wrote it."""
        while part.unsorted and part.is_reading:
            fetched = part.unsorted[0]
            if self._sieve is not None:
                if self._sieve.strange(fetched.batches):
                    waiting = [read.batches for one in self._alive() for read in one.unsorted]
                    strange = set[int]().union(*map(self._sieve.strange, waiting))
                    self._sieve.ask(strange, self._sorted_out)
                    return
                fetched = replace(fetched, batches=self._sieve.sift(fetched.batches))
            part.unsorted.popleft()
            part.see(fetched)
        if not part.is_reading:
            part.unsorted.clear()
            self._fetcher.stop(part.opened.source)

    def _sorted_out(self, failure: HeliographError | None) -> None:
        for part in [one for one in self._alive() if one.unsorted]:
            if failure is not None:
                self._fail(part, failure)
            else:
                self._sort(part)
                self._moved.add(part)
                self._room.count(part)

    def _go_on(self) -> None:
        """Send what may be sent, of all partitions where something happened."""
        moved = [part for part in self._moved if not part.is_over]
        self._moved.clear()
        if self._allowance.is_limited:
            moved.sort(key=lambda part: part.sent_s)  # who waited longest is first
        for part in moved:
            try:
                self._sender.fill(part)
            except HeliographError as damage:
                self._fail(part, damage)
                continue
            part.settle()
            self._room.count(part)
            if part.is_barred:
                self._books.record([part])
            if part.ending is not None and part.is_idle:
                self._end(part, part.ending)
            elif part.queue and not part.flying:
                self._moved.add(part)  # it waits for time to pass

    def _end(self, part: Copying, why: HeliographError) -> None:
        """Everything before it is on the mirror: get over a gap, or stop."""
        part.ending = None
        if not isinstance(why, OffsetOutOfRange):
            self._fail(part, why)
        elif why.offset > why.end_offset:
            lost = past_the_end(part.opened.source, why.offset, why.end_offset, why.cluster)
            self._fail(part, lost)
        elif why.offset >= why.start_offset:
            # By now the log holds it, or it does not know the leader epoch of what is before it.
            part.misses += 1
            if part.misses < _MISSES:
                self._read_from(part, why.offset, part.read_epoch)
            else:
                self._fail(part, epoch_lost(part.opened.source, why, part.read_epoch))
        elif self._policies.on_gap == "skip":
            step_over(part.opened.ledger, why.start_offset)
            part.read_to = why.start_offset
            part.bar()
            part.queue.begin_at(why.start_offset)
            self._read_from(part, why.start_offset, -1)
        else:
            self._fail(part, overtaken(part.opened.ledger, why.start_offset))

    def _fail(self, part: Copying, error: HeliographError) -> None:
        if part.is_over:
            return
        part.error = error
        self._failures.append((part.opened.source, error))
        self._halt(part, cut=isinstance(error, Stalled))
        if not isinstance(error, Stalled | Superseded):
            self._books.record([part])

    def _halt(self, part: Copying, *, cut: bool = False) -> None:
        part.halt()
        self._fetcher.stop(part.opened.source)
        self._sender.forget(part, cut=cut)
        self._room.leave(part)

    # Everything

    def _pump(self) -> None:
        self._sender.pump()
        self._books.pump()

    def _is_finished(self) -> bool:
        alive = self._alive()
        if any(part.flying for part in alive):
            return False
        for part in alive:
            if part.refusal is not None:  # not written: its sequences are free again
                part.opened.sequence, part.refusal = part.refusal.prepared.sequence, None
        self._books.record(alive)
        return all(part.is_recorded and not part.is_recording for part in alive)

    def _fail_unfinished(self) -> None:
        for part in self._alive():
            if part.flying or part.is_recording or not part.is_recorded:
                message = f"{part.opened.source} was not finished in the time allowed"
                self._fail(part, OutcomeUnknown(message, cluster=self._ends.target.name))


def _sieve(ends: Ends, policies: Policies) -> Sieve | None:
    if policies.origin == "any":
        return None
    return Sieve(ends.source.loop, Provenance(ends.source.settings, policies.inbound))
