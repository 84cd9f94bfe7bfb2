"""One partition on its way from the source to the target: how far it is, and what it waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from heliograph.copy.opened import Opened
from heliograph.copy.queue import Prepared, Queue
from heliograph.copy.refusals import Refused
from heliograph.errors import HeliographError, RecordsRefused
from heliograph.kafka import clock, crash
from heliograph.kafka.fetch import Fetched
from heliograph.model.runs import Run

# How much of a late answer is believed.
_LEARN = 0.05


@dataclass(slots=True, eq=False)
class Copying:
    """One partition. What is public is for those who report; only the stream changes it.

    ``records`` and ``bytes`` count what was copied since it was added; ``newest_ms`` is the time of
    the newest record acknowledged. -1 stands for what is not known yet.
    """

    opened: Opened
    until: int | None
    queue: Queue
    read_to: int
    read_epoch: int = -1
    records: int = 0
    bytes: int = 0
    high_watermark: int = -1
    log_start: int = -1
    last_stable: int = -1
    newest_ms: int = -1
    error: HeliographError | None = None

    is_over: bool = False
    """It failed or was dropped: whatever still comes is nobody's."""
    unsorted: deque[Fetched] = field(default_factory=deque)
    """What was read and is not in the queue yet: it is being looked up who wrote it."""
    flying: deque[Prepared] = field(default_factory=deque)
    refusal: Refusal | None = None
    is_held: bool = False
    """Nothing is sent while a refused record is put away."""
    is_barred: bool = False
    """Nothing is sent before the ledger is written."""
    left_out: list[LeftOut] = field(default_factory=list)
    ending: HeliographError | None = None
    """What ends it, or the gap to get over, once all that was read before is acknowledged."""
    is_reading: bool = True
    misses: int = 0
    """How often in a row the source refused to be read where it has records."""
    sent_s: float = 0.0
    """When something was last sent."""
    answer_s: float = 0.0
    """How long the target's answers take; the quick ones count for more."""
    waiting_bytes: int = 0
    too_large_bytes: int = 1 << 62
    """The smallest batch that the target refused for its size."""
    is_recorded: bool = True
    is_recording: bool = False
    recorded_s: float = field(default_factory=clock.now_s)
    """What was acknowledged before this moment is on record."""

    mirror_id: UUID = field(init=False)
    """The id of the mirror's topic."""

    def __post_init__(self) -> None:
        self.mirror_id = UUID(self.opened.ledger.origin.mirror_topic_id)

    @property
    def position(self) -> int:
        """The next source offset: everything below it is acknowledged."""
        return self.opened.ledger.source_next

    @property
    def is_caught_up(self) -> bool:
        """Claim: what was asked for is acknowledged, or all that the source was seen to hold."""
        end = self.last_stable if self.until is None else self.until
        return 0 <= end <= self.position

    @property
    def is_idle(self) -> bool:
        """Claim: nothing that was read waits for anything."""
        return not (self.flying or self.queue or self.unsorted or self.refusal or self.is_held)

    @property
    def read_bytes(self) -> int:
        """What was read and is not acknowledged."""
        size_bytes = self.queue.waiting_bytes + sum(one.read_bytes for one in self.flying)
        for fetched in self.unsorted:
            size_bytes += sum(len(batch) for _, batch in fetched.batches)
        return size_bytes

    @property
    def may_send(self) -> bool:
        """Claim: something waits, and nothing must come before it."""
        return bool(self.queue) and not (self.refusal or self.is_held or self.is_barred)

    def see(self, fetched: Fetched) -> None:
        """Take over what a fetch told; its batches are in the queue from now on."""
        self.misses = 0
        self.high_watermark = fetched.high_watermark
        self.last_stable = fetched.last_stable_offset
        self.log_start = fetched.log_start_offset
        self.queue.put(fetched.batches)
        self.read_to, self.read_epoch = fetched.next_offset, fetched.last_epoch
        if self.until is not None and self.read_to >= self.until:
            self.read_to, self.read_epoch = max(self.until, self.position), -1
            self.is_reading = False

    def answered(self, prepared: Prepared, now_s: float) -> None:
        """Learn how far the target is."""
        self.answer_s = learned(self.answer_s, now_s - prepared.sent_s)

    def enter(self, prepared: Prepared, target_start: int) -> None:
        """Enter an acknowledged batch into the ledger, behind all that came before it."""
        ledger = self.opened.ledger
        assert self.refusal is None, "invariant E: one before it was refused"
        assert prepared.follows <= ledger.source_next, "invariant E: what is before it is not done"
        for source_start, length in prepared.stretches:
            ledger.add(Run(source_start, target_start, length), prepared.source_epoch)
            target_start += length
        crash.point("C8")
        size_bytes = len(prepared.batch)
        self.records += prepared.count
        self.bytes += size_bytes
        ledger.bytes += size_bytes
        self.newest_ms = max(self.newest_ms, prepared.newest_ms)
        self.opened.written_ms = prepared.newest_ms
        self.is_recorded = False

    def leave_out(self, some: Iterable[LeftOut]) -> None:
        """Remember refused records that are dealt with."""
        # A batch may be refused again for records before those that were taken out of it.
        self.left_out = sorted([*self.left_out, *some], key=lambda one: one.source_offset)

    def leave_out_before(self, source_offset: int) -> None:
        """Enter refused records below an offset as gaps: what is before them is acknowledged."""
        ledger = self.opened.ledger
        while self.left_out and self.left_out[0].source_offset < source_offset:
            gap = self.left_out.pop(0)
            ledger.skip_to(gap.source_offset, gap.source_epoch)
            ledger.add_gap(gap.source_offset + 1, gap.why, gap.source_epoch)
            self.bar()

    def bar(self) -> None:
        """Send nothing more until the ledger is written: what it leaves out, a match must know."""
        self.is_recorded, self.is_barred = False, True

    def stop_before(self, source_offset: int, why: HeliographError) -> None:
        """Copy what stands before an offset that was read, and end there."""
        self.queue.keep_before(source_offset)
        self.unsorted.clear()
        self.is_reading = False
        self.read_to, self.read_epoch = source_offset, -1
        self.ending = why

    def halt(self) -> None:
        """Forget what was read and is not acknowledged. Its ledger may go on elsewhere."""
        self.is_over = True
        self.forget_unsent()
        self.flying.clear()

    def forget_unsent(self) -> None:
        """Forget what was read and not sent."""
        self.unsorted.clear()
        self.queue.clear()

    def settle(self) -> None:
        """Enter that all is done that was read, where that is so."""
        if self.is_over or not self.is_idle:
            return
        self.leave_out_before(self.read_to)
        if self.read_to > self.position:
            self.opened.ledger.skip_to(self.read_to, self.read_epoch)
            self.is_recorded = False


@dataclass(slots=True)
class Refusal:
    """A batch that was refused, and those behind it that failed with it, in order."""

    prepared: Prepared
    error: RecordsRefused
    behind: list[Prepared] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A refused record that is dealt with: the ledger may pass its offset."""

    source_offset: int
    source_epoch: int
    why: str

    @classmethod
    def of(cls, refused: Refused, what: str) -> LeftOut:
        """Say what became of a refused record, in words that repeat for its neighbours."""
        return cls(refused.source_offset, refused.source_epoch, f"{what}: {refused.name}")


def learned(answer_s: float, took_s: float) -> float:
    """Return how long answers take, after one more. What a busy broker adds is mostly ignored.

    >>> learned(0.05, 0.002), learned(0.002, 0.102)
    (0.002, 0.007)
    """
    return took_s if took_s < answer_s else answer_s + (took_s - answer_s) * _LEARN
