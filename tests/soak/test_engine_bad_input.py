"""What is wrong is told, with the right exit status, and nothing is copied on a guess."""

import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from heliograph.local.brokers import Cluster
from heliograph.local.spec import User
from tests.conftest import BorrowedCluster
from tests.faults.engine import START_S, make_link, running
from tests.making import create_topic


@pytest.fixture
def nobody() -> Iterator[BorrowedCluster]:
    """A cluster where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield BorrowedCluster("nobody", f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.timeout(900)
def test_what_cannot_run_is_told_and_ends_with_the_right_status(
    source: Any, target: Any, nobody: BorrowedCluster, tmp_path: Path
) -> None:
    links = {
        "unreachable": make_link(tmp_path / "unreachable", nobody, target),
        "same": make_link(tmp_path / "same", source, source),
        "unknown": make_link(tmp_path / "unknown", source, target),
        "slots": make_link(tmp_path / "slots", source, target, more="limits: {tasks: 2}"),
    }
    options = {"unknown": ["no-such-link"], "slots": ["--master", "local[1]"]}
    expected = {
        "unreachable": (1, ["unreachable", nobody.bootstrap]),
        "same": (2, ["config", "are the same cluster"]),
        "unknown": (2, ["no-such-link", links["unknown"].name]),
        "slots": (2, ["slots-short", "1 more slots"]),
    }
    with ExitStack() as stack:
        drivers = {
            name: stack.enter_context(
                running(link, tmp_path / name / "driver", *options.get(name, []))
            )
            for name, link in links.items()
        }
        for name, (status, words) in expected.items():
            driver = drivers[name]
            assert driver.wait(START_S) == status, (name, driver.said)
            assert all(word in driver.said for word in words), (name, driver.said)
            assert "Traceback" not in driver.said, (name, driver.said)
            driver.wait_gone()
            assert driver.scratch == [], name


@pytest.mark.timeout(900)
def test_a_missing_permission_is_named(
    source: Any, private_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    mirror = User("mirror", secrets.token_hex(8))
    target = private_cluster(name="guarded", sasl="SCRAM-SHA-512", acls=True, users=(mirror,))
    link = make_link(tmp_path, source, target)
    create_topic(link.source, f"{link.name}-orders")
    with running(link, tmp_path / "driver") as driver:
        assert driver.wait(START_S) == 1
    assert "not-authorized" in driver.said, driver.said
    assert mirror.password not in driver.said + driver.printed
