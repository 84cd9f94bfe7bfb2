"""Drill: rehearse a failover on scratch topics, measure it, and leave nothing behind.

The copying, the failover and the move of a group are the real ones, on a link of their own. The
source is only read; the real link, its mirrors and its driver are not touched.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import heliograph
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup
from heliograph.links.state_rows import put_state
from heliograph.model.control import row
from heliograph.model.drills import Drilled, End
from heliograph.model.names import own_topics, scratch_group
from heliograph.model.recovery import Event, Outcome, event_key, recovery_id
from heliograph.model.topics import ClusterView
from heliograph.recovery import failover as failing_over
from heliograph.recovery.command import LOOK_TIMEOUT, Options, Report
from heliograph.recovery.rehearsal import Rehearsal, Rehearsed
from heliograph.recovery.sampling import Sample, take_sample
from heliograph.recovery.scratch import find_leftovers, mark_of, remove

_PUT_TIMEOUT = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for. ``topics`` is a pattern for source topics, all of the link unless told.

    At most ``records`` of each of ``partitions`` are sampled; they are copied on for ``copy_for``
    once they have arrived, for which there is time ``within``.
    """

    by: str
    topics: str | None = None
    partitions: int = 100
    records: int = 1000
    copy_for: timedelta = timedelta(seconds=5)
    within: timedelta = timedelta(seconds=60)
    has_hooks: bool = False


def foresee(setup: Setup, wish: Wish) -> list[dict[str, str]]:
    """Return what a drill would remove, make, and remove again; changes nothing."""
    sample = take_sample(setup, wish.by, wish.topics, wish.partitions, wish.records)
    left = find_leftovers(setup, Deadline.after(LOOK_TIMEOUT))
    drill = sample.scratch.link.name
    rows = [_row("remove", one, "left behind by an earlier drill") for one in left]
    rows += [_row("create", one, "one partition, compacted") for one in own_topics(drill)]
    for topic, name in sample.names.items():
        mine = [one for one in sample.parts if one.source.topic == topic]
        count = len(sample.shapes[sample.mirrors[topic]].partitions)
        wanted = sum(one.end - one.begin for one in mine)
        detail = f"{count} partitions; {wanted} offsets of {len(mine)} partitions of {topic}"
        rows.append(_row("create", name, detail))
    rows.append(_row("create", scratch_group(drill), f"a group in {len(sample.parts)} partitions"))
    return [*rows, _row("remove", drill, "all of that again, at the end")]


def _row(action: str, name: str, detail: str) -> dict[str, str]:
    return {"action": action, "name": name, "detail": detail}


def clean(setup: Setup, *, dry_run: bool = False) -> tuple[list[str], list[str]]:
    """Remove what drills of a link left behind; return what is gone, and what is not."""
    left = find_leftovers(setup, Deadline.after(LOOK_TIMEOUT), by_force=True)
    return (left, []) if dry_run else remove(setup, left)


def drill(setup: Setup, wish: Wish, say: Callable[[str], None]) -> Drilled:
    """Rehearse a failover; return what was measured. Raises Unsafe where it would show nothing."""
    sample = take_sample(setup, wish.by, wish.topics, wish.partitions, wish.records)
    if left := find_leftovers(setup, Deadline.after(LOOK_TIMEOUT)):
        say(f"removing what an earlier drill left behind: {', '.join(left)}")
        for one in remove(setup, left)[1]:
            say(f"could not be removed: {one}")
    foreseen = failing_over.foresee(setup, Options(wish.by, sample.pattern))
    return _Drill(setup, wish, sample, foreseen, say).run()


class _Drill:
    """One drill, from the first scratch topic to the event in the timeline."""

    def __init__(
        self,
        setup: Setup,
        wish: Wish,
        sample: Sample,
        foreseen: Report,
        say: Callable[[str], None],
    ) -> None:
        self._setup, self._wish, self._sample, self._foreseen = setup, wish, sample, foreseen
        self._say = say
        self._mark = mark_of(setup, wish.by)
        self._began_s = clock.now_s()

    def run(self) -> Drilled:
        """Rehearse, remove everything whatever came of it, and put the verdict on record."""
        wish, sample = self._wish, self._sample
        rehearsal = Rehearsal(sample, wish.copy_for, wish.within, wish.has_hooks, self._say)
        left: list[str] = []
        try:
            try:
                rehearsed = rehearsal.run(self._mark)
            finally:
                left = self._remove()
        except BaseException as failure:
            with suppress(HeliographError):  # what stopped the drill matters more
                self._tell("failed", (f"stopped: {str(failure) or type(failure).__name__}", *left))
            raise
        drilled = self._drilled(rehearsed, left)
        self._tell("failed" if drilled.verdict == "fail" else "done", drilled.lines)
        return drilled

    def _remove(self) -> list[str]:
        """Remove the scratch link; return what is left of it."""
        drill = self._sample.scratch.link.name
        self._say("removing the scratch topics …")
        try:
            return remove(self._setup, [drill])[1]
        except HeliographError as failure:
            self._say(f"{drill} could not be removed: {failure}")
            return [f"{drill}: {failure}"]

    def _tell(self, outcome: Outcome, lines: tuple[str, ...]) -> None:
        """Add the only event of a drill to the timeline of the real link."""
        recovery, link = recovery_id("drill", self._mark.begun_ms), self._setup.link
        seconds = round(clock.now_s() - self._began_s, 3)
        event = Event(recovery, "drill", "verdict", outcome, clock.wall_ms(), seconds, lines)
        with Cluster(self._setup.target_settings, link.target) as target:
            rows = {event_key(recovery, 0): row(event)}
            put_state(target, link.name, rows, Deadline.after(_PUT_TIMEOUT))

    def _drilled(self, found: Rehearsed, left: list[str]) -> Drilled:
        link, sample, wish = self._setup.link, self._sample, self._wish
        drill = sample.scratch.link.name
        return Drilled(
            link=link.name,
            drill=drill,
            group=scratch_group(drill),
            by=wish.by,
            begun_ms=self._mark.begun_ms,
            ended_ms=clock.wall_ms(),
            source=_end(link.source, sample.source),
            target=_end(link.target, sample.target),
            versions={
                "heliograph": heliograph.__version__,
                "python": platform.python_version(),
            },
            partitions_of_link=sample.partitions_of_link,
            most_records=wish.records,
            outcomes=found.outcomes,
            failover_seconds=found.failover_seconds,
            steps=found.steps,
            foreseen=_real(self._foreseen),
            rpo=link.objectives.rpo,
            rto=link.objectives.rto,
            has_hooks=wish.has_hooks,
            findings=found.findings,
            left=tuple(left),
            notes=(*sample.notes, *found.notes),
        )


def _end(name: str, view: ClusterView) -> End:
    return End(name, str(view.cluster_id), len(view.brokers))


def _real(found: Report) -> dict[str, Any]:
    """Return what a failover of the real link would find, without each offset of each group."""
    told = found.outlook
    return {
        "missing_records": told.missing_records,
        "unknown_partitions": told.unknown_partitions,
        "rpo_seconds": told.rpo_seconds,
        "rpo_ok": found.rpo_ok,
        "heard_seconds": told.heard_seconds,
        "topics": [asdict(one) for one in told.topics],
        "group_offsets": sum(one["moved"] for one in found.groups),
        "notes": list(found.notes),
    }
