"""One partition on its way to be opened: what is known of it, and what follows from that.

Pure but for what it is told. Whatever does not fit together raises; then nothing was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from heliograph.copy.gaps import overtaken, past_the_end
from heliograph.copy.unmatched import Unmatched
from heliograph.errors import LedgerUnfit, MirrorClosed, MirrorOccupied
from heliograph.kafka import crash
from heliograph.kafka.batch import Header
from heliograph.kafka.dense import Slice
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.records import slices_of
from heliograph.kafka.tables import Writer
from heliograph.model.ledger import Closing, Ledger, Origin
from heliograph.model.moments import moment
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition


@dataclass(eq=False)
class Case(Unmatched):
    """What each step of an opening adds; the ledger is there once ``fit`` passed.

    ``mirrored`` is after the claim; ``mirror_end`` is where the mirror ended before.
    """

    source_cluster: str
    mirror_end: int = 0
    claimed_s: float = 0.0
    recorded: Ledger | None = None
    origin: Origin = field(init=False)
    source_start: int = -1
    is_shared: bool = False
    is_restarted: bool = False
    tail_read: int = -1
    marker_offset: int = -1
    writer: Writer = field(init=False)

    @property
    def is_renewed(self) -> bool:
        """Claim: earlier writers wrote under other ids, so this claim did not fence them."""
        known = self.recorded.producer_ids if self.recorded is not None else ()
        return bool(known) and self.claim.producer_id not in known

    def fit(self, policies: Policies) -> None:
        """Find the ledger to go on with, if ledger, source and mirror belong together."""
        self.is_shared = policies.is_shared
        if self.recorded is not None and self.recorded.closing is not None:
            raise _closed(self.source, self.mirror, self.recorded.closing)  # invariant M
        if self.recorded is None:
            self.ledger = Ledger(self.source, self.origin)
            self.ledger.skip_to(self.source_start)
            # Where retention passed a beginning that was noted, the match enters a gap.
            if self.held.stop < self.ledger.source_next:
                end, start = self.held.stop, self.ledger.source_next
                raise past_the_end(self.source, start, end, self.source_cluster)
        elif self.recorded.origin == self.origin:
            self.ledger = self.recorded
            self._fit_source(policies)
        elif policies.on_recreate == "restart" and self._is_recreated(self.recorded):
            self.ledger = self.recorded.restarted(self.origin, self.held.start)
            self.is_restarted = True
        else:
            raise _another(self.source, self.recorded.origin, self.origin)
        if self.ledger.target_next >= self.mirrored.stop:
            raise self._no_marker()
        self.ledger.drop_before(self.mirrored.start)

    def _is_recreated(self, recorded: Ledger) -> bool:
        topic_id = self.origin.source_topic_id
        return replace(recorded.origin, source_topic_id=topic_id) == self.origin

    def _fit_source(self, policies: Policies) -> None:
        if self.held.stop < self.ledger.source_next:
            end = self.held.stop
            raise past_the_end(self.source, self.ledger.source_next, end, self.source_cluster)
        if self.held.start > self.ledger.source_next and policies.on_gap == "stop":
            raise overtaken(self.ledger, self.held.start)

    # The mirror's tail

    @property
    def tail_start(self) -> int:
        """Where to read the mirror from: retention may have passed the ledger's end.

        A shared topic that this link never wrote to may hold any number of records of others.
        """
        if self.recorded is None and self.is_shared:
            return max(self.mirror_end, self.mirrored.start)
        return super().tail_start

    def take_tail(self, fetched: Fetched) -> bool:
        """Keep what earlier writers left; return True at our own marker.

        Whatever they got in stands before it, even what was not visible yet at the claim. The
        claim's own id counts as well, also where no ledger names it: it stays the same as long as
        the broker remembers the transactional id.
        """
        known = self.ledger.producer_ids | {self.claim.producer_id}
        self.tail_read = fetched.next_offset
        for header, batch in fetched.batches:
            if self._is_marker(header):
                self.marker_offset = header.last_offset
                return True
            if header.producer_id in known and not header.is_control:
                # A fetch begins at the start of a batch.
                found = slices_of(header, batch)
                self.tail += [one for one in found if one[1] >= self.tail_start]
                if self.recorded is None:
                    raise _ledger_gone(self.source, self.mirror, self.tail)
            elif self.recorded is None and not (header.is_control or self.is_shared):
                raise self._occupied(header)
        if fetched.next_offset >= self.mirrored.stop:
            raise self._no_marker()
        return False

    def keep_progress(self) -> bool:
        """Enter how far a shared mirror was read, if nothing of ours was found; tell whether so."""
        if self.recorded is None or not self.is_shared or self.tail:
            return False
        if self.tail_read <= self.ledger.target_next:
            return False
        self.ledger.skip_target_to(self.tail_read)
        self.ledger.producer_ids.add(self.claim.producer_id)
        return True

    def _is_marker(self, header: Header) -> bool:
        claim = self.claim
        return header.is_control and (header.producer_id, header.producer_epoch) == (
            claim.producer_id,
            claim.marker_epoch,
        )

    # Match

    @property
    def source_needed(self) -> int:
        """How many records of the source it takes to match the tail."""
        return 0 if self.recorded is None or self.is_restarted else super().source_needed

    def match(self) -> None:
        """Extend the ledger over what was written and not recorded, or raise."""
        if self.tail and self.recorded is None:
            raise _ledger_gone(self.source, self.mirror, self.tail)
        if self.source_needed:
            crash.point("C10")
            self.ledger.bytes += sum(len(one[3]) for one in self.tail)
        self.enter(self.marker_offset)
        crash.point("C6")

    # Words

    def _occupied(self, header: Header) -> MirrorOccupied:
        return MirrorOccupied(
            f"{self.mirror} holds records that this link did not write, from offset"
            f" {header.base_offset} on, and the link has never copied {self.source} there. Nothing"
            " was written. Give the mirror another name (naming), delete the topic if nobody needs"
            " it, or let them share it with mirrors.merge: true. If MirrorMaker 2 filled it, take"
            " over from there: heliograph import mm2 FILE --take-over"
        )

    def _no_marker(self) -> LedgerUnfit:
        return LedgerUnfit(
            f"{self.mirror} ends at {self.mirrored.stop}, and our own marker (producer"
            f" {self.claim.producer_id}, epoch {self.claim.marker_epoch}) is not behind offset"
            f" {self.ledger.target_next}, up to which {self.source} is on record. The mirror lost"
            " records. Nothing was written"
        )


def _another(source: Partition, known: Origin, found: Origin) -> LedgerUnfit:
    return LedgerUnfit(
        f"{source}: the ledger is about something else: {known.differences(found)}. Nothing was"
        " written"
    )


def _closed(source: Partition, mirror: Partition, closing: Closing) -> MirrorClosed:
    return MirrorClosed(
        f"{mirror} is {closing.state} since {moment(closing.at_ms)}: applications write to it, and"
        f" this link does not copy {source} there any more. Nothing was written. See heliograph"
        " timeline; to let it be a mirror again: heliograph failback"
    )


def _ledger_gone(source: Partition, mirror: Partition, tail: list[Slice]) -> LedgerUnfit:
    return LedgerUnfit(
        f"{source}: there is no ledger, but {mirror} holds {len(tail)} records that this link"
        " wrote. Where to go on is not known, so nothing was written. Give the link a new mirror,"
        " or restore the ledger's topic"
    )
