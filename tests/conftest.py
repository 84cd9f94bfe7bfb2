"""Clusters for tests: started lazily on loopback, or borrowed; nothing is left behind.

``source`` and ``target`` serve the whole session: name topics by ``topic_name`` and never kill
their brokers. ``private_cluster`` makes one for a single test.
"""

import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from heliograph.local.brokers import Cluster
from heliograph.local.launch import start
from heliograph.local.processes import Process
from heliograph.local.spec import Spec

# How long an example takes says something of the machine, which is shared, not of the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

# Brokers of tests live for seconds: optimising them takes a third of what they cost.
os.environ.setdefault("HELIOGRAPH_BROKER_OPTIONS", "-XX:TieredStopAtLevel=1")

# Files that keep a processor busy for minutes, before those that mostly wait for brokers.
_BUSY = (
    "test_engine_soak",
    "test_kills",
    "test_guide",
    "tests/faults",
    "tests/spark",
    "test_leader_moves",
    "test_copier.py",
)
_WAITING = "tests/broker"


@dataclass(frozen=True)
class BorrowedCluster:
    """A cluster that somebody else runs; only what needs no process of ours."""

    name: str
    bootstrap: str

    @property
    def internal_bootstrap(self) -> str:
        return self.bootstrap

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        assert user is None, "a borrowed cluster has no users of ours"
        return {"bootstrap.servers": self.bootstrap, "security.protocol": "PLAINTEXT"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("clusters")
    for end in ("source", "target"):
        group.addoption(
            f"--{end}",
            metavar="HOST:PORT",
            help=f"bootstrap servers of a running cluster to borrow as {end}",
        )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take minutes first: then all workers end at the same time.

    After each that keeps a processor busy come two that do not: three workers fit two processors.
    """
    names = list(dict.fromkeys(item.nodeid.partition("::")[0] for item in items))
    busy = list(dict.fromkeys(name for one in _BUSY for name in names if one in name))
    waiting = [name for name in names if _WAITING in name and name not in busy]
    turns: dict[str, float] = {name: turn for turn, name in enumerate(busy)}
    turns |= {name: (turn + 1) / 2 for turn, name in enumerate(waiting)}
    items.sort(key=lambda item: turns.get(item.nodeid.partition("::")[0], len(names)))


@pytest.fixture(scope="session")
def clusters_folder() -> Iterator[Path]:
    """The only place where tests keep clusters. At the end it must be empty and unused."""
    with tempfile.TemporaryDirectory(prefix="heliograph-tests-") as name:
        folder = Path(name)
        yield folder
        # Processes first: a keeper that is still removing files is not a leftover yet.
        left = [process for process in _processes_naming(name) if not _ends_soon(process)]
        assert not left, f"processes left behind: {[process.pid for process in left]}"
        files = sorted(str(path.relative_to(folder)) for path in folder.iterdir())
        assert not files, f"files left behind: {files}"


@pytest.fixture(scope="session")
def source_and_target(
    pytestconfig: pytest.Config, clusters_folder: Path
) -> Iterator[tuple[Cluster | BorrowedCluster, ...]]:
    borrowed = {
        end: BorrowedCluster(end, pytestconfig.getoption(end))
        for end in ("source", "target")
        if pytestconfig.getoption(end)
    }
    specs = [Spec(name=end) for end in ("source", "target") if end not in borrowed]
    started = {one.name: one for one in start(*specs, under=clusters_folder)} if specs else {}
    yield tuple((borrowed | started)[end] for end in ("source", "target"))
    for cluster in started.values():
        cluster.stop()


@pytest.fixture(scope="session")
def source(source_and_target: tuple[Any, ...]) -> Any:
    """The session's first cluster: one node, no security."""
    return source_and_target[0]


@pytest.fixture(scope="session")
def target(source_and_target: tuple[Any, ...]) -> Any:
    """The session's second cluster."""
    return source_and_target[1]


@pytest.fixture
def private_cluster(clusters_folder: Path) -> Iterator[Callable[..., Cluster]]:
    """Call it with the fields of a Spec for a cluster that ends with the test."""
    running: list[Cluster] = []

    def make(**fields: Any) -> Cluster:
        spec = Spec(**({"name": "private"} | fields))
        (cluster,) = start(spec, under=clusters_folder)
        running.append(cluster)
        return cluster

    yield make
    for cluster in running:
        cluster.stop()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, recognisable in a broker's log."""
    test = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    return f"{test[:180]}.{secrets.token_hex(4)}"


def _processes_naming(text: str) -> list[Process]:
    """Return the processes whose command line holds the text. Needs /proc; else none."""
    found: list[Process] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (entry / "cmdline").read_bytes():
                found.append(Process.of(int(entry.name)))
        except OSError:
            # It ended while we looked.
            continue
    return found


def _ends_soon(process: Process) -> bool:
    return process.wait_gone(timedelta(seconds=10))
