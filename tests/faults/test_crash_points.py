"""Workers that die at each crash point; whoever comes after them loses and repeats nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.records import Record, encode
from heliograph.kafka.waiting import write
from heliograph.model.topics import Partition
from tests.checker.check import Scope, check
from tests.checker.reading import read_partition
from tests.faults.worker import within
from tests.making import create_topic

ROOT = Path(__file__).parent.parent.parent
RECORDS = 600
REFUSED = 300

Run = Callable[..., int]


@pytest.fixture
def run(source: Any, target: Any, topic_name: str, tmp_path: Path) -> Iterator[Run]:
    """Run a worker to its end, which may come at a crash point; return its exit status."""
    log = (tmp_path / "worker.log").open("wb")

    def run(point: str = "", after: int = 1) -> int:
        ends = [source.bootstrap, target.bootstrap, topic_name, f"{topic_name}.ledger"]
        crash = {"HELIOGRAPH_CRASH_POINT": point, "HELIOGRAPH_CRASH_AFTER": str(after)}
        return subprocess.run(
            [sys.executable, "-m", "tests.faults.worker", *ends, "1", "90"],
            cwd=ROOT,
            env=os.environ | crash,
            stdout=log,
            stderr=log,
            timeout=120,
        ).returncode

    yield run
    log.close()


@pytest.fixture
def filled(source: Any, target: Any, topic_name: str) -> None:
    """A backlog of small batches, among them one with a record that the target refuses."""
    create_topic(source.bootstrap, topic_name)
    create_topic(
        target.bootstrap, topic_name, config={"message.timestamp.before.max.ms": "3600000"}
    )
    compacted = {"cleanup.policy": "compact"}
    create_topic(target.bootstrap, f"{topic_name}.ledger", config=compacted)
    now_ms = int(time.time() * 1000)
    rows = [Record(-1, now_ms, None, b"%d" % n) for n in range(RECORDS)]
    rows[REFUSED] = rows[REFUSED]._replace(timestamp=1000)
    batches = [encode(rows[at : at + 2]) for at in range(0, RECORDS, 2)]
    with Cluster(parse("source", {"bootstrap.servers": source.bootstrap}), "source") as cluster:
        topic_id = cluster.describe([topic_name], within(20)).topics[topic_name].topic_id
        write(cluster, Partition(topic_name, 0), topic_id, batches, within(60))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "crashes",
    [
        [("C1", 1)],
        [("C2", 1)],
        [("C3", 1)],
        [("C4", 1)],
        [("C6", 1)],  # before the id is in the ledger
        [("C6", 2)],  # before the first produce
        [("C7", 1)],  # the ledger's first row
        [("C7", 2)],  # the first data
        [("C7", 3), ("C7", 2), ("C1", 1)],
        [("C8", 1)],
        [("C8", 1), ("C10", 1)],  # then during the match of what the first left
        [("C8", 1), ("C6", 1), ("C8", 1)],
        [("C9", 1)],
        [("C10", 1)],  # during a join
        [("C10", 2)],  # while a refused batch is cut
        [("C11", 1)],
        [("C11", 1), ("C11", 1)],
    ],
    ids=lambda crashes: " ".join(f"{point}.{after}" for point, after in crashes),
)
def test_workers_that_die_at_crash_points_leave_every_record_once(
    source: Any, target: Any, topic_name: str, run: Run, crashes: list[tuple[str, int]]
) -> None:
    for point, after in crashes:
        assert run(point, after) == -signal.SIGKILL, f"{point} was not passed {after} times"
    assert run() == 0
    scope = Scope(
        source.bootstrap,
        target.bootstrap,
        "faults",
        {topic_name: topic_name},
        ledger=f"{topic_name}.ledger",
    )
    report = check(scope)
    assert not report.anomalies, str(report)
    quarantine = read_partition(target.bootstrap, f"{topic_name}.quarantine", 0, committed=True)
    assert {seen.key for _, seen in quarantine} == {f"{topic_name}/0/{REFUSED}".encode()}
    mirrored = read_partition(target.bootstrap, topic_name, 0, committed=False)
    assert len(list(mirrored)) == RECORDS - 1
