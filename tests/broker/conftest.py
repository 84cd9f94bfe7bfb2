"""Both clusters as Heliograph sees them; a broker behind a proxy, one for each module."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from tests.doubles.behind import Behind
from tests.doubles.proxy import Proxy


@pytest.fixture
def ends(source: Any, target: Any) -> Iterator[tuple[Cluster, Cluster]]:
    """The session's source and target, driven by one loop."""
    loop = Loop()
    with (
        Cluster(parse("source", source.client_properties()), "source", loop) as one,
        Cluster(parse("target", target.client_properties()), "target", loop) as other,
    ):
        yield one, other
    loop.close()


@pytest.fixture(scope="module")
def behind_for_module(clusters_folder: Path) -> Iterator[Behind]:
    with Proxy() as proxy:
        spec = Spec(name="behind", advertised_port=proxy.port)
        (cluster,) = start(spec, under=clusters_folder)
        with cluster:
            proxy.point_at(cluster.node(1).ports.client)
            yield Behind(proxy, cluster.internal_bootstrap)


@pytest.fixture
def behind(behind_for_module: Behind) -> Iterator[Behind]:
    """A broker behind a proxy without rules; what a test adds ends with it."""
    behind_for_module.proxy.heal()
    yield behind_for_module
    behind_for_module.proxy.heal()
