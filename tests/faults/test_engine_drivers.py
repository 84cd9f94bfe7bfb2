"""Drivers that are killed, replaced, or told to end: whoever comes next loses and repeats nothing.

Each test starts Spark several times, so each shows several things in a row.
"""

import shutil
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.checker.follow import following
from tests.faults.engine import (
    START_S,
    Driver,
    Link,
    loading,
    make_link,
    running,
    see_more,
    synced,
    until,
)
from tests.making import create_topic

PARTITIONS = 3
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def link(source: Any, target: Any, tmp_path: Path) -> Link:
    return make_link(tmp_path, source, target)


@pytest.fixture
def topic(source: Any, link: Link) -> str:
    """The link's only topic."""
    name = f"{link.name}-orders"
    create_topic(source.bootstrap, name, PARTITIONS)
    return name


def leaves_nothing(driver: Driver) -> None:
    """A driver that ended by itself has taken all its processes and files with it."""
    driver.wait_gone()
    assert driver.scratch == []


def positions(link: Link, topic: str) -> list[int]:
    """Return how far each partition is on record."""
    return [link.ledger(topic, number).source_next for number in range(PARTITIONS)]


def test_a_killed_driver_or_jvm_and_a_lost_checkpoint_cost_no_record(
    link: Link, topic: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    reached = []
    with following(link.source, link.target, {topic: topic}) as followers:
        with loading(link.source, topic, journal, rate=1000):
            with running(link, tmp_path / "first") as first:
                first.wait_copying()
                see_more(followers, 200)
                for scratch in first.folder.glob("tmp/heliograph-spark-*/checkpoint-*"):
                    shutil.rmtree(scratch)
                see_more(followers, 600)
                first.kill()
            reached.append(positions(link, topic))
            with running(link, tmp_path / "second") as second:
                second.wait_copying()
                see_more(followers, 200)
                second.jvm().send(signal.SIGKILL)
                assert second.wait() == 1
                assert "engine-failed" in second.said
                leaves_nothing(second)
            reached.append(positions(link, topic))
        summary = synced(link, tmp_path / "third")
        assert summary["lag"] == 0
        reached.append(positions(link, topic))
        followers.healed()
        followers.catch_up(within_s=30)
    assert followers.anomalies == []
    link.check(topic, journal=journal)
    for before, after in pairwise(reached):
        assert all(one <= other for one, other in zip(before, after, strict=True)), reached


def test_a_second_driver_takes_over_and_the_first_ends_by_itself(
    link: Link, topic: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    with following(link.source, link.target, {topic: topic}) as followers:
        with loading(link.source, topic, journal), running(link, tmp_path / "first") as first:
            first.wait_copying()
            see_more(followers, 100)
            with running(link, tmp_path / "second") as second:
                assert first.wait(START_S) == 1
                assert "superseded" in first.said and "took link" in first.said
                leaves_nothing(first)
                second.wait_copying()
                see_more(followers, 300)
                helpers = second.helpers()
                for one in helpers:  # Spark waits for them without end
                    one.send(signal.SIGSTOP)
                assert second.end(signal.SIGINT) == 130, second.said
                for one in helpers:
                    one.send(signal.SIGCONT)
                leaves_nothing(second)
        copied = link.check(topic)
        summary = synced(link, tmp_path / "third")
        assert summary["records"] == copied.not_copied
        followers.healed()
        followers.catch_up(within_s=30)
    assert followers.anomalies == []
    link.check(topic, journal=journal)


def test_of_two_drivers_started_at_the_same_instant_one_goes_on(
    link: Link, topic: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    with following(link.source, link.target, {topic: topic}) as followers:
        with loading(link.source, topic, journal):
            one = running(link, tmp_path / "one")
            other = running(link, tmp_path / "other")
            with one as first, other as second:
                both = [first, second]
                ended = until(
                    lambda: [each for each in both if not each.is_alive],
                    START_S,
                    lambda: f"both run: {first.said} {second.said}",
                )
                (loser,) = ended
                assert loser.wait() == 1 and "superseded" in loser.said
                (winner,) = [each for each in both if each is not loser]
                winner.wait_copying()
                see_more(followers, 400)
                assert winner.end(signal.SIGTERM) == 0, winner.said
                for each in both:
                    leaves_nothing(each)
        assert synced(link, tmp_path / "last")["lag"] == 0
        followers.healed()
        followers.catch_up(within_s=30)
    assert followers.anomalies == []
    link.check(topic, journal=journal)
