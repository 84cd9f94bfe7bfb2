"""An application as a process of its own: what it is told, what it prints, how it ends."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from tests.doubles.proxy import wait_until

_WITHIN_S = 60.0


class Application:
    """Started at once. ``lines`` and ``complaints`` grow as it prints; ``end`` leaves nothing."""

    def __init__(self, command: Sequence[str]) -> None:
        self.lines: list[str] = []
        self.complaints: list[str] = []
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._readers = [
            threading.Thread(target=_collect, args=(self._process.stdout, self.lines)),
            threading.Thread(target=_collect, args=(self._process.stderr, self.complaints)),
        ]
        for reader in self._readers:
            reader.start()

    def tell(self, lines: Sequence[str]) -> None:
        """Give it lines to read. One that has ended does not read them."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("".join(f"{line}\n" for line in lines))
            self._process.stdin.flush()

    def wait_printed(self, count: int) -> None:
        """Return when it has printed so many lines; fail when it ends before."""
        wait_until(
            lambda: len(self.lines) >= count or self._process.poll() is not None,
            f"{count} lines of {self._process.args!r}, which printed {len(self.lines)}",
            _WITHIN_S,
        )
        assert len(self.lines) >= count, self.complaints

    def wait_ended(self) -> int:
        """Return its exit code when it has ended by itself."""
        return self._process.wait(_WITHIN_S)

    def end(self) -> None:
        """Kill it, if it still runs. Safe to repeat."""
        self._process.kill()
        self._process.wait(_WITHIN_S)
        for reader in self._readers:
            reader.join(_WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _collect(pipe: IO[str], into: list[str]) -> None:
    for line in pipe:
        into.append(line.rstrip("\n"))
