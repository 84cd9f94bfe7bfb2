"""What a task reports of its source, and what a failover makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from heliograph.cli.app import run
from heliograph.copy.opening import Ends
from heliograph.copy.reports import Reports
from heliograph.copy.stream import Stream
from heliograph.kafka.tables import Table
from heliograph.model.control import Heard, PartReport, heard_key, part_key, read
from heliograph.model.leases import Lease, Part
from heliograph.model.names import state_topic
from heliograph.model.topics import Partition
from tests.broker.linked import opened_one, produce, step_until, streaming, within
from tests.broker.links import link_report
from tests.broker.recovering import Make, lose_source, numbers, recover


class Task:
    """Copies one partition and reports of it, as a task does."""

    def __init__(self, link: Ends, here: Partition) -> None:
        self._link, self._here = link, here
        self.stream: Stream = streaming(link, opened_one(link, here))
        link.target.describe([state_topic(link.link)], within(20))
        lease = Lease(link.link, 1, 1, 0, 60.0, 86_400_000, (Part(here, here),))
        self._reports = Reports(link.source, link.target, lease)
        self._rows = Table(link.target, state_topic(link.link))
        self._rows.load(within(20))

    def work_until(self, met: Callable[[PartReport, Heard], bool]) -> None:
        """Copy and report until the rows say something."""

        def is_met() -> bool:
            self._reports.tell_if_due(self.stream, {})
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
    link.link.report(link_report(topics={topic_name: topic_name}), {})
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
