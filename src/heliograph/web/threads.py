"""Threads for what blocks, so that a cluster that is away never holds up the server itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from heliograph.web.problems import Refused, problem

T = TypeVar("T")


class Threads:
    """Runs blocking calls, so many at a time; some may wait, and any more are refused.

    Daemons: what is stuck in a socket must not keep the process from ending.
    """

    def __init__(self, most: int, most_waiting: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._waiting, self._most_waiting = 0, most_waiting

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns. A caller that leaves does not free its thread."""
        if self._waiting >= self._most_waiting:
            raise Refused(problem("busy", "too many requests wait already", "Try again later"))
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        return await self._start(call)

    def _start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def settle(settles: Callable[[Any], None], with_what: Any) -> None:
            self._free.release()
            if not outcome.done():
                settles(with_what)

        def body() -> None:
            settled: tuple[Callable[[Any], None], Any]
            try:
                settled = outcome.set_result, call()
            except BaseException as failure:
                settled = outcome.set_exception, failure
            with suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(settle, *settled)

        threading.Thread(target=body, name="api", daemon=True).start()
        return outcome


class Shared(Generic[T]):
    """A call of which one runs at a time; who waits shares the first that began after they came.

    So nobody is told what was true before they asked, and many callers cost no more than two calls.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._threads = Threads(1, 1)
        self._lock = asyncio.Lock()
        self._begun = 0
        self._last: T | None = None

    @property
    def last(self) -> T | None:
        """What the last call returned; None before the first has."""
        return self._last

    async def __call__(self) -> T:
        """Return what a call returns that began just now."""
        came = self._begun
        async with self._lock:
            if self._begun == came or self._last is None:
                self._begun += 1
                try:
                    self._last = await self._threads.run(self._call)
                except BaseException:
                    self._last = None  # nobody may take an older one for this
                    raise
            return self._last
