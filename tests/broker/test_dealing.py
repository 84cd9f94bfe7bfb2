"""The driver's dealing on a real broker, with tasks and queries that a test plays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.control.dealing import Dealer
from heliograph.control.lanes import Lanes
from heliograph.errors import EngineFailed, Superseded
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.links.helm import Helm
from heliograph.model.control import (
    Heard,
    Plan,
    batches_of,
    heard_key,
    read_leases,
    receipt_rows,
    row,
    seat_key,
)
from heliograph.model.leases import Access, HandOver, Job, Lease, PartReceipt, Receipt, Seat
from heliograph.model.steering import Conditions, Course
from heliograph.model.topics import Partition

Parts = dict[Partition, Partition]
PARTS: Parts = {one: one for one in (Partition("t", number) for number in range(4))}
CONDITIONS = Conditions(tasks=2, most_s=600.0, expiration_ms=86_400_000)
HANDED = HandOver("id", 1, 2, 3, 4, 5, claimed_ms=1 << 50, newest_ms=0, rows={})


class Ahead:
    """The clock of this machine, moved by hand."""

    by_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.by_s

    def time(self) -> float:
        return time.time() + self.by_s


class PlayedQuery:
    """A query with a task that hangs: it ends when the test lets it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.failure: EngineFailed | None = None
        self.is_idle = False
        self.is_asked_to_end, self.may_end = threading.Event(), threading.Event()

    def stop(self) -> None:
        self.is_asked_to_end.set()
        assert self.may_end.wait(20)


class PlayedEngine:
    """Starts nothing, and keeps what it was asked for."""

    slots, is_local = 8, True

    def __init__(self) -> None:
        self.queries: list[PlayedQuery] = []
        self.may_start = threading.Event()
        self.may_start.set()

    def start(self, job: Job) -> PlayedQuery:
        assert self.may_start.wait(20)
        self.queries.append(PlayedQuery(job))
        return self.queries[-1]


class Dealing:
    """A driver's dealer, and the tasks that it deals to."""

    def __init__(self, helm: Helm, link: str) -> None:
        self.helm, self.engine, self.told = helm, PlayedEngine(), list[str]()
        self.course = Course(link, helm.generation)
        access = Access("c", {})
        self.lanes = Lanes(
            self.engine,
            lambda lane: Job(link, helm.generation, access, access, lane=lane, after=self.newest),
        )
        self.dealer = Dealer(helm, self.lanes, self.course, self.told.append)

    @property
    def newest(self) -> int:
        return self.course.newest

    def deal(self, parts: Parts = PARTS) -> tuple[Plan, list[Lease]]:
        lane = self.lanes.up(self.course.lane)
        assert lane is not None
        plan = self.dealer.deal(parts, CONDITIONS, lane)
        self.helm.control.catch_up(within(10))
        return plan, read_leases(self.helm.control.rows, plan)

    def start_other(self) -> None:
        lane, deadline = self.lanes[self.lanes.other(self.course.lane)], within(10)
        while not lane.is_up:
            assert not deadline.passed and not list(self.lanes.mend())

    def tell(self, key: bytes, value: Any) -> None:
        self.helm.report({key: row(value)})
        self.helm.state.catch_up(within(10))

    def take_seats(self) -> None:
        seats = self.course.seats
        assert seats is not None
        for index in range(seats.count):
            seat = Seat(seats.generation, seats.number, index, seats.most_s)
            self.tell(seat_key(index), seat)

    def put_receipt(self, lease: Lease, handed: HandOver = HANDED) -> None:
        parts = tuple(PartReceipt(one.source, 5, 5, 5, handed=handed) for one in lease.parts)
        receipt = Receipt(lease.generation, lease.number, lease.index, 0, 1.0, parts)
        for rows in batches_of(receipt_rows(receipt)):
            self.helm.report(rows)
        self.helm.state.catch_up(within(10))


