"""Promote: let the mirrors take everything over, and then belong to the applications.

The source answers. Nothing is closed before every record has arrived; where records keep coming,
the promotion is refused when its time is over, and the link goes on as if nothing had been asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from heliograph.copy.closing import seal
from heliograph.copy.finding import look_at
from heliograph.copy.opened import Opened
from heliograph.copy.opening import open_all
from heliograph.errors import HeliographError, MirrorClosed, RecoveryError, Unsafe
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.links.setup import Setup
from heliograph.model.control import LINK, LinkReport, leased, read
from heliograph.model.findings import some
from heliograph.model.outlook import Outlook, outlook
from heliograph.model.recovery import left_to_do, under_way
from heliograph.model.stages import StageState, read_stages
from heliograph.model.status import is_alive
from heliograph.model.topics import Partition
from heliograph.recovery.command import LOOK_TIMEOUT, Command, Options, Report
from heliograph.recovery.groups import Groups
from heliograph.recovery.perform import Step, perform
from heliograph.recovery.scene import Scene

_STATE: StageState = "PROMOTED"
_CLOSE_TIMEOUT = timedelta(seconds=45)
_RELEASE_TIMEOUT = timedelta(seconds=5)
_LOOK_S = 0.3


def foresee(setup: Setup, options: Options) -> Report:
    """Return what a promotion would do, and what has to arrive before; changes nothing."""
    with Command(setup, options, lambda _: None) as command:
        scene = command.look()
        stages, unfinished = read_stages(scene.books.control), under_way(scene.books.control)
        topics = left_to_do("promote", sorted(scene.mirrors), stages, unfinished)
        acts = _Promotion(command, scene, topics)
        acts.groups.foresee()
        return acts.report(is_done=False)


def promote(setup: Setup, options: Options, say: Callable[[str], None]) -> Report:
    """Promote topics, or refuse while records are missing; begun again, it goes on."""
    with Command(setup, options, say) as command:
        journal = command.journal
        scene = command.look()
        journal.open(Deadline.after(LOOK_TIMEOUT))
        topics = left_to_do("promote", sorted(scene.mirrors), journal.stages, journal.unfinished)
        acts = _Promotion(command, scene, topics)
        if topics:
            journal.begin("promote", topics, options.by)
            perform(journal, acts.steps, say)
        return acts.report(is_done=True)


class _Promotion:
    """The steps, in order. Each finds out by itself what is left of it."""

    def __init__(self, command: Command, scene: Scene, topics: Sequence[str]) -> None:
        self._command, self._scene, self._topics = command, scene, topics
        self._parts = scene.of(topics)
        self.groups = Groups(command.setup, topics)
        self.steps = [
            Step("before", lambda: command.run_hooks("before", "promote", topics)),
            Step("drain", self._drain),
            Step("groups", self.groups.move),
            Step("mark", self._mark),
            Step("after", lambda: command.run_hooks("after", "promote", topics)),
        ]

    def _drain(self) -> list[str]:
        """Wait until every record has arrived, close the mirrors, and make sure of it."""
        deadline = Deadline.after(self._command.options.within)
        while True:
            self._await_records(deadline)
            self._command.set_stages(self._scene, self._topics, "PROMOTING")
            self._await_release(Deadline.after(_RELEASE_TIMEOUT))
            if self._close():
                return [
                    f"{len(self._parts)} partitions closed with everything that the source held"
                ]

    def _await_records(self, deadline: Deadline) -> None:
        """Wait for lag 0; where it does not come, let the link go on, and refuse."""
        self._command.set_stages(self._scene, self._topics, "PROMOTING", copies=True)
        while found := self._lag():
            if deadline.passed or not self._is_driven():
                self._give_up(found)
            self._pause(deadline)

    def _await_release(self, deadline: Deadline) -> None:
        """Let the driver call its tasks in. One that does not is fenced all the same."""
        while not deadline.passed and self._is_driven():
            books = self._command.look().books
            if not leased(books.control, books.state) & self._parts.keys():
                return
            self._pause(deadline)

    def _pause(self, deadline: Deadline) -> None:
        pause = deadline.within(timedelta(seconds=_LOOK_S))
        while not pause.passed:
            self._command.target.loop.turn(pause.left_s)

    def _lag(self) -> dict[str, int]:
        """Return how many records each topic lacks, by what both ends say now."""
        ends, scene = self._ends(), self._command.look()
        lags: dict[str, int] = {}
        for source, end in ends.items():
            ledger = scene.ledgers.get(source)
            if ledger is not None and ledger.closing is not None:
                continue
            lag = end - (ledger.source_next if ledger else 0)
            if lag > 0:
                lags[source.topic] = lags.get(source.topic, 0) + lag
        return lags

    def _ends(self) -> Mapping[Partition, int]:
        """Return where the source ends: also what is not committed yet is to arrive first."""
        source, deadline = self._command.source, Deadline.after(LOOK_TIMEOUT)
        look_at(source, self._topics, deadline)
        return list_offsets(source, dict.fromkeys(self._parts, LATEST), deadline)

    def _is_driven(self) -> bool:
        report = read(self._command.look().books.state, LINK, LinkReport)
        return (
            is_alive(report, clock.wall_ms()) and report is not None and report.state != "STOPPED"
        )

    def _give_up(self, lags: Mapping[str, int]) -> None:
        command, link = self._command, self._command.setup.link.name
        command.set_stages(self._scene, self._topics, None)
        why = f"{sum(lags.values())} records have not arrived: " + ", ".join(
            f"{topic} {lag}" for topic, lag in sorted(lags.items(), key=lambda one: -one[1])[:10]
        )
        remedy = (
            "Stop the producers first, or give it more time with --timeout"
            if self._is_driven()
            else f"No driver is alive to bring them over: start heliograph run {link}"
        )
        command.journal.tell("drain", "failed", [why])
        command.journal.end()
        raise Unsafe(f"promote was refused, and {link} goes on as before: {why}. {remedy}")

    def _close(self) -> bool:
        """Close the mirrors if nothing came in between; tell whether it is done."""
        ends, deadline = self._command.ends, Deadline.after(_CLOSE_TIMEOUT)
        found = open_all(ends, self._parts, deadline, self._command.setup.policies)
        failed = {
            one: it
            for one, it in found.items()
            if isinstance(it, HeliographError) and not isinstance(it, MirrorClosed)
        }
        if failed:
            raise _not_closed(failed)
        opened = [one for one in found.values() if isinstance(one, Opened)]
        stops = self._ends()
        if any(stops[one.source] > one.ledger.source_next for one in opened):
            return False
        sealed = seal(ends, opened, _STATE, deadline)
        failed = {one: it for one, it in sealed.items() if isinstance(it, HeliographError)}
        if failed:
            raise _not_closed(failed)
        return True

    def _mark(self) -> list[str]:
        self._command.set_stages(self._scene, self._topics, _STATE)
        mirrors = [self._scene.mirrors[topic] for topic in self._topics]
        return [f"{len(mirrors)} topics are open for applications: {some(mirrors)}"]

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
        now_ms = clock.wall_ms()
        if is_done:  # what was written to the source since is not this link's any more
            ends = {one: ledger.source_next for one, ledger in scene.ledgers.items()}
        else:
            ends = dict(self._ends()) if self._parts else {}
        return outlook(scene.books, scene.parts, scene.ledgers, now_ms, ends)


def _not_closed(failed: Mapping[Partition, HeliographError]) -> RecoveryError:
    told = "\n  - ".join(f"{one}: {error}" for one, error in sorted(failed.items()))
    return RecoveryError(f"{len(failed)} partitions could not be closed:\n  - {told}\n")
