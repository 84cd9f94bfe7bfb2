"""What a mirror partition holds behind the end of its ledger, and what the source has there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from heliograph.copy.gaps import step_over
from heliograph.copy.match import match_behind
from heliograph.errors import HeliographError
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
    has to match it with.
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
        """How many records of the source it takes to match the tail."""
        return len(self.tail) + self._tail_lost if self.tail else 0

    @property
    def _tail_lost(self) -> int:
        """How many records at most the mirror's retention took of what is not on record."""
        return self.tail_start - self.ledger.target_next

    def take_source(self, fetched: Fetched) -> bool:
        """Keep what may match; return True when that is enough, or all there is."""
        for header, batch in fetched.batches:
            found = slices_of(header, batch)
            self.theirs += [one for one in found if one[1] >= self.match_start]
            if len(self.theirs) >= self.source_needed:
                return True
        return fetched.next_offset >= fetched.last_stable_offset >= 0

    def enter(self, marker_offset: int) -> None:
        """Extend the ledger over what matches, and up to a marker on the mirror; or raise."""
        ledger, start = self.ledger, self.match_start
        runs = self._match(start - ledger.source_next) if self.source_needed else ()
        step_over(ledger, start)
        for run in runs:
            ledger.add(run)
        ledger.skip_target_to(marker_offset + 1)
        ledger.producer_ids.add(self.claim.producer_id)

    def _match(self, source_lost: int) -> Iterable[Run]:
        return match_behind(
            self.source,
            self.tail,
            self.theirs,
            tail_lost=self._tail_lost,
            source_lost=source_lost,
        )
