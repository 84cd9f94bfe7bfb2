"""What a task reports of its source, and what a failover makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from heliograph.cli.app import run
from heliograph.copy.opening import Ends
from heliograph.copy.reports import Reports
from heliograph.copy.stream import Stream
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.model.control import Heard, PartReport, heard_key, part_key, read
from heliograph.model.leases import NOTHING_KNOWN, Known, Lease, Part
from heliograph.model.names import ledger_topic, state_topic
from heliograph.model.topics import Partition
from tests.broker.linked import opened_one, produce, step_until, streaming, within
from tests.broker.links import link_report, make_link
from tests.broker.recovering import Make, lose_source, numbers, recover
from tests.doubles.behind import Behind
from tests.making import create_topic


def is_apart(heard: Heard) -> bool:
    return heard.listened_ms - heard.at_ms >= 2000


class Task:
    """Copies one partition and reports of it, as a task does."""

    def __init__(self, link: Ends, here: Partition, known: Known = NOTHING_KNOWN) -> None:
        self._link, self._here = link, here
        self.stream: Stream = streaming(link, opened_one(link, here))
        link.target.describe([state_topic(link.link)], within(20))
        lease = Lease(link.link, 1, 1, 0, 60.0, 86_400_000, (Part(here, here, known=known),))
        self.reports = Reports(link.source, link.target, lease)
        self._rows = Table(link.target, state_topic(link.link))
        self._rows.load(within(20))

    def work_until(self, met: Callable[[PartReport, Heard], bool]) -> None:
        """Copy and report until the rows say something."""

        def is_met() -> bool:
            self.reports.tell_if_due(self.stream, {})
            self._rows.follow(within(0.01))
            report = read(self._rows.rows, part_key(self._here), PartReport)
            heard = read(self._rows.rows, heard_key(0), Heard)
            return report is not None and heard is not None and met(report, heard)

        step_until(self.stream, is_met)


@contextmanager
def hung_transaction(cluster: Any, here: Partition) -> Iterator[None]:
    """Leave a transaction of one record open."""
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": here.topic}
    producer = Producer(settings)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(here.topic, b"perhaps", partition=here.partition)
    assert producer.flush(20) == 0
    yield
    producer.abort_transaction(20)


def test_what_lies_behind_a_hung_transaction_has_not_arrived(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 60s}")
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    task = Task(link.ends, here)
    link.link.report(link_report(topics={topic_name: topic_name}, partitions=1), {})
    with hung_transaction(link.source, here):
        produce(link.source.bootstrap, topic_name, numbers(10, 15))
        task.work_until(lambda report, _: (report.source_next, report.log_end) == (10, 16))
        task.stream.close()
        # What a reader of committed records could read has arrived: there is no lag.
        assert run(link.link.words("status", "-o", "json")) == 0
        assert '"lag_records": 0' in capsys.readouterr().out
        lose_source(link)
        found = recover(link, capsys, "failover", "--yes")
    assert (found["missing_records"], found["unknown_partitions"]) == (6, 0)
    assert 0 <= found["rpo_seconds"] < 60


def test_a_task_that_has_heard_nothing_yet_forgets_no_transaction(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    task = Task(link.ends, here, Known(10, 10, 5, log_end=16, whole_ms=4))
    over, found = within(20), None
    while found is None:
        assert not over.passed
        task.reports.tell_if_due(task.stream, {})
        link.ends.target.loop.turn(0.1)
        found = read(link.state(), part_key(here), PartReport)
    task.stream.close()
    assert (found.source_end, found.log_end, found.whole_ms) == (10, 16, 4)


def test_a_task_that_reads_nothing_says_that_it_lives(make: Make, topic_name: str) -> None:
    link = make()
    here = link.make(topic_name)
    task = Task(link.ends, here)
    task.stream.drop(here)  # its only partition has failed, or is being opened
    over, told = within(30), set[int]()
    while len(told) < 2:
        assert not over.passed
        task.reports.tell_if_due(task.stream, {})
        link.ends.target.loop.turn(0.1)
        heard = read(link.state(), heard_key(0), Heard)
        told |= {heard.told_ms} if heard is not None else set()
    task.stream.close()


def test_a_report_that_was_refused_is_told_again_though_nothing_changed(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    task = Task(link.ends, here)
    step_until(task.stream, lambda: task.stream.parts[here].position == 10)
    state, over = state_topic(link.ends.link), within(40)
    with Admin(link.ends.target.settings, "target") as admin:
        admin.configs.change_topic(state, put={"max.message.bytes": "1"}, deadline=over)
        for _ in range(3):  # by the last, its rates are those of the one before
            task.reports.tell(task.stream, {})
            while task.reports.unfinished:
                assert not over.passed
                task.reports.tell_if_due(task.stream, {})
                task.stream.step()
        assert part_key(here) not in link.state()
        admin.configs.change_topic(state, put={"max.message.bytes": "1000000"}, deadline=over)
    task.work_until(lambda report, _: report.source_next == 10)
    task.stream.close()


def test_a_task_says_that_it_listens_while_its_source_is_silent(
    behind: Behind, ends: tuple[Cluster, Cluster], link_name: str, here: Partition, target: Any
) -> None:
    for bootstrap in (behind.direct, target.bootstrap):
        create_topic(bootstrap, here.topic)
    produce(behind.direct, here.topic, numbers(0, 10))
    properties = {"bootstrap.servers": behind.proxy.address}
    with Cluster(parse("behind", properties), "source", ends[1].loop) as source:
        task = Task(Ends(link_name, source, ends[1], ledger_topic(link_name)), here)
        told: list[Heard] = []

        def has_told_twice(report: PartReport, heard: Heard) -> bool:
            told.extend([heard] if heard not in told else [])
            return report.source_next == 10 and len(told) > 2

        task.work_until(has_told_twice)
        assert not any(is_apart(one) for one in told[1:])  # it answers all the time
        behind.proxy.refuse()
        behind.proxy.cut_all()
        task.work_until(lambda report, heard: report.state == "ACTIVE" and is_apart(heard))
        task.stream.close()


def test_a_source_that_is_cut_off_is_told_and_no_objective_is_called_kept(
    behind: Behind,
    ends: tuple[Cluster, Cluster],
    here: Partition,
    target: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rpo = "    objectives: {rpo: 3s}"
    link = make_link(tmp_path, behind.proxy.address, target, rpo, topics=here.topic)
    link.make_topics()
    for bootstrap in (behind.direct, target.bootstrap):
        create_topic(bootstrap, here.topic)
    produce(behind.direct, here.topic, numbers(0, 10))

    def status(code: int) -> dict[str, Any]:
        link.report(link_report(topics={here.topic: here.topic}, partitions=1), {})
        capsys.readouterr()
        assert run(link.words("status", "-o", "json")) == code
        (found,) = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    properties = {"bootstrap.servers": behind.proxy.address}
    with Cluster(parse("behind", properties), "source", ends[1].loop) as source:
        task = Task(Ends(link.name, source, ends[1], ledger_topic(link.name)), here)
        task.work_until(lambda report, heard: report.source_next == 10 and heard.at_ms > 0)
        found = status(0)
        assert (found["lag_is_lower_bound"], found["rpo_ok"]) == (False, True)
        behind.proxy.refuse()
        behind.proxy.cut_all()
        produce(behind.direct, here.topic, numbers(10, 3500))
        task.work_until(lambda _, heard: heard.told_ms - heard.at_ms > 5000)
        found = status(1)
        assert (found["lag_records"], found["lag_is_lower_bound"]) == (0, True)
        assert found["source_heard_age_seconds"] > 4 and found["rpo_ok"] is False
        assert run(link.words("failover", "--dry-run")) == 0
        said = capsys.readouterr().out
        assert "RPO: not known." in said and "It may have lived on" in said
        task.stream.close()
