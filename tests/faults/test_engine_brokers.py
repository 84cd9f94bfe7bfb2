"""Brokers killed under a running link: it waits, goes on by itself, and no record is twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.local.brokers import Cluster
from tests.faults.engine import make_link, mirroring, see_more

SOURCE, TARGET = "brokers-source", "brokers-target"


@pytest.mark.timeout(900)
def test_a_link_outlives_its_brokers(
    private_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    replicated = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    source = private_cluster(name=SOURCE)
    target = private_cluster(name=TARGET, nodes=3, properties=replicated)
    link = make_link(tmp_path, source, target)
    with mirroring(link, tmp_path) as (driver, followers):
        driver.wait_copying()
        see_more(followers, 100)
        for node in (*target.nodes, source.node(1)):
            node.kill()
            node.start()
            see_more(followers, 200, 120)
