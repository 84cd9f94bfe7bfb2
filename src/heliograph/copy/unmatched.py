"""What a mirror partition holds behind the end of its ledger, and what the source has there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from heliograph.copy.gaps import step_over
from heliograph.copy.match import Compacted, match_behind, match_compacted
from heliograph.errors import HeliographError
from heliograph.kafka.batch import Header
from heliograph.kafka.dense import Slice
from heliograph.kafka.fence import Claim
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.records import slices_of
from heliograph.model.ledger import Ledger
from heliograph.model.runs import Run
from heliograph.model.topics import Partition


@dataclass(eq=False)
class Unmatched:
    """One partition, and what stands in its way.

    ``held`` are the offsets that the source holds, ``mirrored`` those of the mirror. ``tail`` is
    what this link's writers left on the mirror after the ledger's end, ``theirs`` what the source
    has to match it with. ``compacted`` says whether compaction may have taken records of the
    source, and of the mirror, once that had to be found out. ``has_append_time`` says that the
    mirror's brokers replaced the times of copies, so that times tell nothing. ``later`` are the
    keys of what others wrote behind the tail, where that matters.
    """

    source: Partition
    mirror: Partition
    error: HeliographError | None = field(init=False, default=None)
    claim: Claim = field(init=False)
    ledger: Ledger = field(init=False)
    held: range = field(init=False)
    mirrored: range = field(init=False)
    tail: list[Slice] = field(init=False, default_factory=list)
    theirs: list[Slice] = field(init=False, default_factory=list)
    compacted: tuple[bool, bool] | None = field(init=False, default=None)
    has_append_time: bool = field(init=False, default=False)
    later: set[bytes | None] = field(init=False, default_factory=set)
    _epochs: list[tuple[int, int]] = field(init=False, default_factory=list)

    @property
    def tail_start(self) -> int:
        """Where to read the mirror from: retention may have passed the ledger's end."""
        return max(self.ledger.target_next, self.mirrored.start)

    @property
    def match_start(self) -> int:
        """Where to read the source from: retention may have passed the ledger's end."""
        return max(self.ledger.source_next, self.held.start)

    @property
    def source_needed(self) -> int:
        """How many records of the source it takes to match the tail.

        Of a copy that compaction took, the source may hold the record: no more than offsets.
        """
        if not self.tail:
            return 0
        if any(self.compacted or ()):
            return self.tail[-1][1] + 1 - self.ledger.target_next
        return len(self.tail) + self._tail_lost

    @property
    def _tail_lost(self) -> int:
        """How many records at most the mirror's retention took of what is not on record."""
        return self.tail_start - self.ledger.target_next

    def copies_in(self, header: Header, batch: memoryview) -> list[Slice]:
        """Return what a batch of this link adds to the tail: a fetch begins at a batch's start."""
        self.has_append_time |= header.has_append_time
        return [one for one in slices_of(header, batch) if one[1] >= self.tail_start]

    def begin_tail(self) -> None:
        """Forget what was read: it is read from the ledger's end again."""
        self.tail, self.theirs, self._epochs = [], [], []
        self.later = set()

    def take_source(self, fetched: Fetched) -> bool:
        """Keep what may match; return True when that is enough, or all there is."""
        for header, batch in fetched.batches:
            found = [one for one in slices_of(header, batch) if one[1] >= self.match_start]
            if found:
                self._epochs.append((found[0][1], header.leader_epoch))
            self.theirs += found
            if len(self.theirs) >= self.source_needed:
                return True
        return fetched.next_offset >= fetched.last_stable_offset >= 0

    def enter(self, target_next: int) -> None:
        """Extend the ledger over what matches, up to a mirror offset; or raise, and change nothing.

        With the leader epoch of what was matched last, the source tells later whether it lost it.
        """
        ledger, start = self.ledger, self.match_start
        runs = self._match(start - ledger.source_next, target_next) if self.source_needed else ()
        step_over(ledger, start)
        for run in runs:
            ledger.add(run, self._epoch_before(run.source_end))
        ledger.skip_target_to(target_next)
        ledger.producer_ids.add(self.claim.producer_id)

    def _epoch_before(self, source_offset: int) -> int:
        found = (epoch for first, epoch in reversed(self._epochs) if first < source_offset)
        return next(found, -1)

    def _match(self, source_lost: int, target_next: int) -> Iterable[Run]:
        tail, theirs = self.tail, self.theirs
        if self.has_append_time:
            tail, theirs = _untimed(tail), _untimed(theirs)
        if self.compacted is not None and any(self.compacted):
            source = range(self.match_start, self.held.stop)
            mirror = range(self.tail_start, target_next)
            is_source, is_mirror = self.compacted
            logs = Compacted(
                source if is_source else None, mirror if is_mirror else None, self.later
            )
            return match_compacted(self.source, tail, theirs, logs)
        return match_behind(
            self.source,
            tail,
            theirs,
            tail_lost=self._tail_lost,
            source_lost=source_lost,
        )


def _untimed(slices: Iterable[Slice]) -> list[Slice]:
    return [(0, *one[1:]) for one in slices]
