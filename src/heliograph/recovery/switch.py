"""Switch: a planned swap with nothing lost. Fence, drain, close, and turn the link round.

``back`` is the same from the other side: the link runs in its opposite direction, and its source
becomes primary again. The journal is the link's own either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from heliograph.errors import RecoveryError
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup, opposite
from heliograph.model.ledger import Ledger
from heliograph.model.outlook import outlook
from heliograph.model.recovery import under_way
from heliograph.model.stages import Verb
from heliograph.model.topics import Partition
from heliograph.recovery.command import LOOK_TIMEOUT, Command, Options, Report
from heliograph.recovery.diverged import Found, Saving, keep, kept
from heliograph.recovery.draining import Draining
from heliograph.recovery.early import EarlySaving
from heliograph.recovery.failback import refuse_shared
from heliograph.recovery.fencing import Fence
from heliograph.recovery.groups import Groups
from heliograph.recovery.perform import Step, perform
from heliograph.recovery.scene import Scene
from heliograph.recovery.stillness import moving, refuse_moving
from heliograph.recovery.turning import open_direction, times_replaced, turn

_SAVE_TIMEOUT = timedelta(minutes=10)
_SLIPPED = "diverged"
_EARLY = "early"


@dataclass(frozen=True, slots=True)
class Swap:
    """Which way to switch, and how writers are kept out."""

    back: bool = False
    fence: Literal["acl", "none"] = "acl"

    @property
    def verb(self) -> Verb:
        """The verb of the journal."""
        return "switch-back" if self.back else "switch"


def foresee(setup: Setup, options: Options, swap: Swap) -> Report:
    """Return what a switch would do, and what has to arrive before; changes nothing."""
    refuse_shared(setup, "switch")
    with ExitStack() as stack:
        acts = _enter(stack, setup, options, swap, lambda _: None)
        acts.groups.foresee()
        return acts.report(is_done=False)


def switch(setup: Setup, options: Options, swap: Swap, say: Callable[[str], None]) -> Report:
    """Turn topics round as planned; begun again, it goes on where it stopped."""
    refuse_shared(setup, "switch")
    with ExitStack() as stack:
        acts = _enter(stack, setup, options, swap, say, opens=True)
        acts.perform()
        return acts.report(is_done=True)


def _enter(
    stack: ExitStack,
    setup: Setup,
    options: Options,
    swap: Swap,
    say: Callable[[str], None],
    *,
    opens: bool = False,
) -> _Switch:
    command = stack.enter_context(Command(setup, options, say))
    # Its topics are those that have turned round: what was asked for is the link's own names.
    every = replace(options, topics=None)
    other = stack.enter_context(Command(opposite(setup), every, say))
    scene, topics = command.find(swap.verb, opens=opens)
    if swap.back and topics and not command.does_source_answer():
        raise _lost(command, scene, topics, opens)
    return _Switch(command, other, scene, topics, swap)


def _lost(command: Command, scene: Scene, topics: Sequence[str], opens: bool) -> RecoveryError:
    """Give up a switch back whose target is lost: applications go on where they are.

    Not behind the turn: what they wrote from then on would be on no ledger until a failover.
    """
    link, told = command.setup.link, ""
    unfinished = command.journal.unfinished if opens else under_way(scene.books.control)
    is_behind_turn = unfinished is not None and unfinished.is_behind_turn
    if opens and unfinished is not None and unfinished.verb == "switch-back" and not is_behind_turn:
        command.begin("switch-back", topics)
        mirrors = [scene.mirrors[one] for one in topics]
        down = Fence(command.target, command.journal).take_down(mirrors)
        why = f"{link.source} does not answer"
        command.journal.tell("fence", "failed", [why, *down])
        command.journal.end()
        told = "".join(f" {line.capitalize()}." for line in down)
    lost = (
        f"if it is lost: heliograph failover {link.name} opens {link.target} again"
        if is_behind_turn
        else f"if it is lost for good, and built anew: heliograph failback {link.name} --wipe --all"
    )
    return RecoveryError(
        f"{link.source} does not answer, and switch needs both clusters. {link.target} stays"
        f" primary.{told} Once {link.source} is up: the same heliograph switch --back {link.name};"
        f" {lost}"
    )


class _Switch:
    """The steps, in order. ``now`` is the direction that ends, ``onward`` the one to come."""

    def __init__(
        self, command: Command, other: Command, scene: Scene, topics: Sequence[str], swap: Swap
    ) -> None:
        self._command, self._scene, self._topics, self._swap = command, scene, topics, swap
        self._now, self._onward = (other, command) if swap.back else (command, other)
        mirrors = [scene.mirrors[topic] for topic in topics]
        # The topics as the direction knows them that ends, and as the one to come does.
        self._ending: Sequence[str] = mirrors if swap.back else topics
        self._coming: Sequence[str] = topics if swap.back else mirrors
        self._ending_scene = scene
        if swap.back and topics:
            self._ending_scene = other.look()
        now, by = self._now, command.options.by
        self._parts = self._ending_scene.of(self._ending)
        self._fence = Fence(now.source, command.journal)
        self._stands_still = False
        self._draining = Draining(now, self._ending_scene, self._ending, "PROMOTED", self._give_up)
        self.groups = Groups(now.setup, self._ending, "switch", by)
        self.steps = [
            Step("before", lambda: self._run_hooks("before")),
            Step("fence", self._keep_out),
            Step("drain", self._draining.run),
            Step("turn", self._turn),
            Step("groups", self.groups.move),
            Step("mark", self._mark),
            Step("open", lambda: self._fence.take_down(self._ending)),
            Step("after", lambda: self._run_hooks("after")),
        ]

    def perform(self) -> None:
        """Take the steps that are left."""
        if self._topics:
            self._command.begin(self._swap.verb, self._topics)
            if self._swap.back:
                self._now.journal.open(Deadline.after(LOOK_TIMEOUT))
                self._now.journal.drop(self._ending)  # what only ran hooks there, or was cut off
                self._now.recovery = self._command.recovery
            else:
                self._onward.recovery = self._command.recovery
            perform(self._command.journal, self.steps, self._command.say)

    def _run_hooks(self, when: str) -> list[str]:
        primary = self._now.target.name
        return self._command.run_hooks(when, "switch", self._topics, primary)

    def _keep_out(self) -> list[str]:
        """Let nobody write to what is the source until now, and see that nobody does."""
        if not self._now.does_source_answer():
            link = self._now.setup.link
            raise RecoveryError(
                f"{link.source} does not answer, and switch needs both clusters. Nothing was turned"
                f" round. If it is lost: heliograph failover {link.name}"
            )
        lines = []
        if self._swap.fence == "acl":
            lines = self._fence.put_up(self._ending)
        found = moving(self._now.source, list(self._parts))
        if found:
            self._give_up(f"{len(found)} partitions of the source are still written to", "fence")
            refuse_moving(self._now, found)
        self._stands_still = True
        return [*lines, f"{self._now.source.name} stands still"]

    def _give_up(self, why: str, step: str = "drain") -> None:
        journal = self._command.journal
        journal.tell(step, "failed", [why, *self._fence.take_down(self._ending)])
        journal.end()

    def _turn(self) -> list[str]:
        """Hand the ledgers over. What slipped in behind the fence is saved, and told.

        So is what others wrote among the copies: it is on one side only, and stays there.
        """
        now = self._now
        if not self._stands_still:  # it was taken up again, and nobody has looked since
            refuse_moving(now, moving(now.source, list(self._parts)))
        scene = now.look()
        if lost := [str(scene.unfit[one]) for one in scene.of(self._ending) if one in scene.unfit]:
            raise RecoveryError("\n  - ".join(["these partitions cannot turn round:", *lost]))
        closed = {one: it for one, it in scene.ledgers.items() if it.closing is not None}
        parts = {one: it for one, it in scene.of(self._ending).items() if one in closed}
        ledgers = {one: closed[one] for one in parts}
        starts = {one: ledger.source_next for one, ledger in ledgers.items()}
        saving = Saving(now.setup.link.name, now.source, now.target, now.recovery)

        def save(ends: Mapping[Partition, int]) -> dict[Partition, int]:
            left = {one: starts[one] for one in ends}
            found = saving.save(left, Deadline.after(_SAVE_TIMEOUT), ends)
            # Before the ledgers are put: from then on nobody looks there again.
            keep(self._command.journal, _SLIPPED, found)
            return {source: one.count for source, one in found.items()}

        self._save_early({parts[one]: ledger for one, ledger in ledgers.items()})
        lines = turn(ledgers, parts, self._onward, save)
        lines += [one.line() for one in self._told()]
        if not self._swap.back:
            open_direction(self._onward, self._coming)
        return lines

    def _save_early(self, ledgers: Mapping[Partition, Ledger]) -> None:
        now, deadline = self._now, Deadline.after(_SAVE_TIMEOUT)
        early = EarlySaving(now.setup.link.name, now.target, now.target, now.recovery, ledgers)
        keep(self._command.journal, _EARLY, early.save(early.starts, deadline, early.ends))

    def _told(self) -> list[Found]:
        journal = self._command.journal
        return [*kept(journal, _SLIPPED).values(), *kept(journal, _EARLY).values()]

    def _mark(self) -> list[str]:
        command = self._command
        if self._swap.back:
            self._now.set_stages(self._ending_scene, self._ending, "REVERSING")
            command.set_stages(self._scene, self._topics, None)
        else:
            command.set_stages(self._scene, self._topics, "REVERSING")
        return [f"{self._now.target.name} is primary for {len(self._topics)} topics"]

    def report(self, *, is_done: bool) -> Report:
        """Return what has arrived, and which groups moved."""
        command, now = self._command, self._now
        scene = now.look() if self._topics else self._ending_scene
        slipped = self._told()
        notes = [one.line() for one in slipped]
        if not self._topics:
            notes.append(f"{now.target.name} is primary already: nothing was changed")
        notes += times_replaced(self._onward, self._ending)
        ends = {one: ledger.source_next for one, ledger in scene.ledgers.items()}
        if not is_done:
            ends |= self._draining.ends()
        parts = {one: it for one, it in scene.parts.items() if one in self._parts}
        state = "ACTIVE" if self._swap.back else "REVERSING"
        return command.report(
            self._swap.verb,
            state,
            outlook(scene.books, parts, scene.ledgers, clock.wall_ms(), ends),
            is_done=is_done,
            groups=self.groups.rows(),
            steps=tuple(step.name for step in self.steps) if self._topics else (),
            notes=tuple(notes),
            diverged=[one.as_dict() for one in slipped],
        )
