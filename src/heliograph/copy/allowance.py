"""Allowance: how much a task may send, where its link's bytes per second are limited."""

from __future__ import annotations

from heliograph.kafka import clock

# What was not used is kept for so long: the rate holds over any few seconds, and a stream that
# stood still for a moment catches up.
_KEPT_S = 0.3


class Allowance:
    """A bucket that fills with time and is emptied by what is sent. For one thread.

    A batch goes as a whole: it may leave the bucket in debt, and then nothing is sent until time
    has paid it back. So the rate holds whatever the size of batches.
    """

    def __init__(self, bytes_per_second: int = 0) -> None:
        """Allow this much; 0 is everything."""
        self._rate = bytes_per_second
        self._level = 0.0
        self._at_s = clock.now_s()

    @property
    def is_limited(self) -> bool:
        """Claim: there is a limit at all."""
        return self._rate > 0

    @property
    def is_spent(self) -> bool:
        """Claim: nothing more may be sent now."""
        if not self._rate:
            return False
        now_s = clock.now_s()
        filled = self._level + (now_s - self._at_s) * self._rate
        self._level, self._at_s = min(filled, _KEPT_S * self._rate), now_s
        return self._level <= 0

    def spend(self, size_bytes: int) -> None:
        """Count what was sent."""
        self._level -= size_bytes
