"""Topics and partitions that do not exist, and rights that are missing.

Each is one error of the right class that names the cluster and the thing, comes within its
deadline and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.errors import HeliographError, NotAuthorized, TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import claim
from heliograph.kafka.fetch import Fetcher
from heliograph.kafka.offsets import EARLIEST, list_offsets
from heliograph.kafka.produce import Producer
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.model.topics import Partition
from tests.doubles import outside
from tests.doubles.driving import batch_of, pump, within
from tests.doubles.mistakes import (
    DEADLINE_S,
    SLACK_S,
    USERS,
    allow,
    failure_of,
    open_cluster,
    until_described,
)


@pytest.fixture(scope="module")
def guarded(clusters_folder: Path) -> Iterator[LocalCluster]:
    """A cluster where nobody may do anything unless an ACL says so."""
    spec = Spec(name="guarded", sasl="SCRAM-SHA-512", users=USERS, acls=True)
    (cluster,) = start(spec, under=clusters_folder)
    with cluster:
        yield cluster


@pytest.fixture
def here(target: Any) -> Iterator[Cluster]:
    with open_cluster("target", {"bootstrap.servers": target.bootstrap}) as cluster:
        yield cluster


def failure_of_fetch(cluster: Cluster, partition: Partition, topic_id: Any) -> HeliographError:
    fetcher = Fetcher(cluster)
    fetcher.start(partition, topic_id, 0)
    found: list[HeliographError] = []

    def failed() -> bool:
        found.extend(fetched.error for fetched in fetcher.take() if fetched.error)
        return bool(found)

    pump(cluster, fetcher, failed, seconds=DEADLINE_S + SLACK_S)
    return found[0]


def failure_of_produce(cluster: Cluster, partition: Partition, topic_id: Any) -> HeliographError:
    producer = Producer(cluster)
    found: list[Any] = []
    producer.send(partition, topic_id, batch_of([b"x"]), found.append, deadline=within(10))
    pump(cluster, producer, lambda: bool(found), seconds=DEADLINE_S + SLACK_S)
    assert isinstance(found[0], HeliographError)
    return found[0]


def _throw(error: HeliographError) -> None:
    raise error


def test_unknown_topic_is_missing_for_every_request(here: Cluster, topic_name: str) -> None:
    nowhere = Partition(topic_name, 0)
    acts: list[Callable[[], object]] = [
        lambda: here.describe([topic_name], within(DEADLINE_S + 2)),
        lambda: list_offsets(here, {nowhere: EARLIEST}, within(DEADLINE_S + 2)),
        lambda: claim(here, f"heliograph.test.{topic_name}.0", [nowhere], within(DEADLINE_S)),
        lambda: _throw(failure_of_fetch(here, nowhere, uuid4())),
        lambda: _throw(failure_of_produce(here, nowhere, uuid4())),
    ]
    for act in acts:
        assert topic_name in failure_of(TopicMissing, "target", act)


def test_partition_out_of_range_is_missing_for_every_request(
    target: Any, here: Cluster, topic_name: str
) -> None:
    outside.make_topic(target.bootstrap, topic_name, partitions=2)
    beyond = Partition(topic_name, 7)
    topic_id = here.describe([topic_name], within()).topics[topic_name].topic_id
    acts: list[Callable[[], object]] = [
        lambda: list_offsets(here, {beyond: EARLIEST}, within(DEADLINE_S + 2)),
        lambda: claim(here, f"heliograph.test.{topic_name}.7", [beyond], within(DEADLINE_S)),
        lambda: _throw(failure_of_fetch(here, beyond, topic_id)),
        lambda: _throw(failure_of_produce(here, beyond, topic_id)),
    ]
    for act in acts:
        assert "7" in failure_of(TopicMissing, "target", act)
    assert [outside.values(target.bootstrap, topic_name, n) for n in (0, 1)] == [[], []]


# Rights


def test_missing_acl_is_named_and_nothing_is_written(
    guarded: LocalCluster, topic_name: str
) -> None:
    local = guarded
    outside.make_topic(local.internal_bootstrap, topic_name)
    partition, identity = Partition(topic_name, 0), f"heliograph.test.{topic_name}.0"
    wanted = guarded.client_properties("stranger")
    with open_cluster("guarded", wanted) as cluster:

        def refused(act: Callable[[], object]) -> str:
            return failure_of(NotAuthorized, "guarded", act, seconds=DEADLINE_S + 2)

        text = refused(lambda: cluster.describe([topic_name], within(DEADLINE_S + 2)))
        assert topic_name in text and "(29)" in text and "Read" in text
        allow(local, "stranger", ResourceType.TOPIC, topic_name, AclOperation.DESCRIBE)
        topic_id = until_described(cluster, topic_name)
        text = refused(lambda: _throw(failure_of_fetch(cluster, partition, topic_id)))
        assert f"{partition}" in text and "(29)" in text and "Read" in text
        text = refused(lambda: _throw(failure_of_produce(cluster, partition, topic_id)))
        assert f"{partition}" in text and "(29)" in text and "Write" in text
        text = refused(lambda: claim(cluster, identity, [partition], within(DEADLINE_S)))
        assert identity in text and "(53)" in text and "transactional id" in text
        allow(local, "stranger", ResourceType.TRANSACTIONAL_ID, identity, AclOperation.WRITE)
        ledger = Partition(f"{topic_name}.ledger", 0)
        outside.make_topic(local.internal_bootstrap, ledger.topic)
        text = refused(lambda: claim(cluster, identity, [partition, ledger], within(DEADLINE_S)))
        assert "(29)" in text and "Write" in text
    assert outside.values(local.internal_bootstrap, topic_name) == []
