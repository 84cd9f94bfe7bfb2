"""Groups of a running link: brought to the target as often as ``sync.groups`` says.

Beside the driver's loop, with connections of its own: a slow coordinator holds up no copying.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.transport import Loop
from heliograph.links.group_sync import GroupSync, Synced
from heliograph.links.setup import Setup

_PASS_TIMEOUT = timedelta(seconds=30)


class GroupWatch:
    """Makes passes one after the other. For the driver's thread."""

    def __init__(self, setup: Setup, loop: Loop) -> None:
        self._every, self._deletes = setup.link.sync.groups, setup.link.sync.group_deletes
        self._loop = loop
        self._setup = setup
        self._sync: GroupSync | None = None
        self._is_looking = self._is_over = False
        self._found: Synced | HeliographError | None = None
        self._due_s = self._deletes_due_s = 0.0

    def close(self) -> None:
        """Close the connections; a pass that is under way ends first, in its own time."""
        self._is_over = True
        if self._sync is not None and not self._is_looking:
            self._sync.close()

    def step(self) -> Synced | HeliographError | None:
        """Return what came of a pass that has ended; start the next one when it is due."""
        found, self._found = self._found, None
        if self._every is None or self._is_looking:
            return found
        if clock.now_s() >= self._due_s:
            self._is_looking = True
            self._due_s = clock.now_s() + self._every.total_seconds()
            self._loop.start(self._looked)
        return found

    def last(self) -> Synced | HeliographError | None:
        """Make one more pass now, at the end of a bounded run; None where groups are not synced."""
        deadline = Deadline.after(_PASS_TIMEOUT)
        while self._is_looking and not deadline.passed:
            self._loop.turn(0.1)
        if self._every is None or self._is_looking:
            return None
        return self._pass()

    def _looked(self) -> Callable[[], None]:
        found = self._pass()

        def tell() -> None:
            self._found, self._is_looking = found, False
            if self._is_over:
                self.close()

        return tell

    def _pass(self) -> Synced | HeliographError:
        self._sync = self._sync or GroupSync(self._setup)
        try:
            return self._sync.run(Deadline.after(_PASS_TIMEOUT), deletes=self._must_delete())
        except HeliographError as trouble:
            return trouble

    def _must_delete(self) -> bool:
        """Claim: it is time to follow deletions; they need not be followed in every pass."""
        if self._deletes is None or clock.now_s() < self._deletes_due_s:
            return False
        self._deletes_due_s = clock.now_s() + self._deletes.total_seconds()
        return True
