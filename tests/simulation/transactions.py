"""The transaction coordinator, as far as a claim goes: who has which producer id and epoch.

A transcription of Kafka's state machine for clients before KIP-890 (InitProducerId up to v4,
AddPartitionsToTxn up to v3, EndTxn up to v4); tests/contract holds it against a real broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from heliograph.model.topics import Partition
from tests.simulation.log import SimLog
from tests.simulation.world import World

NO_EPOCH = -1
INVALID_STATE, INVALID_MAPPING, CONCURRENT, FENCED, NOT_FOUND = 48, 49, 51, 90, 105
_LAST_EPOCH = 32766  # the next one would be the last of a short integer, which is never given


class State(Enum):
    """As DescribeTransactions names them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_COMMIT = "PrepareCommit"
    COMPLETE_ABORT = "CompleteAbort"
    COMPLETE_COMMIT = "CompleteCommit"


@dataclass(slots=True)
class _Transactional:
    """One transactional id."""

    producer_id: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    state: State = State.EMPTY
    timeout_ms: int = 0
    started_ms: int = 0
    changed_ms: int = 0
    partitions: set[Partition] = field(default_factory=set)


class SimCoordinator:
    """All transactional ids of a cluster. Markers are written ``marker_delay_s`` after EndTxn."""

    def __init__(
        self, world: World, find_log: Callable[[Partition], SimLog | None], marker_delay_s: float
    ) -> None:
        self._world = world
        self._find_log = find_log
        self.marker_delay_s = marker_delay_s
        self._ids: dict[str, _Transactional] = {}
        self._next_producer_id = 1000

    @property
    def newest_epoch(self) -> int:
        """The newest epoch that was given out."""
        return max((one.epoch for one in self._ids.values()), default=NO_EPOCH)

    def init(
        self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int
    ) -> tuple[int, int, int]:
        """Answer InitProducerId: error code, producer id, epoch."""
        one = self._ids.get(transactional_id)
        if one is None:
            one = self._ids[transactional_id] = _Transactional(self._new_producer_id())
        if epoch != NO_EPOCH and one.epoch != NO_EPOCH and producer_id != one.producer_id:
            return FENCED, -1, -1
        if one.state in (State.PREPARE_ABORT, State.PREPARE_COMMIT):
            return CONCURRENT, -1, -1
        if one.state is State.ONGOING:
            # Also for one that is fenced itself: only its next try is refused.
            self._fence(one)
            return CONCURRENT, -1, -1
        if one.epoch >= _LAST_EPOCH and epoch in (NO_EPOCH, one.epoch):
            one.producer_id, one.epoch, one.last_epoch = self._new_producer_id(), 0, NO_EPOCH
        elif epoch == NO_EPOCH:
            one.epoch, one.last_epoch = one.epoch + 1, NO_EPOCH
        elif one.epoch in (NO_EPOCH, epoch):
            one.epoch, one.last_epoch = one.epoch + 1, one.epoch
        elif epoch != one.last_epoch:  # the last one: a repeat, with the same answer
            return FENCED, -1, -1
        one.state, one.timeout_ms = State.EMPTY, timeout_ms
        one.partitions.clear()
        one.changed_ms = self._world.wall_ms
        return 0, one.producer_id, one.epoch

    def add(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[Partition]
    ) -> int:
        """Answer AddPartitionsToTxn with its error code."""
        one = self._ids.get(transactional_id)
        if one is None or one.producer_id != producer_id:
            return INVALID_MAPPING
        if one.epoch != epoch:
            return FENCED
        if one.state in (State.PREPARE_ABORT, State.PREPARE_COMMIT):
            return CONCURRENT
        if one.state is not State.ONGOING:
            one.state, one.started_ms = State.ONGOING, self._world.wall_ms
            one.partitions.clear()
        one.partitions.update(partitions)
        return 0

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> int:
        """Answer EndTxn with its error code; the markers follow."""
        one = self._ids.get(transactional_id)
        if one is None or one.producer_id != producer_id:
            return INVALID_MAPPING
        if one.epoch != epoch:
            return FENCED
        prepared = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        completed = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
        if one.state is State.ONGOING:
            self._prepare(one, commit=commit)
            return 0
        if one.state is completed:
            return 0
        return CONCURRENT if one.state is prepared else INVALID_STATE

    def state_of(self, transactional_id: str) -> State | None:
        """Return the state that DescribeTransactions shows."""
        one = self._ids.get(transactional_id)
        return one.state if one else None

    def abort_timed_out(self) -> None:
        """Abort transactions whose time is over; each abort fences the epoch that left it open."""
        for one in self._ids.values():
            waited_ms = self._world.wall_ms - one.started_ms
            if one.state is State.ONGOING and waited_ms > one.timeout_ms:
                self._fence(one)

    def forget_ids(self, older_than_ms: int) -> None:
        """Forget the ids that began no transaction for so long; the next claim gets another P."""
        idle = (State.EMPTY, State.COMPLETE_ABORT, State.COMPLETE_COMMIT)
        self._ids = {
            name: one
            for name, one in self._ids.items()
            if one.state not in idle or self._world.wall_ms - one.changed_ms < older_than_ms
        }

    def _fence(self, one: _Transactional) -> None:
        # The one that left it open may still ask for the newer epoch, as if by a repeat.
        one.epoch, one.last_epoch = one.epoch + 1, one.epoch
        self._prepare(one, commit=False)

    def _prepare(self, one: _Transactional, *, commit: bool) -> None:
        one.state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        left = sorted(one.partitions)
        self._world.after(self.marker_delay_s, lambda: self._mark(one, left, commit=commit))

    def _mark(self, one: _Transactional, left: list[Partition], *, commit: bool) -> None:
        """Write the markers one after the other, as leaders on different brokers would."""
        if left:
            log = self._find_log(left.pop(0))
            if log is not None:  # deleted: there is nothing left to mark
                now_ms = self._world.wall_ms
                log.mark(one.producer_id, one.epoch, commit=commit, now_ms=now_ms)
            self._world.after(self.marker_delay_s, lambda: self._mark(one, left, commit=commit))
            return
        one.state = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
        one.changed_ms = self._world.wall_ms

    def _new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id
