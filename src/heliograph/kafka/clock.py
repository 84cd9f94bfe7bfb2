"""The two clocks, read in one place, so that a simulation can move them by hand.

Waits, deadlines and pauses count :func:`now_s`; only timestamps of records are of the wall clock.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Clock(Protocol):
    """Two clocks."""

    def monotonic(self) -> float:
        """Return seconds that only grow, and go on while the machine is suspended."""

    def time(self) -> float:
        """Return seconds since 1970."""


class _Clocks:
    """Those of this machine. Linux's monotonic clock stands still while it is suspended."""

    def monotonic(self) -> float:
        if sys.platform == "linux":
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def time(self) -> float:
        return time.time()


REAL: Clock = _Clocks()
_clock = REAL


def now_s() -> float:
    """Return monotonic seconds."""
    return _clock.monotonic()


def wall_ms() -> int:
    """Return milliseconds since 1970, as timestamps of records count them."""
    return int(_clock.time() * 1000)


@contextmanager
def moved_by(clock: Clock) -> Iterator[None]:
    """Read another clock, everywhere in this process, while the context lasts."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before
