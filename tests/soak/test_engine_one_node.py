"""A target of one node that is killed and comes back: copying waits, and loses nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.local.brokers import Cluster
from tests.faults.engine import make_link, mirroring, see_more

SOURCE, TARGET = "one-source", "one-target"


@pytest.mark.timeout(900)
def test_a_link_waits_for_a_target_of_one_node(
    private_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    source, target = private_cluster(name=SOURCE), private_cluster(name=TARGET)
    link = make_link(tmp_path, source, target)
    with mirroring(link, tmp_path) as (driver, followers):
        driver.wait_copying()
        see_more(followers, 100)
        for _ in range(2):
            target.node(1).kill()
            target.node(1).start()
            see_more(followers, 200, 120)
