"""Close mirror partitions: fence their writers, and put on record that none may follow.

Blocking, under one deadline. A partition that fails leaves the others alone, and is as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heliograph.copy.case import Case
from heliograph.copy.finding import find_leaderless, find_ranges, look_at
from heliograph.copy.opened import Ends, Opened
from heliograph.copy.opening import Opening
from heliograph.copy.recording import record
from heliograph.errors import DeadlinePassed, HeliographError, LedgerUnfit
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline
from heliograph.model.ledger import Closing, Ledger, Origin
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition

Outcome = Ledger | HeliographError
_NOT_COUNTED = -1


def seal(
    ends: Ends, opened: Collection[Opened], state: str, deadline: Deadline
) -> dict[Partition, Outcome]:
    """Close partitions that were opened: everything that this link wrote is in their ledgers."""
    for one in opened:
        ledger = one.ledger
        ledger.closing = Closing(state, clock.wall_ms(), ledger.target_next - 1)
    failed = record(ends, [(one.ledger, one.writer) for one in opened], deadline)
    return {one.source: failed.get(one.source, one.ledger) for one in opened}


def close_blind(
    ends: Ends, mirrors: Mapping[Partition, Partition], state: str, deadline: Deadline
) -> dict[Partition, Outcome]:
    """Close partitions without a word from the source.

    What its writers had not recorded is counted, and left to be matched once the source is back.
    A partition that is closed already stays as it is. One that nobody leads cannot be closed, and
    is not waited for at the expense of the others.
    """
    if not mirrors:
        return {}
    lost = find_leaderless(ends.target, set(mirrors.values()), deadline)
    led = {source: mirror for source, mirror in mirrors.items() if mirror not in lost}
    found: dict[Partition, Outcome] = {
        source: lost[mirror] for source, mirror in mirrors.items() if mirror in lost
    }
    return found | (_Blind(ends, led, state, deadline).close() if led else {})


class _Blind(Opening):
    """An opening that looks at the target only, and ends with a closed ledger."""

    def __init__(
        self, ends: Ends, mirrors: Mapping[Partition, Partition], state: str, deadline: Deadline
    ) -> None:
        super().__init__(ends, mirrors, Policies(is_shared=True), {}, deadline)
        self._state = state
        self._closed: set[Partition] = set()

    def close(self) -> dict[Partition, Outcome]:
        """Take every step; return the ledgers, closed."""
        self._run()
        return {case.source: case.error or case.ledger for case in self._cases}

    def _alive(self) -> list[Case]:
        """Leave out what was closed before: applications may have written there for days."""
        return [case for case in super()._alive() if case.source not in self._closed]

    def _read_ledger(self, rows: Mapping[bytes, bytes], case: Case) -> None:
        super()._read_ledger(rows, case)
        if case.recorded is not None and case.recorded.closing is not None:
            self._closed.add(case.source)
            case.ledger = case.recorded

    def _look_around(self) -> None:
        target, cases = self._ends.target, self._alive()
        look_at(target, (case.mirror.topic for case in cases), self._deadline)
        mirrored = find_ranges(target, [case.mirror for case in cases], self._deadline)

        def see(case: Case) -> None:
            view, found = target.view.topics.get(case.mirror.topic), mirrored[case.mirror]
            if view is None:
                raise target.why_absent(case.mirror.topic)
            if isinstance(found, HeliographError):
                raise found
            case.mirrored, case.held = found, range(0)  # there is no source to compare with
            # Nobody knows of what it would have been a copy, where it never was one.
            case.origin = Origin("", "", str(target.view.cluster_id), str(view.topic_id))

        self._each(see)

    def _fit(self, case: Case) -> None:
        known, mirror_id = case.recorded, case.origin.mirror_topic_id
        case.is_shared = known is None
        case.ledger = known or Ledger(case.source, case.origin)
        if known is not None and known.origin.mirror_topic_id != mirror_id:
            raise LedgerUnfit(
                f"{case.mirror} is not the topic that {case.source} was copied to: its id was"
                f" {known.origin.mirror_topic_id}, is {mirror_id}. It was not closed"
            )

    def _refuse_twins(self) -> None:
        """Nothing is copied here, and other links' ledgers may be what a disaster took."""

    def _match_tails(self) -> None:
        """Count what is not recorded; where that takes too long, its number stays unknown."""
        cases = self._alive()
        for case in cases:
            case.most_tail = 0
        self._read_tails(cases)
        for case in cases:
            if isinstance(case.error, DeadlinePassed):
                case.error, case.marker_offset = None, _NOT_COUNTED
        self._each(self._close)
        self._put_ledgers(self._alive())

    def _close(self, case: Case) -> None:
        count, marker = case.tail_count, case.marker_offset
        if marker == _NOT_COUNTED:
            count, marker = _NOT_COUNTED, case.mirrored.stop - 1
        case.ledger.producer_ids.add(case.claim.producer_id)
        case.ledger.closing = Closing(self._state, clock.wall_ms(), marker, count)
