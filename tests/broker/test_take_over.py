"""A real MirrorMaker 2, stopped or killed in the middle: the link goes on exactly there."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.race.mirrormaker import MirrorMaker
from bench.race.tools import Leg, Running
from heliograph.cli.app import run
from heliograph.control.taking_over import take_over
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import Unsafe
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.model.mm2_positions import Keeping
from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition
from heliograph.wiring import load_config, setups
from tests.broker.linked import produce, step_until, streaming, within
from tests.checker.reading import read_partition
from tests.doubles.mirrored import write_rows
from tests.faults.engine import until
from tests.making import create_topic

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
TUNED = {
    "emit.offset-syncs.enabled": "true",
    "offset-syncs.topic.replication.factor": "1",
    "offset.flush.interval.ms": "60000",
    # So that one that was killed is noticed soon, and its work taken up at once.
    "{target}.session.timeout.ms": "6000",
    "{target}.heartbeat.interval.ms": "2000",
    "{target}.scheduled.rebalance.max.delay.ms": "0",
}


class Copied:
    """A topic that MirrorMaker 2 copied in part, and the link that is to go on."""

    def __init__(self, source: Any, target: Any, topic: str, folder: Path, naming: str) -> None:
        self.source, self.target = source, target
        self.alias = f"mm{time.monotonic_ns() % 10**9}"
        self.topic, self.folder, self.naming = topic, folder, naming
        self.mirror = topic if naming == "same" else f"{self.alias}.{topic}"
        self.keeping = Keeping(self.alias, "target")
        file = folder / "heliograph.yaml"
        file.write_text(
            f"""
clusters:
  {self.alias}: {{bootstrap.servers: "{source.bootstrap}"}}
  target: {{bootstrap.servers: "{target.bootstrap}"}}
links:
  taken:
    source: {self.alias}
    target: target
    topics: ["{topic}"]
    naming: {naming}
