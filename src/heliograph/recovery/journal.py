"""The journal of a link's recovery: which verb is under way, its steps, and the stages of topics.

Kept on the target, so that the same command goes on after a crash, from any machine. Whoever opens
the journal last holds it: of two commands at the same time, the first finds its next entry refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from heliograph.errors import Superseded, Unsafe
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import claim
from heliograph.kafka.tables import Table, Writer
from heliograph.model.control import read, row
from heliograph.model.names import control_topic, recovery_claim, state_topic
from heliograph.model.recovery import (
    RECOVERY,
    Event,
    Fenced,
    Outcome,
    Recovery,
    event_key,
    fence_key,
    next_event,
    recovery_id,
    under_way,
    words_of,
)
from heliograph.model.stages import Stage, StageState, Verb, read_stages, stage_key
from heliograph.model.topics import Partition

_PUT_TIMEOUT = timedelta(seconds=15)
_INTERRUPTED = "interrupted"
"""What is kept of a recovery for other topics that was under way when this one began."""


class Journal:
    """The rows that recovery puts, with the right to put them. For one thread."""

    def __init__(self, target: Cluster, link: str) -> None:
        self._target, self._link = target, link
        self._control = Table(target, control_topic(link))
        self._state = Table(target, state_topic(link))
        self._writer: Writer | None = None
        self._number = 0
        self._rest: Recovery | None = None
        self.recovery: Recovery | None = None
        self.has_ended = False
        """Claim: what was begun here last has been entered as ended."""

    def open(self, deadline: Deadline) -> None:
        """Fence every other command, and read what stands there."""
        place = Partition(control_topic(self._link), 0)
        name = recovery_claim(self._link)
        self._writer = Writer.of(claim(self._target, name, [place], deadline))
        self._control.load(deadline)
        self._state.load(deadline)

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages of the link's topics, as they stand there."""
        return read_stages(self._control.rows)

    @property
    def unfinished(self) -> Recovery | None:
        """The recovery that was begun and has not ended."""
        return under_way(self._control.rows)

    def begin(self, verb: Verb, topics: Iterable[str], by: str) -> Recovery:
        """Begin a verb, or go on with the one that was begun for these topics."""
        before, wanted = self.unfinished, tuple(sorted(topics))
        self._rest, self.has_ended = None, False
        if before is None or before.verb != verb or _is_within(before, wanted):
            self.recovery = self._begin_anew(verb, wanted, by)
        elif set(wanted) - set(before.topics):
            raise Unsafe(
                f"a {words_of(verb)} of {', '.join(before.topics)} has not ended. Nothing was"
                " done. Finish it first, with those topics"
            )
        else:
            self.recovery, self._rest = before, _without(before, wanted)
        self._number = next_event(self._state.rows, self.recovery.id)
        return self.recovery

    def _begin_anew(self, verb: Verb, topics: tuple[str, ...], by: str) -> Recovery:
        now_ms, last = clock.wall_ms(), read(self._control.rows, RECOVERY, Recovery)
        # Named after the last one, although the clock here may be behind the one over there.
        before_ms = max(last.begun_ms, last.ended_ms) if last is not None else -1
        named_ms = max(now_ms, before_ms + 1)
        rest = self._interrupted(topics)
        kept = {_INTERRUPTED: row(rest).decode()} if rest is not None else {}
        found = Recovery(recovery_id(verb, named_ms), verb, by, named_ms, topics, kept=kept)
        self._put({RECOVERY: row(found)})
        return found

    def _interrupted(self, topics: Collection[str]) -> Recovery | None:
        """Return what is under way for others than these topics: a failover may come between.

        It is to be finished after that. Begun anew, a switch that has turned some of its topics
        would open again what it had closed, and records would be copied to and fro.
        """
        before = self.unfinished
        if before is not None and not before.has_changed:
            kept = before.kept.get(_INTERRUPTED)
            before = read({RECOVERY: kept.encode()}, RECOVERY, Recovery) if kept else None
        return _without(before, topics) if before is not None else None

    def tell(
        self, step: str, outcome: Outcome, lines: Iterable[str] = (), seconds: float = 0.0
    ) -> None:
        """Add an event to the timeline; a step that is done need not be taken again."""
        recovery = self._current()
        event = Event(
            recovery.id,
            recovery.verb,
            step,
            outcome,
            clock.wall_ms(),
            round(seconds, 3),
            tuple(lines),
        )
        key = event_key(recovery.id, self._number)
        self._state.put({key: row(event)}, Deadline.after(_PUT_TIMEOUT))
        self._number += 1
        if outcome == "done":
            self._change(done=(*recovery.done, step))

    def hold(self, step: str) -> None:
        """Enter which step is about to be taken; raise Superseded where another command took over.

        It may have done so while this one slept.
        """
        self._change(step=step)

    def drop(self, topics: Collection[str]) -> None:
        """Leave topics out of what is under way: the opposite direction brought them elsewhere."""
        before = self.unfinished
        if before is not None and set(before.topics) & set(topics):
            left = _without(before, topics) or replace(before, ended_ms=clock.wall_ms())
            self._put({RECOVERY: row(left)})

    def keep(self, name: str, value: str) -> None:
        """Keep what later steps need to know, also after a crash."""
        self._change(kept={**self._current().kept, name: value})

    def kept(self, name: str) -> str:
        """Return what was kept under a name; nothing is empty."""
        return self.recovery.kept.get(name, "") if self.recovery is not None else ""

    def set_stages(self, stages: Mapping[str, Stage | None]) -> None:
        """Put the stages of topics, all at once; None is mirrored as ever."""
        if stages:
            self._put({stage_key(one): row(it) if it else None for one, it in stages.items()})

    def renew(self, topics: Collection[str], state: StageState) -> None:
        """Enter that topics are in a stage from now on: of two directions, the last one counts."""
        there = {one: it for one, it in self.stages.items() if one in topics and it.state == state}
        now_ms = clock.wall_ms()
        self.set_stages({one: replace(it, since_ms=now_ms) for one, it in there.items()})

    def end(self) -> None:
        """Enter that the verb has ended; what was begun for other topics as well is not."""
        self.has_ended = True
        interrupted = self.kept(_INTERRUPTED)
        if self._rest is not None:
            self.recovery = self._rest
            self._change()
        elif interrupted:
            self._put({RECOVERY: interrupted.encode()})
        else:
            self._change(ended_ms=clock.wall_ms())

    def fenced(self, cluster: str) -> tuple[str, ...]:
        """Return the topics of a cluster that recovery keeps writers out of."""
        found = read(self._control.rows, fence_key(cluster), Fenced)
        return found.topics if found is not None else ()

    def set_fenced(self, cluster: str, topics: Iterable[str]) -> None:
        """Put which topics those are, before they are fenced and after they were."""
        names = tuple(sorted(topics))
        self._put({fence_key(cluster): row(Fenced(names)) if names else None})

    def _current(self) -> Recovery:
        assert self.recovery is not None, "begin comes first"
        return self.recovery

    def _change(self, **fields: object) -> None:
        self.recovery = replace(self._current(), **fields)  # type: ignore[arg-type]
        self._put({RECOVERY: row(self.recovery)})

    def _put(self, rows: Mapping[bytes, bytes | None]) -> None:
        deadline = Deadline.after(_PUT_TIMEOUT)
        try:
            self._control.put(rows, deadline, writer=self._writer)
        except Superseded:
            raise Superseded(
                f"another recovery command took link {self._link} over. This one stopped; what it"
                " had done is on record"
            ) from None
        self._control.catch_up(deadline)


def _is_within(recovery: Recovery, topics: Collection[str]) -> bool:
    """Tell whether nothing but hooks was done, and more topics are meant now: it is begun anew."""
    return not recovery.has_changed and set(recovery.topics) < set(topics)


def _without(recovery: Recovery, topics: Collection[str]) -> Recovery | None:
    """Return what is left of a recovery when some of its topics are seen to; None is nothing."""
    left = tuple(one for one in recovery.topics if one not in topics)
    return replace(recovery, topics=left) if left else None
