"""A standalone cluster of Spark's: a master, a worker, and the command with ``--master``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.faults.engine import make_link, mirroring, see_more, until

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with one worker of two slots."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as out:
            started.append(
                subprocess.Popen(
                    [SPARK_CLASS, f"org.apache.spark.deploy.{name}", *arguments],
                    env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            )
        return log

    place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    try:
        log = start("master.Master", *place)
        said = re.compile(r"Starting Spark master at (spark://\S+)")
        (address,) = until(lambda: said.findall(log.read_text()), 60, log.read_text)
        work = ["--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work")]
        log = start("worker.Worker", *place, *work, address)
        until(lambda: "Successfully registered" in log.read_text(), 60, log.read_text)
        yield address
    finally:
        for one in reversed(started):
            os.killpg(one.pid, signal.SIGTERM)
            one.wait(60)


@pytest.mark.timeout(600)
def test_a_link_runs_on_a_standalone_cluster(
    source: Any, target: Any, master: str, tmp_path: Path
) -> None:
    link = make_link(tmp_path, source, target, more="limits: {tasks: 2}")
    with mirroring(link, tmp_path, "--master", master) as (_, followers):
        see_more(followers, 1500, 240)
