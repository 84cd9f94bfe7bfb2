"""Hooks: what they say is kept, what they cannot do is told, and nothing of them is left behind."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.errors import RecoveryError
from heliograph.recovery.hooks import run_hooks

MINUTE = timedelta(minutes=1)


def test_a_hook_knows_what_it_is_run_for() -> None:
    said = run_hooks("after_failover", ['echo "$HELIOGRAPH_HOOK_LINK"'], {"link": "a-b"}, MINUTE)
    assert said[0] == "after_failover 1: a-b"
    assert said[1].startswith("after_failover 1: done after")


def test_the_first_that_fails_ends_it(tmp_path: Path) -> None:
    commands = ["true", "echo no such zone >&2; exit 3", f"touch {tmp_path}/late"]
    with pytest.raises(RecoveryError) as failure:
        run_hooks("before_promote", commands, {}, MINUTE)
    assert "before_promote 2 ended with exit code 3" in str(failure.value)
    assert "no such zone" in str(failure.value)
    assert not (tmp_path / "late").exists()


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = f"sleep 600 & echo $! > {note}; echo waiting; wait"
    with pytest.raises(RecoveryError, match=r"did not end within 1 s \(hook_timeout\)"):
        run_hooks("before_promote", [command], {}, timedelta(seconds=1))
    child = int(note.read_text())
    with pytest.raises(ProcessLookupError):
        _await_end(child)


def test_a_command_is_not_quoted() -> None:
    with pytest.raises(RecoveryError) as failure:
        run_hooks("before_promote", ["SECRET=hunter2 false"], {}, MINUTE)
    assert "hunter2" not in str(failure.value)


def _await_end(pid: int) -> None:
    for _ in range(200):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            raise ProcessLookupError
        time.sleep(0.02)
    raise AssertionError(f"process {pid} is still there")
