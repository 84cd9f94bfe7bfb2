"""Seats: how Spark's planner learns that tasks are to start."""

from __future__ import annotations

from datetime import timedelta

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import settings_of
from heliograph.kafka.tables import Table
from heliograph.model.control import Seats, read, seats_key
from heliograph.model.leases import Job
from heliograph.model.names import control_topic

# A call that hangs hangs the query without a word: none lasts longer than this.
_PATIENCE = timedelta(seconds=30)
# How long the question for new seats waits for them; Spark asks again at once.
_POLL = timedelta(milliseconds=200)


class SeatsWatch:
    """Follows the control topic of a link for one of its queries. Connects when it is made."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._key = seats_key(job.lane)
        self._cluster = Cluster(settings_of(job.target), job.target.name)
        self._table = Table(self._cluster, control_topic(job.link))
        self._table.load(Deadline.after(_PATIENCE))
        # Where seats that are there already stand is not known; tasks read the few rows before.
        self.offset = 0

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def newest(self, after: int) -> Seats | None:
        """Return seats with a number beyond this one; wait a moment where there are none."""
        if (seats := self._beyond(after)) is None:
            for change in self._table.follow(Deadline.after(_POLL)):
                if change.key == self._key:
                    self.offset = change.offset
            seats = self._beyond(after)
        return seats

    def _beyond(self, number: int) -> Seats | None:
        seats = read(self._table.rows, self._key, Seats)
        if seats is None or seats.generation != self._job.generation:
            return None
        return seats if seats.number > max(number, self._job.after) else None
