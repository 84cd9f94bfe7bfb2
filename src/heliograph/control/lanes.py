"""The lanes of a link: its queries on Spark. While the tasks of one copy, those of the other wait.

The second is started when there is time for it, or when it is first wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from heliograph.control.running import Engine, Running
from heliograph.errors import EngineFailed
from heliograph.model.leases import Job

_MOST = 2


class Lanes:
    """One or two queries. ``make_job`` is asked for each start, with the lane.

    Making it waits until the first has started, or raises EngineFailed.
    """

    def __init__(self, engine: Engine, make_job: Callable[[int], Job]) -> None:
        self._engine, self._make_job = engine, make_job
        self._each = [Running(engine, lambda: make_job(0))]
        self._each[0].wait()

    def __getitem__(self, lane: int) -> Running:
        """Return a query."""
        return self._each[lane]

    @property
    def slots(self) -> int:
        """How many tasks the application can run at a time."""
        return self._engine.slots

    @property
    def are_ready(self) -> bool:
        """Claim: both queries were started."""
        return len(self._each) == _MOST

    def has_room(self, tasks: int) -> bool:
        """Claim: as many tasks as copy may wait beside them.

        Only where slots are threads of one machine: in a cluster that lost one of its machines, a
        task that waits could hold the slot that a copying one needs to start again.
        """
        return self._engine.is_local and tasks * _MOST <= self._engine.slots

    def other(self, lane: int) -> int:
        """Return the lane beside this one; its query is started unless it was."""
        other = _MOST - 1 - lane
        if other == len(self._each):
            self._each.append(Running(self._engine, lambda: self._make_job(other)))
        return other

    def up(self, lane: int) -> int | None:
        """Return this lane, else the other one, whose query runs; None where neither does."""
        lanes = sorted(range(len(self._each)), key=lambda one: one != lane)
        return next((one for one in lanes if self._each[one].is_up), None)

    def mend(self) -> Iterator[tuple[int, EngineFailed]]:
        """Start queries again once their pause is over; tell which ended since the last call."""
        for lane, running in enumerate(self._each):
            if (failure := running.mend()) is not None:
                yield lane, failure

    def close(self) -> None:
        """End all queries."""
        for running in self._each:
            running.close()
