"""Dealing: a link's seats, plans, recalls and receipts, as rows of its control and state topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from heliograph.control.lanes import Lanes
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.links.helm import Helm
from heliograph.model.control import (
    RECALL,
    Heard,
    Plan,
    Recall,
    Seats,
    are_taken,
    batches_of,
    heard_key,
    plan_rows,
    read_passing,
    read_receipts,
    row,
    seats_key,
)
from heliograph.model.findings import some
from heliograph.model.steering import Conditions, Course
from heliograph.model.topics import Partition

# How long a turn-over waits for tasks to take their seats.
_SEAT_S = 10.0
# How long a plan waits for receipts after its recall: a task's own time for its end is 10 s.
_RECEIPTS_S = 15.0
# A task that copies says something every two seconds. One that was silent for so long, or says
# nothing in twice that time, then four times, is not waited for until its lease is over.
_SILENT_S = 30.0
_MOST_BEGIN_S = 600.0


class Dealer:
    """Deals leases out and calls them in. For one thread.

    ``tell`` is told, in words, of a task that did not answer.
    """

    def __init__(
        self, helm: Helm, lanes: Lanes, course: Course, tell: Callable[[str], None]
    ) -> None:
        self._helm, self._lanes, self._course, self._tell = helm, lanes, course, tell
        self._seated_s = self._recalled_s = 0.0
        self._sources: dict[int, list[Partition]] = {}
        self._pulses: dict[int, tuple[bytes, float]] = {}
        self._begin_s = _SILENT_S
        self.planned_s = 0.0
        self.is_recalled = False

    def deal(
        self, wanted: Mapping[Partition, Partition], conditions: Conditions, lane: int
    ) -> Plan:
        """Deal leases out: to tasks that wait for them, or to new ones on a lane.

        Where they cannot be put, nobody knows whether tasks read them all the same: what was handed
        over with them is given up.
        """
        course, rows = self._course, dict[bytes, bytes | None]()
        if not self._is_seated(conditions.tasks):
            rows = _seats_rows(course.seat(lane, conditions.tasks, conditions.most_s))
        reports = {source: self._helm.heard_of(source) for source in wanted}
        rates = {source: one.bytes_per_second for source, one in reports.items() if one}
        plan, leases = course.plan(wanted, conditions, rates, clock.wall_ms())
        try:
            for some in batches_of(rows | plan_rows(plan, leases, self._helm.control.rows)):
                self._helm.put(some)
        except HeliographError:
            course.close(())
            raise
        self.planned_s, self.is_recalled = clock.now_s(), False
        self._sources = {one.index: [part.source for part in one.parts] for one in leases}
        self._pulses.clear()
        self._lanes[course.lane].planned()
        return plan

    def turn_over(self, wanted: Collection[Partition], conditions: Conditions) -> None:
        """Call the leases in once the tasks of the next plan have taken their seats.

        Nobody copies between a recall and the next lease. What is not wanted any more is not
        copied while others find their seats.
        """
        course, tasks = self._course, conditions.tasks
        if not self._is_seated(tasks):
            lane = self._lanes.other(course.lane)
            if self._lanes[lane].is_starting:
                return
            if not self._lanes[lane].is_up:
                self.recall(course.number)
                return
            try:
                self._helm.put(_seats_rows(course.seat(lane, tasks, conditions.most_s)))
            except HeliographError:
                course.unseat(lane)
                raise
            self._seated_s = clock.now_s()
        is_ready = course.seats is not None and are_taken(self._helm.state.rows, course.seats)
        is_late = clock.now_s() - self._seated_s >= _SEAT_S
        if is_late and not is_ready and course.seats is not None:
            lane = course.seats.lane
            self._tell(
                f"the tasks of plan {course.seats.number} did not start within {_SEAT_S:.0f} s:"
                " their query on Spark is restarted, and the plan goes to other tasks"
            )
            course.unseat(lane)
            self._lanes[lane].restart()
        if is_ready or is_late or course.parts - set(wanted):
            self.recall(course.number)

    def recall(self, number: int) -> None:
        """Call leases in, and seats. Tasks end within a moment; their receipts close the plan."""
        self._helm.put({RECALL: row(Recall(self._course.generation, number))})
        self._recalled_s, self.is_recalled = clock.now_s(), True

    def close(self, plan: Plan) -> None:
        """Close the running plan once its receipts are in, or will not come any more.

        One that was recalled waits for a while, and no longer: a task that hangs holds up no other.
        What it copied is claimed, which fences it, and its query is started again.
        """
        receipts = read_receipts(self._helm.state.rows, plan)
        lane = self._lanes[self._course.lane]
        if len(receipts) == plan.leases or lane.is_lost():
            self._course.close(receipts.values())
            self._begin_s = _SILENT_S
        elif self.is_recalled and clock.now_s() - self._recalled_s >= _RECEIPTS_S:
            for index in self._sources.keys() - receipts.keys():
                self._tell(self._unanswered(index))
            self._course.close(receipts.values())
            self._course.unseat(self._course.lane)
            self._begin_s = min(self._begin_s * 2, _MOST_BEGIN_S)
            lane.restart()

    def is_silent(self) -> bool:
        """True when a task of the running plan does not say anything, or has not for long.

        By the driver's clock: it is when their rows change that counts. A task whose receipt is in
        has ended; one that reports faults listens to nobody.
        """
        now_s, plan = clock.now_s(), self._course.running
        if plan is None:
            return False
        self._take_pulses(now_s)
        silent = {one for one, (_, at_s) in self._pulses.items() if now_s - at_s >= _SILENT_S}
        if now_s - self.planned_s >= self._begin_s:
            silent |= {one for one in self._sources.keys() - self._pulses if not self._told(one)}
        return bool(silent and silent - read_receipts(self._helm.state.rows, plan).keys())

    def _take_pulses(self, now_s: float) -> None:
        rows = self._helm.state.rows
        for index in self._sources:
            key = heard_key(index)
            if rows.get(key) == self._pulses.get(index, (None, now_s))[0]:
                continue
            heard = read_passing(rows, key, Heard)
            mine = (self._course.generation, self._course.number)
            if heard is not None and (heard.generation, heard.number) == mine:
                self._pulses[index] = rows[key], now_s

    def _told(self, index: int) -> list[int]:
        """Return when the task of a lease reported of its partitions, by its own clock."""
        reports = map(self._helm.heard_of, self._sources[index])
        number = self._course.number
        return [one.at_ms for one in reports if one is not None and one.number == number]

    def _unanswered(self, index: int) -> str:
        told, since = self._told(index), "never reported"
        if (pulse := self._pulses.get(index)) is not None:
            since = f"last reported {clock.now_s() - pulse[1]:.0f} s ago"
        elif told:
            since = f"last reported {max(clock.wall_ms() - max(told), 0) / 1000:.0f} s ago"
        parts = some(map(str, self._sources[index]))
        return (
            f"task {index} of plan {self._course.number} has not answered within"
            f" {_RECEIPTS_S:.0f} s and {since}: other tasks claim its partitions ({parts}), and its"
            " query on Spark is restarted"
        )

    def _is_seated(self, tasks: int) -> bool:
        """Claim: so many tasks wait for the next plan, or will in a moment."""
        seats = self._course.seats
        return seats is not None and seats.count >= tasks


def _seats_rows(seats: Seats) -> dict[bytes, bytes | None]:
    return {seats_key(seats.lane): row(seats)}
