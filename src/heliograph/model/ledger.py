"""The ledger of a mirror partition: what was copied, as rows of a compacted topic.

Pure. One row, the head, holds the ends and the identities; numbered segments hold the runs, so
that only the newest is written again as it grows. All rows that change together are put as one
batch, which a log takes whole or not at all: a reader never sees half a change. Where they are too
many for one, new segments go first: they mean nothing until the head names them.

D. The ledger is never ahead of the data: only acknowledged batches enter it.
E. Source offsets below ``source_next`` are in a run, in a gap, or hold nothing to copy. On the
   mirror nothing of ours stands at or after ``target_next``, and below it only what is in a run.
F. Every producer id that ever wrote the partition is in the head before its first batch.
M. Whoever claims a partition reads its ledger before it writes, and writes nothing if it is
   closed. So nobody does, however late a writer wakes up: an earlier claim is fenced, a later one
   reads this.
P. A mirror that lost what is on record is found out at the next claim, however much was written
   to it since: ``target_epoch`` tells from which offset on its log is another one. The ledger then
   goes back to what the mirror holds, and keeps the loss for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heliograph.errors import LedgerUnreadable
from heliograph.model.moments import moment
from heliograph.model.runs import Run, Runs
from heliograph.model.segments import NONSENSE, AllRuns, FullSegment, decode_runs, encode_runs
from heliograph.model.topics import Partition

FORMAT = 3
READABLE = (2, 3)
"""Format 2 is the same with rows of runs as they were: see ``segments``."""

SEGMENT_RUNS = 256
BATCH_BYTES = 1 << 20

Rows = dict[bytes, bytes | None]
"""Rows to put into the ledger's topic; None removes one."""

