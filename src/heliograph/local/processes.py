"""Processes by identity: a pid and when it started, so that a reused pid is never touched."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """One process, past or present. Two with the same pid differ in ``mark``."""

    pid: int
    mark: str

    @staticmethod
    def of(pid: int) -> "Process":
        """Return the process that has the pid now; one that is gone has an empty mark."""
        return Process(pid, _mark(pid) or "")

    def is_alive(self) -> bool:
        """Tell whether this very process still runs. A zombie does not."""
        return bool(self.mark) and _mark(self.pid) == self.mark

    def send(self, number: signal.Signals) -> bool:
        """Send a signal if the process is alive; return whether it was."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_gone(self, within: timedelta) -> bool:
        """Wait until the process is gone; return whether it went in time."""
        deadline = time.monotonic() + within.total_seconds()
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True


def _mark(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _mark_by_ps(pid)
    # The command's name, in brackets, may itself hold spaces and brackets.
    state, *rest = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZX" else f"{boot}/{rest[18]}"


def _mark_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return None if not said or said[0].startswith("Z") else " ".join(said[1:])
