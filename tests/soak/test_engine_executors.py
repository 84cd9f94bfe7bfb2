"""Executors that die, or stand still until Spark has given them up: every record is once."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.engine import Link, make_link, mirroring, see_more, until

MASTER = "local-cluster[2,1,1024]"


@pytest.mark.timeout(900)
def test_an_executor_that_is_killed_leaves_every_record_once(
    source: Any, target: Any, tmp_path: Path
) -> None:
    link = make_link(tmp_path, source, target, more="limits: {tasks: 1}")
    with mirroring(link, tmp_path, "--master", MASTER) as (driver, followers):
        for _ in range(2):
            driver.wait_copying()
            see_more(followers, 200, 120)
            busy = until(driver.copying_executors, 60, lambda: f"no executor copies: {driver.said}")
            busy[0].send(signal.SIGKILL)
        see_more(followers, 200, 120)


@pytest.mark.timeout(900)
def test_a_task_that_stood_still_until_spark_has_retried_it_leaves_every_record_once(
    source: Any, target: Any, tmp_path: Path
) -> None:
    link = make_link(tmp_path, source, target, more="limits: {tasks: 1}")
    _give_up_soon(link)
    with mirroring(link, tmp_path, "--master", MASTER, lease_s=60) as (driver, followers):
        driver.wait_copying()
        see_more(followers, 200, 120)
        (executor,) = driver.copying_executors()
        stopped = driver.below(executor)
        for one in stopped:
            one.send(signal.SIGSTOP)
        see_more(followers, 200, 240)  # another task has claimed the partitions
        for one in stopped:
            one.send(signal.SIGCONT)
        see_more(followers, 500, 120)


def _give_up_soon(link: Link) -> None:
    """Let Spark miss an executor within seconds; two minutes are its default."""
    conf = {
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "2s",
        "spark.executor.heartbeatInterval": "2s",
    }
    lines = "".join(f"    {key}: {value}\n" for key, value in conf.items())
    link.file.write_text(f"{link.file.read_text()}spark:\n  conf:\n{lines}")
