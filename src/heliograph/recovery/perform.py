"""Perform a verb: take its steps in order, each on record before and after.

A step may be taken again after a crash: it finds out by itself what is left of it. One that is on
record as done is not, unless a step before it, or it itself, could do its part only partly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heliograph.errors import HeliographError, RecoveryError, Superseded, Unsafe
from heliograph.kafka import clock, crash
from heliograph.model.recovery import Recovery, words_of
from heliograph.recovery.journal import Journal

_AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Partly:
    """What a step did, in words, and why that is not all. The next steps do what they can."""

    lines: Sequence[str]
    failure: HeliographError


class Step(NamedTuple):
    """A step: what it does is said in words, line by line."""

    name: str
    act: Callable[[], Sequence[str] | Partly]


def perform(
    journal: Journal, steps: Sequence[Step], say: Callable[[str], None]
) -> list[HeliographError]:
    """Take the steps that are not done yet; raise what stopped one, with those before it.

    Returns what steps could not do. Then the verb has not ended: the same command takes those
    steps again, and all behind them.
    """
    failures: list[HeliographError] = []
    for number, step in enumerate(steps):
        assert journal.recovery is not None, "begin comes first"
        again = _again(journal)
        if step.name in journal.recovery.done and step.name not in again:
            continue
        rest = [one.name for one in steps[number:]]
        failure = _take(journal, step, say, again.union(rest))
        if failure is not None:
            failures.append(failure)
        elif step.name in again and not failures:
            _keep_again(journal, again - {step.name})
        crash.point(f"R-{step.name}-recorded")
    if not failures:
        journal.end()
    return failures


def _again(journal: Journal) -> frozenset[str]:
    """Return the steps that are to be taken again although they are on record as done."""
    return frozenset(journal.kept(_AGAIN).split(",")) - {""}


def _keep_again(journal: Journal, names: Iterable[str]) -> None:
    journal.keep(_AGAIN, ",".join(sorted(names)))


def _take(
    journal: Journal, step: Step, say: Callable[[str], None], again: Iterable[str]
) -> HeliographError | None:
    """Take one step; return why it was not done wholly, with ``again`` on record before."""
    say(f"{step.name} …")
    journal.tell(step.name, "begun")
    journal.hold(step.name)
    crash.point(f"R-{step.name}-begun")
    began_s = clock.now_s()
    try:
        found = step.act()
    except Superseded:
        raise
    except Unsafe as refusal:
        _enter_refusal(journal, step, refusal, clock.now_s() - began_s)
        raise
    except HeliographError as failure:
        journal.tell(step.name, "failed", [str(failure)], clock.now_s() - began_s)
        raise _stopped(journal, step, failure) from failure
    crash.point(f"R-{step.name}-done")
    is_whole = not isinstance(found, Partly)
    lines = found if not isinstance(found, Partly) else [*found.lines, str(found.failure)]
    if not is_whole:
        _keep_again(journal, again)
    journal.tell(step.name, "done" if is_whole else "failed", lines, clock.now_s() - began_s)
    for line in lines:
        say(f"  {line}")
    return found.failure if isinstance(found, Partly) else None


def _enter_refusal(journal: Journal, step: Step, refusal: Unsafe, seconds: float) -> None:
    """Enter why a step was refused. Where nothing was done before it, the verb has ended.

    One that gave up by itself has entered that already.
    """
    if not journal.has_ended:
        assert journal.recovery is not None
        journal.tell(step.name, "failed", [refusal.message], seconds)
        if journal.recovery.has_only_run_hooks:
            journal.end()


def _stopped(journal: Journal, step: Step, failure: HeliographError) -> RecoveryError:
    assert journal.recovery is not None
    verb, why = words_of(journal.recovery.verb), str(failure)
    done = ", ".join(dict.fromkeys(journal.recovery.done)) or "none"
    end = "" if why.endswith((".", "\n")) else "."
    return RecoveryError(
        f"{verb} stopped at its step {step.name}: {why}{end} Steps done: {done}."
        f"{_for_applications(journal.recovery, step)} Once that is mended, the same heliograph"
        f" {verb} goes on from here"
    )


def _for_applications(recovery: Recovery, step: Step) -> str:
    """Say whether applications may use the mirrors, and what is left where it is hooks alone."""
    left = " Only hooks are left: --no-hooks leaves them out." if step.name == "after" else ""
    if recovery.verb == "failback":
        return left  # they go on where they are, whatever becomes of it
    if "mark" not in recovery.done:
        return " The mirrors are not open for applications yet."
    which = "The mirrors that could be closed" if recovery.kept.get(_AGAIN) else "The mirrors"
    return f" {which} are open for applications already.{left}"
