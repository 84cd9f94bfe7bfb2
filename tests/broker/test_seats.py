"""Seats and leases on a real broker: what tasks hear in the control topic, and what ends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.copy import standstill
from heliograph.copy.lease import work
from heliograph.copy.seats import SeatsWatch
from heliograph.copy.watch import Watch
from heliograph.errors import Stalled
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.model.control import (
    DRIVER,
    RECALL,
    Driver,
    PartReport,
    Plan,
    Recall,
    Seats,
    are_taken,
    batches_of,
    part_key,
    plan_rows,
    read,
    row,
    seats_key,
)
from heliograph.model.leases import Access, Job, Known, Lease, Part, Receipt, Seat
from heliograph.model.names import control_topic, own_topics, state_topic
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import produce
from tests.making import create_topic

SEAT = Seat(generation=3, number=7, index=1, most_s=5.0)


class Control:
    """A link's control topic, and a task that watches it from its beginning."""

    def __init__(self, cluster: Cluster, job: Job) -> None:
        self.job = job
        self._cluster = cluster
        self._table = Table(cluster, control_topic(job.link))
        cluster.describe(own_topics(job.link), within(10))
        self.watch = Watch(cluster, job, SEAT, 0)

    def put(self, rows: dict[bytes, bytes | None]) -> None:
        self._table.put(rows, within(10))
        self.watch.catch_up(within(10))

    def plan(self, number: int, leases: int, generation: int = 3) -> list[Lease]:
        plan = Plan(generation, number, leases)
        made = [
            Lease(self.job.link, generation, number, index, 60.0, 86_400_000, ())
            for index in range(leases)
        ]
        self.put(plan_rows(plan, made, {}))
        return made


@pytest.fixture
def job(target: Any, link_name: str) -> Job:
    access = Access("target", target.client_properties(), allow_literal_secrets=True)
    return Job(link_name, SEAT.generation, access, access)


@pytest.fixture
def control(target: Any, job: Job) -> Iterator[Control]:
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        yield Control(cluster, job)


def test_a_task_hears_its_own_lease_of_its_own_plan(control: Control) -> None:
    control.plan(number=6, leases=2)
    assert (control.watch.lease, control.watch.why) == (None, "")
    leases = control.plan(number=7, leases=2)
    assert (control.watch.lease, control.watch.why) == (leases[SEAT.index], "")


def test_a_lease_over_several_rows_is_heard_whole_once_its_plan_is_there(control: Control) -> None:
    places = [Partition("t" * 200, number) for number in range(3000)]
    parts = tuple(Part(one, one) for one in places)
    link = control.job.link
    lease = Lease(link, 3, SEAT.number, SEAT.index, 60.0, 86_400_000, parts)
    *before, last = batches_of(plan_rows(Plan(3, SEAT.number, 2), [lease], {}), 1 << 18)
    assert len(before) > 1
    for batch in before:
        control.put(batch)
        assert (control.watch.lease, control.watch.why) == (None, "")
    control.put(last)
    assert control.watch.lease == lease


def test_a_plan_of_fewer_leases_leaves_a_seat_without_one(control: Control) -> None:
    control.plan(number=6, leases=2)
    control.plan(number=7, leases=1)
    assert control.watch.lease is None
    assert "no lease for this seat" in control.watch.why


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (RECALL, Recall(3, 7), "recalled"),
        (RECALL, Recall(3, 8), "recalled"),
        (DRIVER, Driver(4, "elsewhere:1", 0), "another driver took over: elsewhere:1"),
        (seats_key(0), Seats(3, 8, 0, 1, 5.0), "there are newer seats"),
    ],
)
def test_what_ends_a_task(control: Control, key: bytes, value: Any, why: str) -> None:
    control.put({key: row(value)})
    assert control.watch.why == why


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (RECALL, Recall(3, 6)),
        (RECALL, Recall(2, 9)),
        (DRIVER, Driver(3, "here:1", 0)),
        (seats_key(0), Seats(3, 7, 0, 2, 5.0)),
        (seats_key(1), Seats(3, 8, 1, 2, 5.0)),
    ],
)
def test_what_is_meant_for_others_ends_no_task(control: Control, key: bytes, value: Any) -> None:
    control.put({key: row(value)})
    assert control.watch.why == ""


