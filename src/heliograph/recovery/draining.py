"""Draining: wait until every record has arrived, close the mirrors, and make sure of it.

The source answers. Nothing is closed before everything is there; where records keep coming, it is
given up when the time is over, and the link goes on as if nothing had been asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from heliograph.copy.closing import seal
from heliograph.copy.finding import find_ranges
from heliograph.copy.opened import Opened
from heliograph.copy.opening import open_all
from heliograph.copy.reopening import reopen
from heliograph.errors import ClusterError, HeliographError, RecoveryError, Unsafe
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline
from heliograph.model.control import LINK, LinkReport, leased, read
from heliograph.model.drivers import SILENCE
from heliograph.model.findings import counted
from heliograph.model.stages import StageState
from heliograph.model.status import Books
from heliograph.model.topics import Partition
from heliograph.recovery.command import LOOK_TIMEOUT, Command
from heliograph.recovery.scene import Scene

_CLOSE_TIMEOUT = timedelta(seconds=45)
_RELEASE_TIMEOUT = timedelta(seconds=5)
_LOOK = timedelta(seconds=0.3)


class Draining:
    """Brings the last records of some topics over. ``command`` is that of their link.

    ``give_up`` is called, with what is missing in words, before it raises that it was refused.
    """

    def __init__(
        self,
        command: Command,
        scene: Scene,
        topics: Sequence[str],
        state: StageState,
        give_up: Callable[[str], None],
    ) -> None:
        self._command, self._scene, self._topics = command, scene, topics
        self._state, self._give_up = state, give_up
        self._pulse_ms, self._beat_s = 0, clock.now_s()

    def run(self) -> list[str]:
        """Drain and close; say so. Raises Unsafe where records are missing when time is over."""
        self._begin_anew()
        deadline = Deadline.after(self._command.options.within)
        while True:
            self._await_records(deadline)
            self._command.set_stages(self._scene, self._topics, "PROMOTING")
            self._await_release(Deadline.after(_RELEASE_TIMEOUT))
            if closed := self._close():
                return [f"{counted(closed, 'partition')} closed, with everything the source held"]

    def ends(self) -> dict[Partition, int]:
        """Return where the source ends: also what is not committed yet is to arrive first."""
        return {one: log.stop for one, log in self._logs().items()}

    def _begin_anew(self) -> None:
        """Take back what an attempt closed that did not come to its end.

        What a failover closed is not ours: some of it may never have been matched. Nor is what a
        verb closed that has ended.
        """
        scene, ends = self._command.look(), self._command.ends
        parts, closed = scene.of(self._topics), dict[Partition, Partition]()
        stages = self._command.journal.stages
        for source in parts:
            closing = scene.ledgers[source].closing if source in scene.ledgers else None
            if closing is None:
                continue
            stage = stages.get(source.topic)
            is_attempt = stage is not None and stage.state == "PROMOTING"
            if closing.state != self._state or not is_attempt:
                self._give_up(f"{source} is {closing.state}")
                raise Unsafe(
                    f"{source} is {closing.state}: its mirror is the applications', and what they"
                    f" wrote must be compared first: heliograph failback {ends.link}"
                )
            closed[source] = parts[source]
        if closed:
            _raise_failures(reopen(ends, closed, self._state, Deadline.after(_CLOSE_TIMEOUT)))

    def _await_records(self, deadline: Deadline) -> None:
        """Wait for lag 0; where it does not come, let the link go on, and refuse."""
        self._command.set_stages(self._scene, self._topics, "PROMOTING", copies=True)
        while found := self._lag():
            if deadline.passed or not self._is_driven():
                self._refuse(found)
            self._pause(deadline)

    def _await_release(self, deadline: Deadline) -> None:
        """Let the driver call its tasks in. One that does not is fenced all the same."""
        while not deadline.passed and self._is_driven():
            books = self._books()
            if not {one.topic for one in leased(books.control, books.state)} & set(self._topics):
                return
            self._pause(deadline)

    def _pause(self, deadline: Deadline) -> None:
        pause = deadline.within(_LOOK)
        while not pause.passed:
            self._command.target.loop.turn(pause.left_s)

    def _logs(self) -> dict[Partition, range]:
        """Return the offsets that the source holds, of all partitions that it has."""
        source, deadline = self._command.source, Deadline.after(LOOK_TIMEOUT)
        if not self._topics:
            return {}
        try:
            view = source.describe(list(self._topics), deadline).topics
        except ClusterError as failure:
            raise self._without_source(failure) from failure
        every = [Partition(one, number) for one in self._topics for number in view[one].partitions]
        found = find_ranges(source, every, deadline)
        _raise_failures(found)
        return {one: log for one, log in found.items() if isinstance(log, range)}

    def _without_source(self, failure: ClusterError) -> HeliographError:
        """Return the failure, with what to do where the source does not answer at all."""
        if self._command.does_source_answer():
            return failure
        link = self._command.setup.link
        why = str(failure).rstrip(".")
        return RecoveryError(
            f"{why}. If {link.source} is lost: heliograph failover {link.name} takes over"
        )

    def _lag(self) -> dict[str, int]:
        """Return how many records each topic lacks, by what both ends say now.

        A partition that has no mirror yet lacks all it has, and itself.
        """
        logs, scene = self._logs(), self._command.look()
        parts, lags = scene.of(self._topics), dict[str, int]()
        for source, log in logs.items():
            ledger = scene.ledgers.get(source)
            if source not in parts:
                lag = max(len(log), 1)
            else:
                lag = log.stop - (ledger.source_next if ledger else log.start)
            if lag > 0:
                lags[source.topic] = lags.get(source.topic, 0) + lag
        return lags

    def _books(self) -> Books:
        return self._command.reader.read(Deadline.after(LOOK_TIMEOUT))

    def _is_driven(self) -> bool:
        """Tell whether a driver goes on reporting. Its clock and ours need not agree."""
        report, now_s = read(self._books().state, LINK, LinkReport), clock.now_s()
        if report is None or report.state == "STOPPED":
            return False
        if report.at_ms != self._pulse_ms:
            self._pulse_ms, self._beat_s = report.at_ms, now_s
        return now_s - self._beat_s <= SILENCE.total_seconds()

    def _refuse(self, lags: Mapping[str, int]) -> None:
        link = self._command.setup.link.name
        most = sorted(lags.items(), key=lambda one: -one[1])[:10]
        told = ", ".join(f"{topic} {lag}" for topic, lag in most)
        # Offsets are counted, and some hold markers.
        why = f"up to {sum(lags.values())} records have not arrived: {told}"
        remedy = "Stop the producers first, or give it more time with --timeout"
        if not self._is_driven():
            runs = self._command.reader.about.runs
            remedy = f"No driver is alive to bring them over: start heliograph run {runs}"
        self._command.set_stages(self._scene, self._topics, None)
        self._give_up(why)
        raise Unsafe(f"refused, and {link} goes on as before: {why}. {remedy}")

    def _close(self) -> int:
        """Close the mirrors if nothing came in between; return how many, 0 if something did."""
        ends, deadline = self._command.ends, Deadline.after(_CLOSE_TIMEOUT)
        # Seen anew: the driver may have added partitions while we waited.
        logs, parts = self._logs(), self._command.look().of(self._topics)
        if logs.keys() - parts.keys():
            return 0
        parts = {source: mirror for source, mirror in parts.items() if source in logs}
        found = open_all(ends, parts, deadline, self._command.setup.policies)
        _raise_failures(found)
        opened = [one for one in found.values() if isinstance(one, Opened)]
        stops = self.ends()
        if any(stops[one.source] > one.ledger.source_next for one in opened):
            return 0
        _raise_failures(seal(ends, opened, self._state, deadline))
        return len(opened)


def _raise_failures(outcomes: Mapping[Partition, object]) -> None:
    failed = {one: it for one, it in outcomes.items() if isinstance(it, HeliographError)}
    if failed:
        raise not_closed(failed)


def not_closed(failed: Mapping[Partition, HeliographError]) -> RecoveryError:
    """Say which partitions could not be closed, and why."""
    told = "\n  - ".join(f"{one}: {error}" for one, error in sorted(failed.items()))
    many = counted(len(failed), "partition")
    return RecoveryError(f"{many} could not be closed:\n  - {told}\n")
