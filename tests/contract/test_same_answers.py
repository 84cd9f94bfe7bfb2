"""The same questions to both brokers, one after the other: the answers must be the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, TypeAlias

import pytest

from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.waiting import scan
from heliograph.model.topics import Partition
from tests.contract.sides import RealSide, Side, SimulatedSide, within
from tests.contract.wire import NOBODY, Wire, batch

_STEPS_OF_A_CLAIM = 4
_STEPS_OF_A_SCRIPT = 120

Told: TypeAlias = list[str]


@pytest.fixture
def on_both(target: Any) -> Callable[[Callable[[Side], Told]], None]:
    """Run a script on each side; what it tells must be equal, line by line."""

    def run(script: Callable[[Side], Told]) -> None:
        told = []
        for make in (SimulatedSide, lambda: RealSide(target)):
            side: Side = make()  # one at a time: a simulation moves the clock of all
            try:
                told.append(script(side))
            finally:
                side.close()
        assert told[0] == told[1]

    return run


def test_every_interleaving_of_two_claims_is_answered_alike(
    on_both: Callable[[Callable[[Side], Told]], None], topic_name: str
) -> None:
    def script(side: Side) -> Told:
        side.create_topic(topic_name)
        wire = Wire(side.connect())
        return [
            f"{order}: {'; '.join(_race(wire, f'{topic_name}.{number}', topic_name, order))}"
            for number, order in enumerate(_orders())
        ]

    on_both(script)


def _orders() -> Iterator[tuple[int, ...]]:
    """Return every order in which two claims of four steps can be taken."""
    both = 2 * _STEPS_OF_A_CLAIM
    for firsts in combinations(range(both), _STEPS_OF_A_CLAIM):
        yield tuple(int(number not in firsts) for number in range(both))


def _race(wire: Wire, tid: str, topic: str, order: tuple[int, ...]) -> Told:
    claims = [_claim(wire, tid, Partition(topic, 0)) for _ in range(2)]
    return [next(claims[who]) for who in order]


def _claim(wire: Wire, tid: str, partition: Partition) -> Iterator[str]:
    """Claim a step at a time, whatever the answers, and try to write at the end."""
    code, who, epoch = wire.init(tid)
    yield f"init {code} {epoch}"
    yield f"add {wire.add(tid, (who, epoch), partition)}"
    ended = wire.end(tid, (who, epoch))
    _settle(wire, tid)
    yield f"end {ended}"
    code, _, newer = wire.init(tid, (who, epoch))
    wrote = wire.produce(partition, batch((who, newer if code == 0 else epoch), 0)).code
    yield f"init {code} {newer}, wrote {wrote}, {wire.state(tid)}"


def _settle(wire: Wire, tid: str) -> str:
    """Wait until the markers are written; return the state then."""
    deadline = within()
    while (state := wire.state(tid)).startswith("Prepare"):
        assert not deadline.passed, state
    return state


@pytest.mark.parametrize("seed", range(8))
def test_random_requests_are_answered_alike(
    on_both: Callable[[Callable[[Side], Told]], None], topic_name: str, seed: int
) -> None:
    on_both(lambda side: Script(side, topic_name, seed).run())


class Script:
    """Random requests, drawn anew in the same way as long as the answers are the same."""

    def __init__(self, side: Side, topic: str, seed: int) -> None:
        self._side = side
        self._chance = random.Random(seed)
        side.create_topic(topic, 2)
        self._partitions = [Partition(topic, number) for number in range(2)]
        self._tids = [f"{topic}.{name}" for name in ("one", "other")]
        self._wire = Wire(side.connect())
        # Producer ids differ: they are told by the order in which they came.
        self._identities: list[tuple[int, int]] = [(4_000_000_000 + seed, 0)]
        self._sequences: dict[tuple[Partition, tuple[int, int]], int] = {}

    def run(self) -> Told:
        steps = [self._init, self._add, self._end, self._delete, self._look]
        steps += [self._produce] * 5
        told = []
        for _ in range(_STEPS_OF_A_SCRIPT):
            step = self._chance.choice(steps)
            told.append(f"{step.__name__} {step()}")
        return told + [self._read(partition) for partition in self._partitions]

    def _init(self) -> str:
        tid, identity = self._chance.choice(self._tids), self._identity()
        if self._chance.random() < 0.5:
            identity = NOBODY
        code, who, epoch = self._wire.init(tid, identity)
        if code == 0:
            self._identities.append((who, epoch))
        return f"{self._name(identity)}: {code} {self._name((who, epoch))}"

    def _add(self) -> str:
        count = self._chance.randint(1, 2)
        some = self._chance.sample(self._partitions, count)
        identity = self._identity()
        codes = self._wire.add(self._chance.choice(self._tids), identity, *some)
        return f"{self._name(identity)} {count}: {codes}"

    def _end(self) -> str:
        tid, identity = self._chance.choice(self._tids), self._identity()
        code = self._wire.end(tid, identity, commit=self._chance.random() < 0.3)
        return f"{self._name(identity)}: {code} {_settle(self._wire, tid)}"

    def _produce(self) -> str:
        partition, identity = self._chance.choice(self._partitions), self._identity()
        count = self._chance.randint(1, 3)
        expected = self._sequences.get((partition, identity), 0)
        sequence = max(0, expected - self._chance.choice((0, 0, 0, 0, 1, 2, 5, -1)))
        ack = self._wire.produce(partition, batch(identity, sequence, count))
        if ack.code == 0 and sequence == expected:
            self._sequences[partition, identity] = sequence + count
        return f"{self._name(identity)} {sequence}+{count}: {ack}"

    def _delete(self) -> str:
        partition = self._chance.choice(self._partitions)
        start, end = self._bounds(partition)
        before = self._chance.randint(start, end)
        self._side.delete_records(partition, before)
        return f"{before}: {self._bounds(partition)}"

    def _look(self) -> str:
        return str([self._bounds(one) for one in self._partitions])

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        cluster = self._wire.cluster
        first, last = (
            list_offsets(cluster, {partition: time}, within())[partition]
            for time in (EARLIEST, LATEST)
        )
        return first, last

    def _read(self, partition: Partition) -> str:
        start, end = self._bounds(partition)
        scanned = scan(
            self._wire.cluster, {partition: start}, within(), ends={partition: end}, markers=True
        )
        return str(
            [
                (header.base_offset, header.count, header.is_control, header.producer_epoch)
                for fetched in scanned
                for header, _ in fetched.batches
            ]
        )

    def _identity(self) -> tuple[int, int]:
        """Return one of the newest identities, mostly."""
        return self._identities[-1 - int(self._chance.random() ** 2 * len(self._identities))]

    def _name(self, identity: tuple[int, int]) -> str:
        known = list(dict.fromkeys(who for who, _ in self._identities))
        who, epoch = identity
        return f"{known.index(who) if who in known else who}/{epoch}"
