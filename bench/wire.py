"""How fast the wire is: fetch, and fetch+produce, in one process, against real brokers.

Two comparisons, each inside one run, alternating, by medians:

- fetch, per CPU second of the client: ours (every checksum verified) against kafka-python's own
  transport (raw replies, nothing verified or decoded)
- fetch+produce against the rate at which the same target takes the same batches from memory

Run it with ``make bench-wire``; ``--log`` appends the result to docs/benchmarks.md.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka.net.compat import KafkaNetClient

from bench.raw_copy import RawCopy, claim_mirror, topic_ends, within
from heliograph.errors import HeliographError
from heliograph.kafka import fetch_codec
from heliograph.kafka.admin import Admin
from heliograph.kafka.batch import restamp, sequence_after, split_batches
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.fetch import DEFAULT_LIMITS, Fetched
from heliograph.kafka.fetch_codec import Place
from heliograph.kafka.produce import Producer
from heliograph.kafka.properties import parse
from heliograph.kafka.records import Record, encode
from heliograph.kafka.transport import Loop
from heliograph.kafka.waiting import scan, write
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.model.configs import NewTopic
from heliograph.model.topics import Partition

PARTITIONS = 4
RECORD_BYTES = 290
FETCH_VERSION = 13
LOG = Path(__file__).parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Data:
    """What a topic is filled with."""

    name: str
    codec: Codec
    batch_records: int
    batches: int  # a partition

    @property
    def records(self) -> int:
        """Records in the whole topic."""
        return self.batch_records * self.batches * PARTITIONS


DATA = (
    Data("lz4", Codec.LZ4, batch_records=400, batches=600),
    Data("plain-16k", Codec.NONE, batch_records=52, batches=2400),
)


@dataclass(frozen=True)
class Measured:
    """One run: bytes moved, wall and CPU seconds of this process."""

    size_bytes: int
    wall_s: float
    cpu_s: float

    @property
    def mb_per_s(self) -> float:
        """Megabytes a second."""
        return self.size_bytes / 1e6 / self.wall_s

    @property
    def cpu_s_per_gb(self) -> float:
        """CPU seconds of this process for a gigabyte."""
        return self.cpu_s / (self.size_bytes / 1e9)


@dataclass
class Stage:
    """The two clusters, and the topic at hand."""

    source: Cluster
    target: Cluster
    admin: Admin
    bootstrap: str
    topic: str
    ends: Mapping[Partition, int]
    size_bytes: int


def measure(action: Callable[[], int]) -> Measured:
    """Time one run; ``action`` returns the bytes it moved."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    size_bytes = action()
    return Measured(size_bytes, time.perf_counter() - wall_s, time.process_time() - cpu_s)


def fill(cluster: Cluster, topic: str, data: Data) -> int:
    """Write the topic; return its size in bytes."""
    chance = random.Random(7)
    topic_id = cluster.describe([topic], within(20)).topics[topic].topic_id
    patterns = [encode(_rows(data, chance), codec=data.codec) for _ in range(40)]
    batches = [patterns[n % len(patterns)] for n in range(data.batches)]
    for number in range(PARTITIONS):
        write(cluster, Partition(topic, number), topic_id, batches, within(120))
    return sum(map(len, batches)) * PARTITIONS


def _rows(data: Data, chance: random.Random) -> list[Record]:
    now_ms = int(time.time() * 1000)
    rows = []
    for _ in range(data.batch_records):
        row = {"id": chance.randrange(10**12), "user": f"u{chance.randrange(10**6)}"}
        row["note"] = chance.randbytes(60).hex()
        text = json.dumps(row).ljust(RECORD_BYTES, "x").encode()
        rows.append(Record(-1, now_ms, b"%d" % chance.randrange(10**6), text))
    return rows


def fetch_ours(stage: Stage) -> int:
    """Fetch the whole topic with Heliograph's fetcher."""
    return sum(len(batch) for fetched in whole_topic(stage) for _, batch in fetched.batches)


def whole_topic(stage: Stage) -> Iterator[Fetched]:
    """Read the topic from its start to its end."""
    starts = dict.fromkeys(stage.ends, 0)
    return scan(stage.source, starts, within(300), ends=stage.ends, read_committed=True)


