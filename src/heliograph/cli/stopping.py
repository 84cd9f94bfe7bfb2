"""Signals that end a command which runs until it is told to stop."""

import signal
import sys
import threading
from types import FrameType


class Stopping(threading.Event):
    """Set by a signal; ``status`` is what to leave with."""

    status = 0

    def listen(self) -> None:
        """Be set by Ctrl-C and by SIGTERM, whoever heard them before."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, _: FrameType | None) -> None:
        if self.is_set() and number == signal.SIGINT:
            sys.exit(130)  # twice: somebody is in a hurry
        self.status = 130 if number == signal.SIGINT else 0
        self.set()
