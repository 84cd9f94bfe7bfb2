"""A recovery command at work: its two clusters, its journal, and what it reports at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from heliograph.copy.opened import Ends
from heliograph.errors import HeliographError, RecoveryError
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.transport import Loop
from heliograph.links.books import BooksReader
from heliograph.links.setup import Setup, opposite
from heliograph.model.findings import counted, some
from heliograph.model.names import ledger_topic
from heliograph.model.outlook import Outlook
from heliograph.model.recovery import (
    NOT_TURNED,
    Across,
    Directions,
    left_to_do,
    under_way,
    words_of,
)
from heliograph.model.stages import OPEN, Stage, StageState, Verb, read_stages
from heliograph.recovery.across import read_across
from heliograph.recovery.hooks import run_hooks
from heliograph.recovery.journal import Journal
from heliograph.recovery.scene import Scene, look

LOOK_TIMEOUT = timedelta(seconds=15)
_ANSWER_TIMEOUT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for. ``topics`` is a pattern for source topics, all of the link unless told.

    ``within`` is how long a promotion may wait for the last records. ``rehearses`` is the link of
    which this one is the scratch copy, in a drill: then the source counts as gone.
    ``is_consistent`` asks that all groups are cut at one time that every partition has reached.
    """

    by: str
    topics: str | None = None
    within: timedelta = timedelta(seconds=60)
    has_hooks: bool = True
    rehearses: str | None = None
    is_consistent: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What a verb did, or would do. ``seconds`` is how long it took; None for a dry run.

    ``failed`` is what it could not do, of partitions and of groups: then it has not ended.
    """

    link: str
    verb: Verb
    state: str
    outlook: Outlook
    recovery: str | None = None
    seconds: float | None = None
    rpo: timedelta | None = None
    rto: timedelta | None = None
    groups: Sequence[dict[str, Any]] = ()
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diverged: Sequence[dict[str, Any]] = ()
    failed: Sequence[dict[str, Any]] = ()

    @property
    def rpo_ok(self) -> bool | None:
        """Whether the objective for what may be missing was kept.

        Of a failback nobody can say that: it is about what diverged. What slipped in behind the
        fence of a switch has not arrived, and is not in the outlook.
        """
        if self.verb == "failback" or self.diverged:
            return None
        return self.outlook.rpo_ok(self.rpo)

    @property
    def rto_ok(self) -> bool | None:
        """Whether the objective for how long it may take was kept; of nothing, there is none."""
        if self.rto is None or self.seconds is None or not self.steps:
            return None
        return self.seconds <= self.rto.total_seconds()

    def raise_failed(self) -> None:
        """Raise RecoveryError where something is left to do, once all the rest was told."""
        if self.failed:
            told, words = "\n  - ".join(map(_failure, self.failed)), words_of(self.verb)
            raise RecoveryError(
                f"{words} of {self.link} has not ended. What could be done is done, but not:\n"
                f"  - {told}\nOnce that is mended, the same heliograph {words} {self.link} goes on"
                " with it"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "link": self.link,
            "verb": self.verb,
            "state": self.state,
            "recovery": self.recovery,
            "dry_run": self.seconds is None,
            **self.outlook.as_dict(),
            "rpo_ok": self.rpo_ok,
            "rto_seconds": self.seconds,
            "rto_ok": self.rto_ok,
            "groups": list(self.groups),
            "steps": list(self.steps),
            "diverged": list(self.diverged),
            "failed": list(self.failed),
            "notes": list(self.notes),
        }


class Command:
    """One command. For one thread; leave the context at the end.

    ``also_deleted`` says that it is about topics as well that were deleted on the source.
    """

    def __init__(
        self,
        setup: Setup,
        options: Options,
        say: Callable[[str], None],
        *,
        also_deleted: bool = False,
    ) -> None:
        self._also_deleted = also_deleted
        self.setup, self.options, self.say = setup, options, say
        link = setup.link
        self._loop = Loop()
        self.source = Cluster(setup.source_settings, link.source, self._loop)
        self.target = Cluster(setup.target_settings, link.target, self._loop)
        self.ends = Ends(link.name, self.source, self.target, ledger_topic(link.name))
        self.reader = BooksReader(setup, self.target)
        self.journal = Journal(self.target, link.name)
        self.recovery = ""
        self.across = NOT_TURNED
        self.began_s = clock.now_s()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.close()

    def look(self, deadline: Deadline | None = None) -> Scene:
        """Look at the topics that are meant."""
        by = deadline or Deadline.after(LOOK_TIMEOUT)
        return look(
            self.setup,
            self.target,
            self.reader,
            self.options.topics,
            by,
            also_deleted=self._also_deleted,
        )

    def find(self, verb: Verb, *, opens: bool, anew: bool = False) -> tuple[Scene, list[str]]:
        """Return the scene, and the topics that a verb has to bring further.

        With ``anew``, those as well that it has brought to where it leads.

        Who means to bring them there opens the journal; who only foresees it reads what stands
        there.
        """
        scene = self.look()
        stages, unfinished = read_stages(scene.books.control), under_way(scene.books.control)
        if opens:
            self.journal.open(Deadline.after(LOOK_TIMEOUT))
            stages, unfinished = self.journal.stages, self.journal.unfinished
        self.across = self._look_across(verb, scene, stages)
        names = Directions(self.setup.link.name, opposite(self.setup).link.name)
        topics = sorted(scene.mirrors)
        return scene, left_to_do(verb, topics, stages, unfinished, names, self.across, anew=anew)

    def _look_across(self, verb: Verb, scene: Scene, stages: Mapping[str, Stage]) -> Across:
        """Look at the opposite direction; a failover waits for that only where it matters."""
        is_open = any(stages[one].state in OPEN for one in scene.mirrors if one in stages)
        if self.setup.policies.is_shared or (verb == "failover" and not is_open):
            return NOT_TURNED
        if not self.does_source_answer():
            return Across(is_silent=True)
        deadline = Deadline.after(LOOK_TIMEOUT)
        try:
            return read_across(opposite(self.setup), self.source, scene.mirrors, deadline)
        except HeliographError:
            if verb not in ("failover", "promote"):  # these need nothing there but what is copied
                raise
            return Across(is_silent=True)

    def begin(self, verb: Verb, topics: Iterable[str]) -> None:
        """Begin a verb, or go on with it."""
        self.recovery = self.journal.begin(verb, topics, self.options.by).id

    def does_source_answer(self) -> bool:
        """Tell whether the source can be asked anything right now."""
        if self.options.rehearses is not None:
            return False
        try:
            self.source.look([], Deadline.after(_ANSWER_TIMEOUT))
        except HeliographError:
            return False
        return True

    def set_stages(
        self, scene: Scene, topics: Iterable[str], state: StageState | None, *, copies: bool = False
    ) -> None:
        """Put topics into a stage; None is mirrored as ever."""
        # After all that is known of either direction, whatever the clocks say.
        begun_ms = self.journal.recovery.begun_ms if self.journal.recovery is not None else 0
        now_ms = max(clock.wall_ms(), begun_ms, self.across.newest_ms + 1)
        mirrors, recovery = scene.mirrors, self.recovery
        self.journal.set_stages(
            {
                topic: state and Stage(state, now_ms, mirrors[topic], recovery, copies)
                for topic in topics
            }
        )

    def report(
        self,
        verb: Verb,
        state: str,
        found: Outlook,
        *,
        is_done: bool,
        groups: Sequence[dict[str, Any]] = (),
        steps: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        diverged: Sequence[dict[str, Any]] = (),
        failed: Sequence[dict[str, Any]] = (),
    ) -> Report:
        """Return what this command did, or would do, against the link's objectives."""
        link = self.setup.link
        return Report(
            link.name,
            verb,
            state,
            found,
            self.recovery or None,
            round(clock.now_s() - self.began_s, 3) if is_done else None,
            link.objectives.rpo,
            link.objectives.rto,
            groups,
            steps,
            (*notes, *found.doubts()),
            diverged,
            failed,
        )

    def run_hooks(
        self, when: str, verb: Verb, topics: Iterable[str], primary: str | None = None
    ) -> list[str]:
        """Run the commands of a moment; say so where there are none, or none were asked for.

        ``primary`` is the cluster that applications use when the verb is done: the target, unless
        told.
        """
        link, moment = self.setup.link, f"{when}_{verb}"
        commands = link.hooks.get(moment, ())
        if not commands or not self.options.has_hooks:
            return [] if not commands else [f"{len(commands)} hooks of {moment} left out, as asked"]
        about = {
            "link": link.name,
            "verb": verb,
            "source": link.source,
            "target": link.target,
            "primary": primary or link.target,
            "topics": ",".join(sorted(topics)),
        }
        if self.options.rehearses is not None:
            about["drill"] = self.options.rehearses
        return run_hooks(moment, commands, about, link.hook_timeout)