class KafkaPython:
    """kafka-python's transport and message classes, asked for the same fetches."""

    def __init__(self, bootstrap: str) -> None:
        self._client = KafkaNetClient(
            bootstrap_servers=bootstrap, receive_message_max_bytes=256 << 20
        )
        self._manager = self._client._manager
        self._manager._net.start()
        self._manager.bootstrap(20_000)

    def close(self) -> None:
        """Close its connections and end its thread."""
        self._client.close()
        self._manager._net.stop()

    def fetch(self, stage: Stage) -> int:
        """Fetch the whole topic; walk the batch headers to know where to go on."""
        return int(self._manager.run(self._pull, stage))

    async def _pull(self, stage: Stage) -> int:
        topic = stage.source.view.topics[stage.topic]
        offsets = dict.fromkeys(stage.ends, 0)
        size_bytes = 0
        while any(offsets[p] < end for p, end in stage.ends.items()):
            places = [
                Place(p.topic, topic.topic_id, p.partition, -1, offsets[p], -1)
                for p, end in stage.ends.items()
                if offsets[p] < end
            ]
            request = fetch_codec.request(
                FETCH_VERSION,
                DEFAULT_LIMITS,
                read_committed=True,
                session=(0, -1),
                places=places,
                forgotten=(),
            )
            leader = topic.partitions[0].leader
            answer = await self._manager.send(request, node_id=leader)
            size_bytes += self._advance(answer, offsets)
        return size_bytes

    def _advance(self, answer: Any, offsets: dict[Partition, int]) -> int:
        size_bytes = 0
        by_number = {p.partition: p for p in offsets}
        for topic in answer.responses:
            for row in topic.partitions:
                for header, batch in split_batches(memoryview(row.records)):
                    offsets[by_number[row.partition_index]] = header.next_offset
                    size_bytes += len(batch)
        return size_bytes


def copy(stage: Stage) -> Measured:
    """Copy the topic to a new mirror: fetch, verify, restamp, produce."""
    mirror, claims = new_mirror(stage)
    raw = RawCopy(stage.source, stage.target, stage.ends, mirror, claims)
    measured = measure(lambda: raw.run(within(300)).size_bytes)
    stage.admin.topics.delete(mirror)
    return measured


def produce_from_memory(stage: Stage) -> Measured:
    """Write the same batches to a new mirror from memory, restamped beforehand."""
    mirror, claims = new_mirror(stage)
    batches = _in_memory(stage)
    for partition, some in batches.items():
        sequence, claim = 0, claims[partition.partition]
        for count, batch in some:
            restamp(batch, claim.producer_id, claim.epoch, sequence)
            sequence = sequence_after(sequence, count)
    measured = measure(lambda: _produce(stage, mirror, batches))
    stage.admin.topics.delete(mirror)
    return measured


def new_mirror(stage: Stage) -> tuple[str, Any]:
    """Create and claim a mirror that nobody has used."""
    mirror = f"{stage.topic}.mirror.{time.monotonic_ns()}"
    stage.admin.topics.create(NewTopic(mirror, partitions=len(stage.ends)))
    stage.target.describe([mirror], within(20))
    return mirror, claim_mirror(stage.target, mirror, len(stage.ends), within(20))


def _in_memory(stage: Stage) -> dict[Partition, list[tuple[int, memoryview]]]:
    found: dict[Partition, list[tuple[int, memoryview]]] = {p: [] for p in stage.ends}
    for fetched in whole_topic(stage):
        found[fetched.partition] += [(header.count, batch) for header, batch in fetched.batches]
    return found


def _produce(
    stage: Stage, mirror: str, batches: Mapping[Partition, list[tuple[int, memoryview]]]
) -> int:
    producer = Producer(stage.target)
    mirror_id = stage.target.view.topics[mirror].topic_id
    failures: list[HeliographError] = []

    def done(outcome: int | HeliographError) -> None:
        if isinstance(outcome, HeliographError):
            failures.append(outcome)

    size_bytes = 0
    for partition, some in batches.items():
        for _, batch in some:
            producer.send(Partition(mirror, partition.partition), mirror_id, batch, done)
            size_bytes += len(batch)
    while producer.unfinished and not failures:
        producer.pump()
        stage.target.loop.turn(0.1)
    if failures:
        raise failures[0]
    return size_bytes


