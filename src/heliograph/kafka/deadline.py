"""One deadline, handed down a chain of calls, so that timeouts never add up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from heliograph.kafka import clock


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of monotonic time. Whoever receives one ends before it, and passes it on."""

    at_s: float

    @classmethod
    def after(cls, duration: timedelta) -> Deadline:
        """Return the deadline that lies ``duration`` from now."""
        return cls(clock.now_s() + duration.total_seconds())

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at_s - clock.now_s())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return clock.now_s() >= self.at_s

    def within(self, duration: timedelta) -> Deadline:
        """Return the earlier of this deadline and ``duration`` from now."""
        return Deadline(min(self.at_s, clock.now_s() + duration.total_seconds()))
