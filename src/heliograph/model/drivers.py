"""Drivers and tasks: whether they are alive, and what they hear of the source, by what they report.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from heliograph.model.clocks import age_s, ahead_s
from heliograph.model.control import (
    DRIVER,
    LINK,
    PLAN,
    WANTED,
    Driver,
    LinkReport,
    Plan,
    Rows,
    Waiting,
    Wanted,
    heard_ms,
    read,
    read_heard,
    read_passing,
    read_receipts,
)

SILENCE = timedelta(seconds=10)
"""Drivers and tasks report every two seconds; one that has not for this long is dead or frozen."""

PULSE = timedelta(seconds=4)
"""How often tasks tell what they heard when all is well, and a little more."""

_STARTS_WITHIN = timedelta(seconds=60)
_WAITS = timedelta(seconds=90)
# A broker that is alive answers a fetch within a tenth of a second.
_ANSWERS_WITHIN_MS = 2000


@dataclass(frozen=True, slots=True)
class Listening:
    """What the tasks of the newest plan hear of the source.

    ``heard_s`` is how long ago all of it had last answered, None where that is not known;
    ``ahead_s`` is by how much the clocks of tasks are ahead. ``silent`` tasks have not reported for
    up to ``silent_s``. ``is_asked`` is False where what was read waits for the target.
    """

    tasks: int = 0
    heard_s: float | None = None
    ahead_s: float = 0.0
    silent: int = 0
    silent_s: float = 0.0
    is_asked: bool = True
    is_late: bool = False
    """True when the plan was dealt out so long ago that all of it should have been reported."""


def listening(control: Rows, state: Rows, now_ms: int) -> Listening:
    """Return what is known of a link's tasks. Those of a plan that has ended are not silent."""
    heard = read_heard(control, state)
    oldest, plan = heard_ms(heard), read_passing(control, PLAN, Plan)
    has_ended = plan is not None and len(read_receipts(state, plan)) == plan.leases
    silent = []
    for one in heard:
        begins = plan is not None and one.told_ms == plan.dealt_ms
        told_s = age_s(one.told_ms, now_ms) if one.told_ms >= 0 and not has_ended else None
        if told_s is not None and told_s > (_STARTS_WITHIN if begins else SILENCE).total_seconds():
            silent.append(told_s)
    return Listening(
        len(heard),
        None if oldest is None else age_s(oldest, now_ms),
        max((ahead_s(one.at_ms, now_ms) for one in heard), default=0.0),
        len(silent),
        max(silent, default=0.0),
        all(
            one.listened_ms - one.at_ms >= _ANSWERS_WITHIN_MS
            for one in heard
            if one.at_ms == oldest
        ),
        plan is not None and (age_s(plan.dealt_ms, now_ms) or 0.0) > _STARTS_WITHIN.total_seconds(),
    )


def is_alive(report: LinkReport | None, now_ms: int) -> bool:
    """Tell whether a driver has reported lately, as far as its clock agrees with the one here.

    Whoever can watch it report for a while need not compare clocks.
    """
    return report is not None and now_ms - report.at_ms <= SILENCE / timedelta(milliseconds=1)


def driver_errors(report: LinkReport, runs: str, now_ms: int, *, is_over: bool) -> Iterable[str]:
    """Say what is wrong with the driver of a link, unless it need not report any more."""
    ahead = ahead_s(report.at_ms, now_ms)
    if ahead > SILENCE.total_seconds():
        yield (
            f"the clock of {report.driver} is {ahead:.0f} s ahead of the one here: how old anything"
            " is, and whether that driver is alive, cannot be told until they agree"
        )
    if not is_over and not is_alive(report, now_ms):
        silent_s = (now_ms - report.at_ms) / 1000
        yield (
            f"no driver has reported for {silent_s:.0f} s (the last one: {report.driver}). Start"
            f" one with: heliograph run {runs}"
        )


Turn = Literal["unknown", "theirs", "bounded", "ended", "nobody's"]


def turn_of(control: Rows, state: Rows, mine: Driver) -> tuple[Turn, int]:
    """Return whose turn it is to run a link that was taken from driver ``mine``.

    ``theirs`` for good; ``bounded``, until that run has ``ended``; ``nobody's`` where people have
    stopped the link; and when a driver last reported, by its own clock. Of two that start at once,
    the one whose row was refused counted as far as the other one did.
    """
    driver, report = read(control, DRIVER, Driver), read(state, LINK, LinkReport)
    at_ms = report.at_ms if report else -1
    if driver is None or driver == mine or driver.generation < mine.generation:
        return "unknown", at_ms
    if (read(control, WANTED, Wanted) or Wanted()).state == "stopped":
        return "nobody's", at_ms
    if not driver.is_bounded:
        return "theirs", at_ms
    has_ended = report is not None and report.state == "STOPPED"
    has_ended = has_ended and report is not None and report.generation == driver.generation
    return ("ended" if has_ended else "bounded"), at_ms


def listening_errors(found: Listening, source: str) -> Iterable[str]:
    """Say that nobody hears from the source of a link that is to be copied, and why."""
    if found.silent:
        yield (
            f"{found.silent} of {found.tasks} tasks have not reported for {found.silent_s:.0f} s:"
            " frozen, dead, or cut off from the target. What they copy stands still"
        )
    if found.ahead_s > SILENCE.total_seconds():
        yield (
            f"the clocks of the tasks are {found.ahead_s:.0f} s ahead of the one here: when"
            f" {source} was last heard from is not known"
        )
    elif found.heard_s is not None and found.heard_s > SILENCE.total_seconds():
        why = "" if found.is_asked else " (it was not asked for more since)"
        yield (
            f"{source} was last heard from {found.heard_s:.0f} s ago{why}: the lag is at least what"
            " it was then, and what was written since is not known"
        )


def waiting_errors(found: Waiting | None, report: LinkReport | None, now_ms: int) -> Iterable[str]:
    """Say that a driver cannot start the link, unless another one runs it.

    Whoever starts the link at last takes the row away.
    """
    if found is None or is_alive(report, now_ms):
        return
    age = age_s(found.at_ms, now_ms)
    if not found.is_final and age is not None and age <= _WAITS.total_seconds():
        yield f"{found.driver} cannot start the link, and tries again: {found.error}"
    elif report is None or report.at_ms < found.at_ms:
        when = "lately" if age is None else f"{age:.0f} s ago"
        then = "does not try again" if found.is_final else "is silent now"
        yield f"{found.driver} could not run the link {when}, and {then}: {found.error}"
