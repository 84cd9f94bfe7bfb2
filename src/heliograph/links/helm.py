"""The helm of a link: the one driver that may plan, and its rows on the target.

Whoever claims the control topic last is the driver. An earlier one finds its next put refused, or
reads of the newer generation, and stops.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

from heliograph.errors import HeliographError, Superseded
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import claim
from heliograph.kafka.tables import Table, Writer
from heliograph.model.blueprint import Ours, read_ours
from heliograph.model.control import (
    DRIVER,
    FIRST,
    NOTED,
    WANTED,
    Begun,
    Driver,
    FirstLook,
    Made,
    Noted,
    PartReport,
    Wanted,
    begun_key,
    heard_ms,
    made_key,
    part_key,
    read,
    read_heard,
    read_passing,
    read_report,
    row,
)
from heliograph.model.grants import Grants
from heliograph.model.leases import Known
from heliograph.model.names import control_topic, driver_id, state_topic
from heliograph.model.stages import closed_topics, is_stage, is_turned, read_stages
from heliograph.model.topics import Partition

_PUT_TIMEOUT = timedelta(seconds=15)
# A batch of rows must stay below what brokers take.
_TOGETHER = 500


def driver_name() -> str:
    """Return what this process is called as a driver."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Helm:
    """The control and state topics of a link, with the right to plan. For one thread."""

    def __init__(self, target: Cluster, link: str) -> None:
        self._target = target
        self._link = link
        self.control = Table(target, control_topic(link))
        self.state = Table(target, state_topic(link))
        self.driver = Driver(0, "", 0)
        """Which driver this is; whether its row landed is for ``look`` to see."""
        self.name = driver_name()
        self._writer: Writer | None = None
        self.closed: Mapping[str, str] = {}
        """Mirrors, by source topic, that the link leaves alone by now."""
        self.is_turned = False
        """Whether some of its topics are mirrored in the opposite direction."""
        self._heard: dict[Partition, tuple[bytes | None, PartReport | None]] = {}

    def take(self, deadline: Deadline, *, is_bounded: bool = False) -> None:
        """Become the driver: every earlier one is fenced from the control topic."""
        self._claim(deadline)
        self.control.load(deadline)
        self.state.load(deadline)
        self._read_stages()
        before = read(self.control.rows, DRIVER, Driver)
        generation = (before.generation if before else 0) + 1
        self.driver = Driver(generation, self.name, clock.wall_ms(), is_bounded)
        rows: dict[bytes, bytes | None] = {DRIVER: row(self.driver)}
        if self.wanted.state == "stopped":  # who starts a link wants it to run
            rows[WANTED] = row(
                replace(self.wanted, state="active", asked_ms=clock.wall_ms(), asked_by=self.name)
            )
        self.put(rows)

    @property
    def generation(self) -> int:
        """Which driver of the link this is, counted from the first."""
        return self.driver.generation

    @property
    def wanted(self) -> Wanted:
        """What people asked for."""
        return read(self.control.rows, WANTED, Wanted) or Wanted()

    @property
    def ours(self) -> Ours:
        """What Heliograph did on the target for this link."""
        return read_ours(self.control.rows)

    def note(
        self,
        made: Mapping[str, Made],
        gone: Collection[str],
        begun: Mapping[str, Begun],
        first: FirstLook | None,
        grants: Grants | None,
    ) -> None:
        """Remember what was done: mirrors made and deleted, where topics begin, and ACLs.

        Mirrors that are not noted count as others', which is safe. The first look is over once
        everything else is noted.
        """
        rows: dict[bytes, bytes | None] = {made_key(name): row(one) for name, one in made.items()}
        rows |= {made_key(name): None for name in gone}
        rows |= {begun_key(topic): row(one) for topic, one in begun.items()}
        if grants is not None and grants.noted != self.ours.noted:
            rows[NOTED] = row(Noted(tuple(sorted(grants.noted))))
        if first is not None:
            rows[FIRST] = row(first)
        some = list(rows.items())
        for at in range(0, len(some), _TOGETHER):
            self.put(dict(some[at : at + _TOGETHER]))

    def look(self) -> None:
        """Take in what has arrived; raise Superseded once a newer driver is known.

        One of the same generation is another as well: it was put while our own row was lost.
        """
        if any(is_stage(change.key) for change in self.control.poll()):
            self._read_stages()
        self.state.poll()
        newest = read(self.control.rows, DRIVER, Driver)
        if newest is None or newest == self.driver:
            return
        if newest.generation >= self.generation:
            raise self._superseded(newest.name)

    def _read_stages(self) -> None:
        stages = read_stages(self.control.rows)
        self.closed = closed_topics(stages)
        self.is_turned = is_turned(stages)

    def heard_of(self, source: Partition) -> PartReport | None:
        """Return what a task of this driver last said of a partition.

        Asked for every partition in every step, so a row is read once.
        """
        text = self.state.rows.get(part_key(source))
        before, report = self._heard.get(source, (None, None))
        if text is not before:
            report = read_report(self.state.rows, source, self.generation)
            self._heard[source] = text, report
        return report

    def last_heard_of(self, source: Partition) -> Known:
        """Return what a task of any driver last said of a partition."""
        report = self.heard_of(source) or read_passing(
            self.state.rows, part_key(source), PartReport
        )
        if report is None:
            return Known()
        return report.known

    @property
    def source_heard_ms(self) -> int:
        """When tasks of any driver last heard from the source; -1 where that is not known."""
        found = heard_ms(read_heard(self.control.rows, self.state.rows))
        return -1 if found is None else found

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Put rows into the control topic as the driver; raise Superseded if it is not any more.

        A put whose outcome is not known is followed by a new claim: only then it is certain that
        it will not land later, behind what is put next.
        """
        try:
            self._put(rows)
        except Superseded:
            raise self._superseded("not known yet by name") from None
        except HeliographError:
            deadline = Deadline.after(_PUT_TIMEOUT)
            self._see_newer(deadline)  # one that was frozen must not take it from its successor
            self._claim(deadline)
            self._see_newer(deadline)
            self._put(rows)

    def _see_newer(self, deadline: Deadline) -> None:
        """Raise Superseded where a newer driver has put its row by now."""
        self.control.catch_up(deadline)
        self.look()

    def report(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Put rows into the state topic: the last one counts."""
        self.state.put(rows, Deadline.after(_PUT_TIMEOUT))

    def _put(self, rows: Mapping[bytes, bytes | None]) -> None:
        self.control.put(rows, Deadline.after(_PUT_TIMEOUT), writer=self._writer)

    def _claim(self, deadline: Deadline) -> None:
        place = Partition(control_topic(self._link), 0)
        self._writer = Writer.of(claim(self._target, driver_id(self._link), [place], deadline))

    def _superseded(self, by: str) -> Superseded:
        return Superseded(
            f"another driver took link {self._link} over ({by}). This one stopped copying it;"
            " nothing is lost"
        )
