"""The desk: what requests are answered from. No cluster is waited for in the thread of the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from heliograph.config.document import Finding
from heliograph.model.status import LinkStatus
from heliograph.model.watching import Standing
from heliograph.web.threads import Shared, Threads

T = TypeVar("T")
_LOG = logging.getLogger("heliograph.web")
Verb = Literal["pause", "resume", "stop", "add", "remove", "limit"]

_MOST_AT_A_TIME = 8
_MOST_WAITING = 32
_WATCH_EVERY_S = 5.0
_LOOK_EVERY_S = 0.02


class Operations(Protocol):
    """What the commands do. Everything but the names may block for seconds."""

    @property
    def links(self) -> tuple[str, ...]:
        """The names of the links."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The clusters to read from."""

    def target_of(self, link: str) -> str:
        """Return the cluster that tells of a link; raise NoSuchLink."""

    def read(self, target: str) -> list[LinkStatus]:
        """Return the statuses of a target's links."""

    def standing(self, status: LinkStatus, least: timedelta) -> tuple[float, tuple[Standing, ...]]:
        """Return for how many seconds a link was watched, and which partitions do not move."""

    def plan(self, link: str) -> dict[str, Any]:
        """Return what ``run`` would change."""

    def steer(
        self, link: str, verb: Verb, words: Mapping[str, Any], by: str, *, dry_run: bool, wait: bool
    ) -> dict[str, Any]:
        """Put what is wanted of a link; ``words`` are what the verb takes."""


Validate = Callable[[str], Sequence[Finding]]


class Desk:
    """The operations for requests of one event loop, in threads."""

    def __init__(self, operations: Operations, validate: Validate) -> None:
        self.operations = operations
        self.validate = validate
        self._threads = Threads(_MOST_AT_A_TIME, _MOST_WAITING)
        self._reads = {
            target: Shared(partial(operations.read, target)) for target in operations.targets
        }

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Return what a call returns that may block."""
        return await self._threads.run(call)

    async def status(self, link: str) -> LinkStatus:
        """Return a link's status as it is now; raise NoSuchLink."""
        found = await self._reads[self.operations.target_of(link)]()
        return next(one for one in found if one.link == link)

    async def statuses(self) -> list[LinkStatus]:
        """Return the status of every link as it is now, in the order of the file."""
        return self._in_order(await asyncio.gather(*(read() for read in self._reads.values())))

    async def last_statuses(self, within_s: float) -> tuple[list[LinkStatus], list[str]]:
        """Return what was read last, and the links of which nothing is known.

        Waits only for what ``watch`` has not read yet, and not for longer than ``within_s``.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while any(read.last is None for read in self._reads.values()) and loop.time() < until_s:
            await asyncio.sleep(_LOOK_EVERY_S)
        known = self._in_order([read.last or [] for read in self._reads.values()])
        there = {one.link for one in known}
        return known, [link for link in self.operations.links if link not in there]

    async def watch(self) -> None:
        """Read everything now and then, for ever: looking twice tells what stands still."""
        while True:
            reads = (read() for read in self._reads.values())
            for found in await asyncio.gather(*reads, return_exceptions=True):
                if isinstance(found, BaseException):
                    _LOG.error("internal: watching: %s: %s", type(found).__name__, found)
            await asyncio.sleep(_WATCH_EVERY_S)

    def _in_order(self, by_target: Sequence[Sequence[LinkStatus]]) -> list[LinkStatus]:
        found = {one.link: one for some in by_target for one in some}
        return [found[link] for link in self.operations.links if link in found]
