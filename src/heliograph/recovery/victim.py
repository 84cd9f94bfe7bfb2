"""The victim of a drill: a task without Spark, in a process of its own, to be killed.

It works on a lease exactly as a Spark task does: it claims, copies, keeps the ledgers and reports.
Killed by SIGKILL, it leaves what the loss of its machine would leave. It never outlives the drill.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import Self

from heliograph.copy.lease import work
from heliograph.errors import RecoveryError
from heliograph.links.setup import Setup
from heliograph.model.leases import Job, Seat
from heliograph.model.texts import from_text, to_text

_SHOWN_LETTERS = 1000


class Victim:
    """Copies while the context lasts, unless it is killed before."""

    def __init__(self, setup: Setup, seat: Seat) -> None:
        link = setup.link
        job = Job(link.name, seat.generation, setup.source, setup.target, setup.policies)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the context
        self._process = subprocess.Popen(
            # Its name is for those who list processes.
            [sys.executable, "-P", "-m", "heliograph.recovery.victim", link.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the drill, which ends it
        )
        assert self._process.stdin is not None
        # Not as arguments: a cluster's properties may hold a secret.
        self._process.stdin.write(f"{to_text(job)}\n{to_text(seat)}\n".encode())
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._said.close()

    def check(self) -> None:
        """Raise if it ended by itself."""
        if (code := self._process.poll()) is not None:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()[-_SHOWN_LETTERS:]
            raise RecoveryError(
                f"the process that copied the sample ended by itself (exit code {code}), so there"
                f" was nothing to fail over. It said: {said or 'nothing'}"
            )

    def kill(self) -> None:
        """Let it die as it stands, and wait until it is dead."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def _end_with_the_drill() -> None:
    sys.stdin.read()  # ends when whoever started this process is gone
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Work on the lease of which stdin tells."""
    job, seat = from_text(Job, sys.stdin.readline()), from_text(Seat, sys.stdin.readline())
    threading.Thread(target=_end_with_the_drill, daemon=True).start()
    work(job, seat, attempt=0, control_offset=0)


if __name__ == "__main__":
    main()
