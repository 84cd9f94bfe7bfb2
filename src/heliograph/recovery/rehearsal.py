"""The rehearsal of a drill: copy a sample, kill the copier, fail over, read as a group would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from heliograph.kafka import clock, crash
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import Record
from heliograph.kafka.tables import Table
from heliograph.kafka.transport import Loop
from heliograph.links.books import BooksReader
from heliograph.links.state_rows import put_state
from heliograph.model.checkpoints import Checkpoint, Place, checkpoint_key, place_key
from heliograph.model.clocks import age_s
from heliograph.model.control import (
    LINK,
    LinkReport,
    PartReport,
    Plan,
    part_key,
    plan_rows,
    read_passing,
    row,
)
from heliograph.model.drills import LONGEST, Mark, Outcome, Sampled
from heliograph.model.findings import some
from heliograph.model.leases import Begin, Lease, Part, Seat
from heliograph.model.ledger import Ledger
from heliograph.model.names import control_topic, scratch_group
from heliograph.model.topics import Partition
from heliograph.recovery.command import LOOK_TIMEOUT, Options, Report
from heliograph.recovery.failover import failover
from heliograph.recovery.sampling import Sample
from heliograph.recovery.scene import read_ledgers
from heliograph.recovery.scratch import make
from heliograph.recovery.victim import Victim
from heliograph.recovery.witness import First, Missing, count_missing, read_first, read_source

_MAKE_TIMEOUT = timedelta(seconds=60)
_READ_TIMEOUT = timedelta(seconds=30)
_LOOK_S = 0.2
# One driver, one plan, one lease: nobody else ever plans for a scratch link.
_GENERATION, _NUMBER = 1, 1
# Kafka's own default. Nobody wrote these mirrors before, so there is no late request to fear.
_EXPIRATION_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What was measured."""

    outcomes: tuple[Outcome, ...]
    failover_seconds: float
    steps: tuple[str, ...]
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Measured:
    """What each moment adds: source ends at the kill, times, and what stood on the target then."""

    ends: Mapping[Partition, int] = field(default_factory=dict)
    killed_ms: int = 0
    began_s: float = 0.0
    committed: Mapping[Partition, int] = field(default_factory=dict)
    firsts: Mapping[Partition, First] = field(default_factory=dict)
    held: Mapping[Partition, First] = field(default_factory=dict)
    ledgers: Mapping[Partition, Ledger] = field(default_factory=dict)
    missing: Mapping[Partition, Missing] = field(default_factory=dict)


