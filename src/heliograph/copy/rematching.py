"""Rematching: what a closed mirror partition holds and its ledger does not know, once the source
is back. Blocking; a partition that fails leaves the others alone, and its ledger as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from heliograph.copy.claiming import claim_parts
from heliograph.copy.comparing import Comparison, compare
from heliograph.copy.finding import find_compacted, find_ranges, look_at, origin_of
from heliograph.copy.match import key_of
from heliograph.copy.opened import Ends
from heliograph.copy.reading import read_each
from heliograph.copy.recording import record
from heliograph.copy.unmatched import Unmatched
from heliograph.errors import Diverged, HeliographError, LedgerUnfit, TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.records import slices_of
from heliograph.kafka.tables import Writer
from heliograph.model.ledger import Closing, Ledger, Origin
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class Matched:
    """What a rematch found, by source partition: how far each was copied, or why nobody can tell.

    ``absent`` are those that the mirror has and the source never had. ``unproven`` are those of
    which both logs hold nothing any more that could be compared.
    """

    ledgers: Mapping[Partition, Ledger]
    failed: Mapping[Partition, HeliographError]
    absent: Collection[Partition] = ()
    unproven: Collection[Partition] = ()


def rematch(
    ends: Ends,
    parts: Mapping[Partition, Partition],
    ledgers: Mapping[Partition, Ledger],
    deadline: Deadline,
    *,
    unfit: Mapping[Partition, HeliographError] | None = None,
    enters: bool = True,
) -> Matched:
    """Bring closed ledgers to where their mirrors were closed; without ``enters``, only look.

    Raises nothing for one partition: another topic in its source's place, a source that lost what
    was copied, records that differ, each is that partition's failure. So is a ledger that is gone
    or cannot be read, as ``unfit`` says: that is not the same as one that never was.
    """
    unfit = unfit or {}
    look_at(ends.source, {one.topic for one in parts}, deadline)
    look_at(ends.target, {one.topic for one in parts.values()}, deadline)
    absent = {
        one for one in parts.keys() - unfit if _was_never_there(ends.source, one, ledgers.get(one))
    }
    cases = {
        source: _Case(source, mirror, ledgers.get(source))
        for source, mirror in parts.items()
        if source not in absent
    }
    for source, case in cases.items():
        case.error = unfit.get(source)
    _fit(ends, cases, deadline)
    unproven = _compare(ends, [case for case in cases.values() if case.error is None], deadline)
    if enters:
        _match(ends, [case for case in cases.values() if case.is_open], deadline)
    return Matched(
        {source: case.ledger for source, case in cases.items() if case.error is None},
        {source: case.error for source, case in cases.items() if case.error is not None},
        absent,
        unproven,
    )


def _was_never_there(source: Cluster, one: Partition, known: Ledger | None) -> bool:
    """Claim: the source's topic does not have this partition, and nothing was copied from it."""
    if one.topic not in source.view.topics or source.view.find(one) is not None:
        return False
    return known is None or known.runs.last is None


def _fit(ends: Ends, cases: Mapping[Partition, _Case], deadline: Deadline) -> None:
    for source, case in cases.items():
        if case.error is None and source.topic not in ends.source.view.topics:
            case.error = _gone(ends.source, source)
    left = {source: case for source, case in cases.items() if case.error is None}
    held = find_ranges(ends.source, list(left), deadline)
    mirrored = find_ranges(ends.target, [case.mirror for case in left.values()], deadline)
    for source, case in left.items():
        try:
            origin = origin_of(ends, source.topic, case.mirror.topic)
            case.fit(origin, held[source], mirrored[case.mirror])
        except HeliographError as failure:
            case.error = failure


def _compare(ends: Ends, cases: list[_Case], deadline: Deadline) -> list[Partition]:
    """See that sources hold what was copied; return those of which that cannot be seen."""
    found = [Comparison(case.mirror, case.ledger, case.held, case.mirrored) for case in cases]
    compare(ends, found, deadline)
    for case, it in zip(cases, found, strict=True):
        case.error = it.error
    return [it.source for it in found if it.error is None and it.is_unproven]


