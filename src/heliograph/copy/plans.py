"""Plans: how Spark's planner learns what the driver has planned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import settings_of
from heliograph.kafka.tables import Table
from heliograph.model.control import PLAN, Plan, read, read_leases
from heliograph.model.leases import Job, Lease
from heliograph.model.names import control_topic

# A call that hangs hangs the query without a word: none lasts longer than this.
_PATIENCE = timedelta(seconds=30)
# How long the question for a new plan waits for one; Spark asks again at once.
_POLL = timedelta(milliseconds=200)


class Planned(NamedTuple):
    """The leases of a plan, and where it stands in the control topic."""

    leases: list[Lease]
    offset: int


class PlanWatch:
    """Follows the control topic of a link for the plans of one driver. Connects when it is made."""

    def __init__(self, job: Job) -> None:
        self._job = job
        cluster = Cluster(settings_of(job.target), job.target.name)
        self._table = Table(cluster, control_topic(job.link))
        self._table.load(Deadline.after(_PATIENCE))
        # Where a plan that is there already stands is not known; tasks read the few rows before it.
        self._offset = 0

    def newest(self) -> int:
        """Return the number of the newest plan, 0 before there is one; wait a moment for it."""
        for change in self._table.follow(Deadline.after(_POLL)):
            if change.key == PLAN:
                self._offset = change.offset
        plan = self._plan()
        return plan.number if plan else 0

    def leases(self, number: int) -> Planned:
        """Return the leases of a plan: none if a newer one has taken its place."""
        plan = self._plan()
        if plan is None or plan.number != number:
            return Planned([], self._offset)
        return Planned(read_leases(self._rows, plan), self._offset)

    def _plan(self) -> Plan | None:
        plan = read(self._rows, PLAN, Plan)
        is_ours = plan is not None and plan.generation == self._job.generation
        return plan if plan is not None and is_ours and plan.number > self._job.after else None

    @property
    def _rows(self) -> Mapping[bytes, bytes]:
        return self._table.rows
