"""Workers killed, frozen and woken as zombies, with rivals; then every record stands once."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as RdProducer

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.model.ledger import read_ledger
from heliograph.model.runs import Reason
from heliograph.model.topics import Partition
from tests.checker.compare import count_equal
from tests.checker.reading import read_partition
from tests.faults.worker import within
from tests.making import create_topic

PARTITIONS = 3
SECONDS = float(os.environ.get("HELIOGRAPH_FAULT_SECONDS", "25"))
MOST_AWAKE = 6
ROOT = Path(__file__).parent.parent.parent


class Load(threading.Thread):
    """Writes growing numbers to every partition until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.written = 0
        self.is_over = threading.Event()
        self._topic = topic
        self._producer = RdProducer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"}
        )

    def run(self) -> None:
        while not self.is_over.wait(0.005):
            for partition in range(PARTITIONS):
                for _ in range(10):
                    self._producer.produce(self._topic, b"%d" % self.written, partition=partition)
                    self.written += 1
            self._producer.poll(0)

    def stop(self) -> int:
        self.is_over.set()
        self.join()
        assert self._producer.flush(30) == 0
        return self.written


@pytest.fixture
def start_worker(
    source: Any, target: Any, topic_name: str, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []

    def start(*more: str) -> subprocess.Popen[bytes]:
        ends = [source.bootstrap, target.bootstrap, topic_name, f"{topic_name}.ledger"]
        command = [sys.executable, "-m", "tests.faults.worker", *ends, str(PARTITIONS), *more]
        with (tmp_path / f"worker-{len(running)}.log").open("wb") as log:
            running.append(subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log))
        return running[-1]

    yield start
    for worker in running:
        if worker.poll() is None:
            worker.kill()
        worker.wait()


def torment(start: Callable[..., subprocess.Popen[bytes]], chance: random.Random) -> None:
    """Start workers, also rivals; kill some, freeze others, and wake those later as zombies."""
    frozen: list[subprocess.Popen[bytes]] = []
    awake: list[subprocess.Popen[bytes]] = []
    over = time.monotonic() + SECONDS
    while time.monotonic() < over:
        workers = [start() for _ in range(chance.choice([1, 1, 2]))]
        time.sleep(chance.uniform(1.0, 3.5))
        awake += workers
        while len(awake := [one for one in awake if one.poll() is None]) > MOST_AWAKE:
            time.sleep(0.1)  # a busy machine takes longer to start one than the next one waits
        for worker in workers:
            if chance.random() < 0.5:
                worker.kill()
            elif worker.poll() is None:
                worker.send_signal(signal.SIGSTOP)
                frozen.append(worker)
                awake.remove(worker)
        for zombie in [one for one in frozen if chance.random() < 0.5]:
            frozen.remove(zombie)
            awake.append(zombie)
            zombie.send_signal(signal.SIGCONT)
    for zombie in frozen:
        zombie.send_signal(signal.SIGCONT)


def test_workers_killed_and_woken_as_zombies_copy_every_record_once(
    source: Any,
    target: Any,
    topic_name: str,
    start_worker: Callable[..., subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name, PARTITIONS)
    compacted = {"cleanup.policy": "compact"}
    create_topic(target.bootstrap, f"{topic_name}.ledger", config=compacted)
    load = Load(source.bootstrap, topic_name)
    load.start()
    torment(start_worker, random.Random(seed))
    written = load.stop()

    # A zombie that wakes up late may still take a partition over, as a rival: then one more claims.
    for _ in range(5):
        assert start_worker("90").wait(120) == 0, _logs(tmp_path)
        if "\ndone" in newest_log(tmp_path):
            break
    both = (source.bootstrap, topic_name, target.bootstrap, topic_name)
    for committed in (False, True):
        assert count_equal(*both, PARTITIONS, committed=committed) == written, _logs(tmp_path)
    check_ledger(source, target, topic_name)


def newest_log(folder: Path) -> str:
    """Return what the worker said that was started last."""
    logs = sorted(folder.glob("worker-*.log"), key=lambda one: int(one.stem.rpartition("-")[2]))
    return logs[-1].read_text()


def check_ledger(source: Any, target: Any, topic: str) -> None:
    """Every source record translates to the offset where the mirror really holds it."""
    with Cluster(parse("target", {"bootstrap.servers": target.bootstrap}), "target") as cluster:
        rows = Table(cluster, f"{topic}.ledger").load(within(30))
    for number in range(PARTITIONS):
        ledger = read_ledger(Partition(topic, number), rows)
        assert ledger is not None
        runs = ledger.runs
        theirs = read_partition(source.bootstrap, topic, number, committed=True)
        ours = read_partition(target.bootstrap, topic, number, committed=True)
        for (source_offset, _), (target_offset, _) in zip(theirs, ours, strict=True):
            assert runs.translate(source_offset) == (target_offset, Reason.EXACT)
            assert runs.translate_back(target_offset) == (source_offset, Reason.EXACT)


def _logs(folder: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text()}" for log in sorted(folder.glob("*.log")))
