"""Both clusters as Heliograph sees them; a broker behind a proxy, one for each module."""

import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.copy.opening import Ends
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.links.own_topics import make_own_topics
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.model.topics import Partition
from heliograph.recovery import command, stillness
from tests.broker.groups import GroupLink, group_link
from tests.broker.linked import make_ledger
from tests.doubles.behind import Behind
from tests.doubles.proxy import Proxy
from tests.making import create_topic


@pytest.fixture(autouse=True)
def _short_watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not watch a source for long before it is turned round; a test with writers does."""
    if not request.node.get_closest_marker("writers"):
        monkeypatch.setattr(stillness, "WATCH", timedelta(seconds=0.2))
    # What losing a source sets ends with the test.
    monkeypatch.setattr(command, "_ANSWER_TIMEOUT", command._ANSWER_TIMEOUT)


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


@pytest.fixture
def here(topic_name: str) -> Partition:
    """The only partition of this test's topic."""
    return Partition(topic_name, 0)


@pytest.fixture
def link(source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str) -> Ends:
    """A link of one topic of one partition, its mirror and its ledger; all empty."""
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name)
    return Ends("test", *ends, make_ledger(target.bootstrap, topic_name))


@pytest.fixture
def link_name(target: Any) -> str:
    """The name of a link whose own topics are there, and nothing else."""
    name = f"link-{secrets.token_hex(4)}"
    with Admin(parse("target", target.client_properties()), "target") as admin:
        make_own_topics(admin, name, within(20))
    return name


@pytest.fixture
def make(
    tmp_path: Path, source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> Callable[..., GroupLink]:
    """Makes a link of all topics and groups whose names begin with this test's."""

    def made(more: str = "") -> GroupLink:
        return group_link(tmp_path, source, target, ends, topic_name, more)

    return made


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
