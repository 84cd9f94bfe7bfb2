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
from heliograph.model.moments import moment, stamp
from heliograph.model.stages import LEGAL, REACHED, TARGET_IS_PRIMARY, Stage, StageState, Verb

RECOVERY = b"recovery"
_EVENT = b"event/"

Outcome = Literal["begun", "done", "failed"]
Told = Verb | Literal["drill"]
"""What a timeline tells of: a drill changes nothing of the link, and is on record all the same."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A verb under way, or the last one. ``done`` are its steps that need not be taken again.

    ``kept`` is what later steps need to know of earlier ones.
    """

    id: str
    verb: Verb
    by: str
    begun_ms: int
    topics: tuple[str, ...]
    done: tuple[str, ...] = ()
    ended_ms: int = 0
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_changed(self) -> bool:
        """Claim: more was done than to run hooks, so there is something to be finished."""
        return not set(self.done) <= {"before"}


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
    *,
    anew: bool = False,
) -> list[str]:
    """Return the topics that a verb has to bring further; none where it has reached them all.

    Raises Unsafe for a transition that is not legal, and while another verb is not finished. A
    failover leaves topics out whose target is primary already, unless these are all there are.
    With ``anew`` it begins again with those that it has reached.
    """
    if unfinished is not None and unfinished.verb != verb and not _may_follow(verb, unfinished):
        words = words_of(unfinished.verb)
        raise Unsafe(
            f"a {words} of this link, begun by {unfinished.by} as {unfinished.id}, has not ended."
            f" Nothing was done. Finish it first: the same heliograph {words} {names.link} goes on"
            " where it stopped"
        )
    mine = set(unfinished.topics) if unfinished is not None and unfinished.verb == verb else set()
    states = {one: stages[one].state if one in stages else None for one in topics}
    legal = LEGAL[verb] | ({REACHED[verb]} if anew else set())
    left = [one for one in topics if one in mine or anew or states[one] != REACHED[verb]]
    fit = [one for one in left if one in mine or states[one] in legal]
    wrong = [one for one in left if one not in fit]
    if wrong and not (verb == "failover" and len(wrong) < len(topics)):
        why = _illegal(verb, wrong[0], stages.get(wrong[0]))
        raise Unsafe(f"{why}. Nothing was done. {_next_step(verb, states[wrong[0]], fit, names)}")
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


def _may_follow(verb: Verb, unfinished: Recovery) -> bool:
    # The source may die in the middle of anything. Whether there is anything to fail over, the
    # stage of each topic says. Where nothing was done yet but hooks, nothing is to be finished.
    return verb == "failover" or not unfinished.has_changed


def _illegal(verb: Verb, topic: str, stage: Stage | None) -> str:
    allowed = " or ".join(one or "mirrored" for one in sorted(LEGAL[verb], key=lambda it: it or ""))
    if stage is None:
        why = "is mirrored: it was neither promoted nor failed over"
    else:
        since = moment(stage.since_ms)
        why = f"is {stage.state} since {since} (see heliograph timeline: {stage.recovery})"
    return f"{topic} {why}. {words_of(verb)} is for topics that are {allowed}"


def _next_step(
    verb: Verb, state: StageState | None, fit: Collection[str], names: Directions
) -> str:
    """Say what to do instead of a verb that is not for topics in this state."""
    link = names.link
    if fit:
        return "For the other topics alone: --topics REGEX"
    if state is None:
        return "There is nothing to fail back"
    if state == "PROMOTING":
        return f"Something that was begun has not ended: heliograph timeline {link} says what"
    if state == "REVERSING":
        return (
            "It is mirrored in the opposite direction. If the cluster that is primary now is lost:"
            f" heliograph failover {names.opposite}"
        )
    if state == "FAILING_BACK":
        return f"The same heliograph failback {link} goes on with it"
    if verb == "switch-back":
        return f"First: heliograph failback {link}"
    return (
        "Its mirror is the applications' already; to mirror back to the old source: heliograph"
        f" failback {link}"
    )


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
