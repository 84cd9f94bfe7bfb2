"""Compacted topics as tables, on a real broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.errors import RecordsRefused, Superseded
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import claim
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table, Writer
from heliograph.model.topics import Partition
from tests.making import create_topic


@pytest.fixture
def cluster(target: Any) -> Iterator[Cluster]:
    with Cluster(parse("target", target.client_properties()), "target") as made:
        yield made


@pytest.fixture
def topic(target: Any, topic_name: str) -> str:
    create_topic(target.bootstrap, topic_name, config={"cleanup.policy": "compact"})
    return topic_name


def test_the_last_put_of_a_key_is_its_row(cluster: Cluster, topic: str) -> None:
    writing, reading = Table(cluster, topic), Table(cluster, topic)
    writing.put({b"a": b"1", b"b": b"2"}, within(10))
    writing.put({b"a": b"3", b"b": None, b"c": b""}, within(10))
    assert reading.load(within(10)) == {b"a": b"3", b"c": b""}


def test_an_empty_table_loads_as_empty(cluster: Cluster, topic: str) -> None:
    assert Table(cluster, topic).load(within(10)) == {}


def test_following_sees_each_change_once_and_in_order(cluster: Cluster, topic: str) -> None:
    writing, reading = Table(cluster, topic), Table(cluster, topic)
    writing.put({b"k": b"0"}, within(10))
    reading.load(within(10))
    for number in range(1, 4):
        writing.put({b"k": b"%d" % number}, within(10))
    seen: list[bytes | None] = []
    while len(seen) < 3:
        changes = reading.follow(within(10))
        assert changes, "nothing within 10 s"
        seen += [change.value for change in changes]
    assert seen == [b"1", b"2", b"3"]
    assert reading.rows == {b"k": b"3"}
    assert reading.follow(within(0.3)) == []
    assert reading.catch_up(within(10)) == []


def test_only_the_expected_writer_can_put(cluster: Cluster, topic: str) -> None:
    table = Table(cluster, topic)
    old = Writer.of(claim(cluster, f"heliograph.x.{topic}", [Partition(topic, 0)], within(10)))
    table.put({b"k": b"old"}, within(10), writer=old)
    table.put({b"k": b"older"}, within(10), writer=old)
    new = Writer.of(claim(cluster, f"heliograph.x.{topic}", [Partition(topic, 0)], within(10)))
    with pytest.raises(Superseded):
        table.put({b"k": b"zombie"}, within(10), writer=old)
    table.put({b"k": b"new"}, within(10), writer=new)
    assert table.load(within(10)) == {b"k": b"new"}


def test_a_row_that_the_broker_refuses_is_an_error(
    target: Any, cluster: Cluster, topic_name: str
) -> None:
    limits = {"cleanup.policy": "compact", "max.message.bytes": "1000"}
    create_topic(target.bootstrap, topic_name, config=limits)
    table = Table(cluster, topic_name)
    with pytest.raises(RecordsRefused) as caught:
        table.put({b"k": b"x" * 5000}, within(10))
    assert caught.value.kafka_code == 10
    assert table.load(within(10)) == {}
