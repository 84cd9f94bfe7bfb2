"""A broker behind a proxy, one for each module that asks for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.local.launch import start
from heliograph.local.spec import Spec
from tests.doubles.behind import Behind
from tests.doubles.proxy import Proxy


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
    """A proxy without rules; what a test adds ends with it."""
    behind_for_module.proxy.heal()
    yield behind_for_module
    behind_for_module.proxy.heal()
