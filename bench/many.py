"""Many partitions: how soon all are copied, and what a new topic costs the others.

    python -m bench.many [--topics 50] [--partitions 20] [--rounds 3]

Two local clusters, a link with the defaults, everything on this machine. One record stands in each
partition before the start. Then records are written to some of the partitions all the time, a new
topic is made, and the delay of each record is taken.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.race.__main__ import conditions
from heliograph.local.launch import start
from heliograph.local.spec import Spec

_FILE = """\
clusters:
  source: {{bootstrap.servers: "{source}"}}
  target: {{bootstrap.servers: "{target}"}}
links:
  many:
    source: source
    target: target
    topics: [".*"]
"""
_WITHIN_S = 180.0
_QUIET_S, _AFTER_S = 8.0, 8.0
_RATE = 200


def main() -> int:
    """Run some rounds and print each and the medians."""
    parser = argparse.ArgumentParser(prog="bench.many", description=__doc__.split("\n\n")[0])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(f"## Many partitions, {conditions('two clusters of one broker')}\n")
    print(f"{asked.topics} topics of {asked.partitions} partitions, leases and sync by default.\n")
    rounds = [_round(asked.topics, asked.partitions) for _ in range(asked.rounds)]
    print("| | " + " | ".join(rounds[0]) + " |\n|---|" + "---|" * len(rounds[0]))
    for number, one in enumerate(rounds, 1):
        print(f"| {number} | " + " | ".join(f"{value:.2f}" for value in one.values()) + " |")
    medians = [statistics.median(one[name] for one in rounds) for name in rounds[0]]
    print("| median | " + " | ".join(f"{value:.2f}" for value in medians) + " |")
    return 0


def _round(topics: int, partitions: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="heliograph-bench-") as name:
        folder = Path(name)
        source, target = start(Spec(name="source"), Spec(name="target"), under=folder)
        with source, target:
            names = [f"topic-{number:03}" for number in range(topics)]
            _create(source.bootstrap, names, partitions)
            _write_one_each(source.bootstrap, names, partitions)
            began_s = time.monotonic()
            with mirror(folder, source.bootstrap, target.bootstrap):
                reader = _Reader(target.bootstrap)
                try:
                    return _measure(reader, source.bootstrap, names, partitions, began_s)
                finally:
                    reader.stop()


def _measure(
    reader: _Reader, source: str, names: list[str], partitions: int, began_s: float
) -> dict[str, float]:
    reader.follow(dict.fromkeys(names, partitions))
    all_s = reader.wait_all(len(names) * partitions) - began_s
    load = _Load(source, names[0], partitions)
    time.sleep(_QUIET_S)
    quiet = reader.worst_ms(since_s=time.monotonic() - _QUIET_S / 2)
    made_s = time.monotonic()
    _create(source, ["new"], partitions)
    _write_one_each(source, ["new"], partitions)
    reader.follow({"new": partitions})
    new_s = reader.wait_all((len(names) + 1) * partitions) - made_s
    time.sleep(_AFTER_S)
    worst = reader.worst_ms(since_s=made_s)
    load.stop()
    return {
        "seconds from the command until all partitions are copied": all_s,
        "greatest delay before, ms": quiet,
        "seconds from making a topic until all of it is copied": new_s,
        "greatest delay of others around it, ms": worst,
    }


class _Load:
    """Writes the time to the partitions of a topic, one after the other."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._over = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._thread = threading.Thread(target=self._run, args=(topic, partitions), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(10)

    def _run(self, topic: str, partitions: int) -> None:
        number = 0
        while not self._over.is_set():
            self._producer.produce(topic, b"%d" % time.time_ns(), partition=number % partitions)
            self._producer.poll(0)
            number += 1
            time.sleep(1 / _RATE)


class _Reader:
    """Reads mirrors; counts partitions that hold anything, and takes the delays of records."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._seen: dict[tuple[str, int], float] = {}
        self._delays: list[tuple[float, float]] = []
        self._assigned: list[TopicPartition] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._waiting: list[TopicPartition] = []
        self._thread.start()

    def follow(self, topics: dict[str, int]) -> None:
        """Read topics too, once they exist."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        left = dict(topics)
        until_s = time.monotonic() + _WITHIN_S
        while left and time.monotonic() < until_s:
            there = admin.list_topics(timeout=10).topics
            for topic in [one for one in left if one in there]:
                count = left.pop(topic)
                places = [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(count)]
                self._waiting += places
            time.sleep(0.05)
        assert not left, f"there are no mirrors of {sorted(left)[:3]}"

    def wait_all(self, partitions: int) -> float:
        """Return when the last of so many partitions had its first record."""
        until_s = time.monotonic() + _WITHIN_S
        while len(self._seen) < partitions and time.monotonic() < until_s:
            time.sleep(0.02)
        assert len(self._seen) >= partitions, f"{len(self._seen)} of {partitions} are copied"
        return max(self._seen.values())

    def worst_ms(self, since_s: float) -> float:
        return max((delay for at_s, delay in list(self._delays) if at_s >= since_s), default=-1.0)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._over.is_set():
            if self._waiting:
                new, self._waiting = self._waiting, []
                self._consumer.incremental_assign(new)
            for message in self._consumer.consume(500, 0.05):
                if message.error():
                    continue
                now_s, place = time.monotonic(), (message.topic(), message.partition())
                self._seen.setdefault(place, now_s)
                if message.value() != b"first":
                    delay_ms = (time.time_ns() - int(message.value())) / 1e6
                    self._delays.append((now_s, delay_ms))


def _create(bootstrap: str, names: list[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(one, partitions, 1) for one in names]).values():
        made.result(60)


def _write_one_each(bootstrap: str, names: list[str], partitions: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in names:
        for number in range(partitions):
            producer.produce(name, b"first", partition=number)
    assert producer.flush(60) == 0


@contextmanager
def mirror(folder: Path, source: str, target: str) -> Iterator[None]:
    """Mirror everything, by the command, while in the context."""
    file = folder / "heliograph.yaml"
    file.write_text(_FILE.format(source=source, target=target))
    command = Path(sys.executable).with_name("heliograph")
    with (folder / "run.log").open("wb") as log:
        run = subprocess.Popen([command, "run", "-f", str(file)], stdout=log, stderr=log)
    try:
        yield
    except AssertionError:
        print((folder / "run.log").read_text(), file=sys.stderr)
        raise
    finally:
        run.terminate()
        run.wait(60)


if __name__ == "__main__":
    sys.exit(main())
