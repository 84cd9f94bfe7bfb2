"""Failover: the source is gone, or counts as gone. Close the mirrors now, and move the groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from heliograph.copy.closing import Outcome, close_blind, seal
from heliograph.copy.opened import Opened
from heliograph.copy.opening import open_all
from heliograph.errors import HeliographError, RecoveryError
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup
from heliograph.model.findings import counted
from heliograph.model.ledger import loss_lines
from heliograph.model.outlook import outlook
from heliograph.model.recovery import left_alone
from heliograph.model.stages import StageState, read_stages
from heliograph.model.topics import Partition
from heliograph.recovery.command import Command, Options, Report, missing_lines, opened_line
from heliograph.recovery.draining import not_closed
from heliograph.recovery.fencing import Fence
from heliograph.recovery.groups import Groups
from heliograph.recovery.perform import Partly, Step, perform
from heliograph.recovery.scene import Scene

_STATE: StageState = "FAILED_OVER"
_CLOSE_TIMEOUT = timedelta(seconds=45)
# A source that answers is worth a moment: what is matched now need not be later.
_MATCH_TIMEOUT = timedelta(seconds=5)
_FAILED_GROUPS = "failed groups"
_CUT = "cut"


def foresee(setup: Setup, options: Options) -> Report:
    """Return what a failover would do, and what would be missing; changes nothing."""
    with Command(setup, options, lambda _: None, also_deleted=True) as command:
        scene, topics = command.find("failover", opens=False)
        acts = _Failover(command, scene, topics)
        acts.groups.foresee()
        return acts.report(is_done=False)


def failover(setup: Setup, options: Options, say: Callable[[str], None]) -> Report:
    """Fail topics over; return what was measured. Begun again, it goes on where it stopped.

    One partition that cannot be closed holds up its topic, and one group that cannot be moved
    nobody: see ``Report.raise_failed``.
    """
    with Command(setup, options, say, also_deleted=True) as command:
        scene, topics = command.find("failover", opens=True)
        acts = _Failover(command, scene, topics)
        if topics and options.is_consistent:
            acts.groups.foresee()  # so that it is refused before anything is done
        if topics:
            command.begin("failover", topics)
            acts.keep_cut()
            perform(command.journal, acts.steps, say)
        elif command.across.is_silent:
            command.journal.renew(scene.mirrors, _STATE)
        return acts.report(is_done=True)


class _Failover:
    """The steps, in order. Each finds out by itself what is left of it."""

    def __init__(self, command: Command, scene: Scene, topics: Sequence[str]) -> None:
        self._command, self._scene, self._topics = command, scene, topics
        self._parts = scene.of(topics)
        self._not_closed: Mapping[Partition, HeliographError] = {}
        self.groups = Groups(
            command.setup,
            topics,
            "failover",
            command.options.by,
            from_checkpoints=True,
            mirrors=scene.mirrors,
            is_consistent=command.options.is_consistent,
        )
        self.steps = [
            Step("before", lambda: command.run_hooks("before", "failover", topics)),
            Step("close", self._close),
            Step("groups", self._move),
            Step("mark", self._mark),
            Step("after", lambda: command.run_hooks("after", "failover", self._marked())),
        ]

    def _marked(self) -> list[str]:
        """Return the topics that are their applications' already."""
        stages = self._command.journal.stages
        states = {topic: stages[topic].state for topic in self._topics if topic in stages}
        return [topic for topic in self._topics if states.get(topic) == _STATE]

    def _closed(self) -> list[str]:
        """Return the topics that are wholly closed, and have yet to be given to applications."""
        held_up = {one.topic for one in self._not_closed}
        return [topic for topic in self._unmarked() if topic not in held_up]

    def _unmarked(self) -> list[str]:
        marked = self._marked()
        return [topic for topic in self._topics if topic not in marked]

    def keep_cut(self) -> None:
        """Keep the time at which groups are to be cut: it is one for all, also after a crash."""
        journal, cut = self._command.journal, self.groups.cut
        if cut is not None and not journal.kept(_CUT):
            journal.keep(_CUT, str(cut.at_ms))

    def _close(self) -> list[str] | Partly:
        """Keep everybody of the link from writing, now and later; see what has arrived."""
        self._command.set_stages(self._scene, self._unmarked(), "PROMOTING")
        self._open_fence()
        self._scene = self._command.look()  # the driver may have grown a mirror until now
        self._parts = self._scene.of(self._topics)
        deadline = Deadline.after(_CLOSE_TIMEOUT)
        command = self._command
        answers = not command.across.is_silent and command.does_source_answer()
        outcomes = self._match(deadline) if answers else {}
        left = {
            source: mirror
            for source, mirror in self._parts.items()
            if isinstance(outcomes.get(source), HeliographError | None)
        }
        outcomes |= close_blind(self._command.ends, left, _STATE, deadline)
        failed = {one: it for one, it in outcomes.items() if isinstance(it, HeliographError)}
        self._not_closed = failed
        if not failed:
            return self._told(len(self._parts), len(left))
        if not self._closed():
            raise not_closed(failed)
        lines = self._told(len(self._parts) - len(failed), len(left) - len(failed))
        return Partly(lines, not_closed(failed))

    def _open_fence(self) -> None:
        """Let writers in again whom a switch back kept out that its target did not outlive.

        We have to write there as well. Where that is not allowed, closing says so.
        """
        command, mirrors = self._command, [self._scene.mirrors[one] for one in self._topics]
        try:
            down = Fence(command.target, command.journal).take_down(mirrors)
        except HeliographError as failure:
            down = [f"a fence stands, and could not be taken down: {failure}"]
        for line in down:
            command.say(f"  {line}")

    def _match(self, deadline: Deadline) -> dict[Partition, Outcome]:
        """Open the partitions while the source still answers: then everything is on record."""
        ends, policies = self._command.ends, self._command.setup.policies
        found = open_all(ends, self._parts, deadline.within(_MATCH_TIMEOUT), policies)
        opened = [one for one in found.values() if isinstance(one, Opened)]
        return seal(ends, opened, _STATE, deadline)

    def _move(self) -> list[str] | Partly:
        """Move the groups of the topics that are closed; one that fails is tried again later."""
        journal = self._command.journal
        assert journal.recovery is not None
        again = json.loads(journal.kept(_FAILED_GROUPS) or "[]")
        cut_ms = int(journal.kept(_CUT)) if journal.kept(_CUT) else None
        self.groups.narrow(self._closed(), self._marked(), again, cut_ms)
        try:
            lines = self.groups.move()
        except RecoveryError as failure:
            if not self.groups.failed:
                raise
            journal.keep(_FAILED_GROUPS, json.dumps(sorted(self.groups.failed)))
            return Partly(self.groups.told(), failure)
        if again:
            journal.keep(_FAILED_GROUPS, "[]")
        return lines

    def _mark(self) -> list[str]:
        self._command.set_stages(self._scene, self._closed(), _STATE)
        mirrors = [self._scene.mirrors[topic] for topic in self._marked()]
        return [opened_line(mirrors)]

    def _told(self, closed: int, blind: int) -> list[str]:
        lines = [f"{counted(closed, 'partition')} closed, {blind} without a word from the source"]
        return lines + missing_lines(self.report(is_done=True).outlook)

    def _failed(self) -> list[dict[str, Any]]:
        """Return what could not be done, as JSON shows it."""
        parts = [
            {"topic": one.topic, "partition": one.partition, "group": None, "error": str(error)}
            for one, error in sorted(self._not_closed.items())
        ]
        return parts + [
            {"topic": None, "partition": None, "group": group, "error": str(error)}
            for group, error in sorted(self.groups.failed.items())
        ]

    def report(self, *, is_done: bool) -> Report:
        """Return what is missing and which groups moved, as measured.

        Of all topics that are meant: also those that an earlier command has failed over already,
        but not of those that are left alone.
        """
        command, scene = self._command, self._command.look()
        alone = left_alone(self._topics, scene.mirrors, read_stages(scene.books.control))
        parts = {**scene.parts, **scene.lost}
        parts = {one: it for one, it in parts.items() if one.topic not in alone}
        notes = [f"{topic} is {state} already: left alone" for topic, state in alone.items()]
        notes += [
            f"{topic}: its mirror is not there, so nothing arrived"
            for topic in scene.absent
            if topic not in alone
        ]
        ledgers = [ledger for one, ledger in sorted(scene.ledgers.items()) if one in parts]
        missing = [one for one in ledgers if any(map(one.lacks, one.losses))]
        notes += loss_lines(missing)
        notes += [
            f"{error}. Its groups stay where they are"
            for one, error in scene.unfit.items()
            if one in parts and one not in self._not_closed
        ]
        if self.groups.cut is not None:
            notes += self.groups.cut.lines()
        if not self._topics:
            every = "everything else" if alone else "everything"
            notes.append(f"{every} was {_STATE} already: nothing was changed")
        return command.report(
            "failover",
            "PROMOTING" if self._not_closed else _STATE,
            outlook(scene.books, parts, scene.ledgers, clock.wall_ms()),
            is_done=is_done,
            groups=self.groups.rows(),
            steps=tuple(step.name for step in self.steps) if self._topics else (),
            notes=tuple(notes),
            failed=self._failed(),
        )
