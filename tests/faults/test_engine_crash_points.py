"""Tasks and drivers that die at each crash point of a real Spark application, again and again.

One driver serves all points of tasks. Spark's Python is a script that arms whatever a file says, so
a point is armed and disarmed by letting Spark start its workers anew.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.records import Record, encode
from heliograph.local.processes import Process
from heliograph.model.topics import Partition
from tests.broker.linked import write_batches
from tests.checker.follow import following
from tests.checker.reading import read_partition
from tests.faults.engine import Driver, Link, loading, make_link, running, see_more, synced, until
from tests.making import create_topic

PARTITIONS = 3
DEATHS = 2
# The passings after the first: all partitions of a lease pass a point in one process.
POINTS = [
    ("C1", 1),
    ("C2", 2),
    ("C3", 3),
    ("C4", 1),
    ("C6", 1),  # before the id is in the ledger
    ("C6", 1 + PARTITIONS),  # before the first produce
    ("C7", 1),  # the ledger's first row
    ("C7", 2 + PARTITIONS),  # data
    ("C8", 1),
    ("C10", 1),  # while what C8 left is matched, or batches are joined
    ("C9", 1),
    ("C12", 1),
    ("C13-before", 1),
    ("C13-taken", 1),
]


@dataclass(frozen=True)
class Armed:
    """A driver whose workers can be told where to die."""

    driver: Driver
    file: Path

    def arm(self, point: str, after: int = 1) -> None:
        """Let every worker from now on die at the point; return when some have."""
        self._renew(f"export HELIOGRAPH_CRASH_POINT={point} HELIOGRAPH_CRASH_AFTER={after}\n")
        seen: set[Process] = set()

        def deaths() -> bool:
            alive = set(self.driver.workers())
            seen.update(alive)
            assert self.driver.is_alive, self.driver.said
            return len(seen - alive) >= DEATHS

        until(deaths, 90, lambda: f"{point} is not passed {after} times: {self.driver.said}")

    def disarm(self) -> None:
        self._renew("")

    def _renew(self, text: str) -> None:
        """Let Spark start its workers anew: those that run know the old point."""
        self.file.write_text(text)
        for find in (self.driver.daemons, self.driver.workers):
            for one in find():
                one.send(signal.SIGKILL)
                assert one.wait_gone(timedelta(seconds=10))


@pytest.fixture
def link(source: Any, target: Any, tmp_path: Path) -> Link:
    return make_link(tmp_path, source, target, more="limits: {tasks: 1}")


@pytest.fixture
def topic(source: Any, link: Link) -> str:
    name = f"{link.name}-orders"
    create_topic(source.bootstrap, name, PARTITIONS)
    return name


@pytest.fixture
def armed(link: Link, tmp_path: Path) -> Iterator[Armed]:
    script, file = tmp_path / "python", tmp_path / "armed"
    file.touch()
    script.write_text(f'#!/bin/sh\n. "{file}"\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    environment = {"PYSPARK_PYTHON": str(script)}
    with running(link, tmp_path / "driver", lease_s=2, environment=environment) as driver:
        yield Armed(driver, file)
        assert driver.end() == 0, driver.said


@pytest.mark.timeout(900)
def test_tasks_that_die_at_crash_points_leave_every_record_once(
    armed: Armed, link: Link, topic: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    with following(link.source, link.target, {topic: topic}) as followers:
        with loading(link.source, topic, journal, "--linger", "0"):
            armed.driver.wait_copying()
            see_more(followers, 50)
            for point, after in POINTS:
                armed.arm(point, after)
                if point != "C8":  # what it left is for the next point to find
                    armed.disarm()
                    see_more(followers, 20)
        followers.healed()
        followers.catch_up(within_s=90)
    assert followers.anomalies == []
    link.check(topic, journal=journal)


def test_tasks_that_die_behind_a_quarantined_record_quarantine_it_once(
    armed: Armed, link: Link, topic: str
) -> None:
    create_topic(
        link.target, topic, PARTITIONS, config={"message.timestamp.before.max.ms": "3600000"}
    )
    now_ms = clock.wall_ms()
    rows = [Record(-1, now_ms, None, b"%d" % number) for number in range(60)]
    rows[30] = rows[30]._replace(timestamp=1000)
    with Cluster(parse("source", {"bootstrap.servers": link.source}), "source") as cluster:
        write_batches(cluster, Partition(topic, 0), [encode(rows)])
    armed.arm("C11")
    armed.disarm()
    until(lambda: link.ledger(topic).source_next == 60, 90, lambda: armed.driver.said)
    link.check(topic)
    quarantine = read_partition(link.target, f"{topic}.quarantine", 0, committed=True)
    assert {seen.key for _, seen in quarantine} == {f"{topic}/0/30".encode()}


def test_drivers_that_die_while_they_take_the_helm_do_no_harm(
    link: Link, topic: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    with loading(link.source, topic, journal):
        for point in ("C1", "C2", "C3", "C4", "C7"):
            crash = {"HELIOGRAPH_CRASH_POINT": point}
            with running(link, tmp_path / point, environment=crash) as driver:
                assert driver.wait() == -signal.SIGKILL, driver.said
                driver.wait_gone()
    assert synced(link, tmp_path / "last")["lag"] == 0
    link.check(topic, journal=journal)