@dataclass(eq=False)
class _Case(Unmatched):
    """One closed partition; ``known`` is its ledger, if there is one."""

    known: Ledger | None

    def fit(
        self, origin: Origin, held: range | HeliographError, mirrored: range | HeliographError
    ) -> None:
        """See that ledger, source and mirror belong together, and that neither log is too short."""
        self.held, self.mirrored = _good(held), _good(mirrored)
        known = self.known or _never_copied(self.source, origin)
        if known.closing is None:
            raise LedgerUnfit(
                f"{self.source} is not closed: it was neither promoted nor failed over"
            )
        if known.origin != origin:
            if known.runs.last or known.origin.mirror_topic_id != origin.mirror_topic_id:
                raise _another(self.source, known.origin, origin)
            known.origin = origin  # it was never copied, so nobody knew
        self._refuse_short(known, known.closing)
        self.ledger = known

    def _refuse_short(self, known: Ledger, closing: Closing) -> None:
        end = self.held.stop
        if end < known.source_next:
            raise LedgerUnfit(
                f"{self.source} ends at {end}, and was copied up to {known.source_next}: the"
                " source lost records that the mirror has. Mirror everything back with --wipe"
            )
        end = self.mirrored.stop
        if end <= closing.marker_offset:
            raise LedgerUnfit(
                f"{self.mirror} ends at {end}, and was closed at {closing.marker_offset}: the"
                " mirror lost records. Mirror everything back with --wipe"
            )

    @property
    def is_open(self) -> bool:
        """Claim: there may be records that are not matched yet."""
        return self.error is None and self.closing_unmatched != 0

    @property
    def closing_unmatched(self) -> int:
        """How many records are not matched; -1 if nobody counted them."""
        closing = self.ledger.closing
        return closing.unmatched if closing else 0

    def take_tail(self, fetched: Fetched) -> bool:
        """Keep what this link wrote, up to the marker that closed the partition.

        Where the mirror is compacted, the keys of what follows tell what it may have taken.
        """
        closing = self.ledger.closing
        assert closing is not None
        is_compacted = self.compacted is not None and self.compacted[1]
        for header, batch in fetched.batches:
            if header.base_offset >= closing.marker_offset:
                if not is_compacted:
                    return True
                if not header.is_control:
                    self.later |= {key_of(one) for one in slices_of(header, batch)}
            elif header.producer_id in self.ledger.producer_ids and not header.is_control:
                self.tail += self.copies_in(header, batch)
        end = self.mirrored.stop if is_compacted else closing.marker_offset + 1
        return fetched.next_offset >= end

    def enter_closed(self) -> None:
        """Extend the ledger over what matches, up to where the mirror was closed."""
        closing = self.ledger.closing
        assert closing is not None
        self.enter(closing.marker_offset + 1)
        self.ledger.closing = replace(closing, unmatched=0)


def _match(ends: Ends, cases: list[_Case], deadline: Deadline) -> None:
    if not cases:
        return
    _claim(ends, cases, deadline)
    left = [case for case in cases if case.error is None]
    while left:
        _read(ends, left, deadline)
        left = [case for case in left if case.error is None and not _enter(ends, case, deadline)]
    good = [case for case in cases if case.error is None]
    failed = record(ends, [(case.ledger, Writer.of(case.claim)) for case in good], deadline)
    for case in good:
        case.error = failed.get(case.source)


def _enter(ends: Ends, case: _Case, deadline: Deadline) -> bool:
    """Enter what matches; False where all of both logs is to be read, since one is compacted."""
    try:
        try:
            case.enter_closed()
        except Diverged:
            if case.compacted is not None or not find_compacted(ends, case, deadline):
                raise
            return False
    except HeliographError as failure:
        case.error = failure
    return True


def _read(ends: Ends, cases: list[_Case], deadline: Deadline) -> None:
    for case in cases:
        case.begin_tail()
    tails = {case.mirror: case for case in cases}
    starts = {mirror: case.tail_start for mirror, case in tails.items()}

    def take_tail(fetched: Fetched) -> bool:
        return tails[fetched.partition].take_tail(fetched)

    for mirror, failure in read_each(
        ends.target, starts, take_tail, deadline, markers=True
    ).items():
        tails[mirror].error = failure
    sources = {case.source: case for case in cases if case.error is None and case.tail}
    begins = {source: case.match_start for source, case in sources.items()}

    def take_source(fetched: Fetched) -> bool:
        return sources[fetched.partition].take_source(fetched)

    for source, failure in read_each(
        ends.source, begins, take_source, deadline, read_committed=True
    ).items():
        sources[source].error = failure


def _claim(ends: Ends, cases: list[_Case], deadline: Deadline) -> None:
    ends.target.describe([ends.ledger_topic], deadline)
    claims = claim_parts(ends, {case.source: case.mirror for case in cases}, deadline)
    for case in cases:
        claimed = claims[case.source]
        if isinstance(claimed, HeliographError):
            case.error = claimed
        else:
            case.claim = claimed


def _never_copied(source: Partition, origin: Origin) -> Ledger:
    """Return the ledger of a mirror that was not there yet when its topic was closed."""
    ledger = Ledger(source, origin)
    ledger.closing = Closing("FAILED_OVER", 0, -1)
    return ledger


def _good(found: range | HeliographError) -> range:
    if isinstance(found, HeliographError):
        raise found
    return found


def _gone(cluster: Cluster, source: Partition) -> HeliographError:
    why = cluster.why_absent(source.topic)
    if not isinstance(why, TopicMissing):
        return why
    return LedgerUnfit(
        f"{source}: {cluster.name} does not have the topic any more. Mirror everything back with"
        " --wipe"
    )


def _another(source: Partition, known: Origin, found: Origin) -> LedgerUnfit:
    return LedgerUnfit(
        f"{source}: this is not what was mirrored: {known.differences(found)}. Offsets mean"
        " something else there. Mirror everything back with --wipe, if the records there may go"
    )
