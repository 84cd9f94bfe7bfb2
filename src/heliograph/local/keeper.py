"""The keeper: one small process per cluster, the parent of its brokers.

It exists so that brokers never outlive the process that wanted them, however that process ends.
The owner holds the keeper's stdin: when it closes, or the owner is gone, the keeper ends the
brokers and removes what it was told to. If the keeper itself is killed, the kernel kills the
brokers (Linux). ``detach`` frees it from its owner; then only SIGTERM ends it.

Commands are JSON lines on stdin, each answered by one JSON line on stdout:
``{"do": "start", "node": 1, "argv": [...], "output": path}``, ``{"do": "detach"}``,
``{"do": "stop", "grace_s": 10}``.
"""

import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heliograph.local.processes import Process

GRACE_S = 10.0
_ORPHAN_GRACE_S = 3.0
_OWNER_CHECK_S = 1.0
_PR_SET_PDEATHSIG = 1


class _Ended(Exception):
    """The keeper's work is over."""


class Keeper:
    """Starts brokers when told to, and sees to it that they end.

    All brokers are started from the main thread: the kernel's death signal follows the thread
    that forked, not the process.
    """

    def __init__(self, owner: Process, remove: list[Path]) -> None:
        self._owner: Process | None = owner
        self._remove = remove
        self._brokers: dict[int, subprocess.Popen[bytes]] = {}

    def serve(self, commands: int) -> None:
        """Obey commands until the owner is gone, says stop, or SIGTERM comes."""
        signal.signal(signal.SIGTERM, _end)
        try:
            self._obey(commands)
            # Data that is about to be removed needs no good order.
            self._end_brokers(0.0 if self._remove else _ORPHAN_GRACE_S)
            self._clean()
        except _Ended:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            # Whoever sent the signal decides about the files.
            self._end_brokers(GRACE_S)

    def _obey(self, commands: int) -> None:
        """Return when the owner is gone or wants the end."""
        waiting = b""
        with selectors.DefaultSelector() as selector:
            selector.register(commands, selectors.EVENT_READ)
            while True:
                if not selector.select(_OWNER_CHECK_S):
                    self._reap()
                    # A child that the owner forked may hold the pipe open after its death.
                    if self._owner is not None and not self._owner.is_alive():
                        return
                    continue
                read = os.read(commands, 65536)
                if not read:
                    if self._owner is not None:
                        return
                    selector.unregister(commands)
                *lines, waiting = (waiting + read).split(b"\n")
                if not all(self._do(json.loads(line)) for line in lines):
                    return

    def _do(self, command: dict[str, Any]) -> bool:
        """Carry out one command; return whether to go on."""
        self._reap()
        answer: dict[str, Any] = {"done": command["do"]}
        if command["do"] == "start":
            broker = _start(command["argv"], Path(command["output"]))
            self._brokers[command["node"]] = broker
            answer |= {"pid": broker.pid, "mark": Process.of(broker.pid).mark}
        elif command["do"] == "detach":
            self._owner = None
        elif command["do"] == "stop":
            self._end_brokers(command["grace_s"])
            self._clean()
        print(json.dumps(answer), flush=True)  # noqa: T201 - stdout is the owner's pipe
        return bool(command["do"] != "stop")

    def _reap(self) -> None:
        for broker in self._brokers.values():
            broker.poll()

    def _end_brokers(self, grace_s: float) -> None:
        """End all: by SIGTERM if there is any grace, in the end by SIGKILL."""
        alive = [broker for broker in self._brokers.values() if broker.poll() is None]
        if grace_s > 0:
            for broker in alive:
                broker.terminate()
                # A paused broker hears nothing until it goes on.
                broker.send_signal(signal.SIGCONT)
            _wait(alive, time.monotonic() + grace_s)
        for broker in alive:
            broker.kill()
            broker.wait()

    def _clean(self) -> None:
        for path in self._remove:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _wait(brokers: list[subprocess.Popen[bytes]], deadline: float) -> None:
    # The last broker of several cannot end in good order: its controllers have no majority any
    # more, and it would ask them for leave for five minutes. Kafka's log survives its SIGKILL.
    majority = len(brokers) // 2 + 1
    while time.monotonic() < deadline:
        left = sum(broker.poll() is None for broker in brokers)
        if left == 0:
            return
        if left < majority and len(brokers) > 1:
            deadline = min(deadline, time.monotonic() + 2.0)
            majority = 0
        time.sleep(0.02)


def _start(argv: list[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("ab") as out:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent(os.getpid()),
        )


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the kernel was asked.
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return ask


def _end(*_: object) -> None:
    raise _Ended


if __name__ == "__main__":
    _plan = json.loads(sys.argv[1])
    Keeper(Process(*_plan["owner"]), [Path(path) for path in _plan["remove"]]).serve(0)
