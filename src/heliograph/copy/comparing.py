"""Comparing: whether a source still holds what was copied from it, by the newest copies.

A log that was cut and written on holds other records from the cut to its end, so the newest copies
tell. Retention and compaction may have taken some of either side: what both hold is compared.
Blocking; a partition that fails leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from heliograph.copy.opened import Ends
from heliograph.copy.reading import read_each
from heliograph.copy.unmatched import Unmatched
from heliograph.errors import HeliographError, LedgerUnfit, LogTruncated, NotReady, OffsetOutOfRange
from heliograph.kafka import clock
from heliograph.kafka.batch import Header
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.records import slices_of
from heliograph.model.ledger import Ledger
from heliograph.model.topics import Partition

_MOST_RECORDS = 100
_MISSES = 3

_Print = tuple[int | None, bytes]
"""A record's time, None where its broker set it, and a hash of its key, value and headers."""

_MARKER: _Print = (None, b"")


@dataclass(slots=True)
class Comparison:
    """One partition: its ledger, and the offsets that the two logs hold.

    ``compared`` is how many records were seen to be the same, ``is_epoch_known`` whether the source
    itself said that it has what was copied. ``error`` is why it has not, or why nobody knows.
    """

    mirror: Partition
    ledger: Ledger
    held: range
    mirrored: range
    compared: int = 0
    is_epoch_known: bool = False
    error: HeliographError | None = None
    pairs: Sequence[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.pairs = _last_pairs(self.ledger, self.held, self.mirrored)

    @property
    def source(self) -> Partition:
        """The source partition."""
        return self.ledger.partition

    @property
    def asks_epoch(self) -> bool:
        """Claim: the source can be asked whether its log parted from what was copied."""
        ledger = self.ledger
        return ledger.source_epoch >= 0 and self.held.start <= ledger.source_next <= self.held.stop

    @property
    def is_unproven(self) -> bool:
        """Claim: records were copied, and nothing is left that could tell whether it has them."""
        return self.ledger.runs.last is not None and not (self.compared or self.is_epoch_known)

    def judge(self, theirs: Mapping[int, _Print], ours: Mapping[int, _Print]) -> None:
        """See that what both hold is the same."""
        for source_offset, target_offset in self.pairs:
            one, other = theirs.get(source_offset), ours.get(target_offset)
            if one is None or other is None:
                continue
            if not _are_same(one, other):
                self.error = _differs(self, source_offset, target_offset)
                return
            self.compared += 1


def compare(ends: Ends, comparisons: Sequence[Comparison], deadline: Deadline) -> None:
    """Compare the newest copies with what the sources hold in their place."""
    for _ in range(_MISSES):  # a leader that has just come up may not know its epochs yet
        left = [
            it for it in comparisons if it.asks_epoch and not it.is_epoch_known and not it.error
        ]
        if left:
            _ask_epochs(ends.source, left, deadline)
    for it in comparisons:
        if it.asks_epoch and not it.is_epoch_known and it.error is None:
            it.error = _parted(it, f"does not know the leader epoch {it.ledger.source_epoch}")
    _compare_records(ends, [it for it in comparisons if it.pairs and it.error is None], deadline)


def compare_mirrors(
    ends: Ends, parted: Mapping[Unmatched, HeliographError], deadline: Deadline
) -> None:
    """See what mirrors lost whose logs, as their leaders say, are others from some offset on.

    A leader that was elected in good order lost nothing: what the ledger has there first is still
    there, and was written under a later epoch. Otherwise the ledger goes back to where the logs
    part. What is behind that is copied again, or found by the match where it stands after all.
    """
    looks = [Look(case, *_parting_of(why)) for case, why in parted.items()]
    for look in looks:
        if look.pair is None:
            look.go_back()
    left = {look.case.mirror: look for look in looks if look.pair is not None}
    _look_at(ends.target, left, deadline)
    theirs = {
        look.case.source: _Prints({look.source_offset})
        for look in left.values()
        if look.is_ours and look.source_offset in look.case.held
    }
    missed = _read(ends.source, theirs, deadline)
    for look in left.values():
        source = look.case.source
        look.case.error = look.case.error or missed.get(source)
        if look.case.error is None:
            look.judge(theirs[source].seen if source in theirs else {}, ends.target.name)


def _parting_of(why: HeliographError) -> tuple[int, int]:
    """Return from which offset on a log is another one, and the epoch of what is before it.

    Where a log knows no epoch as old as that, it is all of it.
    """
    if isinstance(why, LogTruncated):
        return why.end_offset, why.epoch
    assert isinstance(why, OffsetOutOfRange)
    return why.start_offset, -1


def _compare_records(ends: Ends, some: Sequence[Comparison], deadline: Deadline) -> None:
    theirs = {it.source: _Prints({pair[0] for pair in it.pairs}) for it in some}
    ours = {it.mirror: _Prints({pair[1] for pair in it.pairs}) for it in some}
    lost = _read(ends.source, theirs, deadline)
    missed = _read(ends.target, ours, deadline)
    for it in some:
        it.error = lost.get(it.source) or missed.get(it.mirror)
        if it.error is None:
            it.judge(theirs[it.source].seen, ours[it.mirror].seen)


def _ask_epochs(source: Cluster, asked: Sequence[Comparison], deadline: Deadline) -> None:
    """Let sources say whether their logs hold the batch before what is to be copied next."""
    by_source = {it.source: it for it in asked}
    starts = {it.source: it.ledger.source_next for it in asked}
    epochs = {it.source: it.ledger.source_epoch for it in asked}

    def take(fetched: Fetched) -> bool:
        by_source[fetched.partition].is_epoch_known = True
        return True

    failed = read_each(source, starts, take, deadline, epochs=epochs)
    for partition, failure in failed.items():
        it = by_source[partition]
        if isinstance(failure, LogTruncated):
            it.error = _parted(it, f"parts from it at offset {failure.end_offset}")
        elif not isinstance(failure, OffsetOutOfRange) or failure.offset < failure.start_offset:
            it.error = failure


def _read(
    cluster: Cluster, prints: Mapping[Partition, _Prints], deadline: Deadline
) -> dict[Partition, HeliographError]:
    """Read what is wanted; also what is not committed, and markers, since both take offsets."""

    def take(fetched: Fetched) -> bool:
        return prints[fetched.partition].take(fetched)

    starts = {one: min(it.wanted) for one, it in prints.items()}
    return read_each(cluster, starts, take, deadline, markers=True)


class Look:
    """What a mirror holds in the place of the first record on record behind a parting."""

    def __init__(self, case: Unmatched, parting: int, epoch: int) -> None:
        self.case, self.epoch = case, epoch
        self.parting = max(parting, case.mirrored.start)
        self.pair = case.ledger.first_copy(self.parting)
        self.header: Header | None = None
        self.print: _Print | None = None

    @property
    def source_offset(self) -> int:
        """The record's offset on the source."""
        assert self.pair is not None
        return self.pair[0]

    @property
    def target_offset(self) -> int:
        """The record's offset on the mirror."""
        assert self.pair is not None
        return self.pair[1]

    @property
    def is_ours(self) -> bool:
        """True when one of this link's writers wrote what is there."""
        header = self.header
        return (
            header is not None
            and not header.is_control
            and header.producer_id in self.case.ledger.producer_ids
        )

    def take(self, fetched: Fetched) -> bool:
        """Keep the batch that holds the offset, or comes behind it; True where that is known.

        Where compaction took the record, the next one tells that is on record and not passed. A
        leader that was just elected may not show all that it has: the claim's marker comes as well.
        """
        for header, batch in fetched.batches:
            if header.base_offset > self.target_offset:
                self.pair = self.case.ledger.first_copy(header.base_offset) or self.pair
            if header.next_offset > self.target_offset:
                self.header = header
                if not header.is_control:
                    prints = _Prints({self.target_offset})
                    prints.add(header, batch)
                    self.print = prints.seen.get(self.target_offset)
                return True
        return fetched.next_offset >= max(fetched.high_watermark, self.case.mirrored.stop)

    def judge(self, theirs: Mapping[int, _Print], target: str) -> None:
        """Go back where the record is not there; else go on with the epoch that it is of."""
        ledger, source = self.case.ledger, theirs.get(self.source_offset)
        is_gone = self.header is not None and self.header.base_offset > self.target_offset
        is_same = self.is_ours and (
            self.print is None or source is None or _are_same(self.print, source)
        )
        if not (is_gone or is_same):
            self.go_back()
        elif self.header is not None and self.header.leader_epoch > ledger.target_epoch:
            ledger.target_epoch = self.header.leader_epoch
        else:
            message = f"{self.case.mirror} has changed its leader, and does not tell when"
            self.case.error = NotReady(message, cluster=target)

    def go_back(self) -> None:
        """Let the ledger end where the logs part."""
        self.case.ledger.go_back(self.parting, clock.wall_ms())
        self.case.ledger.target_epoch = self.epoch


def _look_at(target: Cluster, looks: Mapping[Partition, Look], deadline: Deadline) -> None:
    starts = {one: look.target_offset for one, look in looks.items()}

    def take(fetched: Fetched) -> bool:
        return looks[fetched.partition].take(fetched)

    for mirror, failure in read_each(target, starts, take, deadline, markers=True).items():
        # Else there is nothing any more.
        if not isinstance(failure, OffsetOutOfRange) or failure.offset < failure.start_offset:
            looks[mirror].case.error = failure


@dataclass(slots=True)
class _Prints:
    """What stands at some offsets of a log; only hashes are kept, since records may be large."""

    wanted: set[int]
    seen: dict[int, _Print] = field(default_factory=dict)

    def take(self, fetched: Fetched) -> bool:
        """Keep what is wanted; return True when all of it was passed."""
        for header, batch in fetched.batches:
            self.add(header, batch)
        return fetched.next_offset > max(self.wanted)

    def add(self, header: Header, batch: memoryview) -> None:
        """Keep what is wanted of one batch."""
        if header.is_control:
            if header.base_offset in self.wanted:
                self.seen[header.base_offset] = _MARKER
            return
        for time_ms, at, _, body in slices_of(header, batch):
            if at in self.wanted:
                found = blake2b(body, digest_size=16).digest()
                self.seen[at] = (None if header.has_append_time else time_ms, found)


def _last_pairs(ledger: Ledger, held: range, mirrored: range) -> list[tuple[int, int]]:
    """Return the newest source and target offsets of one record that both logs may hold."""
    found: list[tuple[int, int]] = []
    for run in reversed(ledger.runs):
        for step in reversed(range(run.length)):
            pair = (run.source_start + step, run.target_start + step)
            if pair[0] not in held or pair[1] not in mirrored or len(found) == _MOST_RECORDS:
                return found[::-1]
            found.append(pair)
    return found[::-1]


def _are_same(one: _Print, other: _Print) -> bool:
    is_time_known = one[0] is not None and other[0] is not None
    return one[1] == other[1] and (one[0] == other[0] or not is_time_known)


def _differs(it: Comparison, source_offset: int, target_offset: int) -> LedgerUnfit:
    return LedgerUnfit(
        f"{it.source} holds at offset {source_offset} something else than was copied from there to"
        f" offset {target_offset} of {it.mirror}: one of the two lost records and wrote others in"
        " their place. Mirror everything back with --wipe; all that the source holds is saved first"
    )


def _parted(it: Comparison, how: str) -> LedgerUnfit:
    return LedgerUnfit(
        f"{it.source} was copied up to offset {it.ledger.source_next}, and its log {how}: it lost"
        " records that the mirror has, and wrote others in their place. Mirror everything back with"
        " --wipe; all that the source holds is saved first"
    )
