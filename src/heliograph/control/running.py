"""A query of a link on Spark, kept running: started again after a pause where it failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Protocol, TypeVar

from heliograph.errors import EngineFailed
from heliograph.kafka import clock
from heliograph.model.leases import Job

T = TypeVar("T")
# A start takes a second, more on a busy machine; without end where a process of Spark's own hangs.
_START_S = 120.0
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
    """One query of a link. ``make_job`` is asked anew for every start. Only ``wait`` waits."""

    def __init__(self, engine: Engine, make_job: Callable[[], Job]) -> None:
        self._engine, self._make_job = engine, make_job
        self._query: Query | None = None
        self._failures = 0
        self._restart_s = 0.0
        self._planned_s = self._asked_s = clock.now_s()
        self._idle_s: float | None = None
        self._ending: Future[None] | None = None
        self._starting: Future[Query] | None = None
        self._start()

    def wait(self) -> None:
        """Wait until the query has started, or raise EngineFailed."""
        if self._starting is not None:
            wait([self._starting], _START_S)
        if (failure := self.mend()) is not None:
            raise failure

    @property
    def slots(self) -> int:
        """How many tasks the application can run at a time."""
        return self._engine.slots

    @property
    def is_up(self) -> bool:
        """Claim: there is a query, as far as is known."""
        return self._query is not None

    @property
    def is_starting(self) -> bool:
        """Claim: there is no query yet, but there may be in a moment."""
        return self._starting is not None

    def mend(self) -> EngineFailed | None:
        """Start the query again once its pause is over; return why it ended, once, when it did.

        Raises EngineFailed where Spark cannot start it: it has ended, or never will.
        """
        now_s, failure = clock.now_s(), None
        if self._starting is not None:
            failure = self._take_started(self._starting, now_s)
        elif self._query is None:
            if now_s >= self._restart_s and (self._ending is None or self._ending.done()):
                self._start()
        elif now_s - self._asked_s >= _ASK_EVERY_S:
            self._asked_s, failure = now_s, self._query.failure
            if failure is None and now_s - self._planned_s > _PAUSES_S[-1]:
                self._failures = 0
        if failure is not None:
            self._restart_s = now_s + _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
            self._failures += 1
            self._query = None
        return failure

    def _start(self) -> None:
        job = self._make_job()
        self._starting, self._asked_s = _beside(lambda: self._engine.start(job)), clock.now_s()

    def _take_started(self, starting: Future[Query], now_s: float) -> EngineFailed | None:
        if not starting.done():
            if now_s - self._asked_s < _START_S:
                return None
            self._leave_starting()
            return EngineFailed(f"Spark has not started the query within {_START_S:.0f} s")
        self._starting = None
        self._query = starting.result()
        self.planned()
        return None

    def _leave_starting(self) -> None:
        """Want the query that starts no more: it is ended should it ever have started."""
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.add_done_callback(_end)

    def restart(self) -> None:
        """End the query although tasks of it hang, and start it once that is done. Never waits.

        Spark kills the workers of such tasks, also one that was stopped, and frees their slots.
        """
        query, self._query = self._query, None
        if query is not None:
            self._ending = _beside(query.stop)

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
        self._leave_starting()
        if self._query is not None:
            self._query.stop()


def _end(started: Future[Query]) -> None:
    if started.exception() is None:
        started.result().stop()


def _beside(call: Callable[[], T]) -> Future[T]:
    """Call in a thread of its own, which nobody waits for at the end of the process."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as failure:
            answer.set_exception(failure)

    threading.Thread(target=run, daemon=True, name="heliograph-query").start()
    return answer