class Rehearsal:
    """One rehearsal. For one thread; whoever calls removes the scratch link, whatever happens."""

    def __init__(
        self,
        sample: Sample,
        copy_for: timedelta,
        within: timedelta,
        has_hooks: bool,
        say: Callable[[str], None],
    ) -> None:
        self._sample, self._setup, self._say = sample, sample.scratch, say
        self._copy_for, self._within, self._has_hooks = copy_for, within, has_hooks
        self._parts = {one.source: one for one in sample.parts}
        self._group = scratch_group(sample.scratch.link.name)
        self._findings: list[str] = []
        self._seen = _Measured()

    def run(self, mark: Mark) -> Rehearsed:
        """Take every step of it."""
        sample, seen = self._sample, self._seen
        self._say(f"making {len(sample.names)} scratch topics on {self._setup.link.target} …")
        scratch = {sample.mirrors[topic]: name for topic, name in sample.names.items()}
        notes = make(self._setup, mark, scratch, sample.shapes, Deadline.after(_MAKE_TIMEOUT))
        crash.point("D-made")
        with self._clusters() as (source, target):
            self._copy(source, target)
            self._say("failing over, without the source …")
            seen.began_s = clock.now_s()
            options = Options(
                sample.by, has_hooks=self._has_hooks, rehearses=self._sample.rehearses
            )
            report = failover(self._setup, options, self._say)
            report.raise_failed()
            self._read_as_group(target)
            crash.point("D-read")
            self._compare(source, target)
        outcomes = tuple(self._outcome(one, report) for one in sample.parts)
        seconds = report.seconds or 0.0
        return Rehearsed(outcomes, seconds, report.steps, tuple(self._findings), tuple(notes))

    @contextmanager
    def _clusters(self) -> Iterator[tuple[Cluster, Cluster]]:
        link, loop = self._setup.link, Loop()
        try:
            yield (
                Cluster(self._setup.source_settings, link.source, loop),
                Cluster(self._setup.target_settings, link.target, loop),
            )
        finally:
            loop.close()

    # Copying

    def _copy(self, source: Cluster, target: Cluster) -> None:
        """Copy the sample and what comes after it, and stop dead."""
        self._deal(target)
        seat = Seat(_GENERATION, _NUMBER, 0, LONGEST.total_seconds())
        with Victim(self._setup, seat) as victim:
            self._say(f"copying a sample of {len(self._parts)} partitions …")
            self._await_sample(victim, target)
            self._put_group(target)
            crash.point("D-copying")
            over = Deadline.after(self._copy_for)
            while not over.passed:
                victim.check()
                time.sleep(min(over.left_s, _LOOK_S))
            source.look({one.topic for one in self._parts}, Deadline.after(LOOK_TIMEOUT))
            victim.check()
            victim.kill()
            self._seen.killed_ms = clock.wall_ms()
        wanted, deadline = dict.fromkeys(self._parts, LATEST), Deadline.after(LOOK_TIMEOUT)
        self._seen.ends = list_offsets(source, wanted, deadline, read_committed=True)
        self._say("the copying was killed")

    def _deal(self, target: Cluster) -> None:
        """Deal the one lease out, and say of the link what its driver would."""
        link, sample = self._setup.link, self._sample
        topics = sample.source.topics
        lease = Lease(
            link.name,
            _GENERATION,
            _NUMBER,
            0,
            LONGEST.total_seconds(),
            _EXPIRATION_MS,
            tuple(
                Part(
                    one.source,
                    one.mirror,
                    begin=Begin(str(topics[one.source.topic].topic_id), one.begin),
                )
                for one in sample.parts
            ),
            sample.bytes_per_second,
        )
        now_ms = clock.wall_ms()
        report = LinkReport(
            "ACTIVE", now_ms, now_ms, _GENERATION, sample.by, len(self._parts), sample.names
        )
        deadline = Deadline.after(LOOK_TIMEOUT)
        put_state(target, link.name, {LINK: row(report)}, deadline)
        rows = plan_rows(Plan(_GENERATION, _NUMBER, 1), [lease], {})
        Table(target, control_topic(link.name)).put(rows, deadline)

    def _await_sample(self, victim: Victim, target: Cluster) -> None:
        """Wait until the ledgers hold the sample; where that takes too long, say what is late."""
        reader, over = BooksReader(self._setup, target), Deadline.after(self._within)
        while True:
            books = reader.read(Deadline.after(LOOK_TIMEOUT))
            ledgers = read_ledgers(books, self._parts)
            late = [
                one.source
                for one in self._sample.parts
                if one.source not in ledgers or ledgers[one.source].source_next < one.end
            ]
            if not late:
                return
            if over.passed:
                break
            victim.check()
            time.sleep(_LOOK_S)
        reports = {one: read_passing(books.state, part_key(one), PartReport) for one in late}
        faults = {": ".join(one.error) for one in reports.values() if one and one.error}
        self._findings.append(
            f"the sample of {len(late)} partitions was not copied within"
            f" {self._within.total_seconds():.0f} s: {some(map(str, late))}"
            + "".join(f"; {one}" for one in sorted(faults))
        )

    def _put_group(self, target: Cluster) -> None:
        """Put what the sync of groups would have stored of one on the source."""
        places = {place_key(one.source): Place(one.place) for one in self._sample.parts}
        rows = {checkpoint_key(self._group): row(Checkpoint(clock.wall_ms(), places))}
        put_state(target, self._setup.link.name, rows, Deadline.after(LOOK_TIMEOUT))

    # Reading

    def _read_as_group(self, target: Cluster) -> None:
        """Ask where the group goes on, and read its first record in every partition."""
        deadline, seen = Deadline.after(_READ_TIMEOUT), self._seen
        with Admin(self._setup.target_settings, self._setup.link.target) as admin:
            found = admin.groups.committed([self._group], deadline).get(self._group, {})
        mirrors = {one.mirror for one in self._sample.parts}
        seen.committed = {one: at.offset for one, at in found.items() if one in mirrors}
        ends = list_offsets(target, dict.fromkeys(seen.committed, LATEST), deadline)
        seen.firsts = read_first(target, seen.committed, ends, deadline)

    def _compare(self, source: Cluster, target: Cluster) -> None:
        """Read on the source what the group should have read, and what did not arrive."""
        deadline, seen = Deadline.after(_READ_TIMEOUT), self._seen
        books = BooksReader(self._setup, target).read(deadline)
        seen.ledgers = read_ledgers(books, self._parts)
        places = {one.source: one.place for one in self._sample.parts}
        seen.held = read_source(self._setup, source, places, seen.ends, deadline)
        arrived = {one: self._arrived(one) for one in self._parts}
        unmatched = {one: _unmatched(ledger) for one, ledger in seen.ledgers.items()}
        seen.missing = count_missing(self._setup, source, arrived, unmatched, seen.ends, deadline)

    def _arrived(self, source: Partition) -> int:
        """Return the source offset up to which everything is on record."""
        ledger = self._seen.ledgers.get(source)
        return max(ledger.source_next if ledger else 0, self._parts[source].begin)

    def _outcome(self, one: Sampled, report: Report) -> Outcome:
        seen, ledger = self._seen, self._seen.ledgers.get(one.source)
        missing, first = seen.missing[one.source], seen.firsts.get(one.mirror)
        seconds = age_s(missing.oldest_ms, seen.killed_ms) if missing.records else 0.0
        has_read = first is not None and first.record is not None
        return Outcome(
            one,
            ledger.records + _unmatched(ledger) if ledger else 0,
            missing.records,
            seconds,
            seen.committed.get(one.mirror),
            round(first.at_s - seen.began_s, 3) if first is not None and has_read else None,
            self._finding(one, first, report),
        )

    def _finding(self, one: Sampled, first: First | None, report: Report) -> str | None:
        """Return what is wrong with where the group goes on, None if it is exact."""
        where = f"{self._group}, at offset {one.place} of {one.source} on the source,"
        if first is None:
            rows = [found for found in report.groups if _is_of(found, one.source)]
            why = rows[0]["why"] if rows else "nobody looked at it"
            return f"{where} was not moved: {why}"
        at, held = self._seen.committed[one.mirror], self._seen.held[one.source].record
        if first.record is None:
            if held is None or held.offset >= self._arrived(one.source):
                return None  # there is nothing to read, or it did not arrive
            return f"{where} finds nothing to read at {at} of {one.mirror}, and should"
        differs = _differences(held, first.record)
        if not differs:
            return None
        return f"{where} goes on at another record, {at} of {one.mirror}: {differs}"


def _is_of(found: Mapping[str, object], source: Partition) -> bool:
    return (found["topic"], found["partition"]) == source


def _unmatched(ledger: Ledger) -> int:
    return max(ledger.closing.unmatched, 0) if ledger.closing else 0


def _differences(held: Record | None, read: Record) -> str:
    """Name what differs, never the content; empty where both are the same."""
    if held is None:
        return "the source holds none in that place"
    fields = ("key", "value", "timestamp", "headers")
    differ = [name for name in fields if getattr(held, name) != getattr(read, name)]
    return f"it differs from offset {held.offset} in {', '.join(differ)}" if differ else ""