def run_one(stage: Stage, data: Data, rounds: int) -> list[str]:
    """Run both comparisons for one kind of data; return the lines of the report."""
    rival = KafkaPython(stage.bootstrap)
    ours, theirs, copied, memory = [], [], [], []
    try:
        rival.fetch(stage)  # its first fetch compiles its decoders
        for _ in range(rounds):
            ours.append(measure(lambda: fetch_ours(stage)))
            theirs.append(measure(lambda: rival.fetch(stage)))
        for _ in range(rounds):
            copied.append(copy(stage))
            memory.append(produce_from_memory(stage))
    finally:
        rival.close()
    cpu = _median(theirs, "cpu_s_per_gb") / _median(ours, "cpu_s_per_gb")
    share = _median(copied, "mb_per_s") / _median(memory, "mb_per_s")
    average = stage.size_bytes / (data.batches * PARTITIONS)
    return [
        f"**{data.name}**: {data.records:,} records of {RECORD_BYTES} B and a key,"
        f" {stage.size_bytes / 1e6:.0f} MB in batches of {average / 1000:.1f} KB,"
        f" {PARTITIONS} partitions, medians of {rounds} alternating runs",
        "",
        "| what | MB/s | CPU s per GB | records/s |",
        "|---|---|---|---|",
        _row("fetch, Heliograph", ours, data),
        _row("fetch, kafka-python's transport", theirs, data),
        _row("fetch+produce, Heliograph", copied, data),
        _row("produce from memory (the target's own limit)", memory, data),
        "",
        f"Fetch per CPU second: {cpu:.1f}x kafka-python's (bar: 2x)."
        f" Fetch+produce: {share:.0%} of the rate from memory (bar: 50%).",
        "",
    ]


def _median(runs: list[Measured], field: str) -> float:
    return float(statistics.median(getattr(run, field) for run in runs))


def _row(name: str, runs: list[Measured], data: Data) -> str:
    records = data.records / statistics.median(run.wall_s for run in runs)
    rate, cpu = _median(runs, "mb_per_s"), _median(runs, "cpu_s_per_gb")
    return f"| {name} | {rate:.0f} | {cpu:.2f} | {records:,.0f} |"


def bench(rounds: int) -> list[str]:
    """Start two clusters, run everything, stop them."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="heliograph-bench-") as folder:
        clusters = start(Spec(name="source"), Spec(name="target"), under=Path(folder))
        loop = Loop()
        try:
            settings = [parse(c.name, c.client_properties()) for c in clusters]
            with (
                Cluster(settings[0], "source", loop) as source,
                Cluster(settings[1], "target", loop) as target,
                Admin(settings[0], "source") as maker,
                Admin(settings[1], "target") as admin,
            ):
                for data in DATA:
                    maker.topics.create(NewTopic(data.name, partitions=PARTITIONS))
                    size_bytes = fill(source, data.name, data)
                    ends = topic_ends(source, data.name, within(20))
                    stage = Stage(
                        source, target, admin, clusters[0].bootstrap, data.name, ends, size_bytes
                    )
                    lines += run_one(stage, data, rounds)
        finally:
            loop.close()
            for cluster in clusters:
                cluster.stop()
    return lines


def conditions() -> str:
    """Say where and on what code this ran."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit or 'unknown'}, {cores} cores,"
        f" Python {platform.python_version()}, Kafka 4.3.0, both clusters, the client and"
        f" kafka-python on the same machine; fetch limits {DEFAULT_LIMITS._asdict()}"
    )


def main() -> None:
    """Parse the command line, run, print, and append to the log if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs of each (5)")
    parser.add_argument("--log", action="store_true", help="append to docs/benchmarks.md")
    options = parser.parse_args()
    report = "\n".join([f"## Wire, {conditions()}", "", *bench(options.rounds)])
    print(report)
    if options.log:
        with LOG.open("a") as log:
            log.write("\n" + report)


if __name__ == "__main__":
    main()
