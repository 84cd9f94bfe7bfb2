"""Drivers that hang with all their tasks, lose the link to another, and wake: they write nothing.

In local mode Spark tries a task again only when its worker has died, so a paused worker has no
rival of its own. A whole application is paused instead; the rival is a second driver.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heliograph.local.brokers import Cluster
from tests.checker.follow import following
from tests.faults.engine import Link, loading, make_link, running, see_more
from tests.making import create_topic

pytestmark = pytest.mark.timeout(900)


def wake_a_zombie(link: Link, folder: Path, *load: str) -> None:
    """Freeze a driver under load, let another take over, thaw the first; then check all."""
    topic, journal = f"{link.name}-orders", folder / "journal"
    create_topic(link.source, topic, 3)
    with following(link.source, link.target, {topic: topic}) as followers:
        with (
            loading(link.source, topic, journal, *load, rate=1000),
            running(link, folder / "zombie", lease_s=60) as zombie,
        ):
            zombie.wait_copying()
            see_more(followers, 500)
            assert zombie.copiers(), zombie.said
            zombie.freeze()
            with running(link, folder / "rival", lease_s=5) as rival:
                rival.wait_copying()
                see_more(followers, 500)
                zombie.thaw()
                assert zombie.wait(120) == 1, zombie.said
                assert "superseded" in zombie.said
                see_more(followers, 500)
                for copier in rival.copiers()[:1]:
                    copier.send(signal.SIGKILL)
                see_more(followers, 500)
                assert rival.end() == 0, rival.said
                copied = link.check(topic)
                assert copied.equal > 2000
        followers.healed()
    assert followers.anomalies == []


def test_a_driver_that_wakes_after_another_took_over_writes_nothing(
    source: Any, target: Any, tmp_path: Path
) -> None:
    wake_a_zombie(make_link(tmp_path, source, target), tmp_path)


def test_the_same_holds_for_records_that_brokers_forget_the_writers_of(
    source: Any, private_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    forgetful = {
        "producer.id.expiration.ms": "60000",
        "producer.id.expiration.check.interval.ms": "1000",
    }
    target = private_cluster(name="forgetful", properties=forgetful)
    wake_a_zombie(make_link(tmp_path, source, target), tmp_path, "--age-days", "3")