@pytest.fixture
def take(target: Any, link_name: str) -> Iterator[Callable[[], Dealing]]:
    """Makes drivers of one link; the last has its helm."""
    with ExitStack() as stack:

        def made() -> Dealing:
            settings = parse("target", target.client_properties())
            helm = Helm(stack.enter_context(Cluster(settings, "target")), link_name)
            helm.take(within(20))
            return Dealing(helm, link_name)

        dealings: list[Dealing] = []

        def kept() -> Dealing:
            dealings.append(made())
            return dealings[-1]

        yield kept
        for query in [query for one in dealings for query in one.engine.queries]:
            query.may_end.set()


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    moved = Ahead()
    with clock.moved_by(moved):
        yield moved


def test_a_task_that_hangs_holds_no_other_up_after_a_recall(
    take: Callable[[], Dealing], ahead: Ahead
) -> None:
    dealing = take()
    plan, (answers, hangs) = dealing.deal()
    (query,) = dealing.engine.queries
    dealing.put_receipt(answers)
    ahead.by_s = 100
    dealing.dealer.close(plan)
    assert dealing.course.running == plan, "it was not recalled"
    dealing.dealer.recall(plan.number)
    ahead.by_s += 14
    dealing.dealer.close(plan)
    assert dealing.course.running == plan, "it has still time to answer"
    ahead.by_s += 2
    dealing.dealer.close(plan)
    assert dealing.course.running is None
    (words,) = dealing.told
    assert f"task {hangs.index} of plan {plan.number} has not answered within 15 s" in words

    # Its query is ended beside the loop; until it has ended there is no lane for the next plan.
    assert query.is_asked_to_end.wait(10)
    assert not list(dealing.lanes.mend()) and dealing.lanes.up(0) is None
    query.may_end.set()
    deadline = within(10)
    while dealing.lanes.up(0) is None:
        assert not deadline.passed and not list(dealing.lanes.mend())
    assert dealing.engine.queries[1].job.after == plan.number

    _, leases = dealing.deal()
    handed = {part.source for lease in leases for part in lease.parts if part.handed}
    assert handed == {part.source for part in answers.parts}, "the others are claimed"


def test_the_plan_after_one_that_hangs_goes_to_the_other_query(
    take: Callable[[], Dealing], ahead: Ahead
) -> None:
    dealing = take()
    plan, _ = dealing.deal()
    dealing.start_other()
    dealing.dealer.turn_over(PARTS, CONDITIONS)
    dealing.take_seats()
    dealing.dealer.turn_over(PARTS, CONDITIONS)
    assert dealing.dealer.is_recalled
    ahead.by_s += 16
    dealing.dealer.close(plan)
    second, leases = dealing.deal()
    assert (dealing.course.lane, len(leases)) == (1, 2)
    # The first one is not up yet, and gets no seats; the leases come in all the same.
    dealing.dealer.turn_over(PARTS, CONDITIONS)
    assert dealing.dealer.is_recalled and dealing.course.seats is None
    for lease in leases:
        dealing.put_receipt(lease)
    dealing.dealer.close(second)
    assert dealing.course.handed.keys() == PARTS.keys()


def test_a_query_whose_tasks_do_not_start_is_restarted_and_holds_nothing_up(
    take: Callable[[], Dealing], ahead: Ahead
) -> None:
    dealing = take()
    plan, leases = dealing.deal()
    dealing.start_other()
    dealing.dealer.turn_over(PARTS, CONDITIONS)
    ahead.by_s += 9
    dealing.dealer.turn_over(PARTS, CONDITIONS)
    assert not dealing.dealer.is_recalled, "it has still time to start"
    ahead.by_s += 2
    dealing.dealer.turn_over(PARTS, CONDITIONS)
    assert dealing.dealer.is_recalled and "did not start within 10 s" in dealing.told[0]
    assert dealing.engine.queries[1].is_asked_to_end.wait(10)
    for lease in leases:
        dealing.put_receipt(lease)
    dealing.dealer.close(plan)
    _, leases = dealing.deal()
    assert dealing.course.lane == 0
    assert all(part.handed for lease in leases for part in lease.parts)


