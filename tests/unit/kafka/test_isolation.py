"""read_committed against a naive model: a log of transactions, cut into fetches anywhere."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from heliograph.kafka.batch import Header, read_header, seal
from heliograph.kafka.isolation import Aborted, committed
from heliograph.kafka.records import Record, encode

_TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass
class Step:
    """One batch of a log: some records, or the end of a producer's transaction."""

    producer: int
    records: int = 1
    transactional: bool = True
    ends: bool | None = None
    """True commits, False aborts, None is data."""


steps = st.lists(
    st.builds(
        Step,
        producer=st.integers(0, 2),
        records=st.integers(1, 3),
        transactional=st.booleans(),
        ends=st.sampled_from([None, None, None, True, False]),
    ),
    max_size=30,
)


def batch_at(offset: int, step: Step, epoch: int = 0) -> tuple[Header, memoryview]:
    records = [Record(-1, 1_700_000_000_000, b"k", b"v")] * step.records
    flags = _TRANSACTIONAL if step.transactional else 0
    if step.ends is not None:
        kind = struct.pack(">hh", 0, int(step.ends))
        records = [Record(-1, 1_700_000_000_000, kind, bytes(6))]
        flags = _TRANSACTIONAL | _CONTROL
    batch = encode(records, producer_id=step.producer, producer_epoch=epoch, base_sequence=0)
    struct.pack_into(">q", batch, 0, offset)
    batch[22] |= flags
    seal(batch)
    return read_header(batch), memoryview(batch)


class Log:
    """Batches with their offsets, and which of them an abort took back."""

    def __init__(self, script: list[Step]) -> None:
        self.batches: list[tuple[Header, memoryview]] = []
        self.aborts: list[tuple[int, int, int]] = []  # first offset, marker's offset, producer
        self.visible: set[int] = set()
        begun: dict[int, int] = {}
        written: dict[int, set[int]] = {}
        offset = 0
        for step in [*script, *(Step(producer, ends=False) for producer in range(3))]:
            if step.ends is not None:
                if step.producer not in begun:
                    continue
                first = begun.pop(step.producer)
                if step.ends:
                    self.visible |= written.pop(step.producer)
                else:
                    written.pop(step.producer)
                    self.aborts.append((first, offset, step.producer))
            elif step.transactional:
                begun.setdefault(step.producer, offset)
                written.setdefault(step.producer, set()).add(offset)
            elif step.producer in begun:
                continue  # a producer's plain batch inside its own transaction: Kafka forbids it
            else:
                self.visible.add(offset)
            header, batch = batch_at(offset, step)
            self.batches.append((header, batch))
            offset = header.next_offset

    def fetch(self, start: int, end: int) -> tuple[list[tuple[Header, memoryview]], list[Aborted]]:
        """What a broker answers: some batches, and every abort that overlaps them."""
        some = self.batches[start:end]
        if not some:
            return [], []
        low, high = some[0][0].base_offset, some[-1][0].next_offset
        overlapping = [
            Aborted(first, producer)
            for first, marker, producer in self.aborts
            if first < high and marker >= low
        ]
        return some, overlapping


@given(steps, st.data())
def test_exactly_the_batches_no_abort_took_back_are_seen(
    script: list[Step], data: st.DataObject
) -> None:
    log = Log(script)
    at, seen = 0, []
    while at < len(log.batches):
        end = data.draw(st.integers(at + 1, len(log.batches)))
        batches, aborted = log.fetch(at, end)
        shuffled = data.draw(st.permutations(aborted))
        seen += [header.base_offset for header, _ in committed(batches, shuffled)]
        at = end
    assert seen == sorted(log.visible)


@given(steps)
def test_markers_are_never_seen(script: list[Step]) -> None:
    log = Log(script)
    assert not any(header.is_control for header, _ in committed(log.batches, []))


def test_commit_of_another_producer_does_not_end_an_abort() -> None:
    script = [Step(0), Step(1), Step(1, ends=True), Step(0), Step(0, ends=False), Step(0)]
    log = Log([*script, Step(0, ends=True)])
    batches, aborted = log.fetch(0, len(log.batches))
    assert [header.base_offset for header, _ in committed(batches, aborted)] == [1, 5]
