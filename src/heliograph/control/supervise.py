"""Supervise: a link's life. Start its query, plan its leases, watch, restart, end.

One thread a link. Whatever heals is waited out: the link stays up while its clusters do not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from heliograph.control.bound import Bound, capture, count
from heliograph.control.dealing import Dealer
from heliograph.control.expiration import Expiration
from heliograph.control.group_watch import GroupWatch
from heliograph.control.lanes import Lanes
from heliograph.control.reconcile import Observed, Reconciler
from heliograph.control.running import Engine
from heliograph.control.voice import Progress, Voice
from heliograph.errors import ConfigError, EngineFailed, HeliographError, Superseded
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.transport import Loop
from heliograph.links.helm import Helm
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.model.blueprint import Ours
from heliograph.model.control import Driver, Wanted
from heliograph.model.findings import one_replica
from heliograph.model.leases import Job
from heliograph.model.names import ledger_topic, own_topics
from heliograph.model.selection import is_topic_name, matches, selection
from heliograph.model.slots import tasks_for
from heliograph.model.steering import Conditions, Course, active_parts, limit_of
from heliograph.model.topics import Partition

LEASE = timedelta(minutes=5)
_START_TIMEOUT = timedelta(seconds=30)
_REACH_TIMEOUT = timedelta(seconds=10)
_LOOK_TIMEOUT = timedelta(seconds=30)
_LOOK_AGAIN_S = 1.0
_TURN_S = 0.1
# A lease is not called in before all of its plan have begun, but a task may hang before it does.
_BEGIN_S = 60.0
# A task that the driver cannot reach ends by itself after this many lease lengths, and so does one
# that waits for its lease.
_MOST_LEASES = 2.0


@dataclass(frozen=True, slots=True)
class Terms:
    """How a link is run."""

    lease: timedelta = LEASE
    until_synced: bool = False
    links: int = 1
    cores: int = 1


class Supervisor:
    """Runs one link until it is stopped, taken over, or done; ``run`` is for its own thread."""

    def __init__(
        self,
        setup: Setup,
        terms: Terms,
        get_engine: Callable[[], Engine],
        say: Callable[[str], None],
    ) -> None:
        self._setup, self._terms = setup, terms
        self._get_engine = get_engine
        self._stop = threading.Event()
        self._loop = Loop()
        self._target = Cluster(setup.target_settings, setup.link.target, self._loop)
        self._helm = Helm(self._target, setup.link.name)
        self._reconciler = Reconciler(setup)
        self._groups = GroupWatch(setup, self._loop)
        self._expiration = Expiration(setup, self._helm)
        self._voice = Voice(setup.link.name, self._helm, say)
        self._observed = Observed()
        self._bound: Bound | None = None
        self._looking = False
        self._found: Observed | HeliographError | None = None
        self._looked_s = 0.0
        self._is_due = False
        self._reclaimed_s: dict[Partition, float] = {}

    @property
    def summary(self) -> Bound | None:
        """What a bounded run was to copy, and did."""
        return self._bound

    @property
    def is_turned(self) -> bool:
        """Claim: some topics are mirrored in the opposite direction by now. Any thread."""
        return self._helm.is_turned

    @property
    def driver(self) -> Driver:
        """Which driver of the link this is; of generation 0 until it has tried to become one."""
        return self._helm.driver

    @property
    def progress(self) -> Progress:
        """How the link gets on. Any thread."""
        return self._voice.progress

    def stop(self) -> None:
        """End in good order, soon: what is on its way lands, ledgers are written. Any thread."""
        self._stop.set()
        self._loop.wake()

    def run(self) -> None:
        """Run the link; return when it was stopped or is done, raise why it cannot go on."""
        with closing(self._loop), closing(self._reconciler), closing(self._groups):
            self._start()
            with closing(Lanes(self._get_engine(), self._job)) as self._lanes:
                self._dealer = Dealer(self._helm, self._lanes, self._course, self._voice.warn)
                while not self._stop.is_set() and not self._is_over():
                    self._step()
                self._end()

    # Start

    def _start(self) -> None:
        deadline = Deadline.after(_START_TIMEOUT)
        link = self._setup.link
        self._refuse_same_cluster(deadline.within(_REACH_TIMEOUT))
        with Admin(self._setup.target_settings, link.target) as admin:
            make_own_topics(admin, link.name, deadline)
        self._helm.take(deadline, is_bounded=self._terms.until_synced)
        own = own_topics(link.name)
        view = self._target.look(own, deadline)
        for found in one_replica(link.name, own, view.topics, len(view.brokers)):
            self._voice.note(f"{found.finding}. {found.remedy}")
        self._expiration.begin(deadline)
        self._course = Course(link.name, self._helm.generation)
        by = Deadline.after(_LOOK_TIMEOUT)
        self._observed = self._reconciler.look(self._helm.ours, self._helm.wanted, by)
        self._looked_s = clock.now_s()
        self._saw(self._observed)
        if self._terms.until_synced:
            before = self._count(deadline)
            parts = self._observed.parts
            self._bound = capture(self._setup, parts, self._left_out(), before, deadline)

    def _left_out(self) -> tuple[str, ...]:
        """Say what a bounded run cannot copy, though it is asked to: what is not there."""
        link, observed = self._setup.link, self._observed
        include, exclude = selection(self._helm.wanted, link.topics, link.exclude)
        absent = [
            f"{one}: there is no such topic on {link.source}"
            for one in include
            if is_topic_name(one) and one not in observed.topics and not matches(exclude, one)
        ]
        if not (absent or observed.topics or observed.errors):
            absent = [f"no topic of {link.source} matches {', '.join(include)}"]
        return (*observed.errors, *absent)

    def _refuse_same_cluster(self, deadline: Deadline) -> None:
        link = self._setup.link
        with Cluster(self._setup.source_settings, link.source) as source:
            there = source.describe([], deadline).cluster_id
        here = self._target.describe([], deadline).cluster_id
        if there == here and not link.allow_same_cluster:
            raise ConfigError(
                f"link {link.name}: {link.source} and {link.target} are the same cluster (id"
                f" {here}): the mirror would copy itself without end. Nothing was started. Name"
                " another cluster, or set naming and allow_same_cluster: true"
            )

    def _job(self, lane: int) -> Job:
        setup, course = self._setup, self._course
        return Job(
            setup.link.name,
            course.generation,
            setup.source,
            setup.target,
            setup.policies,
            lane,
            after=course.newest,
        )

    # Steps

    def _step(self) -> None:
        """Look, decide, act; what fails for a while is told and tried again."""
        try:
            self._helm.look()
            self._look_around()
            self._voice.synced(self._groups.step())
            self._steer()
            self._voice.report_if_due(self._observed, self._course)
        except (Superseded, ConfigError, EngineFailed):
            raise
        except HeliographError as trouble:
            self._voice.trouble(trouble)
        self._loop.turn(_TURN_S)

    def _steer(self) -> None:
        for lane, failure in self._lanes.mend():
            # Whoever copied there is gone, and what it left is for the next claim to find.
            self._course.lose(lane)
            self._voice.trouble(failure)
        course, wanted = self._course, self._wanted()
        if course.running is not None:
            self._dealer.close(course.running)
        if course.running is None:
            self._begin(wanted)
        elif not self._dealer.is_recalled:
            self._go_on(wanted)

    def _begin(self, wanted: Mapping[Partition, Partition]) -> None:
        """Deal out the next plan, if there is to be one."""
        if self._may_lower(wanted):
            self._expiration.end(Deadline.after(_START_TIMEOUT))
        lane = self._lanes.up(self._course.lane)
        if wanted and lane is not None and not self._is_over():
            plan = self._dealer.deal(wanted, self._conditions(wanted), lane)
            self._is_due = False
            self._voice.planned(plan, wanted)

    def _go_on(self, wanted: Mapping[Partition, Partition]) -> None:
        """End the running plan when it is due; where they can, its successors are seated first."""
        may_wait = self._may_wait(wanted)
        if may_wait and not self._lanes.are_ready and self._is_caught_up(wanted):
            self._lanes.other(self._course.lane)
        self._is_due = self._is_due or self._must_end(wanted, clock.now_s())
        if self._is_due and may_wait:
            self._dealer.turn_over(wanted, self._conditions(wanted))
        elif self._is_due:
            self._dealer.recall(self._course.number)

    def _wanted(self) -> dict[Partition, Partition]:
        wanted = self._active()
        if self._bound is None:
            return wanted
        left = self._bound.until.keys() - self._course.done
        return {source: mirror for source, mirror in wanted.items() if source in left}

    def _tasks(self, wanted: Collection[Partition]) -> int:
        limit, terms = self._setup.link.limits.tasks, self._terms
        asked = limit if isinstance(limit, int) else None
        return tasks_for(asked, len(wanted), self._lanes.slots, terms.links, terms.cores)

    def _conditions(self, wanted: Collection[Partition]) -> Conditions:
        return Conditions(
            self._tasks(wanted),
            self._terms.lease.total_seconds() * _MOST_LEASES,
            int(self._expiration.current.total_seconds() * 1000),
            self._bound.until if self._bound else None,
            self._limit,
            self._observed.beginning.begins,
            {source: self._helm.last_heard_of(source) for source in wanted},
            self._helm.source_heard_ms,
        )

    @property
    def _limit(self) -> int:
        return limit_of(self._helm.wanted, self._setup.link.limits.bytes_per_second)

    def _may_wait(self, wanted: Collection[Partition]) -> bool:
        """Claim: there will be a next plan, and room for its tasks beside those that copy."""
        tasks = self._tasks(wanted) * self._terms.links
        return bool(wanted) and self._bound is None and self._lanes.has_room(tasks)

    def _must_end(self, wanted: Mapping[Partition, Partition], now_s: float) -> bool:
        """Claim: the running plan must end, for its time is over or it is not what is wanted."""
        course = self._course
        if frozenset(wanted) != course.parts:
            return True
        over_s = now_s - self._dealer.planned_s - self._terms.lease.total_seconds()
        if over_s >= 0 and (over_s >= _BEGIN_S or self._has_begun()):
            return True
        if self._dealer.is_silent():
            return True
        if self._may_lower(wanted):
            return True
        if self._limit != course.bytes_per_second:
            return True
        return any(self._must_reclaim(source, now_s) for source in wanted)

    def _has_begun(self) -> bool:
        """Claim: every task of the running plan copies, as its reports tell.

        Where tasks take longer to start than a lease lasts, each would be called in before it has
        copied anything.
        """
        reports = map(self._helm.heard_of, self._course.parts)
        return all(one is not None and one.number == self._course.number for one in reports)

    def _may_lower(self, wanted: Collection[Partition]) -> bool:
        """Claim: the target's limit is raised, and there is no backlog any more."""
        return self._expiration.is_raised and bool(wanted) and self._is_caught_up(wanted)

    def _is_caught_up(self, wanted: Collection[Partition]) -> bool:
        """Claim: there is no backlog."""
        reports = map(self._helm.heard_of, wanted)
        return all(one is not None and 0 <= one.source_end <= one.source_next for one in reports)

    def _must_reclaim(self, source: Partition, now_s: float) -> bool:
        """Claim: a writer was fenced although no newer driver is known.

        A claim that died half-way does that, or somebody else who uses the link's transactional
        ids. Only the driver may claim again; once a minute at most, and it is told.
        """
        report = self._helm.heard_of(source)
        if report is None or report.error[:1] != ("superseded",):
            return False
        if report.number != self._course.number:
            return False
        if now_s - self._reclaimed_s.get(source, -60.0) < 60.0:
            return False
        self._reclaimed_s[source] = now_s
        self._voice.reclaims(source)
        return True

    # Discovery

    def _look_around(self) -> None:
        if self._found is not None:
            self._take(self._found)
            self._looking, self._found = False, None
        if not self._looking and self._bound is None and self._must_look():
            self._looking = True
            running = self._course.running is not None
            leased = {one.topic for one in self._course.parts} if running else set[str]()
            self._loop.start(partial(self._looked, self._helm.ours, self._helm.wanted, leased))

    def _must_look(self) -> bool:
        """Claim: it is time to, or somebody changed what is selected and is waiting for it."""
        every, waited_s = self._setup.link.sync.topics, clock.now_s() - self._looked_s
        if every is not None and waited_s >= every.total_seconds():
            return True
        wanted, before = self._helm.wanted, self._observed.wanted
        is_other = (wanted.added, wanted.removed) != (before.added, before.removed)
        is_other = is_other or self._helm.closed != self._observed.closed
        return is_other and waited_s >= _LOOK_AGAIN_S

    def _looked(self, ours: Ours, wanted: Wanted, leased: Collection[str]) -> Callable[[], None]:
        """Look at both ends, beside the loop: it may take a while."""
        found: Observed | HeliographError
        try:
            by = Deadline.after(_LOOK_TIMEOUT)
            found = self._reconciler.look(ours, wanted, by, leased)
        except HeliographError as trouble:
            found = trouble

        def tell() -> None:
            self._found, self._looked_s = found, clock.now_s()

        return tell

    def _take(self, found: Observed | HeliographError) -> None:
        """Go on with what was seen; where it cannot be noted now, this is tried again."""
        if isinstance(found, HeliographError):
            self._voice.trouble(found)
            return
        self._saw(found)
        # A topic that is gone stays, unless it was taken out, or its mirror is to go as well: its
        # partitions fault and say so.
        out = {one for one in self._observed.topics if matches(found.wanted.removed, one)}
        out |= found.gone
        parts_out = out | found.closed.keys()
        before = self._observed
        parts = {one: it for one, it in before.parts.items() if one.topic not in parts_out}
        topics = {one: it for one, it in before.topics.items() if one not in out}
        self._observed = replace(
            found, parts={**parts, **found.parts}, topics={**topics, **found.topics}
        )

    def _saw(self, found: Observed) -> None:
        """Note and tell what was seen and done, before anything follows from it."""
        begun, first = found.beginning.begun, found.beginning.first
        self._helm.note(found.made, found.deleted, begun, first, found.grants)
        self._voice.saw(found)

    # End

    def _is_over(self) -> bool:
        if self._helm.wanted.state == "stopped":
            return True
        if self._bound is None or self._course.running is not None:
            return False
        number = self._course.number
        return self._bound.is_over(self._done(), self._active(), self._helm.heard_of, number)

    def _done(self) -> set[Partition]:
        """Return what of a bounded run has arrived, or is its applications' by now."""
        assert self._bound is not None
        closed = {one for one in self._bound.until if one.topic in self._helm.closed}
        return self._course.done | closed

    def _active(self) -> dict[Partition, Partition]:
        return active_parts(self._observed.parts, self._helm.wanted, self._helm.closed)

    def _end(self) -> None:
        """Call everything in, wait for the receipts, and say that the link has stopped."""
        self._dealer.recall(self._course.newest)
        deadline = Deadline.after(_START_TIMEOUT)
        while self._course.running is not None and not deadline.passed:
            self._helm.look()
            self._dealer.close(self._course.running)
            self._loop.turn(_TURN_S)
        self._expiration.end(Deadline.after(_START_TIMEOUT))
        if self._bound is not None:
            after = self._count(Deadline.after(_START_TIMEOUT))
            self._bound.end(self._done(), self._active(), after, self._setup.link.name)
            self._voice.synced(self._groups.last())
        self._voice.stopped(self._observed)

    def _count(self, deadline: Deadline) -> tuple[int, int]:
        topic = ledger_topic(self._setup.link.name)
        return count(self._target, topic, self._observed.parts, deadline)
