"""Commands: what people want of a link, put where its driver reads it.

The wanted state stands in the link's control topic: whoever puts last is obeyed, and it holds also
for a driver that is started later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from heliograph.control.own_topics import make_own_topics
from heliograph.control.setup import Setup
from heliograph.control.statuses import BooksReader
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.model.control import (
    LINK,
    PLAN,
    WANTED,
    LinkReport,
    PartReport,
    Plan,
    Wanted,
    part_key,
    read,
    read_leases,
    read_receipts,
    row,
)
from heliograph.model.names import control_topic, own_topics
from heliograph.model.status import Books, is_alive, known_partitions, known_topics
from heliograph.model.steering import active_parts
from heliograph.model.topics import Partition

Verb = Literal["pause", "resume", "stop"]
_ASK_TIMEOUT = timedelta(seconds=15)
_LOOK_EVERY = timedelta(seconds=0.3)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command found and put. ``topics`` are the link's; nobody drives it unless alive."""

    before: Wanted
    after: Wanted
    topics: tuple[str, ...]
    is_driven: bool

    @property
    def changes(self) -> list[str]:
        """Say what is different from before, for people and programs."""
        before, after = self.before, self.after
        states = [] if before.state == after.state else [f"state: {before.state} -> {after.state}"]
        states += [f"paused topics: + {one}" for one in after.paused if one not in before.paused]
        return states + [
            f"paused topics: - {one}" for one in before.paused if one not in after.paused
        ]


def wish(verb: Verb, before: Wanted, topics: str | None = None) -> Wanted:
    """Return what is wanted after a command. ``topics`` is a pattern: a part of the link.

    >>> wish("pause", Wanted(), "orders").paused, wish("pause", Wanted()).state
    (('orders',), 'paused')
    """
    if topics is None:
        if verb == "resume":
            return replace(before, state="active", paused=())
        return replace(before, state="paused" if verb == "pause" else "stopped")
    others = tuple(one for one in before.paused if one != topics)
    return replace(before, paused=(*others, topics) if verb == "pause" else others)


def is_in_effect(books: Books, wanted: Wanted) -> bool:
    """Tell whether exactly those partitions are out on lease that are wanted.

    What a bounded run has done already is not leased again.
    """
    report = read(books.state, LINK, LinkReport)
    if report is None or wanted.state == "stopped":
        return report is not None and report.state == "STOPPED"
    if report.state == {"paused": "ACTIVE", "active": "PAUSED"}[wanted.state]:
        return False  # its driver has not heard of it
    out = {one for one in leased(books) if one.topic in report.topics}
    known = {one for one in known_partitions(books) if one.topic in report.topics} | out
    due = active_parts({one: one for one in known}, wanted)
    return out == {one for one in due if not _is_done(books, one)}


def leased(books: Books) -> set[Partition]:
    """Return the source partitions whose leases are out: their plan has not all its receipts."""
    plan = read(books.control, PLAN, Plan)
    if plan is None or len(read_receipts(books.state, plan)) == plan.leases:
        return set()
    return {part.source for lease in read_leases(books.control, plan) for part in lease.parts}


def _is_done(books: Books, source: Partition) -> bool:
    report = read(books.state, part_key(source), PartReport)
    return report is not None and report.state == "DONE"


class Steering:
    """A link's control topic, for a person's command. For one thread; close it at the end."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._link = setup.link.name
        self._target = Cluster(setup.target_settings, setup.link.target)
        self._reader = BooksReader(setup, self._target)

    def __enter__(self) -> Steering:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.close()

    def look(self, verb: Verb, topics: str | None) -> Asked:
        """Return what a command would change."""
        books = self._reader.read(Deadline.after(_ASK_TIMEOUT))
        before = read(books.control, WANTED, Wanted) or Wanted()
        report = read(books.state, LINK, LinkReport)
        is_driven = is_alive(report, clock.wall_ms()) and _is_up(report)
        return Asked(before, wish(verb, before, topics), tuple(known_topics(books)), is_driven)

    def put(self, wanted: Wanted) -> None:
        """Put what is wanted, acknowledged; make the link's own topics if it never ran."""
        deadline = Deadline.after(_ASK_TIMEOUT)
        names = own_topics(self._link)
        if control_topic(self._link) not in self._target.look(names, deadline).topics:
            with Admin(self._setup.target_settings, self._setup.link.target) as admin:
                make_own_topics(admin, self._link, deadline)
        rows: Mapping[bytes, bytes | None] = {
            WANTED: row(replace(wanted, asked_ms=clock.wall_ms()))
        }
        Table(self._target, control_topic(self._link)).put(rows, deadline)

    def wait(self, wanted: Wanted, within: timedelta) -> bool:
        """Wait until the link does what is wanted; tell whether it came to that."""
        deadline = Deadline.after(within)
        while True:
            books = self._reader.read(Deadline.after(_ASK_TIMEOUT))
            if is_in_effect(books, wanted):
                return True
            if deadline.passed:
                return False
            pause = deadline.within(_LOOK_EVERY)
            while not pause.passed:
                self._target.loop.turn(pause.left_s)


def _is_up(report: LinkReport | None) -> bool:
    return report is not None and report.state != "STOPPED"
