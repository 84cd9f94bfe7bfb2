"""Failback: the old source is back. Find where the sides parted, and mirror back what came since.

What only the old source has is saved beside it. Then the link runs in the opposite direction, with
a ledger of everything that both sides have in common; a switch makes the old source primary again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from heliograph.copy.finding import find_ranges, look_at
from heliograph.copy.rematching import Matched, rematch
from heliograph.errors import RecoveryError, Unsafe
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup, opposite
from heliograph.model.findings import counted
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.outlook import outlook
from heliograph.model.reversal import is_outrun, uncopied
from heliograph.model.stages import StageState, read_stages
from heliograph.model.topics import Partition
from heliograph.recovery.command import LOOK_TIMEOUT, Command, Options, Report
from heliograph.recovery.diverged import Found, Saving, keep, kept
from heliograph.recovery.early import EarlySaving
from heliograph.recovery.fencing import Fence
from heliograph.recovery.groups import Groups
from heliograph.recovery.perform import Step, perform
from heliograph.recovery.picking import Picking
from heliograph.recovery.scene import Scene
from heliograph.recovery.stillness import moving, refuse_moving
from heliograph.recovery.turning import open_direction, outrun, times_replaced, turn, turned
from heliograph.recovery.wiping import wipe

_STATE: StageState = "REVERSING"
_COMPARE_TIMEOUT = timedelta(minutes=10)
_DIVERGED = "diverged"
_EARLY = "early"


@dataclass(frozen=True, slots=True)
class Manner:
    """How to fail back. ``diverged_to`` is the side that keeps what diverged."""

    diverged_to: Literal["source", "target"] = "target"
    wipes: bool = False


def foresee(setup: Setup, options: Options, manner: Manner) -> Report:
    """Return what a failback would do, and what diverged; changes nothing."""
    refuse_shared(setup, "failback")
    with Command(setup, options, lambda _: None) as command:
        scene, topics = _find(command, manner, opens=False)
        with Command(opposite(setup), options, lambda _: None) as onward:
            acts = _Failback(command, onward, scene, topics, manner)
            acts.survey()
            return acts.report(is_done=False)


def failback(setup: Setup, options: Options, manner: Manner, say: Callable[[str], None]) -> Report:
    """Turn topics round after a failover; begun again, it goes on where it stopped."""
    refuse_shared(setup, "failback")
    with Command(setup, options, say) as command, Command(opposite(setup), options, say) as onward:
        scene, topics = _find(command, manner, opens=True)
        acts = _Failback(command, onward, scene, topics, manner)
        if topics:
            command.begin("failback", topics)
            perform(command.journal, acts.steps, say)
        return acts.report(is_done=True)


def _find(command: Command, manner: Manner, *, opens: bool) -> tuple[Scene, list[str]]:
    """Return the scene, and what is to be mirrored back; never without a word from the old source.

    It alone knows whether applications use it again.
    """
    scene, topics = command.find("failback", opens=opens, anew=manner.wipes)
    if command.across.is_silent:
        raise _no_answer(command)
    return scene, topics


def refuse_shared(setup: Setup, verb: str) -> None:
    """Raise for links that have no direction to turn: others write to their mirrors as well."""
    if setup.policies.is_shared:
        raise Unsafe(
            f"{verb} turns a link round, and {setup.link.name} shares its mirrors with others"
            " (mirrors.merge or origin: local): the opposite direction is a link of its own."
            " Nothing was done"
        )


class _Failback:
    """The steps, in order. Each finds out by itself what is left of it."""

    def __init__(
        self,
        command: Command,
        onward: Command,
        scene: Scene,
        topics: Sequence[str],
        manner: Manner,
    ) -> None:
        self._command, self._onward, self._scene = command, onward, scene
        self._topics, self._manner = topics, manner
        self._mirrors = [scene.mirrors[topic] for topic in topics]
        self._parts = scene.of(topics)
        self._left: Mapping[Partition, Partition] = {}
        self._there: Set[Partition] = frozenset()
        self._has_seen = False
        self._ledgers: Mapping[Partition, Ledger] = {}
        self._found: Mapping[Partition, Found] = {}
        self._early: Mapping[Partition, Found] = {}
        self.groups = Groups(
            onward.setup, self._mirrors, "failback", command.options.by, may_go_back=True
        )
        turning = [Step("wipe", self._wipe)] if manner.wipes else [Step("turn", self._turn)]
        self.steps = [
            Step("before", lambda: command.run_hooks("before", "failback", topics)),
            Step("compare", self._compare),
            Step("diverged", self._save),
            *turning,
            Step("groups", self.groups.move),
            Step("mark", self._mark),
            Step("after", lambda: command.run_hooks("after", "failback", topics)),
        ]

    def survey(self) -> None:
        """Count what diverged, as far as the ledgers tell without a claim."""
        self._see()
        self._match(enters=False)
        self._refuse_outrun()
        deadline = Deadline.after(_COMPARE_TIMEOUT)
        saving, starts = self._saving()
        self._found = saving.survey(starts, deadline)
        if not self._manner.wipes:
            early = self._early_saving()
            self._early = early.survey(early.starts, deadline, early.ends)

    def _saving(self) -> tuple[Saving, Mapping[Partition, int]]:
        """Return who saves what only the old source has, and from where on."""
        command, name = self._command, self._command.setup.link.name
        place = (name, command.source, self._side(), command.recovery)
        if not self._manner.wipes:
            return Saving(*place), self._starts()
        saving = Picking(*place, self._uncopied())
        return saving, saving.starts

    def _uncopied(self) -> dict[Partition, list[range]]:
        """Return what would be gone with the old source: no copy of it stands on the mirror.

        What cannot be compared is not known to be anywhere else.
        """
        mirrors = [self._parts[one] for one in self._ledgers]
        logs = find_ranges(self._command.target, mirrors, Deadline.after(LOOK_TIMEOUT))
        starts = {one: logs[self._parts[one]] for one in self._ledgers}
        return {
            one: uncopied(self._ledgers[one], log.start)
            if isinstance(log := starts.get(one), range)
            else uncopied(None, 0)
            for one in sorted(self._there)
        }

    def _early_saving(self) -> EarlySaving:
        command, name = self._command, self._command.setup.link.name
        ledgers = {self._parts[one]: ledger for one, ledger in self._ledgers.items()}
        return EarlySaving(name, command.target, self._side(), command.recovery, ledgers)

    def _side(self) -> Cluster:
        command = self._command
        return command.source if self._manner.diverged_to == "source" else command.target

    def _see(self) -> None:
        """See which partitions the old source has, and which have turned round already."""
        command = self._command
        if not command.does_source_answer():
            raise _no_answer(command)
        look_at(command.source, self._topics, Deadline.after(LOOK_TIMEOUT))
        turned_already = set() if self._manner.wipes else turned(self._onward, self._parts)
        self._left = {one: it for one, it in self._parts.items() if one not in turned_already}
        views = command.source.view.topics
        self._there = {
            Partition(topic, number)
            for topic in self._topics
            if topic in views
            for number in views[topic].partitions
        } - turned_already
        self._has_seen = True

    def _starts(self) -> dict[Partition, int]:
        """Return from where on only the old source has what it holds."""
        known = self._ledgers
        return {one: known[one].source_next if one in known else 0 for one in sorted(self._there)}

    # Steps

    def _compare(self) -> list[str]:
        """See that the old source is what was mirrored, and match what is not on record yet."""
        command = self._command
        self._see()
        self._refuse_writers()
        found = self._match()
        self._refuse_outrun()
        command.set_stages(self._scene, self._not_turned(), "FAILING_BACK")
        known, count = len(found.ledgers), len(self._left)
        # Of a switch that its source did not outlive: what is about to be a mirror needs no fence.
        down = Fence(command.source, command.journal).take_down(self._topics)
        return [
            *down,
            f"{known} of {count} partitions: where the sides part is known",
            *(f"{one}: is new on the target, and copied whole" for one in sorted(found.absent)),
            *(
                f"{one}: neither side holds copies any more that could be compared"
                for one in sorted(found.unproven)
            ),
        ]

    def _refuse_writers(self) -> None:
        refuse_moving(self._command, moving(self._command.source, sorted(self._there)))

    def _match(self, *, enters: bool = True) -> Matched:
        command, deadline = self._command, Deadline.after(_COMPARE_TIMEOUT)
        scene = command.look()
        found = rematch(
            command.ends, self._left, scene.ledgers, deadline, unfit=scene.unfit, enters=enters
        )
        self._ledgers, failed = found.ledgers, found.failed
        if failed and not self._manner.wipes:
            told = "\n  - ".join(str(error) for _, error in sorted(failed.items()))
            many, link = counted(len(failed), "partition"), command.setup.link.name
            raise RecoveryError(
                f"{many} cannot be compared:\n  - {told}\nWhat cannot be compared can be mirrored"
                f" back whole: heliograph failback {link} --wipe saves what only the old source"
                " has, and deletes it there."
            )
        return found

    def _refuse_outrun(self) -> None:
        """Raise where the direction that is to come has copied on since this one ended."""
        if self._manner.wipes:
            return  # then it begins anew
        rows = self._onward.reader.read(Deadline.after(LOOK_TIMEOUT)).ledger
        topics = set(self._not_turned())
        for source, ledger in self._ledgers.items():
            before = read_ledger(self._parts[source], rows)
            if source.topic in topics and is_outrun(ledger, before):
                raise outrun(source, self._onward)

    def _not_turned(self) -> list[str]:
        """Return the topics that are not mirrored back yet; the others are to be wiped anew."""
        stages = read_stages(self._scene.books.control)
        states = {topic: stages[topic].state for topic in self._topics if topic in stages}
        return [topic for topic in self._topics if states.get(topic) != _STATE]

    def _go_on(self) -> None:
        """Find out again what the steps before this one knew, in a command that was taken up."""
        if not self._has_seen:
            self._see()
            self._refuse_writers()
            self._match()

    def _save(self) -> list[str]:
        """Save what only one side has, where the user wants it."""
        self._go_on()
        self._save_to(None)
        if not self._manner.wipes:  # then all that the target holds is copied back
            early, deadline = self._early_saving(), Deadline.after(_COMPARE_TIMEOUT)
            keep(self._command.journal, _EARLY, early.save(early.starts, deadline, early.ends))
        return [one.line() for one in self._told()] or ["nothing diverged"]

    def _save_to(self, ends: Mapping[Partition, int] | None) -> Mapping[Partition, Found]:
        deadline = Deadline.after(_COMPARE_TIMEOUT)
        saving, starts = self._saving()
        return keep(self._command.journal, _DIVERGED, saving.save(starts, deadline, ends))

    def _turn(self) -> list[str]:
        self._go_on()

        def save(ends: Mapping[Partition, int]) -> dict[Partition, int]:
            """Save what came since the step before: from here on it is below what comes back."""
            return {source: one.count for source, one in self._save_to(ends).items()}

        lines = turn(self._ledgers, self._parts, self._onward, save)
        open_direction(self._onward, self._mirrors)
        return lines

    def _wipe(self) -> list[str]:
        self._go_on()
        self._save_to(None)  # what came since the step before
        lines = wipe(self._command, self._onward, self._topics, self._mirrors)
        open_direction(self._onward, self._mirrors)
        return lines

    def _mark(self) -> list[str]:
        self._command.set_stages(self._scene, self._topics, _STATE)
        link = self._onward.setup.link
        return [
            f"{len(self._topics)} topics are mirrored from {link.source} to {link.target} from now"
            f" on, as {link.name}, by whoever runs heliograph run {self._command.setup.link.name}"
        ]

    # Words

    def _told(self) -> list[Found]:
        """Return what is known to have diverged, of both sides."""
        journal = self._command.journal
        found = {**self._found, **kept(journal, _DIVERGED)}
        early = {**self._early, **kept(journal, _EARLY)}
        return [*found.values(), *early.values()]

    def report(self, *, is_done: bool) -> Report:
        """Return what diverged, and what there is to mirror back."""
        command = self._command
        scene = command.look()
        notes = [one.line() for one in self._told()]
        if not self._topics:
            notes.append(f"everything was {_STATE} already: nothing was changed")
        if not self._manner.wipes:
            notes += times_replaced(self._onward, self._topics)
        ends = {one: ledger.source_next for one, ledger in scene.ledgers.items()}
        return command.report(
            "failback",
            _STATE,
            outlook(scene.books, scene.parts, scene.ledgers, clock.wall_ms(), ends),
            is_done=is_done,
            groups=self.groups.rows(),
            steps=tuple(step.name for step in self.steps) if self._topics else (),
            notes=tuple(notes),
            diverged=[one.as_dict() for one in self._told()],
        )


def _no_answer(command: Command) -> RecoveryError:
    link = command.setup.link
    return RecoveryError(
        f"{link.source} does not answer, and failback needs both clusters. {link.target} stays"
        " primary, and nothing is lost by waiting until it is up"
    )
