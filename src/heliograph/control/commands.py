"""Commands: what people want of a link, put where its driver reads it.

The wanted state stands in the link's control topic: whoever puts last is obeyed, and it holds also
for a driver that is started later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.links.books import BooksReader
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.model.control import (
    LINK,
    PLAN,
    WANTED,
    Added,
    LinkReport,
    PartReport,
    Plan,
    Wanted,
    leased,
    part_key,
    read,
    read_leases,
    row,
)
from heliograph.model.drivers import is_alive
from heliograph.model.names import control_topic, own_topics
from heliograph.model.policies import Start
from heliograph.model.status import Books, known_partitions, known_topics
from heliograph.model.steering import active_parts, limit_of, share_of
from heliograph.model.topics import Partition

Verb = Literal["pause", "resume", "stop"]
Wish = Callable[[Wanted], Wanted]
"""What a command makes of what was wanted before."""
Effect = Literal["dry_run", "noted", "asked", "done", "not_confirmed"]
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
        changes = [] if before.state == after.state else [f"state: {before.state} -> {after.state}"]
        changes += _differences("paused topics", before.paused, after.paused)
        changes += _differences("added topics", map(_added, before.added), map(_added, after.added))
        changes += _differences("removed topics", before.removed, after.removed)
        if before.bytes_per_second != after.bytes_per_second:
            limits = (_limit(before.bytes_per_second), _limit(after.bytes_per_second))
            changes.append("bytes per second: {} -> {}".format(*limits))
        return changes

    def as_dict(self, link: str, effect: Effect) -> dict[str, Any]:
        """Return what came of it, as JSON shows it."""
        return {
            "link": link,
            "wanted": self.after.state,
            "paused": list(self.after.paused),
            "added": [one.pattern for one in self.after.added],
            "removed": list(self.after.removed),
            "bytes_per_second": self.after.bytes_per_second,
            "changed": self.changes,
            "effect": effect,
        }


def _differences(what: str, before: Iterable[str], after: Iterable[str]) -> list[str]:
    old, new = list(before), list(after)
    gone = [f"{what}: - {one}" for one in old if one not in new]
    return [f"{what}: + {one}" for one in new if one not in old] + gone


def _added(one: Added) -> str:
    return one.pattern if one.start is None else f"{one.pattern} (start: {one.start})"


def _limit(limit: int | None) -> str:
    return "as configured" if limit is None else str(limit or "no limit")


def add_topics(patterns: Sequence[str], start: Start | None, before: Wanted) -> Wanted:
    """Return what is wanted once topics are added, also such as were removed before.

    >>> after = add_topics(["b"], None, Wanted(removed=("a", "b")))
    >>> after.added, after.removed
    ((Added(pattern='b', start=None),), ('a',))
    """
    others = tuple(one for one in before.added if one.pattern not in patterns)
    known = {one.pattern: one for one in before.added}
    added = [Added(one, start) if start or one not in known else known[one] for one in patterns]
    removed = tuple(one for one in before.removed if one not in patterns)
    return replace(before, added=(*others, *added), removed=removed)


def remove_topics(patterns: Sequence[str], before: Wanted) -> Wanted:
    """Return what is wanted once topics are removed, also such as were added before."""
    added = tuple(one for one in before.added if one.pattern not in patterns)
    others = tuple(one for one in before.removed if one not in patterns)
    return replace(before, added=added, removed=(*others, *patterns))


def limit_bytes(limit: int | None, before: Wanted) -> Wanted:
    """Return what is wanted with another limit: None is the file's, 0 none."""
    return replace(before, bytes_per_second=limit)


def steer(verb: Verb, topics: str | None, before: Wanted) -> Wanted:
    """Return what is wanted after a verb. ``topics`` is a pattern: a part of the link.

    >>> steer("pause", "orders", Wanted()).paused, steer("pause", None, Wanted()).state
    (('orders',), 'paused')
    """
    if topics is None:
        if verb == "resume":
            return replace(before, state="active", paused=())
        return replace(before, state="paused" if verb == "pause" else "stopped")
    others = tuple(one for one in before.paused if one != topics)
    return replace(before, paused=(*others, topics) if verb == "pause" else others)


def is_in_effect(books: Books, wanted: Wanted, configured: int | None = None) -> bool:
    """Tell whether exactly those partitions are out on lease that are wanted, within the limit.

    What a bounded run has done already is not leased again. ``configured`` is the file's limit.
    """
    report = read(books.state, LINK, LinkReport)
    if report is None or wanted.state == "stopped":
        return report is not None and report.state == "STOPPED"
    if report.state == {"paused": "ACTIVE", "active": "PAUSED"}[wanted.state]:
        return False  # its driver has not heard of it
    selected = tuple(one.pattern for one in wanted.added), wanted.removed
    if (report.added, report.removed) != selected:
        return False  # nor has it looked for those
    if not _is_limited(books, limit_of(wanted, configured)):
        return False
    out = {one for one in leased(books.control, books.state) if one.topic in report.topics}
    known = {one for one in known_partitions(books) if one.topic in report.topics} | out
    due = active_parts({one: one for one in known}, wanted)
    return out == {one for one in due if not _is_done(books, one)}


def _is_limited(books: Books, limit: int) -> bool:
    """Claim: the leases that are out keep to a limit."""
    if not leased(books.control, books.state):
        return True
    plan = read(books.control, PLAN, Plan)
    leases = read_leases(books.control, plan) if plan is not None else []
    return all(one.bytes_per_second == share_of(limit, len(leases)) for one in leases)


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

    def look(self, wish: Wish) -> Asked:
        """Return what a command would change."""
        books = self._reader.read(Deadline.after(_ASK_TIMEOUT))
        before = read(books.control, WANTED, Wanted) or Wanted()
        report = read(books.state, LINK, LinkReport)
        is_driven = is_alive(report, clock.wall_ms()) and _is_up(report)
        return Asked(before, wish(before), tuple(known_topics(books)), is_driven)

    def carry_out(self, asked: Asked, by: str, within: timedelta | None) -> Effect:
        """Put what changed, in the name of ``by``; see it come true, unless there is no time."""
        if asked.changes:
            self.put(replace(asked.after, asked_by=by))
        if not asked.is_driven:
            return "noted"
        if within is None:
            return "asked"
        return "done" if self.wait(asked.after, within) else "not_confirmed"

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
            if is_in_effect(books, wanted, self._setup.link.limits.bytes_per_second):
                return True
            if deadline.passed:
                return False
            pause = deadline.within(_LOOK_EVERY)
            while not pause.passed:
                self._target.loop.turn(pause.left_s)


def _is_up(report: LinkReport | None) -> bool:
    return report is not None and report.state != "STOPPED"