SomeRows = dict[bytes, bytes]
"""Rows as they stand there."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which topics on which clusters a ledger is about: names can come back as something else."""

    source_cluster_id: str
    source_topic_id: str
    target_cluster_id: str
    mirror_topic_id: str

    def differences(self, found: Origin) -> str:
        """Say what is not as it was.

        >>> Origin("a", "b", "c", "d").differences(Origin("a", "b", "c", "e"))
        'mirror topic id was d, is e'
        """
        return "; ".join(
            f"{name.replace('_', ' ')} was {getattr(self, name)}, is {getattr(found, name)}"
            for name in Origin.__slots__
            if getattr(self, name) != getattr(found, name)
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """Source offsets, half-open, that will never arrive."""

    source_start: int
    source_end: int
    why: str


@dataclass(frozen=True, slots=True)
class Loss:
    """What the mirror lost of what was on record: mirror offsets, half-open, and how many records.

    ``source_start`` is where the source was copied from again.
    """

    target_start: int
    target_end: int
    source_start: int
    records: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Closing:
    """The mirror is its applications' from here on: why, since when, and behind which marker.

    What this link wrote stands before ``marker_offset``: ``unmatched`` of it could not be matched,
    since the source did not answer, and begins at the ledger's ``target_next``.
    """

    state: str
    at_ms: int
    marker_offset: int
    unmatched: int = 0


@dataclass(slots=True)
class Ledger:
    """All that is known of one mirror partition. ``partition`` is the source's.

    ``source_epoch`` is the leader epoch of the batch before ``source_next``, -1 where it is not
    known: with it the source tells when its log parted from what was copied. ``records`` and
    ``bytes`` are what was ever copied, ``bytes`` as far as known. ``target_begin`` is where the
    mirror ended when this direction began, where another was before it: what stands before that
    was copied by either, or saved as diverged. ``target_epoch`` is the mirror's leader epoch when
    it was last claimed: everything that was on record then was written under it or before it.
    ``losses`` are what the mirror lost since this ledger began.
    """

    partition: Partition
    origin: Origin
    source_next: int = 0
    target_next: int = 0
    producer_ids: set[int] = field(default_factory=set)
    gaps: list[Gap] = field(default_factory=list)
    source_epoch: int = -1
    records: int = 0
    bytes: int = 0
    closing: Closing | None = None
    target_begin: int = 0
    target_epoch: int = -1
    losses: list[Loss] = field(default_factory=list)
    _segments: dict[int, Runs | FullSegment] = field(default_factory=dict)
    """In order; the newest is ``Runs``, those before it are full."""
    _changed: set[int] = field(default_factory=set)
    _dropped: set[int] = field(default_factory=set)
    _elsewhere: set[int] = field(default_factory=set)
    """Full segments that stand in the topic and were not read: see ``growing_rows``."""

    @property
    def runs(self) -> AllRuns:
        """All runs as they are now, in order."""
        segments = filter(len, self._segments.values())
        return AllRuns(FullSegment.of(one) if isinstance(one, Runs) else one for one in segments)

    def add(self, run: Run, source_epoch: int = -1) -> None:
        """Enter an acknowledged run; the source is done up to its end."""
        assert run.source_start >= self.source_next, "invariant E: it was done already"
        assert run.target_start >= self.target_next, "invariant E: that is not new on the mirror"
        newest, segment = next(reversed(self._segments.items()), (-1, None))
        is_full = segment is not None and len(segment) >= SEGMENT_RUNS
        if not isinstance(segment, Runs) or (
            is_full and segment.end != (run.source_start, run.target_start)
        ):
            if isinstance(segment, Runs):
                self._segments[newest] = FullSegment.of(segment)
            newest, segment = newest + 1, Runs()
            self._segments[newest] = segment
        self._dropped.discard(newest)  # it may have gone in the same change
        segment.add(run)
        self._changed.add(newest)
        self.source_next, self.target_next = run.source_end, run.target_end
        self.source_epoch = source_epoch
        self.records += run.length

    def skip_to(self, source_offset: int, source_epoch: int = -1) -> None:
        """Enter that the source holds nothing more to copy below ``source_offset``."""
        assert source_offset >= self.source_next, "invariant E: it was done already"
        if source_offset > self.source_next:
            self.source_next, self.source_epoch = source_offset, source_epoch

    def skip_target_to(self, target_offset: int) -> None:
        """Enter that nothing more of ours stands on the mirror below ``target_offset``."""
        assert target_offset >= self.target_next, "invariant E: it was done already"
        self.target_next = target_offset

    def add_gap(self, source_end: int, why: str, source_epoch: int = -1) -> None:
        """Enter that nothing from ``source_next`` to ``source_end`` will ever arrive."""
        if source_end <= self.source_next:
            return
        gap = Gap(self.source_next, source_end, why)
        last = self.gaps[-1] if self.gaps else None
        if last is not None and (last.source_end, last.why) == (gap.source_start, why):
            gap = Gap(self.gaps.pop().source_start, source_end, why)
        self.gaps.append(gap)
        self.skip_to(source_end, source_epoch)

    def first_copy(self, target_offset: int) -> tuple[int, int] | None:
        """Return source and mirror offset of the first record on record from there on, if any."""
        for segment in self._segments.values():
            if segment.end[1] > target_offset:
                run = next(one for one in segment if one.target_end > target_offset)
                step = max(target_offset - run.target_start, 0)
                return run.source_start + step, run.target_start + step
        return None

    def go_back(self, target_offset: int, at_ms: int) -> Loss | None:
        """Forget what is on record from a mirror offset on; return the loss, if records were.

        The source is to be copied from the first of them again. The totals count it once.
        """
        assert not self._elsewhere, "only a ledger that was read as a whole goes back"
        first = self.first_copy(target_offset)
        if first is None:
            self.target_next = min(self.target_next, target_offset)
            return None
        lost = 0
        for number in sorted(self._segments, reverse=True):
            segment = self._segments[number]
            runs = segment if isinstance(segment, Runs) else segment.decode()
            self._segments[number] = runs  # those behind it are gone: it is the newest
            gone = runs.drop_from(target_offset)
            if not gone:
                break
            lost += gone
            self._changed.add(number)
            if not len(runs) and number > min(self._segments):
                del self._segments[number]
                self._changed.discard(number)
                self._dropped.add(number)
        loss = Loss(target_offset, self.target_next, first[0], lost, at_ms)
        self.losses.append(loss)
        self.source_next, self.target_next, self.source_epoch = first[0], target_offset, -1
        self.gaps = [gap for gap in self.gaps if gap.source_end <= self.source_next]
        self.records -= lost
        return loss

    def lacks(self, loss: Loss) -> bool:
        """True when what the mirror lost then was not copied again."""
        return self.source_next <= loss.source_start

    def restarted(self, origin: Origin, source_next: int) -> Ledger:
        """Return the ledger of the topic that took the place of this one's on the source.

        The mirror goes on where it is, and so do the totals. The runs go: the old topic's offsets
        mean nothing any more.
        """
        was = self.origin.source_topic_id
        why = f"topic recreated: the one before it ({was}) was copied up to {self.source_next}"
        new = self.replaced(
            origin, source_next, self.target_next, gaps=[Gap(source_next, source_next, why)]
        )
        new.target_epoch = self.target_epoch
        return new

    def replaced(
        self,
        origin: Origin,
        source_next: int,
        target_next: int,
        *,
        runs: Iterable[Run] = (),
        gaps: Iterable[Gap] = (),
    ) -> Ledger:
        """Return the ledger to put in this one's place: with other runs, open, the same totals.

        Ids stay: whoever wrote the partition under one of them did so for this link.
        """
        numbers = sorted(self._segments.keys() | self._elsewhere)
        first = numbers[-1] + 1 if numbers else 0
        new = Ledger(
            self.partition,
            origin,
            producer_ids=set(self.producer_ids),
            gaps=list(gaps),
            _segments={first: Runs()},
            _changed={first},
            _dropped=set(numbers) | self._dropped,
        )
        for run in runs:
            new.add(run)
        new.source_next, new.target_next = source_next, target_next
        new.records, new.bytes = self.records, self.bytes
        new.losses = list(self.losses)
        return new

    def drop_before(self, target_offset: int) -> None:
        """Forget segments that the target's retention has passed; the newest always stays."""
        for number in sorted(self._segments)[:-1]:
            if self._segments[number].end[1] > target_offset:
                return
            del self._segments[number]
            self._changed.discard(number)
            self._dropped.add(number)

    def take_changes(self) -> Rows:
        """Return the rows to put as one batch. Counts as written from here on.

        If the put fails, the ledger is read again from the topic: this object is then stale.
        """
        rows: Rows = {_key(self.partition): _head(self)}
        for number in sorted(self._changed):
            rows[_key(self.partition, number)] = _row(self._segments[number])
        rows |= dict.fromkeys((_key(self.partition, number) for number in self._dropped), None)
        self._changed.clear()
        self._dropped.clear()
        return rows

    def take_batches(self, most_bytes: int = BATCH_BYTES) -> list[Rows]:
        """Return the rows to put as batches, in this order. Counts as written from here on.

        The last one holds the head. Those before it hold segments that no head names yet: only the
        first that changed may be known already, since segments grow at the end.
        """
        new = sorted(self._changed)[1:]
        rows = self.take_changes()
        if sum(len(value or b"") for value in rows.values()) <= most_bytes:
            return [rows]
        batches, size = [Rows()], 0
        for key in (_key(self.partition, number) for number in new):
            value = rows.pop(key)
            size += len(value or b"")
            if size > most_bytes and batches[-1]:
                batches, size = [*batches, Rows()], len(value or b"")
            batches[-1][key] = value
        return [*filter(None, batches), rows]

    def growing_rows(self) -> SomeRows:
        """Return the rows that still change, as they are now: the head and the newest segment.

        With them another process goes on writing this ledger without reading its topic.
        """
        rows = {_key(self.partition): _head(self)}
        if self._segments:
            newest = max(self._segments)
            rows[_key(self.partition, newest)] = _row(self._segments[newest])
        return rows


def read_ledger(
    partition: Partition, rows: Mapping[bytes, bytes], *, is_whole: bool = True
) -> Ledger | None:
    """Return a partition's ledger from the rows of the table, or None if there is none.

    Not whole are the rows that ``growing_rows`` gave: older segments stay where they are.
    """
    head = rows.get(_key(partition))
    if head is None:
        return None
    try:
        return _decode(partition, json.loads(head), rows, is_whole)
    except NONSENSE as nonsense:
        raise LedgerUnreadable(
            f"the ledger of {partition} cannot be read ({type(nonsense).__name__}: {nonsense})."
            " Nothing was copied, since what was copied already is not known"
        ) from nonsense


def loss_lines(ledgers: Iterable[Ledger], since_ms: int = 0) -> Iterator[str]:
    """Say what mirrors lost that was on record, and whether it was copied again."""
    for ledger in ledgers:
        for loss in ledger.losses:
            if loss.at_ms < since_ms:
                continue
            then = "are missing there" if ledger.lacks(loss) else "were copied again"
            yield (
                f"{ledger.partition}: the target lost {loss.records} records that it had"
                f" acknowledged (mirror offsets {loss.target_start} to {loss.target_end}; found"
                f" {moment(loss.at_ms)}). They {then}, from source offset {loss.source_start} on"
            )


def partitions_in(keys: Iterable[bytes]) -> set[Partition]:
    """Return the source partitions that have a ledger, by the keys of its topic's rows.

    >>> partitions_in([b"orders/3", b"orders/3/0"])
    {Partition(topic='orders', partition=3)}
    """
    return {partition_named(key) for key in keys if _is_head(key)}


def partition_named(name: bytes) -> Partition:
    """Return the partition that a row is about, by what its key says of it."""
    topic, _, number = name.decode(errors="replace").rpartition("/")
    if not number.isdecimal():
        raise LedgerUnreadable(f"the row {name!r} is of no partition")
    return Partition(topic, int(number))


def head_of(partition: Partition, rows: Mapping[bytes, bytes]) -> bytes | None:
    """Return the row that every change of a ledger writes anew, None if there is no ledger."""
    return rows.get(_key(partition))


def origin_in(partition: Partition, rows: Mapping[bytes, bytes]) -> Origin | None:
    """Return what the ledger of a partition is about, None where there is none that says it."""
    try:
        return Origin(**json.loads(rows[_key(partition)])["origin"])
    except NONSENSE:
        return None


def keys_of(partition: Partition, keys: Iterable[bytes]) -> list[bytes]:
    """Return the keys of all rows of one ledger."""
    head = _key(partition)
    return [key for key in keys if key == head or key.startswith(head + b"/")]


def ids_in(key: bytes, value: bytes) -> set[int]:
    """Return the producer ids that a row of a ledger's topic names; only heads name any."""
    if not _is_head(key):
        return set()
    try:
        return set(map(int, json.loads(value)["producer_ids"]))
    except NONSENSE as nonsense:
        raise LedgerUnreadable(
            f"the row {key.decode(errors='replace')} of a ledger cannot be read ({nonsense}). Who"
            " wrote the records of its mirror is not known, so nothing was copied from it"
        ) from nonsense


def _decode(partition: Partition, head: Any, rows: Mapping[bytes, bytes], is_whole: bool) -> Ledger:
    if head["format"] not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise ValueError(f"its format is {head['format']}, this version reads {known}")
    ledger = Ledger(
        partition,
        Origin(**head["origin"]),
        head["source_next"],
        head["target_next"],
        set(head["producer_ids"]),
        [Gap(**gap) for gap in head["gaps"]],
        head.get("source_epoch", -1),
        head.get("records", 0),
        head.get("bytes", 0),
        Closing(**head["closing"]) if head.get("closing") else None,
        head.get("target_begin", 0),
        head.get("target_epoch", -1),
        [Loss(**loss) for loss in head.get("losses", ())],
    )
    newest, source_end, target_end = Runs(), 0, 0
    for number in range(*head["segments"]):
        if not is_whole and _key(partition, number) not in rows:
            ledger._elsewhere.add(number)
            continue
        row = rows[_key(partition, number)]
        newest = decode_runs(row)
        ledger._segments[number] = newest
        if len(newest):
            source, target = newest.start
            if source < source_end or target < target_end:
                raise ValueError(f"segment {number} is out of order")
            source_end, target_end = newest.end
            ledger._segments[number] = FullSegment.of(newest, row)
    if ledger._segments:
        ledger._segments[max(ledger._segments)] = newest
    if source_end > ledger.source_next or target_end > ledger.target_next:
        raise ValueError("its runs go beyond its ends")
    return ledger


def _head(ledger: Ledger) -> bytes:
    numbers = ledger._segments.keys() | ledger._elsewhere
    first = min(numbers, default=0)
    return _encode(
        {
            "format": FORMAT,
            "origin": asdict(ledger.origin),
            "source_next": ledger.source_next,
            "source_epoch": ledger.source_epoch,
            "target_next": ledger.target_next,
            "records": ledger.records,
            "bytes": ledger.bytes,
            "producer_ids": sorted(ledger.producer_ids),
            "gaps": [asdict(gap) for gap in ledger.gaps],
            "closing": asdict(ledger.closing) if ledger.closing else None,
            "target_begin": ledger.target_begin,
            "target_epoch": ledger.target_epoch,
            "losses": [asdict(loss) for loss in ledger.losses],
            # From the first to before the last: there may be thousands, and none is left out.
            "segments": [first, first + len(numbers)],
        }
    )


def _row(segment: Runs | FullSegment) -> bytes:
    return segment.row if isinstance(segment, FullSegment) else encode_runs(segment)


def _is_head(key: bytes) -> bool:
    return key.count(b"/") == 1


def _key(partition: Partition, segment: int | None = None) -> bytes:
    # A slash cannot be in a topic's name.
    tail = "" if segment is None else f"/{segment}"
    return f"{partition.topic}/{partition.partition}{tail}".encode()


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
