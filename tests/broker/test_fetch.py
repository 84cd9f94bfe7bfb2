"""Fetch on real brokers: what is delivered, and what is told apart."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as RdProducer

from bench.raw_copy import within
from heliograph.errors import OffsetOutOfRange, TopicMissing, TopicRecreated
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.kafka.fetch_codec import Limits
from heliograph.kafka.properties import parse
from heliograph.kafka.records import decode
from heliograph.model.topics import Partition
from tests.checker.reading import read_partition
from tests.making import create_topic, delete_topic


@pytest.fixture
def cluster(source: Any) -> Iterator[Cluster]:
    with Cluster(parse("source", source.client_properties()), "source") as made:
        yield made


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = RdProducer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(20) == 0


def start(cluster: Cluster, fetcher: Fetcher, partition: Partition, offset: int = 0) -> None:
    view = cluster.describe([partition.topic], within(10))
    fetcher.start(partition, view.topics[partition.topic].topic_id, offset)


def take_until(cluster: Cluster, fetcher: Fetcher, enough: Any) -> list[Fetched]:
    """Turn the loop until ``enough`` is satisfied by what arrived."""
    arrived: list[Fetched] = []
    deadline = within(20)
    while not enough(arrived):
        assert not deadline.passed, f"only this came: {arrived}"
        fetcher.pump()
        cluster.loop.turn(0.05)
        arrived += fetcher.take()
    return arrived


def values_of(arrived: list[Fetched]) -> list[bytes | None]:
    return [record.value for one in arrived for _, batch in one.batches for record in decode(batch)]


def error_of(cluster: Cluster, fetcher: Fetcher) -> Exception:
    def failed(arrived: list[Fetched]) -> bool:
        return any(one.error is not None for one in arrived)

    return next(one.error for one in take_until(cluster, fetcher, failed) if one.error is not None)


def transactional(bootstrap: str, tid: str) -> Any:
    producer = RdProducer({"bootstrap.servers": bootstrap, "transactional.id": tid})
    producer.init_transactions(20)
    return producer


def test_aborted_transactions_are_absent_and_interleaved_ones_kept(
    source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    one = transactional(source.bootstrap, f"{topic_name}.one")
    two = transactional(source.bootstrap, f"{topic_name}.two")
    committed: list[bytes] = []
    for number in range(6):
        one.begin_transaction()
        two.begin_transaction()
        one_aborts, two_aborts = number % 2 == 1, number % 3 == 0
        for step in range(3):
            for producer, name, aborts in ((one, b"one", one_aborts), (two, b"two", two_aborts)):
                value = b"%b %d %d" % (name, number, step)
                producer.produce(topic_name, value, partition=0)
                producer.flush(20)
                committed += [] if aborts else [value]
            committed.append(b"plain %d %d" % (number, step))
            produce(source.bootstrap, topic_name, committed[-1:])
        (one.abort_transaction if one_aborts else one.commit_transaction)(20)
        (two.abort_transaction if two_aborts else two.commit_transaction)(20)

    limits = Limits(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, partition_max_bytes=300)
    fetcher = Fetcher(cluster, limits=limits)  # small fetches: aborts span many of them
    start(cluster, fetcher, Partition(topic_name, 0))
    enough = len(committed)
    arrived = take_until(cluster, fetcher, lambda got: len(values_of(got)) >= enough)
    assert values_of(arrived) == committed
    seen = read_partition(source.bootstrap, topic_name, 0, committed=True)
    assert [record.value for _, record in seen] == committed


def test_an_open_transaction_holds_a_read_committed_fetch_back(
    source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    produce(source.bootstrap, topic_name, [b"before"])
    open_one = transactional(source.bootstrap, topic_name)
    open_one.begin_transaction()
    open_one.produce(topic_name, b"undecided", partition=0)
    open_one.flush(20)
    produce(source.bootstrap, topic_name, [b"after"])

    fetcher = Fetcher(cluster)
    start(cluster, fetcher, Partition(topic_name, 0))
    arrived = take_until(cluster, fetcher, lambda got: got and got[-1].last_stable_offset == 1)
    assert values_of(arrived) == [b"before"]
    open_one.commit_transaction(20)
    arrived += take_until(cluster, fetcher, lambda got: values_of(got)[-1:] == [b"after"])
    assert values_of(arrived) == [b"before", b"undecided", b"after"]


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_every_version_reads_the_same(
    version: int, source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name, 2)
    wanted = [b"%d" % number for number in range(50)]
    produce(source.bootstrap, topic_name, wanted[:25], partition=0)
    produce(source.bootstrap, topic_name, wanted[25:], partition=1)
    fetcher = Fetcher(cluster, newest_version=version)
    for number in (0, 1):
        start(cluster, fetcher, Partition(topic_name, number))
    arrived = take_until(cluster, fetcher, lambda got: len(values_of(got)) >= 50)
    assert sorted(values_of(arrived), key=lambda value: int(value or b"-1")) == wanted


def test_an_idle_partition_is_not_asked_for_again_within_a_session(
    source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name, 50)
    fetcher = Fetcher(cluster)
    for number in range(50):
        start(cluster, fetcher, Partition(topic_name, number))
    # The first reply names all partitions; after that, only those with news.
    take_until(cluster, fetcher, lambda got: len(got) >= 50)
    produce(source.bootstrap, topic_name, [b"news"], partition=33)
    arrived = take_until(cluster, fetcher, lambda got: values_of(got))
    assert {one.partition for one in arrived} == {Partition(topic_name, 33)}


def test_a_paused_partition_brings_nothing_until_resumed(
    source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name, 2)
    for number in (0, 1):
        produce(source.bootstrap, topic_name, [b"%d" % number], partition=number)
    fetcher = Fetcher(cluster)
    for number in (0, 1):
        start(cluster, fetcher, Partition(topic_name, number))
    fetcher.pause(Partition(topic_name, 0))
    assert values_of(take_until(cluster, fetcher, values_of)) == [b"1"]
    fetcher.resume(Partition(topic_name, 0))
    assert values_of(take_until(cluster, fetcher, values_of)) == [b"0"]


def test_an_offset_below_the_start_or_beyond_the_end_names_the_range(
    source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    produce(source.bootstrap, topic_name, [b"%d" % number for number in range(10)])
    partition = Partition(topic_name, 0)
    with Admin(cluster.settings, "source") as admin:
        admin.logs.delete_records({partition: 4})
    for offset in (2, 99):
        fetcher = Fetcher(cluster)
        start(cluster, fetcher, partition, offset)
        error = error_of(cluster, fetcher)
        assert isinstance(error, OffsetOutOfRange)
        assert (error.offset, error.start_offset, error.end_offset) == (offset, 4, 10)


@pytest.mark.parametrize("version", [12, 17], ids=["by-name", "by-id"])
def test_a_topic_made_anew_is_never_read_as_the_old_one(
    version: int, source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    produce(source.bootstrap, topic_name, [b"old"])
    fetcher = Fetcher(cluster, newest_version=version)
    start(cluster, fetcher, Partition(topic_name, 0))
    take_until(cluster, fetcher, values_of)
    delete_topic(source.bootstrap, topic_name)
    create_topic(source.bootstrap, topic_name)
    produce(source.bootstrap, topic_name, [b"new", b"newer"])
    arrived = take_until(cluster, fetcher, lambda got: got and got[-1].error is not None)
    assert isinstance(arrived[-1].error, TopicRecreated), arrived
    assert not values_of(arrived), "they are of another topic"


def test_a_deleted_topic_is_reported_missing(
    source: Any, cluster: Cluster, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    fetcher = Fetcher(cluster)
    start(cluster, fetcher, Partition(topic_name, 0))
    take_until(cluster, fetcher, bool)
    delete_topic(source.bootstrap, topic_name)
    assert isinstance(error_of(cluster, fetcher), TopicMissing)
