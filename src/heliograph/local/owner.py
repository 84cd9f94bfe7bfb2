"""The owner's end of a keeper: launch it, tell it what to do, let go of it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from heliograph.errors import LocalError
from heliograph.local.processes import Process

# Beyond the grace given to the brokers: time to kill, reap and remove.
_MARGIN = timedelta(seconds=20)


class Owner:
    """Holds one keeper, and through it the brokers of one cluster.

    The brokers end when this object's process ends, whatever the reason, unless ``detach`` was
    called. Safe to use from several threads.
    """

    def __init__(self, said: Path, remove: Sequence[Path]) -> None:
        me = Process.of(os.getpid())
        plan = {"owner": [me.pid, me.mark], "remove": [str(path) for path in remove]}
        with said.open("ab") as errors:
            # Its own session: Ctrl-C in a terminal is for the owner, who decides what to do.
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "heliograph.local.keeper", json.dumps(plan)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.process = Process.of(self._keeper.pid)
        self._one_at_a_time = threading.Lock()

    def start(self, node: int, argv: Sequence[str], output: Path) -> Process:
        """Start a broker as the keeper's child."""
        answer = self._tell({"do": "start", "node": node, "argv": argv, "output": str(output)})
        return Process(answer["pid"], answer["mark"])

    def detach(self) -> None:
        """Let the brokers go on after this process; only SIGTERM to the keeper ends them."""
        self._tell({"do": "detach"})
        self._close()

    def stop(self, grace: timedelta) -> None:
        """End the brokers, and the keeper. Returns when no process is left; safe to repeat."""
        if self._keeper.returncode is not None:
            return
        try:
            self._tell({"do": "stop", "grace_s": grace.total_seconds()})
        except LocalError:
            # It is gone already, and its brokers with it.
            pass
        finally:
            self._close()
            try:
                self._keeper.wait((grace + _MARGIN).total_seconds())
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                self._keeper.wait()

    def _tell(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._keeper.stdin is not None and self._keeper.stdout is not None
        with self._one_at_a_time:
            try:
                self._keeper.stdin.write(json.dumps(command).encode() + b"\n")
                self._keeper.stdin.flush()
                answer = self._keeper.stdout.readline()
            except (OSError, ValueError):
                answer = b""
        if not answer:
            raise LocalError(
                "the process that keeps this local cluster is gone, or was let go of. Its "
                "brokers ended with it unless the cluster was detached: see `heliograph "
                "clusters list`."
            )
        told: dict[str, Any] = json.loads(answer)
        return told

    def _close(self) -> None:
        for end in (self._keeper.stdin, self._keeper.stdout):
            assert end is not None
            try:
                end.close()
            except BrokenPipeError:
                # Closing flushes; the keeper may be gone.
                continue
