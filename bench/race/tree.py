"""The processes of one tool: all of its session, and all that descend from its first one."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


class Stat(NamedTuple):
    """What is needed of /proc/PID/stat."""

    parent: int
    session: int
    cpu_s: float
    """User and system time of the process, and of its children that ended and were waited for."""


def parse_stat(text: str) -> Stat:
    """Read a line of /proc/PID/stat. The command's name may hold spaces and brackets."""
    fields = text[text.rindex(")") + 2 :].split()
    ticks = sum(int(fields[place]) for place in range(11, 15))
    return Stat(int(fields[1]), int(fields[3]), ticks / _TICKS_PER_S)


def belonging(root: int, stats: dict[int, Stat]) -> set[int]:
    """Return the pids that belong to the tool whose first process, and session, is ``root``."""
    found = {pid for pid, stat in stats.items() if pid == root or stat.session == root}
    while True:
        more = {pid for pid, stat in stats.items() if stat.parent in found} - found
        if not more:
            return found
        found |= more


class Tree:
    """The processes of a tool, as far as they were found by the last :meth:`look`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.pids: set[int] = {root}

    def look(self) -> None:
        """Find the processes anew. Takes milliseconds: call it a few times a second at most."""
        everyone = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
        self.pids = belonging(self._root, _stats(everyone))

    def cpu_s(self) -> float:
        """Return the CPU seconds of all since each began; those of the dead are their parents'."""
        return sum(stat.cpu_s for stat in _stats(self.pids).values())

    def pss_bytes(self) -> int:
        """Return the memory of all; a page that several share is counted once, in parts."""
        return sum(map(_pss_bytes, self.pids))


def _stats(pids: Iterable[int]) -> dict[int, Stat]:
    found = {}
    for pid in pids:
        try:
            found[pid] = parse_stat((_PROC / str(pid) / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended
    return found


def _pss_bytes(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
