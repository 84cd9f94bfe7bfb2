"""A query of a link on Spark, kept running: started again after a pause where it failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from heliograph.errors import EngineFailed
from heliograph.kafka import clock
from heliograph.model.leases import Job

# How long to wait before each start after the first; the last counts for all that follow.
_PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
# How long a plan without receipts may stay open once Spark has nothing to do.
_LOST_S = 5.0
# How often Spark is asked whether the query is still there.
_ASK_EVERY_S = 0.5


class Query(Protocol):
    """A link's query on Spark."""

    @property
    def failure(self) -> EngineFailed | None:
        """Why it ended by itself, if it did."""

    @property
    def is_idle(self) -> bool:
        """Claim: no task runs."""

    def stop(self) -> None:
        """End it now."""


class Engine(Protocol):
    """Runs queries. ``is_local``: its slots are threads of this machine."""

    slots: int
    is_local: bool

    def start(self, job: Job) -> Query:
        """Start the query of a link."""


class Running:
    """One query of a link. ``make_job`` is asked anew for every start."""

    def __init__(self, engine: Engine, make_job: Callable[[], Job]) -> None:
        self._engine, self._make_job = engine, make_job
        self._query: Query | None = engine.start(make_job())
        self._failures = 0
        self._restart_s = 0.0
        self._planned_s = clock.now_s()
        self._asked_s = 0.0
        self._idle_s: float | None = None
        self._ending: threading.Thread | None = None

    @property
    def slots(self) -> int:
        """How many tasks the application can run at a time."""
        return self._engine.slots

    @property
    def is_up(self) -> bool:
        """Claim: there is a query, as far as is known."""
        return self._query is not None

    def mend(self) -> EngineFailed | None:
        """Start the query again once its pause is over; return why it ended, once, when it did."""
        now_s = clock.now_s()
        if self._query is None:
            is_ending = self._ending is not None and self._ending.is_alive()
            if now_s >= self._restart_s and not is_ending:
                self._query = self._engine.start(self._make_job())
                self.planned()
            return None
        if now_s - self._asked_s < _ASK_EVERY_S:
            return None
        self._asked_s = now_s
        failure = self._query.failure
        if failure is not None:
            self._restart_s = now_s + _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
            self._failures += 1
            self._query = None
        elif now_s - self._planned_s > _PAUSES_S[-1]:
            self._failures = 0
        return failure

    def restart(self) -> None:
        """End the query although tasks of it hang, and start it once that is done. Never waits.

        Spark kills the workers of such tasks, also one that was stopped, and frees their slots.
        """
        query, self._query = self._query, None
        if query is not None:
            self._ending = threading.Thread(target=query.stop, daemon=True, name="heliograph-end")
            self._ending.start()

    def planned(self) -> None:
        """Note that there is a new plan, or a new query: tasks will start in a moment."""
        self._planned_s, self._idle_s = clock.now_s(), None

    def is_lost(self) -> bool:
        """Claim: Spark has nothing to do, and has had nothing for a while."""
        now_s = clock.now_s()
        if now_s - self._planned_s < _LOST_S:
            return False
        if self._query is None or not self._query.is_idle:
            self._idle_s = None
        elif self._idle_s is None:
            self._idle_s = now_s
        return self._idle_s is not None and now_s - self._idle_s >= _LOST_S

    def close(self) -> None:
        """End the query."""
        if self._query is not None:
            self._query.stop()
