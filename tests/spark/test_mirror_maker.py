"""``heliograph mirror-maker`` mirrors: MirrorMaker 1's files in, every record once."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from heliograph.local.processes import Process
from tests.broker.linked import produce
from tests.checker.reading import read_partition
from tests.faults.engine import COMMAND, START_S, until
from tests.making import create_topic

RECORDS = 300


@pytest.fixture
def group() -> str:
    return f"mirror-maker-{secrets.token_hex(4)}"


def write_call(folder: Path, source: Any, target: Any, group: str) -> list[str]:
    consumer, producer = folder / "consumer.properties", folder / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={source.bootstrap}\ngroup.id={group}\nauto.offset.reset=earliest\n"
    )
    producer.write_text(f"bootstrap.servers={target.bootstrap}\nacks=all\n")
    files = ["--consumer.config", str(consumer), f"--producer.config={producer}"]
    return [COMMAND, "mirror-maker", *files, "--num.streams=1", "--include", f"{group}-.*"]


def called(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=_environment(folder), capture_output=True, text=True, timeout=120, check=False
    )


def _environment(folder: Path) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return os.environ | {"LOG_DIR": str(folder / "logs"), "TMPDIR": str(folder / "tmp")}


@contextmanager
def ending(process: Process) -> Iterator[None]:
    """End a process and wait until it is gone, whatever happens in between."""
    try:
        yield
    finally:
        process.send(signal.SIGTERM)
        if not process.wait_gone(timedelta(seconds=90)):
            process.send(signal.SIGKILL)


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    """Return what readers of a topic see; of one that is not there yet, nothing."""
    if topic not in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics:
        return []
    return [seen.value for _, seen in read_partition(bootstrap, topic, 0, committed=False)]


def commit(bootstrap: str, group: str, topic: str) -> None:
    """Let a group that nobody is in have read one record of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()


@pytest.mark.timeout(900)
def test_mirror_maker_mirrors_in_the_background_until_it_is_told_to_end(
    source: Any, target: Any, tmp_path: Path, group: str
) -> None:
    topic = f"{group}-orders"
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, [b"%d" % number for number in range(RECORDS)])
    command = write_call(tmp_path, source, target, group)
    started = called([*command, "-daemon", "-o", "json"], tmp_path)
    assert started.returncode == 0, started.stderr
    assert "note: producer.config: acks: " in started.stderr
    assert "begins by auto.offset.reset, which is earliest" in started.stderr
    (told,) = json.loads(started.stdout)
    log = Path(told["log"])
    assert log == tmp_path / "logs" / f"{group}.out" and told["link"] == group
    process = Process.of(told["pid"])
    with ending(process):
        until(lambda: len(values(target.bootstrap, topic)) == RECORDS, START_S, log.read_text)
        produce(source.bootstrap, topic, [b"one more"])
        until(lambda: len(values(target.bootstrap, topic)) > RECORDS, 60, log.read_text)
    wanted = [*(b"%d" % number for number in range(RECORDS)), b"one more"]
    assert values(target.bootstrap, topic) == wanted
    assert "Stopping" in log.read_text()

    # The ledger says how far it is, whatever the group has committed meanwhile.
    commit(source.bootstrap, group, topic)
    again = called([*command, "-daemon", "-o", "json"], tmp_path)
    assert again.returncode == 0 and "auto.offset.reset" not in again.stderr, again.stderr
    (told,) = json.loads(again.stdout)
    produce(source.bootstrap, topic, [b"and another"])
    with ending(Process.of(told["pid"])):
        until(lambda: len(values(target.bootstrap, topic)) > len(wanted), START_S, log.read_text)
    assert values(target.bootstrap, topic) == [*wanted, b"and another"]


def test_it_goes_on_where_the_group_stopped_and_behind_what_is_there_already(
    source: Any, target: Any, tmp_path: Path, group: str
) -> None:
    topic = f"{group}-orders"
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic, 2)
    copy = Producer({"bootstrap.servers": target.bootstrap})
    written = Producer({"bootstrap.servers": source.bootstrap})
    for number in range(5):  # MirrorMaker copied three and committed one, elsewhere than here
        value, time_ms = b"%d" % number, 1_700_000_000_000 + number
        written.produce(topic, value, partition=0, timestamp=time_ms)
        if number < 3:
            copy.produce(topic, value, partition=number % 2, timestamp=time_ms)
    assert written.flush(20) == copy.flush(20) == 0
    commit(source.bootstrap, group, topic)
    started = called(
        [*write_call(tmp_path, source, target, group), "-daemon", "-o", "json"], tmp_path
    )
    assert started.returncode == 0, started.stderr
    assert f"Goes on where the group {group} stopped, in 1 partitions; 2 records" in started.stderr
    (told,) = json.loads(started.stdout)
    with ending(Process.of(told["pid"])):
        log = Path(told["log"])
        until(lambda: values(target.bootstrap, topic)[-1:] == [b"4"], START_S, log.read_text)
    assert values(target.bootstrap, topic) == [b"0", b"2", b"3", b"4"]


def test_a_group_that_has_members_is_refused_before_anything_starts(
    source: Any, target: Any, tmp_path: Path, group: str
) -> None:
    topic = f"{group}-orders"
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, [b"x"])
    commit(source.bootstrap, group, topic)
    member = Consumer({"bootstrap.servers": source.bootstrap, "group.id": group})
    member.subscribe([topic])
    until(lambda: member.poll(0.5) is not None or member.assignment(), 60, "it does not join")
    refused = called(write_call(tmp_path, source, target, group), tmp_path)
    member.close()
    assert refused.returncode == 3, refused.stderr
    assert f"error: unsafe: MirrorMaker still runs: the group {group}" in refused.stderr
