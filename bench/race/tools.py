"""What every tool of the race has in common: a command line, and a session of its own."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from bench.race.tree import Tree
from heliograph.local.processes import Process

_GRACE_S = 20.0
_KILLED_WITHIN = timedelta(seconds=10)
_SHOWN_LINES = 15
TARGET = "target"
"""What every tool calls the target cluster. The source has a new name in each run."""


@dataclass(frozen=True)
class Leg:
    """What one run copies: ``topic``, to ``<alias>.<topic>``, a mirror that nobody has used."""

    alias: str
    topic: str
    source: str
    target: str

    @property
    def mirror(self) -> str:
        """The name of the mirror, the same with every tool."""
        return f"{self.alias}.{self.topic}"


@dataclass(frozen=True)
class Launch:
    """A command, with the variables it is given besides ours."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Tool(Protocol):
    """One way to mirror a topic."""

    @property
    def name(self) -> str:
        """What it is called in the report."""

    def prepare(self, leg: Leg, folder: Path) -> Launch:
        """Write its settings for a run into the folder; return the command that starts it."""

    @property
    def kind(self) -> str:
        """The language of its settings."""

    def settings(self) -> str:
        """Return all its settings, for the report, under the command that takes them."""


class Died(RuntimeError):
    """A tool ended, or did not do its work in time."""


class Running:
    """A started tool. As a context manager: at the end no process of it is left."""

    def __init__(self, tool: Tool, leg: Leg, folder: Path) -> None:
        self.name = tool.name
        self._log = folder / f"{leg.alias}.log"
        launch = tool.prepare(leg, folder)
        with self._log.open("wb") as log:
            self.started_s = time.monotonic()
            self._process = subprocess.Popen(
                list(launch.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"TMPDIR": str(folder)} | dict(launch.environment),
                cwd=folder,  # whatever it leaves goes with the race's other files
                start_new_session=True,
            )
        self.tree = Tree(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> None:
        """Raise if it is no longer running."""
        if self._process.poll() is not None:
            raise self.failure(f"ended with status {self._process.returncode}")

    def failure(self, what: str) -> Died:
        """Return the error that says what went wrong, with the end of its log."""
        lines = self._log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        return Died("\n  ".join([f"{self.name} {what}. Its log ends with:", *lines]))

    def stop(self) -> None:
        """End it in good order; kill what is left of it after a while."""
        self.tree.look()
        known = {Process.of(pid) for pid in self.tree.pids}
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        # Its workers, if it left any: known from before, or still in its session.
        self.tree.look()
        known |= {Process.of(pid) for pid in self.tree.pids}
        for process in known:
            process.send(signal.SIGKILL)
        for process in known:
            process.wait_gone(_KILLED_WITHIN)


def fenced(kind: str, text: str) -> str:
    """Return the text as a code block of Markdown."""
    return f"```{kind}\n{text.strip()}\n```"


def shown(command: Sequence[str]) -> str:
    """Return a command as one would type it."""
    return shlex.join(command)
