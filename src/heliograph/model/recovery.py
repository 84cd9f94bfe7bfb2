"""Recovery verbs as values: what is under way, which steps are done, and the timeline. Pure.

The row ``recovery`` of the control topic is put under a claim of its own, so that of two commands
at the same time one goes on and the other is told. Events of the timeline stand in the state topic
as ``event/<recovery>/<number>``, one before and one after each step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from heliograph.errors import Unsafe
from heliograph.model.control import Rows, read, read_passing
from heliograph.model.directions import (
    Other,
    Situation,
    goes_on,
    is_legal,
    is_reached,
    takes_over,
    way_on,
)
from heliograph.model.moments import moment, stamp
from heliograph.model.stages import LEGAL, OPEN, TARGET_IS_PRIMARY, Stage, StageState, Verb

RECOVERY = b"recovery"
_EVENT = b"event/"

Outcome = Literal["begun", "done", "failed"]
Told = Verb | Literal["drill"]
"""What a timeline tells of: a drill changes nothing of the link, and is on record all the same."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A verb under way, or the last one. ``done`` are its steps that need not be taken again.

    ``kept`` is what later steps need to know of earlier ones; ``step`` is the one begun last.
    """

    id: str
    verb: Verb
    by: str
    begun_ms: int
    topics: tuple[str, ...]
    done: tuple[str, ...] = ()
    ended_ms: int = 0
    kept: Mapping[str, str] = field(default_factory=dict)
    step: str = ""

    @property
    def is_behind_turn(self) -> bool:
        """Claim: it is a switch back that may have opened mirrors of its link already."""
        return self.verb == "switch-back" and "turn" in {*self.done, self.step}

    @property
    def has_changed(self) -> bool:
        """Claim: more was done than to run hooks, so there is something to be finished.

        A failover that has begun to close mirrors is finished by none but itself.
        """
        is_closing = self.verb == "failover" and self.step == "close"
        return is_closing or not self.has_only_run_hooks

    @property
    def has_only_run_hooks(self) -> bool:
        """Claim: no other step is done."""
        return set(self.done) <= {"before"}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a timeline."""

    recovery: str
    verb: Told
    step: str
    outcome: Outcome
    at_ms: int
    seconds: float = 0.0
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Directions:
    """What a link and its opposite direction are called, so that messages name the right one."""

    link: str
    opposite: str


@dataclass(frozen=True, slots=True)
class Across:
    """What the opposite direction says of topics, by their names in the one that is named.

    ``stages`` has None for a topic that is mirrored there, and nothing of one that never was.
    ``is_silent``: the cluster that keeps them does not answer.
    """

    stages: Mapping[str, Stage | None] = field(default_factory=dict)
    verbs: Mapping[str, Verb] = field(default_factory=dict)
    is_silent: bool = False

    @property
    def newest_ms(self) -> int:
        """When the last of these stages was put; -1 where there are none."""
        return max((one.since_ms for one in self.stages.values() if one is not None), default=-1)

    def situation(self, topic: str, stage: Stage | None, unfinished: Recovery | None) -> Situation:
        """Return where a topic is in both directions."""
        there, other = self.stages.get(topic), self._state(topic)
        is_mine = unfinished is not None and topic in unfinished.topics
        return Situation(
            stage.state if stage is not None else None,
            other,
            is_later=stage is not None and (there is None or stage.since_ms > there.since_ms),
            is_behind_turn=is_mine and unfinished is not None and unfinished.is_behind_turn,
            other_verb=self.verbs.get(topic),
        )

    def _state(self, topic: str) -> Other:
        if self.is_silent:
            return "SILENT"
        if topic not in self.stages:
            return "UNKNOWN"
        there = self.stages[topic]
        return there.state if there is not None else None


NOT_TURNED = Across()
"""The opposite direction was never on."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Topics of one cluster that recovery keeps writers out of: a row of its own, so that the
    fence is known whatever becomes of the verb that put it up."""

    topics: tuple[str, ...]


