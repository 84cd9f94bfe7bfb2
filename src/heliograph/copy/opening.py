"""Open mirror partitions: claim them, read their ledgers, match what is not recorded.

After this, and only after this, a partition may be written. Blocking, under one deadline; each
step is taken for all partitions at once, and one that fails leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from heliograph.copy.case import Case, twin
from heliograph.copy.claiming import claim_parts
from heliograph.copy.comparing import compare_mirrors
from heliograph.copy.finding import find_compacted, find_offsets, find_ranges, look_at, origin_of
from heliograph.copy.ledgers import SharedLedgers
from heliograph.copy.opened import Ends, Opened, stalled
from heliograph.copy.provenance import Provenance
from heliograph.copy.reading import read_each
from heliograph.copy.recording import record
from heliograph.copy.standstill import Tick
from heliograph.errors import DeadlinePassed, Diverged, HeliographError, NotAuthorized, TopicMissing
from heliograph.kafka import clock, crash
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.offsets import LATEST
from heliograph.kafka.tables import Table, Writer
from heliograph.model.expiry import CLAIM_WAIT
from heliograph.model.leases import Begin
from heliograph.model.ledger import origin_in, read_ledger
from heliograph.model.names import is_ledger
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition

T = TypeVar("T")

__all__ = ["Ends", "Opened", "open_all"]

_TURN_S = 0.1
_RECORD_TIMEOUT = timedelta(seconds=5)
_TWINS_TIMEOUT = timedelta(seconds=20)
# How many records of unrecorded tails are in memory at a time, with those to match them, of all
# partitions that are opened together: about 200 MB. What is left comes after the ledgers are put.
_MOST_TAIL, _LEAST_TAIL = 200_000, 1_000
# How often the leader of a mirror may have changed since it was last claimed: each is looked at.
_MOST_ELECTIONS = 100


def open_all(
    ends: Ends,
    mirrors: Mapping[Partition, Partition],
    deadline: Deadline,
    policies: Policies | None = None,
    begins: Mapping[Partition, Begin] | None = None,
    copied: Collection[Partition] = (),
    ledgers: SharedLedgers | None = None,
) -> dict[Partition, Opened | HeliographError]:
    """Open mirror partitions, by their source partitions; one that fails leaves the others alone.

    ``begins`` is where partitions begin that were never mirrored, else at their start. ``copied``
    are those of which a task once reported: they have a ledger, or have lost it.

    All claims first: each ends with its markers in the log. What the ledger's topic holds then is
    all that earlier writers could put, so it is read once for all; ``ledgers`` are those that
    others read as well.
    """
    opening = Opening(
        ends, mirrors, policies or Policies(), begins or {}, deadline, copied, ledgers
    )
    return opening.open() if mirrors else {}


class Opening:
    """The steps, in order. A case that has an error takes part in no further one."""

    def __init__(
        self,
        ends: Ends,
        mirrors: Mapping[Partition, Partition],
        policies: Policies,
        begins: Mapping[Partition, Begin],
        deadline: Deadline,
        copied: Collection[Partition] = (),
        ledgers: SharedLedgers | None = None,
    ) -> None:
        self._ends = ends
        self._ledgers = ledgers
        self._begins = begins
        self._policies = policies
        self._deadline = deadline
        self._cases = [Case(*pair, ends.source.name) for pair in mirrors.items()]
        for case in self._cases:
            case.was_copied = case.source in copied
            case.most_tail = max(_MOST_TAIL // len(self._cases), _LEAST_TAIL)
        self._clock = Tick()
        self._stood_s = 0.0

    @property
    def _recording(self) -> Deadline:
        """How long a ledger may take to be written: also once the time for reading is over."""
        return self._deadline if not self._deadline.passed else Deadline.after(_RECORD_TIMEOUT)

    def open(self) -> dict[Partition, Opened | HeliographError]:
        """Take every step; return what may be written from here on."""
        self._run()
        return {case.source: self._opened(case) for case in self._cases}

    def _run(self) -> None:
        """Take every step, looking at the clock after each wait; see ``Stream``."""
        loop = self._ends.target.loop
        before, loop.on_wake = loop.on_wake, self._tick
        try:
            self._take_steps()
        finally:
            loop.on_wake = before

    def _tick(self) -> None:
        self._stood_s = self._clock.stood_s() or self._stood_s

    def _take_steps(self) -> None:
        try:
            self._find_ends()
            self._claim(self._alive())
            self._read_ledgers()
            self._claim_renewed()
            self._look_around()
        except HeliographError as failure:  # of something that all need
            for case in self._alive():
                case.error = failure
        self._each(self._fit)
        self._refuse_twins()
        self._match_tails()

    def _alive(self) -> list[Case]:
        return [case for case in self._cases if case.error is None]

    def _each(self, action: Callable[[Case], None], cases: Iterable[Case] | None = None) -> None:
        for case in self._alive() if cases is None else cases:
            if case.error is not None:
                continue
            try:
                action(case)
            except HeliographError as failure:
                case.error = failure

    def _fit(self, case: Case) -> None:
        case.fit(self._policies)

    def _fit_source(self, case: Case) -> None:
        case.fit_source(self._policies)

    def _match_tails(self) -> None:
        """Match what stands behind the ledgers, a part of each at a time, and put what matched.

        Whoever comes next goes on from there, if this one is not done in time.
        """
        while open_cases := [case for case in self._alive() if not case.is_matched]:
            for case in open_cases:
                case.begin_tail()
            self._read_tails(open_cases)
            self._each(self._fit_source, open_cases)
            self._read_sources(open_cases)
            self._each(self._match, open_cases)
            self._put_ledgers([case for case in open_cases if case.error is None])

    def _match(self, case: Case) -> None:
        try:
            case.match()
        except Diverged as parted:
            # The records of one side may be gone because others of the same keys came later.
            # Then all of both is read once more.
            if case.compacted is not None or not find_compacted(self._ends, case, self._deadline):
                raise case.why_parted(parted) from parted

    def _find_ends(self) -> None:
        """Find out where shared mirrors end: what a link never wrote to is not read from before."""
        if not self._policies.is_shared:
            return
        mirrors = dict.fromkeys((case.mirror for case in self._cases), LATEST)
        look_at(self._ends.target, (mirror.topic for mirror in mirrors), self._deadline)
        ends = find_offsets(self._ends.target, mirrors, self._deadline)

        def see(case: Case) -> None:
            case.mirror_end = _good(ends[case.mirror])

        self._each(see)

    def _refuse_twins(self) -> None:
        """Refuse to begin on a shared mirror that another link brought the same topic to.

        It may be this one under another name: every record would be there twice. Where that cannot
        be found out, it holds up nobody who has a ledger.
        """
        new = [case for case in self._alive() if case.recorded is None and case.is_shared]
        if not new:
            return
        try:
            self._find_twins(new, self._deadline.within(_TWINS_TIMEOUT))
        except HeliographError as failure:
            for case in new:
                case.error = case.error or failure

    def _find_twins(self, new: Collection[Case], deadline: Deadline) -> None:
        target = self._ends.target
        for topic in filter(is_ledger, target.look(None, deadline).topics):
            if topic == self._ends.ledger_topic:
                continue
            try:
                rows = Table(target, topic).load(deadline)
            except (NotAuthorized, TopicMissing):
                continue  # of somebody who shares no ledgers, or has just been removed
            for case in new:
                theirs = origin_in(case.source, rows)
                if theirs == case.origin:
                    case.error = twin(case.source, case.mirror, topic)

    # Claims

    def _claim(self, cases: list[Case]) -> None:
        parts = {case.source: case.mirror for case in cases}
        claims = claim_parts(self._ends, parts, self._deadline)
        for case in cases:
            claimed = claims[case.source]
            if isinstance(claimed, HeliographError):
                case.error = claimed
            else:
                case.claim, case.claimed_s = claimed, clock.now_s()
                case.writer = Writer.of(claimed)

    def _read_ledgers(self) -> None:
        if self._ledgers is not None:
            with self._ledgers.read(self._ends.target.loop, self._deadline) as rows:
                self._each(partial(self._read_ledger, rows))
        else:
            rows = Table(self._ends.target, self._ends.ledger_topic).load(self._deadline)
            self._each(partial(self._read_ledger, rows))

    def _read_ledger(self, rows: Mapping[bytes, bytes], case: Case) -> None:
        case.recorded = read_ledger(case.source, rows)
        case.losses_on_record = len(case.recorded.losses) if case.recorded else 0

    def _claim_renewed(self) -> None:
        """Claim again where the broker has forgotten the id under which we wrote before.

        A claim under a new id fences nobody who writes under the old one. What it has on its way
        is waited for; then a second marker stands behind all of it.
        """
        renewed = [case for case in self._alive() if case.is_renewed]
        if not renewed:
            return
        if self._deadline.left_s < CLAIM_WAIT.total_seconds():
            for case in renewed:
                case.error = self._no_time(case)
            return
        pause = Deadline.after(CLAIM_WAIT)
        while not pause.passed:
            self._ends.target.loop.turn(min(pause.left_s, _TURN_S))
        self._claim(renewed)
        self._read_ledgers()

    def _no_time(self, case: Case) -> DeadlinePassed:
        message = (
            f"the broker has forgotten under which id {case.mirror} was written, and the time"
            f" allowed does not suffice to wait {CLAIM_WAIT.total_seconds():.0f} s for what may"
            " still be on its way"
        )
        return DeadlinePassed(message, cluster=self._ends.target.name)

    # Logs

    def _look_around(self) -> None:
        ends, deadline, cases = self._ends, self._deadline, self._alive()
        look_at(ends.source, (case.source.topic for case in cases), deadline)
        look_at(ends.target, (case.mirror.topic for case in cases), deadline)

        def know(case: Case) -> None:
            case.origin = origin_of(ends, case.source.topic, case.mirror.topic)

        self._each(know)
        # Only of topics that are there: to ask about one that is gone takes its time, and a lease
        # that is called in waits for what it has begun to open.
        cases = self._alive()
        held = find_ranges(ends.source, [case.source for case in cases], deadline)
        mirrored = find_ranges(ends.target, [case.mirror for case in cases], deadline)

        def see(case: Case) -> None:
            case.held = _good(held[case.source])
            case.mirrored = _good(mirrored[case.mirror])
            begin = self._begins.get(case.source)
            is_same = begin is not None and begin.topic_id == case.origin.source_topic_id
            case.source_start = begin.offset if begin and is_same else case.held.start

        self._each(see)

    def _read_tails(self, cases: list[Case]) -> None:
        """Read each mirror from its ledger's end to our own marker, or for as much as is kept."""
        left = {case.mirror: case for case in cases}

        def take(fetched: Fetched) -> bool:
            return left[fetched.partition].take_tail(fetched)

        for _ in range(_MOST_ELECTIONS):
            starts = {mirror: case.tail_start for mirror, case in left.items()}
            epochs = {mirror: case.epoch_before_tail for mirror, case in left.items()}
            target, deadline = self._ends.target, self._deadline
            failed = read_each(target, starts, take, deadline, markers=True, epochs=epochs)
            parted = {one: left[one] for one, why in failed.items() if left[one].may_part(why)}
            # What others wrote to a shared mirror need not be read again by the next attempt.
            others = {one: left[one] for one in failed if one not in parted}
            self._put_ledgers([case for case in others.values() if case.keep_progress()])
            for mirror, case in others.items():
                case.error = case.in_words(failed[mirror])
            compare_mirrors(
                self._ends, {case: failed[one] for one, case in parted.items()}, deadline
            )
            # A loss is on record before anything else is: what the match adds is in other rows.
            lossy = [case for case in parted.values() if case.has_new_loss]
            self._put_ledgers(lossy)
            for case in lossy:
                case.losses_on_record = len(case.ledger.losses)
            left = {mirror: case for mirror, case in parted.items() if case.error is None}
            if not left:
                return
        for mirror, case in left.items():
            case.error = failed[mirror]

    def _read_sources(self, cases: list[Case]) -> None:
        """Read as much of the sources as there is to match."""
        needy = {one.source: one for one in cases if one.error is None and one.source_needed}
        starts = {source: case.match_start for source, case in needy.items()}
        with ExitStack() as stack:
            sift = self._sifting(stack) if needy else None

            def take(fetched: Fetched) -> bool:
                return needy[fetched.partition].take_source(sift(fetched) if sift else fetched)

            source = self._ends.source
            failed = read_each(source, starts, take, self._deadline, read_committed=True)
        for partition, failure in failed.items():
            needy[partition].error = failure

    def _sifting(self, stack: ExitStack) -> Callable[[Fetched], Fetched] | None:
        """Return what leaves out the batches that were not copied since links had brought them."""
        if self._policies.origin == "any":
            return None
        settings, inbound = self._ends.source.settings, self._policies.inbound
        provenance = stack.enter_context(closing(Provenance(settings, inbound)))

        def sift(fetched: Fetched) -> Fetched:
            ids = {header.producer_id for header, _ in fetched.batches}
            theirs = provenance.of_links(ids, self._deadline) if ids else set()
            kept = [one for one in fetched.batches if one[0].producer_id not in theirs]
            return replace(fetched, batches=kept)

        return sift

    # Ledgers

    def _put_ledgers(self, cases: list[Case]) -> None:
        """Put ledgers, all at once: the id is on record before its first batch."""
        ledgers = [(case.ledger, case.writer) for case in cases]
        failed = record(self._ends, ledgers, self._recording)
        for case in cases:
            case.error = failed.get(case.source)

    def _opened(self, case: Case) -> Opened | HeliographError:
        if case.error is not None:
            return case.error
        if self._stood_s:
            return stalled(case.source, self._stood_s)
        crash.point("C6")
        opened = Opened(case.source, case.mirror, case.claim, case.writer, case.ledger)
        if case.recorded is not None:
            opened.old_not_before_s = case.claimed_s + CLAIM_WAIT.total_seconds()
        opened.written_ms = clock.wall_ms() - int((clock.now_s() - case.claimed_s) * 1000)
        return opened


def _good(found: T | HeliographError) -> T:
    if isinstance(found, HeliographError):
        raise found
    return found
