"""Brokers killed under a running link: it waits, goes on by itself, and no record is twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.local.brokers import Cluster
from tests.checker.follow import following
from tests.faults.engine import loading, make_link, running, see_more
from tests.making import create_topic

SOURCE, TARGET = "brokers-source", "brokers-target"


@pytest.mark.timeout(900)
def test_a_link_outlives_its_brokers(
    private_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    replicated = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    source = private_cluster(name=SOURCE)
    target = private_cluster(name=TARGET, nodes=3, properties=replicated)
    link = make_link(tmp_path, source, target)
    topic, journal = f"{link.name}-orders", tmp_path / "journal"
    create_topic(link.source, topic, 3)
    with (
        following(link.source, link.target, {topic: topic}) as followers,
        running(link, tmp_path / "driver") as driver,
    ):
        with loading(link.source, topic, journal):
            driver.wait_copying()
            see_more(followers, 100)
            for node in (*target.nodes, source.node(1)):
                node.kill()
                node.start()
                see_more(followers, 200, 120)
        followers.healed()
        followers.catch_up(within_s=90)
        assert driver.end() == 0, driver.said
    assert followers.anomalies == []
    link.check(topic, journal=journal)


@pytest.mark.timeout(900)
def test_a_link_waits_for_a_target_of_one_node(
    private_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    source, target = private_cluster(name=SOURCE), private_cluster(name=TARGET)
    link = make_link(tmp_path, source, target)
    topic, journal = f"{link.name}-orders", tmp_path / "journal"
    create_topic(link.source, topic, 3)
    with (
        following(link.source, link.target, {topic: topic}) as followers,
        running(link, tmp_path / "driver") as driver,
    ):
        with loading(link.source, topic, journal):
            driver.wait_copying()
            see_more(followers, 100)
            for _ in range(2):
                target.node(1).kill()
                target.node(1).start()
                see_more(followers, 200, 120)
        followers.healed()
        followers.catch_up(within_s=90)
        assert driver.end() == 0, driver.said
    assert followers.anomalies == []
    link.check(topic, journal=journal)