def fence_key(cluster: str) -> bytes:
    """Name the row of a cluster's fence.

    >>> fence_key("paris")
    b'fence/paris'
    """
    return b"fence/" + cluster.encode()


def recovery_id(verb: Told, now_ms: int) -> str:
    """Name a recovery, so that names are in the order of time.

    >>> recovery_id("failover", 0)
    '19700101T000000.000Z-failover'
    """
    return f"{stamp(now_ms)}-{verb}"


def event_key(recovery: str, number: int) -> bytes:
    """Name the row of an event.

    >>> event_key("19700101T000000.000Z-failover", 3)
    b'event/19700101T000000.000Z-failover/000003'
    """
    return _EVENT + f"{recovery}/{number:06}".encode()


def read_events(rows: Rows) -> list[Event]:
    """Return the timeline of a link, in order."""
    keys = sorted(key for key in rows if key.startswith(_EVENT))
    return [one for one in (read_passing(rows, key, Event) for key in keys) if one is not None]


def next_event(rows: Rows, recovery: str) -> int:
    """Return the number of a recovery's next event."""
    prefix = _EVENT + recovery.encode() + b"/"
    return sum(key.startswith(prefix) for key in rows)


def under_way(rows: Rows) -> Recovery | None:
    """Return the recovery that was begun and has not ended."""
    found = read(rows, RECOVERY, Recovery)
    return found if found is not None and not found.ended_ms else None


def left_to_do(
    verb: Verb,
    topics: Collection[str],
    stages: Mapping[str, Stage],
    unfinished: Recovery | None,
    names: Directions,
    across: Across = NOT_TURNED,
    *,
    anew: bool = False,
) -> list[str]:
    """Return the topics that a verb has to bring further; none where it has reached them all.

    Raises Unsafe for a transition that is not legal, and while another verb is not finished. A
    failover leaves topics out whose target is primary already, unless these are all there are.
    With ``anew`` it begins again with those that it has reached.
    """
    mine = set(unfinished.topics) if unfinished is not None and unfinished.verb == verb else set()
    every = {*topics, *(unfinished.topics if unfinished is not None else ())}
    at = {one: across.situation(one, stages.get(one), unfinished) for one in every}
    before = unfinished if unfinished is not None and _is_to_finish(unfinished, verb, at) else None
    if before is not None and verb != "failover":
        raise Unsafe(
            f"a {words_of(before.verb)} of this link, begun by {before.by} as {before.id}, has not"
            f" ended. Nothing was done. {_finish(before, names)}"
        )
    left = [one for one in topics if one in mine or anew or not is_reached(verb, at[one])]
    fit = [
        one
        for one in left
        if (goes_on(verb, at[one]) if one in mine else is_legal(verb, at[one], wipes=anew))
    ]
    if verb == "failover" and any(one in mine or not takes_over(at[one]) for one in topics):
        fit = [one for one in fit if one in mine or at[one].own in LEGAL[verb]]
    wrong = [one for one in left if one not in fit]
    if wrong and not (verb == "failover" and len(wrong) < len(topics)):
        why = _illegal(verb, wrong[0], stages.get(wrong[0]), at[wrong[0]], names)
        told = _finish(before, names) if before is not None else ""
        raise Unsafe(
            f"{why}. Nothing was done. {told or _next_step(verb, at[wrong[0]], fit, names)}"
        )
    return fit


def left_alone(
    topics: Iterable[str], meant: Iterable[str], stages: Mapping[str, Stage]
) -> dict[str, StageState]:
    """Return those that are meant, and that a failover of ``topics`` leaves alone, with why."""
    rest = sorted(set(meant) - set(topics))
    states = {one: stages[one].state for one in rest if one in stages}
    return {one: state for one, state in states.items() if state in TARGET_IS_PRIMARY}


def words_of(verb: Verb) -> str:
    """Return what a person types for a verb.

    >>> words_of("switch-back")
    'switch --back'
    """
    return verb.replace("-", " --")


