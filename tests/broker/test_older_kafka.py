"""A link from and to Kafka 2.8 with ZooKeeper. Other versions: ``make test-versions``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.raw_copy import within
from heliograph.cli.app import run
from heliograph.control.reconcile import Reconciler
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import Superseded
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.transport import Loop
from heliograph.links.setup import Setup
from heliograph.model.blueprint import Ours
from heliograph.model.control import Wanted
from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition
from heliograph.wiring import load_config, setups
from tests.broker.linked import produce, step_until, step_until_failure, streaming
from tests.broker.links import make_link
from tests.checker.reading import read_partition
from tests.doubles.older import OlderCluster, older
from tests.making import create_topic


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlderCluster]:
    with older("2.8.2", tmp_path_factory.mktemp("older"), zookeeper=True) as cluster:
        yield cluster


def fill(bootstrap: str, topic: str) -> list[bytes]:
    """Write records, with and without transactions; return those that count."""
    plain, kept, lost = ([b"%s %d" % (kind, n) for n in range(50)] for kind in (b"p", b"k", b"l"))
    produce(bootstrap, topic, plain)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for values, end in ((lost, producer.abort_transaction), (kept, producer.commit_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        end(30)
    return [*plain, *kept]


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [seen.value for _, seen in read_partition(bootstrap, topic, 0, committed=True)]


def copy(setup: Setup, parts: Mapping[Partition, Partition]) -> None:
    """Copy to the source's end, as a task would; then let a second writer fence the first."""
    loop, name = Loop(), setup.link.name
    source = Cluster(setup.source_settings, "source", loop)
    target = Cluster(setup.target_settings, "target", loop)
    ends = Ends(name, source, target, ledger_topic(name))
    goals = list_offsets(source, dict.fromkeys(parts, LATEST), within(20))
    opened = [one for one in open_all(ends, parts, within(60)).values() if isinstance(one, Opened)]
    assert len(opened) == len(parts)
    stream = streaming(ends, *opened)
    step_until(stream, lambda: all(stream.parts[one].position >= goals[one] for one in parts))
    (again,) = open_all(ends, parts, within(60)).values()
    assert isinstance(again, Opened), again
    (topic,) = {one.topic for one in parts}
    produce(str(setup.source_settings.bootstrap[0]), topic, [b"late"])
    assert isinstance(step_until_failure(stream), Superseded)
    second = streaming(ends, again)
    step_until(second, lambda: all(second.parts[one].position > goals[one] for one in parts))
    second.finish(within(20))
    second.close()
    loop.close()


@pytest.mark.parametrize("older_end", ["source", "target"])
def test_a_link_copies_each_record_once_fences_and_moves_groups(
    older_end: str,
    old: OlderCluster,
    source: Any,
    target: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, other = (old, target) if older_end == "source" else (source, old)
    create_topic(one.bootstrap, topic_name, config={"segment.ms": "70000"})
    expected = fill(one.bootstrap, topic_name)
    readers = {"bootstrap.servers": one.bootstrap, "group.id": topic_name}
    with closing(Consumer(readers)) as consumer:
        consumer.commit(offsets=[TopicPartition(topic_name, 0, 20)], asynchronous=False)
    link = make_link(tmp_path, one.bootstrap, other, f"    groups: [{topic_name}]", topic_name)
    words = ["-f", str(link.file), "-o", "json"]
    assert run(["check", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["code"] for row in found} == {"kafka-too-old"}
    lacks = {"source": "OffsetFetch version 8", "target": "DescribeTransactions version 0"}
    assert any(lacks[older_end] in row["finding"] for row in found)
    (setup,) = setups(load_config(link.file))
    link.make_topics()
    with closing(Reconciler(setup)) as reconciler:
        observed = reconciler.look(Ours(), Wanted(), within(30))
        assert not observed.errors and list(observed.made) == [topic_name]
        copy(setup, observed.parts)
    assert values(other.bootstrap, topic_name) == [*expected, b"late"]
    assert run(["groups", "sync", link.name, *words]) == 0
    with closing(Consumer(readers | {"bootstrap.servers": other.bootstrap})) as consumer:
        (at,) = consumer.committed([TopicPartition(topic_name, 0)], 20)
    rows = read_partition(other.bootstrap, topic_name, 0, committed=True)
    assert {offset: seen.value for offset, seen in rows}[at.offset] == expected[20]
