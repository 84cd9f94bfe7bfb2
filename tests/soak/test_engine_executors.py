"""Executors of a cluster that die: the lease is worked on elsewhere, and every record is once."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.checker.follow import following
from tests.faults.engine import loading, make_link, running, see_more, until
from tests.making import create_topic

MASTER = "local-cluster[2,1,1024]"


@pytest.mark.timeout(900)
def test_an_executor_that_is_killed_leaves_every_record_once(
    source: Any, target: Any, tmp_path: Path
) -> None:
    link = make_link(tmp_path, source, target, more="limits: {tasks: 1}")
    topic, journal = f"{link.name}-orders", tmp_path / "journal"
    create_topic(link.source, topic, 3)
    with (
        following(link.source, link.target, {topic: topic}) as followers,
        running(link, tmp_path / "driver", "--master", MASTER) as driver,
    ):
        with loading(link.source, topic, journal):
            for _ in range(2):
                driver.wait_copying()
                see_more(followers, 200, 120)
                busy = until(
                    driver.copying_executors, 60, lambda: f"no executor copies: {driver.said}"
                )
                busy[0].send(signal.SIGKILL)
            see_more(followers, 200, 120)
        followers.healed()
        followers.catch_up(within_s=90)
        assert driver.end() == 0, driver.said
        driver.wait_gone()
    assert followers.anomalies == []
    link.check(topic, journal=journal)