def _is_to_finish(unfinished: Recovery, verb: Verb, at: Mapping[str, Situation]) -> bool:
    """Tell whether what is under way must end before another verb begins.

    Not where nothing was done yet but hooks, nor what cannot go on any more: the opposite direction
    took over. A failover comes between: the source may die in the middle of anything.
    """
    is_stuck = not any(goes_on(unfinished.verb, at[one]) for one in unfinished.topics)
    return unfinished.verb != verb and unfinished.has_changed and not is_stuck


def _finish(unfinished: Recovery, names: Directions) -> str:
    words, lost = words_of(unfinished.verb), ""
    if unfinished.is_behind_turn:
        lost = f". If the cluster that it goes back to is lost: heliograph failover {names.link}"
    return (
        f"Finish it first: the same heliograph {words} {names.link} goes on where it stopped{lost}"
    )


def _illegal(verb: Verb, topic: str, stage: Stage | None, at: Situation, names: Directions) -> str:
    allowed = " or ".join(one or "mirrored" for one in sorted(LEGAL[verb], key=lambda it: it or ""))
    if stage is None:
        why = "is mirrored: it was neither promoted nor failed over"
    else:
        since = moment(stage.since_ms)
        why = f"is {stage.state} since {since} (see heliograph timeline: {stage.recovery})"
    if at.waits_for_other and at.other_verb is not None:
        return f"{topic} {why}, and a {words_of(at.other_verb)} of {names.opposite} has not ended"
    if at.is_superseded:
        return f"{topic} {why}, and was {at.other} in {names.opposite} after that"
    if at.own in LEGAL[verb]:
        there = "mirrored" if at.other is None else f"not known ({at.other})"
        return f"{topic} {why}, and {there} in {names.opposite}"
    return f"{topic} {why}. {words_of(verb)} is for topics that are {allowed}"


def _next_step(verb: Verb, at: Situation, fit: Collection[str], names: Directions) -> str:
    """Say what to do instead of a verb that is not for topics in this state."""
    link = names.link
    if fit:
        return "For the other topics alone: --topics REGEX"
    if verb == "failback" and at.own is None and not at.waits_for_other:
        return "There is nothing to fail back"
    if at.own == "PROMOTING" and not at.waits_for_other and not at.is_superseded:
        return f"Something that was begun has not ended: heliograph timeline {link} says what"
    if verb == "failover" and at.own == "REVERSING" and at.is_primary and at.other != "UNKNOWN":
        return (
            "It is mirrored in the opposite direction. If the cluster that is primary now is lost:"
            f" heliograph failover {names.opposite}"
        )
    if verb == "switch-back" and at.is_primary:
        return f"First: {_command(at, names)}"
    return _way_on(at, names)


def _way_on(at: Situation, names: Directions) -> str:
    verb, command = way_on(at)[0], _command(at, names)
    if at.is_behind_turn or at.waits_for_other or (at.own == "FAILING_BACK" and at.is_primary):
        return f"The same {command} goes on with it"
    if at.own not in OPEN:
        return f"The cluster that knew which side is primary was lost. To say so: {command}"
    if not at.is_primary:
        return f"In {names.opposite} its mirror is the applications', and leads on: {command}"
    if verb == "failback":
        return f"Its mirror is the applications'; to mirror back to the old source: {command}"
    return f"It is mirrored in the opposite direction. To make the old source primary: {command}"


def _command(at: Situation, names: Directions) -> str:
    verb, name, more = way_on(at)
    return f"heliograph {words_of(verb)} {names.link if name == 'own' else names.opposite}{more}"


def as_rows(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return a timeline as JSON shows it, without the beginnings of steps that ended."""
    told = list(events)
    ended = {(one.recovery, one.step) for one in told if one.outcome != "begun"}
    return [
        {
            "at": moment(one.at_ms),
            "recovery": one.recovery,
            "verb": one.verb,
            "step": one.step,
            "outcome": one.outcome,
            "seconds": one.seconds,
            "lines": list(one.lines),
        }
        for one in told
        if one.outcome != "begun" or (one.recovery, one.step) not in ended
    ]
