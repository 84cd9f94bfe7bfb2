"""Dealing: a link's seats, plans, recalls and receipts, as rows of its control and state topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heliograph.control.lanes import Lanes
from heliograph.kafka import clock
from heliograph.links.helm import Helm
from heliograph.model.control import (
    RECALL,
    Plan,
    Recall,
    Seats,
    are_taken,
    plan_rows,
    read_receipts,
    row,
    seats_key,
)
from heliograph.model.steering import Conditions, Course
from heliograph.model.topics import Partition

# How long a turn-over waits for tasks to take their seats.
_SEAT_S = 10.0


class Dealer:
    """Deals leases out and calls them in. For one thread."""

    def __init__(self, helm: Helm, lanes: Lanes, course: Course) -> None:
        self._helm, self._lanes, self._course = helm, lanes, course
        self._seated_s = 0.0
        self.planned_s = 0.0
        self.is_recalled = False

    def deal(self, wanted: Mapping[Partition, Partition], conditions: Conditions) -> Plan:
        """Deal leases out: to tasks that wait for them, or to new ones."""
        course, rows = self._course, dict[bytes, bytes | None]()
        if not self._is_seated(conditions.tasks):
            rows = _seats_rows(course.seat(course.lane, conditions.tasks, conditions.most_s))
        reports = {source: self._helm.heard_of(source) for source in wanted}
        rates = {source: one.bytes_per_second for source, one in reports.items() if one}
        plan, leases = course.plan(wanted, conditions, rates, clock.wall_ms())
        self._helm.put(rows | plan_rows(plan, leases, self._helm.control.rows))
        self.planned_s, self.is_recalled = clock.now_s(), False
        self._lanes[course.lane].planned()
        return plan

    def turn_over(self, wanted: Collection[Partition], conditions: Conditions) -> None:
        """Call the leases in once the tasks of the next plan have taken their seats.

        Nobody copies between a recall and the next lease. What is not wanted any more is not
        copied while others find their seats.
        """
        course, tasks = self._course, conditions.tasks
        if not self._is_seated(tasks):
            seats = course.seat(self._lanes.other(course.lane), tasks, conditions.most_s)
            self._helm.put(_seats_rows(seats))
            self._seated_s = clock.now_s()
        is_ready = course.seats is not None and are_taken(self._helm.state.rows, course.seats)
        is_late = clock.now_s() - self._seated_s >= _SEAT_S
        if is_ready or is_late or course.parts - set(wanted):
            self.recall(course.number)

    def recall(self, number: int) -> None:
        """Call leases in, and seats. Tasks end within a moment; their receipts close the plan."""
        self._helm.put({RECALL: row(Recall(self._course.generation, number))})
        self.is_recalled = True

    def close(self, plan: Plan) -> None:
        """Close the running plan once its receipts are in, or will not come any more."""
        receipts = read_receipts(self._helm.state.rows, plan)
        if len(receipts) == plan.leases or self._lanes[self._course.lane].is_lost():
            self._course.close(receipts.values())

    def _is_seated(self, tasks: int) -> bool:
        """Claim: so many tasks wait for the next plan, or will in a moment."""
        seats = self._course.seats
        return seats is not None and seats.count >= tasks


def _seats_rows(seats: Seats) -> dict[bytes, bytes | None]:
    return {seats_key(seats.lane): row(seats)}
