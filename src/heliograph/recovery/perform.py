"""Perform a verb: take its steps in order, each on record before and after.

A step may be taken again after a crash: it finds out by itself what is left of it. One that is on
record as done is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from heliograph.errors import HeliographError, RecoveryError, Superseded, Unsafe
from heliograph.kafka import clock, crash
from heliograph.recovery.journal import Journal


class Step(NamedTuple):
    """A step: what it does is said in words, line by line."""

    name: str
    act: Callable[[], Sequence[str]]


def perform(journal: Journal, steps: Sequence[Step], say: Callable[[str], None]) -> None:
    """Take the steps that are not done yet; raise what stopped one, with those before it."""
    for step in steps:
        assert journal.recovery is not None, "begin comes first"
        if step.name not in journal.recovery.done:
            _take(journal, step, say)
            crash.point(f"R-{step.name}-recorded")
    journal.end()


def _take(journal: Journal, step: Step, say: Callable[[str], None]) -> None:
    say(f"{step.name} …")
    journal.tell(step.name, "begun")
    crash.point(f"R-{step.name}-begun")
    began_s = clock.now_s()
    try:
        lines = step.act()
    except (Superseded, Unsafe):
        raise
    except HeliographError as failure:
        journal.tell(step.name, "failed", [str(failure)], clock.now_s() - began_s)
        raise _stopped(journal, step, failure) from failure
    crash.point(f"R-{step.name}-done")
    journal.tell(step.name, "done", lines, clock.now_s() - began_s)
    for line in lines:
        say(f"  {line}")


def _stopped(journal: Journal, step: Step, failure: HeliographError) -> RecoveryError:
    assert journal.recovery is not None
    verb, done = journal.recovery.verb, ", ".join(journal.recovery.done) or "none"
    why = str(failure)
    end = "" if why.endswith((".", "\n")) else "."
    return RecoveryError(
        f"{verb} stopped at its step {step.name}: {why}{end} Steps done: {done}. Once that is"
        f" mended, the same heliograph {verb} goes on from here"
    )