def test_a_query_that_does_not_start_holds_nothing_up(
    take: Callable[[], Dealing], ahead: Ahead
) -> None:
    dealing = take()
    dealing.deal()
    dealing.engine.may_start.clear()
    for _ in range(2):
        dealing.dealer.turn_over(PARTS, CONDITIONS)
        assert not dealing.dealer.is_recalled, "who copies goes on while the other query starts"
        assert not list(dealing.lanes.mend())
        ahead.by_s += 61
    ((lane, failure),) = dealing.lanes.mend()
    assert lane == 1 and "not started the query within 120 s" in str(failure)
    dealing.dealer.turn_over(PARTS, CONDITIONS)
    assert dealing.dealer.is_recalled, "nor does it wait for its next try"

    # Should it start after all, it is ended at once.
    dealing.engine.may_start.set()
    deadline = within(10)
    while len(dealing.engine.queries) < 2:
        assert not deadline.passed
    assert dealing.engine.queries[1].is_asked_to_end.wait(10)


def test_a_task_that_fell_silent_is_noticed_while_its_lease_is_out(
    take: Callable[[], Dealing], ahead: Ahead
) -> None:
    dealing = take()
    plan, leases = dealing.deal()

    def pulse(index: int, number: int = plan.number) -> None:
        now_ms = clock.wall_ms()
        heard = Heard(plan.generation, number, now_ms, now_ms)
        dealing.tell(heard_key(index), heard)

    pulse(0, plan.number - 1)
    ahead.by_s += 29
    assert not dealing.dealer.is_silent(), "it may still begin"
    pulse(0)
    pulse(1)
    assert not dealing.dealer.is_silent()
    for _ in range(3):
        ahead.by_s += 20
        pulse(0)
        pulse(1)
        assert not dealing.dealer.is_silent()
    ahead.by_s += 31
    pulse(0)
    assert dealing.dealer.is_silent()
    dealing.put_receipt(leases[1])
    assert not dealing.dealer.is_silent(), "it has ended"


def test_a_task_that_never_begins_is_noticed_and_given_more_time_by_the_next_plan(
    take: Callable[[], Dealing], ahead: Ahead
) -> None:
    dealing = take()
    plan, _ = dealing.deal()
    ahead.by_s += 31
    assert dealing.dealer.is_silent()
    dealing.dealer.recall(plan.number)
    ahead.by_s += 16
    dealing.dealer.close(plan)
    assert all("never reported" in words for words in dealing.told) and len(dealing.told) == 2
    dealing.engine.queries[0].may_end.set()
    deadline = within(10)
    while dealing.lanes.up(0) is None:
        assert not deadline.passed and not list(dealing.lanes.mend())
    dealing.deal()
    ahead.by_s += 59
    assert not dealing.dealer.is_silent()
    ahead.by_s += 2
    assert dealing.dealer.is_silent()


def test_thousands_of_partitions_hand_over_full_segments(take: Callable[[], Dealing]) -> None:
    """Each segment is about 7 KB, and brokers take 16 MB in a batch: 18 MB in all."""
    dealing = take()
    parts = {one: one for one in (Partition("t", number) for number in range(2600))}
    segment = f"[{','.join(['[1234567890,1234567890,12]'] * 256)}]"
    handed = replace(HANDED, rows={"t/0": "{}", "t/0/7": segment})
    plan, leases = dealing.deal(parts)
    for lease in leases:
        dealing.put_receipt(lease, handed)
    dealing.dealer.close(plan)
    _, leases = dealing.deal(parts)
    found = [part for lease in leases for part in lease.parts]
    assert {part.source for part in found} == parts.keys()
    assert all(part.handed == handed for part in found)


def test_what_could_not_be_put_hands_nothing_over_and_leaves_no_plan(
    take: Callable[[], Dealing],
) -> None:
    dealing = take()
    plan, leases = dealing.deal()
    for lease in leases:
        dealing.put_receipt(lease)
    dealing.start_other()
    take()  # fences it
    with pytest.raises(Superseded):
        dealing.dealer.turn_over(PARTS, CONDITIONS)
    assert dealing.course.seats is None
    dealing.dealer.close(plan)
    assert dealing.course.handed
    with pytest.raises(Superseded):
        dealing.deal()
    # Tasks may have read it all the same: nothing of it is given to anybody else.
    assert (dealing.course.running, dealing.course.seats, dealing.course.handed) == (None, None, {})