def _failure(row: Mapping[str, Any]) -> str:
    what = f"{row['topic']}-{row['partition']}" if row["group"] is None else f"group {row['group']}"
    return f"{what}: {row['error']}"


def opened_line(mirrors: Sequence[str]) -> str:
    """Say which mirrors are the applications' from now on."""
    many = f"{counted(len(mirrors), 'topic')} {'is' if len(mirrors) == 1 else 'are'}"
    return f"{many} open for applications: {some(mirrors)}"


def missing_lines(found: Outlook) -> list[str]:
    """Say of each topic what has not arrived, if anything, and of when that is known."""
    known = (
        f"were known on the source {found.heard_seconds:.0f} s ago"
        if found.heard_seconds is not None
        else "were known on the source"
    )
    least = "at least " if found.is_lower_bound else ""
    lines = [
        f"{one.topic}: {least}{one.missing_records} records ({_span(one.missing_seconds)}) {known}"
        " and have not arrived"
        for one in found.topics
        if one.missing_records
    ]
    return lines + [
        f"{one.topic}: of {one.unknown_partitions} partitions it is not known what the source held"
        for one in found.topics
        if one.unknown_partitions
    ]


def _span(seconds: float | None) -> str:
    return "nobody knows of how long" if seconds is None else f"{seconds} s"
