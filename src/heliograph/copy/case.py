"""One partition on its way to be opened: what is known of it, and what follows from that.

Pure but for what it is told. Whatever does not fit together raises; then nothing was written.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

from heliograph.copy.gaps import overtaken, past_the_end
from heliograph.copy.unmatched import Unmatched
from heliograph.errors import (
    DeadlinePassed,
    Diverged,
    HeliographError,
    LedgerUnfit,
    LogTruncated,
    MirrorClosed,
    MirrorOccupied,
    OffsetOutOfRange,
)
from heliograph.kafka import crash
from heliograph.kafka.batch import Header
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.tables import Writer
from heliograph.model.ledger import Closing, Ledger, Origin
from heliograph.model.moments import moment
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition


@dataclass(eq=False)
class Case(Unmatched):
    """What each step of an opening adds; the ledger is there once ``fit`` passed.

    ``mirrored`` is after the claim; ``mirror_end`` is where the mirror ended before. ``was_copied``
    says that a task once reported of it, ``may_have_written`` that this link claimed it before:
    without a ledger, only the mirror tells whether it wrote there. ``most_tail`` is how many
    records of the tail are in memory: a longer one is matched part by part. With 0 it is counted.
    """

    source_cluster: str
    mirror_end: int = 0
    claimed_s: float = 0.0
    recorded: Ledger | None = None
    origin: Origin = field(init=False)
    source_start: int = -1
    is_shared: bool = False
    is_restarted: bool = False
    was_copied: bool = False
    may_have_written: bool = False
    losses_on_record: int = 0
    most_tail: int = sys.maxsize
    tail_read: int = -1
    tail_epoch: int = -1
    tail_count: int = 0
    is_cut: bool = False
    marker_offset: int = -1
    marker_leader_epoch: int = -1
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
        self.may_have_written = self.claim.marker_epoch > 0
        if self.recorded is None and self.is_shared and self.was_copied:
            raise _ledger_lost(self.source, self.mirror)
        if self.recorded is None:
            self.ledger = Ledger(self.source, self.origin)
            self.ledger.skip_to(self.source_start)
            # Where retention passed a beginning that was noted, the match enters a gap.
            if self.held.stop < self.ledger.source_next:
                end, start = self.held.stop, self.ledger.source_next
                raise past_the_end(self.source, start, end, self.source_cluster)
        elif self.recorded.origin == self.origin:
            self.ledger = self.recorded
            self.fit_source(policies)
        elif policies.on_recreate == "restart" and self._is_recreated(self.recorded):
            self.ledger = self.recorded.restarted(self.origin, self.held.start)
            self.is_restarted, self.most_tail = True, 0
        else:
            raise _another(self.source, self.recorded.origin, self.origin)
        if self.ledger.target_epoch < 0 and self.ledger.target_next >= self.mirrored.stop:
            raise self._no_marker()
        self.ledger.drop_before(self.mirrored.start)

    def _is_recreated(self, recorded: Ledger) -> bool:
        topic_id = self.origin.source_topic_id
        return replace(recorded.origin, source_topic_id=topic_id) == self.origin

    def fit_source(self, policies: Policies) -> None:
        """See that the source holds what comes next; again, when the ledger went back."""
        if self.recorded is None or self.is_restarted:
            return
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
        if self.recorded is None and self.is_shared and not self.may_have_written:
            return max(self.mirror_end, self.mirrored.start)
        return super().tail_start

    @property
    def has_new_loss(self) -> bool:
        """True when the mirror turned out to have lost something, and that is not on record yet."""
        return self.error is None and len(self.ledger.losses) > self.losses_on_record

    @property
    def is_matched(self) -> bool:
        """True when the ledger reaches up to our own marker."""
        return 0 <= self.marker_offset < self.ledger.target_next

    def begin_tail(self) -> None:
        """Forget what was read: it is read from the ledger's end again."""
        super().begin_tail()
        self.tail_count, self.is_cut = 0, False

    def take_tail(self, fetched: Fetched) -> bool:
        """Keep what earlier writers left; return True at our own marker, or when that is much.

        Whatever they got in stands before it, even what was not visible yet at the claim. The
        claim's own id counts as well, also where no ledger names it: it stays the same as long as
        the broker remembers the transactional id.
        """
        known = self.ledger.producer_ids | {self.claim.producer_id}
        self.tail_read, self.tail_epoch = fetched.next_offset, fetched.last_epoch
        for header, batch in fetched.batches:
            if self._is_marker(header):
                self.marker_offset = header.last_offset
                self.marker_leader_epoch = header.leader_epoch
                return True
            if header.producer_id in known and not header.is_control:
                found = self.copies_in(header, batch)
                if found and self.recorded is None:
                    raise _ledger_gone(self.source, self.mirror, found[0][1])
                self.tail_count += len(found)
                self.tail += found if self.most_tail else ()
            elif self.recorded is None and not (header.is_control or self.is_shared):
                raise self._occupied(header)
            if 0 < self.most_tail <= len(self.tail) and self._is_cuttable:
                self.tail_read, self.tail_epoch = header.next_offset, header.leader_epoch
                self.is_cut = True
                return True
        if fetched.next_offset >= self.mirrored.stop:
            raise self._no_marker()
        return False

    @property
    def _is_cuttable(self) -> bool:
        """True when the first records of a tail can be matched without those behind them.

        Where retention or compaction took records of a log, only all that is left tells which.
        """
        is_held = self.tail_start == self.ledger.target_next
        is_held = is_held and self.match_start == self.ledger.source_next
        return is_held and not any(self.compacted or ())

    @property
    def epoch_before_tail(self) -> int:
        """The mirror's leader epoch when it was last claimed, -1 where the tail begins later.

        With it the leader tells whether its log is still the one that the ledger is about.
        """
        is_held = self.tail_start == self.ledger.target_next
        return self.ledger.target_epoch if is_held else -1

    def may_part(self, why: HeliographError) -> bool:
        """True when the mirror's log may be another one from some offset on record on."""
        if isinstance(why, OffsetOutOfRange) and why.offset < why.start_offset:
            return False
        return isinstance(why, LogTruncated | OffsetOutOfRange) and self.epoch_before_tail >= 0

    def in_words(self, why: HeliographError) -> HeliographError:
        """Return why the tail was not read; without a ledger, nobody can tell what it holds."""
        if self.recorded is None and self.is_shared and isinstance(why, DeadlinePassed):
            return _unproven(self.source, self.mirror, self.tail_read)
        return why

    def keep_progress(self) -> bool:
        """Enter how far a shared mirror was read, if nothing of ours was found; tell whether so.

        Not with a ledger made anew: what stands behind that may be of the topic before it.
        """
        if self.recorded is None or not self.is_shared or self.tail_count or self.is_restarted:
            return False
        if self.tail_read <= self.ledger.target_next:
            return False
        self.ledger.skip_target_to(self.tail_read)
        # Or the next one is sent back to where others wrote under a later leader.
        self.ledger.target_epoch = max(self.ledger.target_epoch, self.tail_epoch)
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
        """Extend the ledger over what was written and not recorded, as far as it was read."""
        if self.source_needed:
            crash.point("C10")
        self.enter(self.tail_read if self.is_cut else self.marker_offset + 1)
        if self.recorded is not None and not self.is_restarted:
            self.ledger.bytes += sum(len(one[3]) for one in self.tail)
        self.ledger.target_epoch = self.tail_epoch if self.is_cut else self.marker_leader_epoch
        crash.point("C6")

    # Words

    def why_parted(self, parted: Diverged) -> Diverged:
        """Return why the tail does not match: a mirror may have lost what should stand before."""
        loss = self.ledger.losses[-1] if self.ledger.losses else None
        if loss is None or not self.ledger.lacks(loss):
            return parted
        return Diverged(
            f"{self.mirror}: the target lost the records from offset {loss.target_start} to"
            f" {loss.target_end} ({loss.records} copies of {self.source}, from source offset"
            f" {loss.source_start} on), and holds later ones of this link in their place. The lost"
            " ones cannot be put before them any more, so nothing was written. Give the link"
            " another mirror (naming)",
            source_offset=loss.source_start,
            target_offset=parted.target_offset,
        )

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


