"""The keeper with children that are no brokers: any process will do."""

import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.errors import LocalError
from heliograph.local.owner import Owner
from heliograph.local.processes import Process

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
# Says when it is ready, then takes no notice of SIGTERM.
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)",
]
SOON = timedelta(seconds=30)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    return files


@pytest.fixture
def owner(files: Path, tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "keeper.log", [files])
    yield owner
    owner.stop(timedelta())


def test_stopping_ends_children_and_keeper_and_removes_the_files(owner: Owner, files: Path) -> None:
    children = [owner.start(node, SLEEP, files / "out") for node in (1, 2)]
    assert all(child.is_alive() for child in children)
    owner.stop(timedelta(seconds=10))
    assert not any(child.is_alive() for child in children)
    assert not owner.process.is_alive()
    assert not files.exists()
    owner.stop(timedelta())


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(owner: Owner, files: Path) -> None:
    child = owner.start(1, STUBBORN, files / "out")
    while not (files / "out").read_text():
        assert child.is_alive()
    owner.stop(timedelta(milliseconds=200))
    assert not child.is_alive()


def test_a_child_can_be_started_again(owner: Owner, files: Path) -> None:
    first = owner.start(1, [sys.executable, "-c", ""], files / "out")
    assert first.wait_gone(SOON)
    assert owner.start(1, SLEEP, files / "out").is_alive()


def test_a_killed_keeper_is_told_of(owner: Owner, files: Path) -> None:
    child = owner.start(1, SLEEP, files / "out")
    owner.process.send(signal.SIGKILL)
    assert child.wait_gone(SOON)
    with pytest.raises(LocalError, match="is gone"):
        owner.start(2, SLEEP, files / "out")


def test_a_detached_keeper_goes_on_until_sigterm_and_leaves_the_files(
    owner: Owner, files: Path
) -> None:
    child = owner.start(1, SLEEP, files / "out")
    owner.detach()
    assert child.is_alive()
    Process.of(owner.process.pid).send(signal.SIGTERM)
    assert child.wait_gone(SOON)
    assert owner.process.wait_gone(SOON)
    assert files.exists()