""".replace("  taken:", f"  {self.alias}-target:")
        )
        (self.setup,) = setups(load_config(file))

    @contextmanager
    def mirror_maker(self) -> Iterator[Running]:
        tuned = dict(TUNED)
        if self.naming == "same":
            tuned["replication.policy.class"] = IDENTITY
        leg = Leg(self.alias, self.topic, self.source.bootstrap, self.target.bootstrap)
        with Running(MirrorMaker(tuned, is_exactly_once=False), leg, self.folder) as running:
            yield running

    def values(self) -> list[bytes | None]:
        rows = read_partition(self.target.bootstrap, self.mirror, 0, committed=True)
        return [seen.value for _, seen in rows]

    def wait(self, count: int) -> None:
        def has() -> bool:
            try:
                return len(self.values()) >= count
            except Exception:  # there is no mirror yet
                return False

        until(has, 60, f"MirrorMaker 2 has not copied {count}")

    def import_it(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """Take over with the command, by the file that MirrorMaker 2 ran with."""
        capsys.readouterr()
        file = str(self.folder / f"{self.alias}.properties")
        code = run(["import", "mm2", file, "--take-over", "-o", "json"])
        told = capsys.readouterr()
        assert code == 0, told.err
        (row,) = json.loads(told.out)
        return {name: row[name] for name in ("copied_to", "doubled", "state")}

    def kill_at(self, count: int) -> None:
        """Start it, kill it when it has copied so many in all, and wait until that is noticed."""
        with self.mirror_maker() as running:
            self.wait(count)
            running.tree.look()
            for pid in running.tree.pids:
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self._has_members(), 60, "its group does not notice")

    def _has_members(self) -> bool:
        with Admin(self.setup.target_settings, "target") as admin:
            return admin.groups.has_members(self.keeping.group, within(20))

    def play_positions(self, where: dict[str, Any], last: int) -> None:
        """Store a position as MirrorMaker 2 would."""
        topic = self.keeping.offsets_topic
        create_topic(self.target.bootstrap, topic, config={"cleanup.policy": "compact"})
        row = json.dumps(["MirrorSourceConnector", where])
        write_rows(self.target.bootstrap, topic, {row: json.dumps({"offset": last})})

    def go_on(self) -> None:
        """Copy the rest, as a task would."""
        loop, name = Loop(), self.setup.link.name
        source = Cluster(parse("source", self.source.client_properties()), "source", loop)
        target = Cluster(parse("target", self.target.client_properties()), "target", loop)
        ends = Ends(name, source, target, ledger_topic(name))
        here = Partition(self.topic, 0)
        opened = open_all(ends, {here: Partition(self.mirror, 0)}, within(60))[here]
        assert isinstance(opened, Opened), opened
        stream = streaming(ends, opened)
        end = list_offsets(source, {here: LATEST}, within(20))[here]
        step_until(stream, lambda: stream.parts[here].position >= end)
        stream.finish(within(20))
        stream.close()
        loop.close()


@pytest.fixture
def copied(
    request: pytest.FixtureRequest, source: Any, target: Any, topic_name: str, tmp_path: Path
) -> Copied:
    create_topic(source.bootstrap, topic_name)
    return Copied(source, target, topic_name, tmp_path, getattr(request, "param", "prefix"))


def records(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_what_was_stopped_in_good_order_goes_on_without_a_gap_or_a_double(
    copied: Copied, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(copied.source.bootstrap, copied.topic, records(0, 500))
    with copied.mirror_maker():
        copied.wait(500)
        with pytest.raises(Unsafe, match="still runs"):
            take_over(copied.setup, copied.keeping, dry_run=True)
    produce(copied.source.bootstrap, copied.topic, records(500, 100))
    shown = take_over(copied.setup, copied.keeping, dry_run=True)
    assert not shown.is_done and not shown.has_failed and shown.doubled == 0
    assert copied.import_it(capsys) == {"copied_to": 500, "doubled": 0, "state": "goes on"}
    copied.go_on()
    assert copied.values() == records(0, 600)
    assert copied.import_it(capsys)["state"] == "known already"


@pytest.mark.parametrize("copied", ["same"], indirect=True)
def test_after_a_kill_nothing_is_copied_twice_and_older_doubles_are_told(copied: Copied) -> None:
    produce(copied.source.bootstrap, copied.topic, records(0, 300))
    with copied.mirror_maker():
        copied.wait(300)  # its position is written down when it is stopped
    produce(copied.source.bootstrap, copied.topic, records(300, 200))
    copied.kill_at(500)
    shown = take_over(copied.setup, copied.keeping, dry_run=True)
    assert [one.walked.source_next for one in shown.adoptions] == [500] and not shown.doubled
    copied.kill_at(700)  # begun again at 300
    taken = take_over(copied.setup, copied.keeping, dry_run=False)
    assert taken.is_done and taken.doubled == 200
    produce(copied.source.bootstrap, copied.topic, records(500, 50))
    copied.go_on()
    left = Counter(copied.values())
    assert left == Counter(records(0, 550)) + Counter(records(300, 200))


def test_a_record_of_somebody_else_is_refused(copied: Copied) -> None:
    produce(copied.source.bootstrap, copied.topic, records(0, 50))
    with copied.mirror_maker():
        copied.wait(50)
    produce(copied.target.bootstrap, copied.mirror, [b"foreign"])
    refused = take_over(copied.setup, copied.keeping, dry_run=False)
    assert refused.has_failed and not refused.is_done
    (one,) = refused.adoptions
    assert one.error is not None and "Something else wrote it" in one.error.message


def test_copies_that_have_their_brokers_time_are_known_by_their_content(copied: Copied) -> None:
    """MirrorMaker 2 is played: it copied fifty records, and wrote down forty of them."""
    create_topic(
        copied.target.bootstrap, copied.mirror, config={"message.timestamp.type": "LogAppendTime"}
    )
    for cluster, topic in ((copied.source, copied.topic), (copied.target, copied.mirror)):
        produce(cluster.bootstrap, topic, records(0, 50))
    copied.play_positions({"cluster": copied.alias, "partition": 0, "topic": copied.topic}, 39)
    taken = take_over(copied.setup, copied.keeping, dry_run=False)
    assert taken.is_done, taken.adoptions
    assert [one.walked.source_next for one in taken.adoptions] == [50] and not taken.doubled
    with Admin(copied.setup.target_settings, "target") as admin:  # as `check` says
        create_time = {"message.timestamp.type": "CreateTime"}
        admin.configs.change_topic(copied.mirror, put=create_time, deadline=within(20))
    produce(copied.source.bootstrap, copied.topic, records(50, 10))
    copied.go_on()
    assert copied.values() == records(0, 60)


def test_a_kill_before_any_position_was_stored_costs_nothing(
    copied: Copied, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(copied.source.bootstrap, copied.topic, records(0, 300))
    copied.kill_at(300)
    produce(copied.source.bootstrap, copied.topic, records(300, 50))
    assert copied.import_it(capsys) == {"copied_to": 300, "doubled": 0, "state": "goes on"}
    copied.go_on()
    assert copied.values() == records(0, 350)


def write_dated(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    """Write records whose times their values tell, so that copies have those of their originals."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        dated = 1_790_000_000_000 + (int(value) if value.isdigit() else 0)
        producer.produce(topic, value, partition=partition, timestamp=dated)
    assert producer.flush(20) == 0


