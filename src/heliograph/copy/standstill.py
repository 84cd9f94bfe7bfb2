"""Standing still: how a process learns that it was stopped for a while."""

from heliograph.kafka import clock
from heliograph.model.expiry import is_stall


class Tick:
    """Looks at the clocks. To be called after every wait, before anything is sent.

    A process that stood still for longer than a request lives may have been given up: then whoever
    took over relies on it not to send what a broker might take all the same. Old records make
    brokers forget who was fenced, and so does a week in which nobody claims.

    A virtual machine that is paused stops both clocks, and only the wall clock is put right
    afterwards: where the two part by as much, at once or little by little, it may have stood still
    for as long. Set back, it says nothing about that; but it no longer tells how old records are.
    """

    def __init__(self) -> None:
        self._at_s, self._apart_s = clock.now_s(), _apart_s()

    def stood_s(self) -> float:
        """Return for how long the process may have stood still since the last call, or 0."""
        before_s, self._at_s = self._at_s, clock.now_s()
        if is_stall(before_s, self._at_s):
            self._apart_s = _apart_s()
            return self._at_s - before_s
        parted_s = abs(_apart_s() - self._apart_s)
        if not is_stall(0.0, parted_s):
            return 0.0
        self._apart_s = _apart_s()
        return parted_s


def _apart_s() -> float:
    return clock.wall_ms() / 1000 - clock.now_s()