def test_a_newer_plan_ends_a_task(control: Control) -> None:
    control.plan(number=8, leases=2)
    assert control.watch.why == "there is a newer plan"


def test_seats_are_handed_out_once_and_only_those_of_the_lane(control: Control) -> None:
    with closing(SeatsWatch(control.job)) as watch:
        assert watch.newest(0) is None
        control.put({seats_key(1): row(Seats(3, 1, 1, 1, 5.0))})
        assert watch.newest(0) is None
        seats = Seats(3, 2, 0, 1, 5.0)
        control.put({seats_key(0): row(seats)})
        assert watch.newest(0) == seats
        assert watch.newest(2) is None
        control.put({seats_key(0): row(Seats(2, 9, 0, 1, 5.0))})  # of an earlier driver
        assert watch.newest(2) is None


def test_a_task_says_that_it_waits_and_gives_its_seat_up_in_time(job: Job, target: Any) -> None:
    seat = Seat(SEAT.generation, SEAT.number, index=0, most_s=0.5)
    assert work(job, seat, attempt=0, control_offset=0) is None
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        rows = Table(cluster, state_topic(job.link)).load(within(10))
    assert are_taken(rows, Seats(seat.generation, seat.number, 0, 1, 5.0))
    assert not are_taken(rows, Seats(seat.generation, seat.number, 0, 2, 5.0))
    assert not are_taken(rows, Seats(seat.generation, seat.number + 1, 0, 1, 5.0))


def test_a_task_that_stood_still_at_its_seat_fails(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstill, "is_stall", lambda *_: True)
    with pytest.raises(Stalled):
        work(job, SEAT, attempt=0, control_offset=0)


def test_a_task_does_not_begin_anew_what_was_reported_and_has_no_ledger(
    job: Job, target: Any, topic_name: str
) -> None:
    """A shared mirror, of which a report is left and no ledger: it may hold every record."""
    here, mirror = Partition(topic_name, 0), Partition(f"{topic_name}.mirror", 0)
    for topic in (here.topic, mirror.topic):
        create_topic(target.bootstrap, topic)
    shared = replace(job, policies=Policies(is_shared=True))
    part = Part(here, mirror, until=0, known=Known(source_end=9, source_next=5))
    lease = Lease(job.link, SEAT.generation, SEAT.number, 0, 30.0, 86_400_000, (part,))
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        cluster.describe(own_topics(job.link), within(10))
        rows = plan_rows(Plan(SEAT.generation, SEAT.number, 1), [lease], {})
        Table(cluster, control_topic(job.link)).put(rows, within(10))
    receipt = work(shared, replace(SEAT, index=0), attempt=0, control_offset=0)
    assert receipt is not None
    code, message = receipt.parts[0].error
    assert code == "ledger-unfit" and "has copied records" in message


def test_a_topic_that_brokers_do_not_know_yet_is_copied_by_the_same_lease_once_they_do(
    job: Job, target: Any, topic_name: str
) -> None:
    """A broker that makes thousands of partitions learns of the next topic much later."""
    here, mirror = Partition(topic_name, 0), Partition(f"{topic_name}.mirror", 0)
    create_topic(target.bootstrap, mirror.topic)
    lease = Lease(job.link, 3, 7, 0, 60.0, 86_400_000, (Part(here, mirror, until=2),))
    found: list[Receipt | None] = []
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        cluster.describe(own_topics(job.link), within(10))
        rows = plan_rows(Plan(3, 7, 1), [lease], {})
        Table(cluster, control_topic(job.link)).put(rows, within(10))
        seat = replace(SEAT, index=0)
        task = Thread(
            target=lambda: found.append(work(job, seat, attempt=0, control_offset=0)), daemon=True
        )
        task.start()
        state, over = Table(cluster, state_topic(job.link)), within(30)
        state.load(over)
        while True:
            report = read(state.rows, part_key(here), PartReport)
            if report is not None and report.error:
                break
            assert not over.passed
            state.follow(within(0.5))
        assert report.error[0] == "topic-missing" and report.again_ms > 0
        create_topic(target.bootstrap, topic_name)
        produce(target.bootstrap, topic_name, [b"a", b"b"])
        task.join(40)
    assert found and found[0] is not None, found
    (part,) = found[0].parts
    assert part.is_done and part.records == 2