def _unproven(source: Partition, mirror: Partition, read: int) -> LedgerUnfit:
    return LedgerUnfit(
        f"{source}: there is no ledger, and this link has claimed {mirror} before. Whether it wrote"
        f" records there could not be seen in the time allowed (read up to offset {read}), so"
        " nothing was written. Restore the ledger's topic, or give the link another name"
    )


def twin(source: Partition, mirror: Partition, ledger_topic: str) -> LedgerUnfit:
    """Return the error for a mirror that another link has brought the same partition to."""
    return LedgerUnfit(
        f"{source}: by {ledger_topic}, another link has copied this topic to {mirror} already, or"
        " this one did under another name. Each record would be there twice, so nothing was"
        " written. Run the link under its old name, give this one other mirrors, or, if the other"
        " is gone for good and its records as well, delete that topic"
    )


def _ledger_lost(source: Partition, mirror: Partition) -> LedgerUnfit:
    return LedgerUnfit(
        f"{source}: there is no ledger, but this link has copied records to {mirror} before. Which"
        " ones is not known, so nothing was written. Restore the ledger's topic, or give the link"
        " another name and other mirrors"
    )


def _ledger_gone(source: Partition, mirror: Partition, offset: int) -> LedgerUnfit:
    return LedgerUnfit(
        f"{source}: there is no ledger, but {mirror} holds records that this link wrote, from"
        f" offset {offset} on. Where to continue is not known, so nothing was written. Restore the"
        " ledger's topic, or give the link a new mirror"
    )
