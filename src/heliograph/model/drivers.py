"""Drivers: whether one is alive, by what it reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from heliograph.model.clocks import ahead_s
from heliograph.model.control import LinkReport

SILENCE = timedelta(seconds=10)
"""A driver reports every two seconds; one that has not for this long is dead."""


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
