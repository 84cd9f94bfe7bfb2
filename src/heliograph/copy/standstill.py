"""Standing still: how a process learns that it was stopped for a while."""

from heliograph.kafka import clock
from heliograph.model.expiry import is_stall


class Tick:
    """Looks at the clock. To be called after every wait, before anything is sent.

    A process that stood still for longer than a request lives may have been given up: then whoever
    took over relies on it not to send what a broker might take all the same. Old records make
    brokers forget who was fenced, and so does a week in which nobody claims.
    """

    def __init__(self) -> None:
        self._at_s = clock.now_s()

    def stood_s(self) -> float:
        """Return for how long the process stood still since the last call, 0 if it did not."""
        before_s, self._at_s = self._at_s, clock.now_s()
        return self._at_s - before_s if is_stall(before_s, self._at_s) else 0.0
