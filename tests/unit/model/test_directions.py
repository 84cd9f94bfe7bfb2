"""Both directions of a link: what is legal in which situation, and that every one has a way out.

The world of these tests is one topic between two clusters. Every verb is given under both names,
and dies behind each of its steps; clusters go away, come back, and are built anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple, get_args

from heliograph.errors import Unsafe
from heliograph.model.directions import (
    LEADS,
    Situation,
    is_reached,
)
from heliograph.model.recovery import Across, Directions, Recovery, left_to_do
from heliograph.model.stages import Stage, StageState, Verb

Side = Literal["here", "there"]
State = StageState | Literal["UNKNOWN"] | None
VERBS: tuple[Verb, ...] = get_args(Verb)
FLIP: dict[Side, Side] = {"here": "there", "there": "here"}


class Begun(NamedTuple):
    """What is under way in a direction."""

    verb: Verb
    done: tuple[str, ...]
    step: str = ""

    def recovery(self) -> Recovery:
        return Recovery("id", self.verb, "me", 0, ("t",), self.done, step=self.step)


@dataclass(frozen=True)
class World:
    """``rows`` of the direction to "here" stand there, and so on: its stage, the time of it, what
    is under way. ``apps`` is what applications use; None where it was lost."""

    here: tuple[State, int, Begun | None] = ("UNKNOWN", 0, None)
    there: tuple[State, int, Begun | None] = (None, 0, None)
    apps: Side | None = "here"
    down: Side | None = None

    def rows(self, side: Side) -> tuple[State, int, Begun | None]:
        return self.here if side == "here" else self.there

    def put(self, side: Side, rows: tuple[State, int, Begun | None]) -> World:
        # Only the order of the two times matters: one is later, or neither was put.
        found = replace(self, **{side: rows})  # type: ignore[arg-type]
        times = sorted({found.here[1], found.there[1]} - {0})
        here, there = (
            (one[0], times.index(one[1]) + 1 if one[1] else 0, one[2])
            for one in (found.here, found.there)
        )
        return replace(found, here=here, there=there)

    def stage(self, side: Side, state: State) -> World:
        later = max(self.here[1], self.there[1]) + 1 if state is not None else 0
        return self.put(side, (state, later, self.rows(side)[2]))

    def under_way(self, side: Side, verb: Begun | None) -> World:
        return self.put(side, (*self.rows(side)[:2], verb))

    def judge(self, target: Side, verb: Verb, *, wipes: bool = False) -> list[str]:
        """Give a verb to the direction to a side; raises as the command would."""
        state, at_ms, verb_here = self.rows(target)
        stages = _stages(state, at_ms)
        begun = verb_here.recovery() if verb_here is not None else None
        return left_to_do(verb, ["t"], stages, begun, NAMES, self.across(target), anew=wipes)

    def across(self, target: Side) -> Across:
        if self.down is not None:
            return Across(is_silent=True)
        state, at_ms, verb = self.rows(FLIP[target])
        known = {} if state == "UNKNOWN" else {"t": _stages(state, at_ms).get("t")}
        is_begun = verb is not None and verb.recovery().has_changed
        return Across(known, {"t": verb.verb} if verb is not None and is_begun else {})

    def situation(self, target: Side) -> Situation:
        state, at_ms, verb = self.rows(target)
        return self.across(target).situation(
            "t", _stages(state, at_ms).get("t"), verb and verb.recovery()
        )


NAMES = Directions("link", "link-reverse")


def _stages(state: State, at_ms: int) -> dict[str, Stage]:
    return {} if state in (None, "UNKNOWN") else {"t": Stage(state, at_ms, "t", "id")}  # type: ignore[arg-type]


def answers(world: World, target: Side) -> bool:
    return world.down != target and world.rows(target)[0] != "UNKNOWN"


@cache
def allowed(world: World, target: Side, verb: Verb, wipes: bool = False) -> bool:
    """Tell whether a verb may begin or go on, and the clusters that it needs answer."""
    if not answers(world, target) or (verb != "failover" and world.down is not None):
        return False
    try:
        return bool(world.judge(target, verb, wipes=wipes))
    except Unsafe:
        return False


def legal(world: World, target: Side, verb: Verb, wipes: bool = False) -> bool:
    """Tell whether a verb is allowed, and its source holds what it needs."""
    is_anew = world.rows(FLIP[target])[0] == "UNKNOWN" and (
        target == "here" or world.apps == target
    )
    has_come_over = world.rows(target)[0] in ("REVERSING", "PROMOTED")
    if verb in ("promote", "switch") and is_anew and not has_come_over:
        return False
    return allowed(world, target, verb, wipes)


def outcomes(world: World, target: Side, verb: Verb) -> Iterator[World]:
    """Return the world as it is where a verb dies behind each of its steps, and at its end."""
    source, before = FLIP[target], world.rows(target)[2]
    done: tuple[str, ...] = ("fence",) if verb in ("switch", "switch-back") else ()
    if before is not None and before.verb == verb:
        done = before.done
    for number, (which, state) in enumerate(LEADS[verb]):
        name = str(number)
        if name not in done:
            if verb == "switch-back" and number == 1 and "turn" not in done:
                begun = Begun(verb, done, step="turn")
                yield world.under_way(target, begun)
                done = (*done, "turn")
            if verb == "switch-back" and not number:
                world = world.under_way(source, None)
            side = target if which == "own" else source
            world = world.stage(side, state)
            if number == len(LEADS[verb]) - 1 and verb != "failback":
                world = replace(world, apps=source if verb == "switch-back" else target)
            if which == "other" and state is None:
                world = world.under_way(side, None)
            step = "close" if verb == "failover" and not number else ""
            yield world.under_way(target, Begun(verb, done, step))
            done = (*done, name)
        world = world.under_way(target, Begun(verb, done))
        yield world
    yield world.under_way(target, None)


@cache
def steps(world: World, *, dies: bool = True) -> list[tuple[str, World]]:
    """Return what people may do next, with what becomes of it."""
    return list(_steps(world, dies=dies))


def _steps(world: World, *, dies: bool) -> Iterator[tuple[str, World]]:
    for target in FLIP:
        for verb in VERBS:
            if any(legal(world, target, verb, one) for one in (False, verb == "failback")):
                ends = list(outcomes(world, target, verb))
                for found in ends if dies else ends[-1:]:
                    yield f"{verb} to {target}", found
        if world.down == FLIP[target] and answers(world, target):
            state, _, verb_here = world.rows(target)
            is_begun = verb_here is not None and verb_here.recovery().has_changed
            if state in ("FAILED_OVER", "PROMOTED") and not is_begun:  # said again, it is put again
                yield f"{state} again in {target}", replace(world.stage(target, state), apps=target)
            if state == "PROMOTED" and is_begun:  # only hooks are left, which need no source
                yield "its end", world.under_way(target, None)
            begun = verb_here.recovery() if verb_here is not None else None
            if begun is not None and begun.verb == "switch-back" and not begun.is_behind_turn:
                yield "a switch back gives up", world.under_way(target, None)
    if world.down is None and world.there[0] == "UNKNOWN" and world.apps != "there":
        yield "run", replace(world.put("there", (None, 0, None)), apps="here")


def disasters(world: World) -> Iterator[World]:
    """Return what may become of the clusters; of the two, one is there at any time."""
    if world.down is None:
        for side in FLIP:
            yield replace(world, down=side)
        return
    down = world.down
    yield replace(world, down=None)
    anew = replace(world.put(down, ("UNKNOWN", 0, None)), down=None)
    yield replace(anew, apps=None) if world.apps == down else anew


@cache
def explore() -> dict[World, tuple[str, World] | None]:
    """Return every reachable world, with what led to it first."""
    found: dict[World, tuple[str, World] | None] = {World(): None}
    queue = deque(found)
    while queue:
        world = queue.popleft()
        every = [*steps(world), *(("a disaster", one) for one in disasters(world))]
        for how, after in every:
            if after not in found:
                found[after] = how, world
                queue.append(after)
    return found


def story(world: World) -> str:
    """Tell how a world came about."""
    lines = [str(world)]
    while (before := explore()[world]) is not None:
        how, world = before
        lines.append(f"{world}\n   {how}")
    return "\n".join(reversed(lines))


def leads_to(goal: set[World]) -> set[World]:
    """Return the worlds from which verbs that end lead to one of these, whatever else may be."""
    before: dict[World, set[World]] = {}
    for world in explore():
        for _, after in steps(world, dies=False):
            before.setdefault(after, set()).add(world)
    found, queue = set(goal), deque(goal)
    while queue:
        for world in before.get(queue.popleft(), ()):
            if world not in found:
                found.add(world)
                queue.append(world)
    return found


def test_no_verb_overwrites_what_applications_use() -> None:
    """A failback overwrites the source; the others bring applications from where they are."""
    assert len(explore()) > 100
    for world in explore():
        for target in FLIP:
            for verb, users in (
                ("failback", target),
                ("promote", FLIP[target]),
                ("switch", FLIP[target]),
                ("switch-back", target),
            ):
                before = world.rows(target)[2]
                goes = before is not None and before.verb == verb
                for wipes in (False, verb == "failback"):
                    if legal(world, target, verb, wipes) and not goes:  # type: ignore[arg-type]
                        assert world.apps in (users, None), f"{verb} {target}\n{story(world)}"
                if goes and verb == "failback" and legal(world, target, "failback"):
                    assert world.apps in (users, None), f"{verb} {target}\n{story(world)}"


def test_a_verb_that_has_nothing_to_do_says_what_is_true() -> None:
    for world in explore():
        for target in FLIP:
            if world.down is None and answers(world, target) and world.rows(target)[2] is None:
                at = world.situation(target)
                for verb in ("promote", "failover", "switch", "failback"):
                    if is_reached(verb, at):
                        assert world.apps in (target, None), f"{verb} {target}\n{story(world)}"


def test_whichever_cluster_is_left_can_be_taken() -> None:
    taken = {
        world for world in explore() if world.down is not None and world.apps == FLIP[world.down]
    }
    for world in set(explore()) - leads_to(taken):
        if world.down is not None and answers(world, FLIP[world.down]):
            raise AssertionError(story(world))


def is_settled(world: World) -> bool:
    """Tell whether applications are on one side, and what they write is mirrored to the other."""
    if world.down is not None or world.here[2] is not None or world.there[2] is not None:
        return False
    if world.there[0] is None and world.here[0] is not None:
        return world.apps == "here"
    is_turned = world.there[0] in ("REVERSING", "FAILING_BACK")
    return is_turned and world.here[0] is None and world.apps == "there"


def test_with_both_clusters_a_link_is_mirrored_again_from_wherever_it_is() -> None:
    settled = {world for world in explore() if is_settled(world)}
    for world in set(explore()) - leads_to(settled):
        if world.down is None and (answers(world, "here") or answers(world, "there")):
            raise AssertionError(story(world))


def test_who_is_refused_is_told_a_command_that_works() -> None:
    for world in explore():
        for target in FLIP:
            if world.down is None and answers(world, target):
                _check_way_on(world, target)


def _check_way_on(world: World, target: Side) -> None:
    for verb in VERBS:
        try:
            world.judge(target, verb)
        except Unsafe as refusal:
            text = str(refusal)
            if "nothing to fail back" in text or "timeline link says" in text:
                continue
            command = _command_in(text)
            named, where, wipes = _parse(command)
            found = target if where == "link" else FLIP[target]
            assert allowed(world, found, named, wipes) or is_reached(
                named, world.situation(found)
            ), f"{verb} {target}: {text}\n{story(world)}"


def _command_in(text: str) -> str:
    """Return the first command that a refusal names behind what happened."""
    return text.partition("Nothing was done. ")[2].partition("heliograph ")[2]


def _parse(command: str) -> tuple[Verb, str, bool]:
    words = command.replace("switch --back", "switch-back").split()
    verb = next(one for one in VERBS if one == words[0])
    return verb, words[1].rstrip(".:"), "--wipe" in words


# The stages of the link and of its opposite, which was put later, the primary, and what is legal
# under either name while nothing is under way; "wipe" is a failback that needs --wipe.
PLANNED = "promote failover switch"
TABLE: dict[tuple[State, State, str], tuple[str, str, str]] = {
    (None, "UNKNOWN", ""): ("source", PLANNED, ""),
    (None, None, ""): ("source", "failover", "failover"),
    (None, "PROMOTING", ""): ("source", PLANNED, "failover"),
    (None, "PROMOTED", ""): ("source", PLANNED, "failback"),
    (None, "FAILED_OVER", ""): ("source", PLANNED, "failback"),
    (None, "REVERSING", ""): ("source", PLANNED, "switch-back wipe"),
    ("PROMOTING", "UNKNOWN", ""): ("source", PLANNED, ""),
    ("PROMOTING", "REVERSING", "link"): ("source", PLANNED, "switch-back wipe"),
    ("PROMOTING", "FAILED_OVER", "reverse"): ("source", "failover", "failback"),
    ("PROMOTED", "UNKNOWN", ""): ("target", "failback", ""),
    ("PROMOTED", "PROMOTING", "link"): ("target", "failback", "failover"),
    ("PROMOTED", "PROMOTED", "link"): ("target", "failback", ""),
    ("PROMOTED", "PROMOTED", "reverse"): ("source", "", "failback"),
    ("PROMOTED", "FAILED_OVER", "link"): ("target", "failback", ""),
    ("PROMOTED", "FAILED_OVER", "reverse"): ("source", "", "failback"),
    ("PROMOTED", "REVERSING", "link"): ("target", "failback", ""),
    ("FAILED_OVER", "UNKNOWN", ""): ("target", "failback", ""),
    ("FAILED_OVER", None, ""): ("target", "failback", PLANNED),
    ("FAILED_OVER", "PROMOTING", "link"): ("target", "failback", "failover"),
    ("FAILED_OVER", "PROMOTED", "link"): ("target", "failback", ""),
    ("FAILED_OVER", "PROMOTED", "reverse"): ("source", "", "failback"),
    ("FAILED_OVER", "FAILED_OVER", "link"): ("target", "failback", ""),
    ("FAILED_OVER", "FAILED_OVER", "reverse"): ("source", "", "failback"),
    ("FAILED_OVER", "REVERSING", "link"): ("target", "failback", ""),
    ("REVERSING", "UNKNOWN", ""): ("target", "wipe", ""),
    ("REVERSING", None, ""): ("target", "switch-back wipe", PLANNED),
    ("REVERSING", "PROMOTING", "reverse"): ("target", "switch-back wipe", PLANNED),
    ("REVERSING", "PROMOTED", "reverse"): ("source", "", "failback"),
    ("REVERSING", "FAILED_OVER", "reverse"): ("source", "", "failback"),
}


def test_each_pair_of_stages_allows_these_verbs_and_no_others() -> None:
    """The table is all there is: what can be reached stands in it, and nothing else does."""
    found: dict[tuple[State, State, str], tuple[str, str, str]] = {}
    for world in explore():
        there, here = world.there, world.here
        if world.down is None and there[2] is None and here[2] is None and there[0] != "UNKNOWN":
            later = "" if 0 in (there[1], here[1]) else "link" if there[1] > here[1] else "reverse"
            primary = "target" if world.situation("there").is_primary else "source"
            legal_here = primary, _verbs(world, "there"), _verbs(world, "here")
            assert found.setdefault((there[0], here[0], later), legal_here) == legal_here
    assert found == TABLE


def _verbs(world: World, target: Side) -> str:
    found = [verb for verb in VERBS if allowed(world, target, verb)]
    is_wiping = "failback" not in found and allowed(world, target, "failback", True)
    return " ".join([*found, *["wipe"] * is_wiping])
