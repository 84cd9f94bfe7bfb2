"""Leaders that move, die and stop under a copy, in a cluster of three nodes."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as RdProducer

from bench.raw_copy import RawCopy, claim_mirror, topic_ends, within
from heliograph.errors import LogTruncated
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import Fetcher
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.model.configs import NewTopic
from heliograph.model.topics import Partition
from tests.checker.compare import count_equal
from tests.making import create_topic

PARTITIONS = 3
BATCH_RECORDS = 50
# Dead brokers are noticed after this long, not after the nine seconds of the default.
QUICK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture
def three(private_cluster: Callable[..., Any]) -> Any:
    return private_cluster(name="three", nodes=3, properties=QUICK)


@pytest.fixture
def both(three: Any) -> Iterator[tuple[Cluster, Cluster]]:
    """The same cluster twice: as the source and as the target of a copy."""
    loop = Loop()
    settings = parse("three", three.client_properties())
    with Cluster(settings, "three", loop) as one, Cluster(settings, "three", loop) as other:
        yield one, other
    loop.close()


def fill(bootstrap: str, topic: str, records: int) -> None:
    sizes = {"linger.ms": 5, "batch.num.messages": BATCH_RECORDS}
    producer = RdProducer({"bootstrap.servers": bootstrap} | sizes)
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        if number % 50_000 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def prepare(three: Any, both: tuple[Cluster, Cluster], name: str, records: int) -> RawCopy:
    mirror = f"{name}.mirror"
    for topic in (name, mirror):
        safe = {"min.insync.replicas": "2"}
        create_topic(three.bootstrap, topic, PARTITIONS, replicas=3, config=safe)
    fill(three.bootstrap, name, records)
    ends = topic_ends(both[0], name, within(30))
    both[1].describe([mirror], within(30))
    claims = claim_mirror(both[1], mirror, PARTITIONS, within(30))
    return RawCopy(*both, ends, mirror, claims)


def check(three: Any, name: str, records: int) -> None:
    both = (three.bootstrap, name, three.bootstrap, f"{name}.mirror")
    for committed in (False, True):
        assert count_equal(*both, PARTITIONS, committed=committed) == records


def copy_with(copy: RawCopy, disturbances: list[Callable[[], None]], total_batches: int) -> None:
    """Copy to the end; a disturbance strikes each time another share of the batches is over."""
    left = list(disturbances)
    share = total_batches // (len(left) + 1)
    strikes = 0
    deadline = within(180)
    while copy.step():
        assert not deadline.passed, f"stuck after {copy.copied.batches} batches"
        if left and copy.copied.batches >= share * (strikes + 1):
            strikes += 1
            left.pop(0)()
    assert not left, "the copy ended before every disturbance had struck"


def test_leaders_moved_during_a_copy_lose_and_repeat_nothing(
    three: Any, both: tuple[Cluster, Cluster], topic_name: str
) -> None:
    copy = prepare(three, both, topic_name, records := 60_000)
    nodes = sorted(both[0].view.brokers)
    with Admin(both[0].settings, "three") as admin:

        def move() -> None:
            orders = {}
            for topic in (topic_name, f"{topic_name}.mirror"):
                for number in range(PARTITIONS):
                    orders[Partition(topic, number)] = tuple(random.sample(nodes, 3))
            admin.logs.reassign(orders)
            admin.logs.elect_preferred(list(orders))

        copy_with(copy, [move] * 6, total_batches=records // BATCH_RECORDS)
    check(three, topic_name, records)


def test_a_killed_and_a_stopped_leader_lose_and_repeat_nothing(
    three: Any, both: tuple[Cluster, Cluster], topic_name: str
) -> None:
    copy = prepare(three, both, topic_name, records := 60_000)

    def leader_of_first_mirror() -> Any:
        view = both[1].view.find(Partition(f"{topic_name}.mirror", 0))
        assert view is not None and view.leader is not None
        return three.node(view.leader)

    struck: list[Any] = []

    def kill() -> None:
        struck.append(leader_of_first_mirror())
        struck[-1].kill()

    def revive_and_stop_another() -> None:
        struck[-1].start()
        struck.append(leader_of_first_mirror())
        struck[-1].pause()

    try:
        copy_with(copy, [kill, revive_and_stop_another], total_batches=records // BATCH_RECORDS)
    finally:
        struck[-1].resume()
    deadline = within(60)
    while True:
        try:
            check(three, topic_name, records)
            break
        except AssertionError:
            # A leader that was stopped serves what it knew, until it hears that another leads.
            if deadline.passed:
                raise
            both[1].loop.turn(1)


def test_a_truncated_log_is_told_with_the_offset_where_it_parted(
    private_cluster: Callable[..., Any], topic_name: str
) -> None:
    three = private_cluster(name="three", nodes=3, properties=QUICK)
    settings = parse("three", three.client_properties())
    with Cluster(settings, "three") as cluster, Admin(settings, "three") as admin:
        unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        admin.topics.create(NewTopic(topic_name, assignments={0: (1, 2)}, configs=unclean))
        partition = Partition(topic_name, 0)
        wait_for(lambda: leader(cluster, partition) == (1, {1, 2}), cluster)
        put(three.bootstrap, topic_name, [b"kept %d" % n for n in range(5)], acks="all")

        three.node(2).kill()
        wait_for(lambda: leader(cluster, partition) == (1, {1}), cluster)
        put(three.bootstrap, topic_name, [b"lost %d" % n for n in range(5)], acks="1")
        topic_id = cluster.view.topics[topic_name].topic_id
        fetcher = Fetcher(cluster)
        fetcher.start(partition, topic_id, 0)
        read_to(cluster, fetcher, 10)

        three.node(1).kill()
        three.node(2).start()
        wait_for(lambda: leader(cluster, partition)[0] == 2, cluster)
        error = read_to(cluster, fetcher, 11)
        assert isinstance(error, LogTruncated), error
        assert error.end_offset == 5


def leader(cluster: Cluster, partition: Partition) -> tuple[int | None, set[int]]:
    view = cluster.look([partition.topic], within(30)).find(partition)
    return (view.leader, set(view.in_sync)) if view else (None, set())


def put(bootstrap: str, topic: str, values: list[bytes], *, acks: str) -> None:
    producer = RdProducer({"bootstrap.servers": bootstrap, "acks": acks})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def wait_for(claim: Callable[[], bool], cluster: Cluster) -> None:
    deadline = within(60)
    while not claim():
        assert not deadline.passed, "it did not come true in time"
        cluster.loop.turn(0.1)


def read_to(cluster: Cluster, fetcher: Fetcher, offset: int) -> Exception | None:
    deadline = within(60)
    while True:
        assert not deadline.passed, f"{offset} was not reached"
        fetcher.pump()
        cluster.loop.turn(0.1)
        for fetched in fetcher.take():
            if fetched.error is not None:
                return fetched.error
            if fetched.next_offset >= offset:
                return None
