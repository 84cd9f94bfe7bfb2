"""What stands in the source, what may be on the mirror, and whether it is.

The checker of the simulation. It looks at both logs from outside and shares no code with the copy
but the decoding of records.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from heliograph.kafka.batch import seal
from heliograph.kafka.records import Record, decode, encode
from tests.checker.ledger import triples
from tests.simulation.copier import LEDGER, PARTITION
from tests.simulation.log import SimLog
from tests.simulation.topics import SimCluster

_FLAGS_AT, _TRANSACTIONAL = 22, 0x10

Content = tuple[Any, ...]


class Life(Enum):
    """What a reader of the source may see of a record."""

    OPEN = "its transaction is not ended"
    READABLE = "it is to be copied"
    ABORTED = "never to be copied"


@dataclass(slots=True)
class Entry:
    """One record of the source; ``is_deleted`` once retention passed it, or compaction took it.

    ``is_compacted`` once compaction took it, or its copy: no ledger needs to know where it is.
    """

    offset: int
    content: Content
    life: Life
    producer_id: int
    is_deleted: bool = False
    is_compacted: bool = False


class Journal:
    """Writes the source, remembers every record of it, and judges the mirror by that."""

    def __init__(self, source: SimCluster, target: SimCluster) -> None:
        self.entries: list[Entry] = []
        self._source = source
        self._mirror = target.log(PARTITION)
        self._books = target.log(LEDGER)
        self._judged_batches = 0
        self._judged_books = 0
        self._next = 0  # the entry that the mirror's next record is compared with first
        self._recorded = 0
        self._images: dict[int, Content] = {}
        self._superseded_epoch = -1

    @property
    def _log(self) -> SimLog:
        return self._source.log(PARTITION)

    # Writing the source

    def append(self, records: list[Record]) -> None:
        self._enter(self._log.append(bytes(encode(records))), records, Life.READABLE, -1)

    def append_in_transaction(self, records: list[Record], producer_id: int) -> None:
        sequence = sum(one.producer_id == producer_id for one in self.entries)
        batch = encode(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        batch[_FLAGS_AT] |= _TRANSACTIONAL
        seal(batch)
        offset = self._log.append(bytes(batch), transactional=True)
        self._enter(offset, records, Life.OPEN, producer_id)

    def end_transaction(self, producer_id: int, *, commit: bool, now_ms: int) -> None:
        self._log.mark(producer_id, 0, commit=commit, now_ms=now_ms)
        for entry in self.entries:
            if entry.producer_id == producer_id and entry.life is Life.OPEN:
                entry.life = Life.READABLE if commit else Life.ABORTED

    def delete_before(self, offset: int) -> None:
        self._log.delete_before(offset)
        for entry in self.entries:
            entry.is_deleted = entry.is_deleted or entry.offset < offset

    def compact_source(self) -> None:
        gone = [range(one.base_offset, one.next_offset) for one in self._log.compact()]
        for entry in self.entries:
            if any(entry.offset in one for one in gone):
                entry.is_deleted = entry.is_compacted = True

    def compact_mirror(self) -> None:
        """Compact the mirror; what was there was judged, and what is gone stays known."""
        self.judge()
        gone = [range(one.base_offset, one.next_offset) for one in self._mirror.compact()]
        copies = [it for at, it in self._images.items() if any(at in one for one in gone)]
        for entry in self.entries:
            entry.is_compacted = entry.is_compacted or entry.content in copies
        self._judged_batches = len(self._mirror.batches)

    def lose_end_of_mirror(self, offset: int, newest_epoch: int) -> None:
        """Let the mirror lose its end. Whoever claimed before may put a ledger that lies by it."""
        self._mirror.lose_end(offset)
        self._judged_batches = self._next = 0
        self._images.clear()
        self._superseded_epoch = newest_epoch + 1

    def _enter(self, offset: int, records: list[Record], life: Life, producer_id: int) -> None:
        for number, record in enumerate(records):
            self.entries.append(Entry(offset + number, _content(record), life, producer_id))

    # Judging the mirror

    def judge(self) -> None:
        """Require that the mirror is a prefix of the source, and that the ledger is true."""
        for stored in self._mirror.batches[self._judged_batches :]:
            if not stored.header.is_control:
                for record in decode(memoryview(stored.data)):
                    self._judge_image(record)
        self._judged_batches = len(self._mirror.batches)
        if len(self._books.batches) > self._judged_books:
            self._judged_books = len(self._books.batches)
            self._judge_ledger()

    @property
    def left(self) -> list[Entry]:
        """What can be copied by now and is not on the mirror, or not on record."""
        return [
            entry
            for number, entry in enumerate(self.entries)
            if entry.life is Life.READABLE and not entry.is_deleted
            if number >= self._next or entry.offset >= self._recorded
            if entry.offset < self._log.stable_end
        ]

    def _judge_image(self, record: Record) -> None:
        content = _content(record)
        self._images[record.offset] = content
        while self._next < len(self.entries):
            entry = self.entries[self._next]
            self._next += 1
            if entry.life is Life.READABLE and entry.content == content:
                return
            if entry.life is Life.ABORTED or entry.is_deleted:
                continue
            assert entry.life is not Life.OPEN, f"copied before its transaction ended: {entry}"
            raise AssertionError(f"the mirror has {record}, the source next {entry}")
        raise AssertionError(f"the mirror has {record}, the source nothing more")

    def _judge_ledger(self) -> None:
        headers = [one.header for one in self._books.batches if not one.header.is_control]
        if headers and headers[-1].producer_epoch <= self._superseded_epoch:
            return
        head, runs = self._ledger()
        self._recorded = head["source_next"]
        known = {entry.offset: entry for entry in self.entries}
        done: set[int] = set()
        for source_start, target_start, length in runs:
            for step in range(length):
                entry, image = known.get(source_start + step), self._images.get(target_start + step)
                assert image is not None, f"ledger ahead: nothing at {target_start + step}"
                assert entry is not None and entry.content == image, f"ledger lies: {entry}"
                done.add(source_start + step)
        for gap in head["gaps"]:
            done.update(range(gap["source_start"], gap["source_end"]))
        for entry in self.entries:
            if entry.offset < head["source_next"] and entry.life is not Life.ABORTED:
                # Deleted before the first start, it was never to be copied.
                before_start = entry.is_deleted and not any(one < entry.offset for one in done)
                is_known = entry.offset in done or before_start or entry.is_compacted
                assert is_known, f"ledger skips {entry}"

    def _ledger(self) -> tuple[Any, list[list[int]]]:
        rows: dict[bytes, bytes | None] = {}
        for stored in self._books.batches:
            if not stored.header.is_control:
                for record in decode(memoryview(stored.data)):
                    rows[record.key or b""] = record.value
        name = f"{PARTITION.topic}/{PARTITION.partition}"
        if name.encode() not in rows:
            return {"source_next": 0, "gaps": []}, []
        head = json.loads(rows[name.encode()] or b"")
        runs: list[list[int]] = []
        for number in range(*head["segments"]):
            runs += triples(json.loads(rows[f"{name}/{number}".encode()] or b""))
        return head, runs


def _content(record: Record) -> Content:
    return record.timestamp, record.key, record.value, record.headers
