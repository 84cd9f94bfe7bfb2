import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.errors import ConfigError, LocalError
from heliograph.local.processes import Process
from heliograph.local.registry import Record, Registry, State, stop

ME = Process.of(os.getpid())
GONE = Process(os.getpid(), "started at another time")


@pytest.fixture
def sleeper() -> Iterator[Process]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        yield Process.of(child.pid)
        child.kill()


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    registry = Registry(tmp_path / "clusters")
    registry.book(["booked"])
    registry.strike(["booked"])
    return registry


@pytest.mark.parametrize(
    ("nodes", "state"),
    [
        ((ME, ME), State.RUNNING),
        ((ME, GONE), State.PARTIAL),
        ((GONE, GONE), State.DEAD),
        ((), State.STARTING),
    ],
)
def test_the_state_is_what_is_seen(nodes: tuple[Process, ...], state: State) -> None:
    assert Record("x", ME, nodes).state() is state


def test_a_start_that_was_killed_is_dead() -> None:
    assert Record("x", GONE).state() is State.DEAD


def test_a_record_survives_its_file(registry: Registry) -> None:
    record = Record("x", ME, (ME, GONE), "/f", True, "127.0.0.1:1", "SSL", {"a": "b"}, "now")
    registry.enter(record)
    assert registry.all() == [record]
    registry.strike(["x", "never there"])
    assert registry.all() == []


def test_a_name_in_use_cannot_be_booked_and_books_no_other(registry: Registry) -> None:
    registry.enter(Record("x", ME, (ME,)))
    with pytest.raises(LocalError, match="already running"):
        registry.book(["a", "x"])
    assert [record.name for record in registry.all()] == ["x"]


def test_a_dead_clusters_name_and_files_are_given_up(registry: Registry, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    registry.enter(Record("x", GONE, (GONE,), str(left)))
    registry.book(["x"])
    assert not left.exists()
    assert registry.all() == [Record("x", ME)]


def test_an_unknown_name_is_a_wrong_command(registry: Registry) -> None:
    with pytest.raises(ConfigError, match="there is no local cluster x"):
        registry.find(["x"])


def test_an_unreadable_record_names_its_file(registry: Registry) -> None:
    (registry.folder / "x.json").write_text("{}")
    with pytest.raises(LocalError, match=r"x\.json"):
        registry.all()


def test_stopping_ends_the_processes_and_removes_the_files(
    registry: Registry, sleeper: Process, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    record = Record("x", sleeper, (sleeper,), str(files))
    registry.enter(record)
    stop([record], registry)
    assert not sleeper.is_alive()
    assert not files.exists()
    assert registry.all() == []


@pytest.mark.parametrize("is_kept", [True, False])
def test_files_stay_when_the_user_named_them_or_says_so(
    registry: Registry, tmp_path: Path, is_kept: bool
) -> None:
    record = Record("x", GONE, (GONE,), str(tmp_path), is_kept)
    registry.enter(record)
    stop([record], registry, keep_data=not is_kept)
    assert tmp_path.exists()


def test_a_reused_pid_is_never_signalled(registry: Registry, sleeper: Process) -> None:
    other = replace(sleeper, mark="started at another time")
    record = Record("x", other, (other,))
    stop([record], registry)
    assert not other.send(signal.SIGKILL)
    assert sleeper.is_alive()


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    process = Process.of(child.pid)
    assert process.wait_gone(timedelta(seconds=30))
    # Not reaped until here.
    assert child.wait() == 0