def test_partitions_without_a_stored_position_are_compared_like_the_others(copied: Copied) -> None:
    """MirrorMaker 2 is played: of three partitions it wrote the position of one."""
    link = copied.setup.link
    topic, mirror = f"{copied.topic}.3", f"{copied.mirror}.3"
    setup = replace(copied.setup, link=replace(link, topics=(topic,)))
    create_topic(copied.source.bootstrap, topic, 4)
    create_topic(copied.target.bootstrap, mirror, 4)
    for number, count in ((0, 20), (1, 30), (2, 40)):
        write_dated(copied.source.bootstrap, topic, records(0, 50), number)
        write_dated(copied.target.bootstrap, mirror, records(0, count), number)
    copied.play_positions({"cluster": copied.alias, "partition": 1, "topic": topic}, 24)
    # The first records of one are gone from the source since they were copied.
    admin = AdminClient({"bootstrap.servers": copied.source.bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 2, 15)]).values():
        done.result(20)
    shown = take_over(setup, copied.keeping, dry_run=True)
    assert not shown.has_failed and shown.unstored == 2
    found = {one.position.source.partition: one.walked.source_next for one in shown.adoptions}
    assert found == {0: 20, 1: 30, 2: 40}, "nothing was ever copied of the fourth"


def test_what_cannot_be_taken_over_is_named_and_nothing_is_changed(
    copied: Copied, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(copied.target.bootstrap, copied.mirror)
    write_dated(copied.source.bootstrap, copied.topic, records(0, 50))
    write_dated(copied.target.bootstrap, copied.mirror, [b"foreign", *records(0, 20)])
    file = copied.folder / "mm2.properties"
    file.write_text(
        f"clusters = {copied.alias}, target\n"
        f"{copied.alias}.bootstrap.servers = {copied.source.bootstrap}\n"
        f"target.bootstrap.servers = {copied.target.bootstrap}\n"
        f"{copied.alias}->target.enabled = true\n"
        f"{copied.alias}->target.topics = {copied.topic}\n"
    )
    assert run(["import", "mm2", str(file), "--take-over"]) == 3
    told = capsys.readouterr()
    assert f"{copied.topic}-0" in told.err and "nothing was changed" in told.err
    assert "refused" in told.out
    assert run(["import", "mm2", str(file), "--take-over", "--dry-run"]) == 3
