"""Promote: let the mirrors take everything over, and then belong to the applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heliograph.kafka import clock
from heliograph.links.setup import Setup
from heliograph.model.outlook import Outlook, outlook
from heliograph.model.stages import StageState
from heliograph.recovery.command import Command, Options, Report, opened_line
from heliograph.recovery.draining import Draining
from heliograph.recovery.groups import Groups
from heliograph.recovery.perform import Step, perform
from heliograph.recovery.scene import Scene

_STATE: StageState = "PROMOTED"


def foresee(setup: Setup, options: Options) -> Report:
    """Return what a promotion would do, and what has to arrive before; changes nothing."""
    with Command(setup, options, lambda _: None) as command:
        scene, topics = command.find("promote", opens=False)
        acts = _Promotion(command, scene, topics)
        acts.groups.foresee()
        return acts.report(is_done=False)


def promote(setup: Setup, options: Options, say: Callable[[str], None]) -> Report:
    """Promote topics, or refuse while records are missing; begun again, it goes on."""
    with Command(setup, options, say) as command:
        scene, topics = command.find("promote", opens=True)
        acts = _Promotion(command, scene, topics)
        if topics:
            command.begin("promote", topics)
            perform(command.journal, acts.steps, say)
        elif command.across.is_silent:
            command.journal.renew(scene.mirrors, _STATE)
        return acts.report(is_done=True)


class _Promotion:
    """The steps, in order. Each finds out by itself what is left of it."""

    def __init__(self, command: Command, scene: Scene, topics: Sequence[str]) -> None:
        self._command, self._scene, self._topics = command, scene, topics
        self._draining = Draining(command, scene, topics, _STATE, self._give_up)
        self.groups = Groups(command.setup, topics, "promote", command.options.by)
        self.steps = [
            Step("before", lambda: command.run_hooks("before", "promote", topics)),
            Step("drain", self._draining.run),
            Step("groups", self.groups.move),
            Step("mark", self._mark),
            Step("after", lambda: command.run_hooks("after", "promote", topics)),
        ]

    def _give_up(self, why: str) -> None:
        self._command.journal.tell("drain", "failed", [why])
        self._command.journal.end()

    def _mark(self) -> list[str]:
        self._command.set_stages(self._scene, self._topics, _STATE)
        mirrors = [self._scene.mirrors[topic] for topic in self._topics]
        return [opened_line(mirrors)]

    def report(self, *, is_done: bool) -> Report:
        """Return what has arrived, and which groups moved."""
        command, scene = self._command, self._command.look()
        notes = []
        if not self._topics:
            notes.append(f"everything was {_STATE} already: nothing was changed")
        return command.report(
            "promote",
            _STATE,
            self._outlook(scene, is_done),
            is_done=is_done,
            groups=self.groups.rows(),
            steps=tuple(step.name for step in self.steps) if self._topics else (),
            notes=tuple(notes),
        )

    def _outlook(self, scene: Scene, is_done: bool) -> Outlook:
        # What was written to the source since it was closed is not this link's any more.
        ends = {one: ledger.source_next for one, ledger in scene.ledgers.items()}
        if not is_done:
            ends |= self._draining.ends()
        return outlook(scene.books, scene.parts, scene.ledgers, clock.wall_ms(), ends)
