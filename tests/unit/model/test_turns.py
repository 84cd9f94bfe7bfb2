"""Whose turn it is to run a link that another driver took over."""

from dataclasses import replace

import pytest

from heliograph.model.control import DRIVER, LINK, WANTED, Driver, LinkReport, Wanted, row
from heliograph.model.drivers import Turn, turn_of
from tests.unit.model.books import LINK_REPORT, NOW_MS

MINE = Driver(3, "host:1", NOW_MS)
BOUNDED = Driver(4, "host:2", NOW_MS, is_bounded=True)
STOPPED = replace(LINK_REPORT, state="STOPPED", generation=4)


@pytest.mark.parametrize(
    ("driver", "report", "wanted", "turn"),
    [
        (None, None, "active", "unknown"),
        (MINE, LINK_REPORT, "active", "unknown"),  # it has not said so yet
        (Driver(2, "host:0", NOW_MS), LINK_REPORT, "active", "unknown"),  # nor has it here
        (Driver(3, "host:2", NOW_MS), LINK_REPORT, "active", "theirs"),  # both started at once
        (replace(BOUNDED, generation=3), LINK_REPORT, "active", "bounded"),
        (replace(BOUNDED, is_bounded=False), LINK_REPORT, "active", "theirs"),
        (replace(BOUNDED, is_bounded=False), STOPPED, "active", "theirs"),  # people ended it
        (BOUNDED, LINK_REPORT, "active", "bounded"),
        (BOUNDED, replace(STOPPED, generation=3), "active", "bounded"),  # it has only begun
        (BOUNDED, STOPPED, "active", "ended"),
        (BOUNDED, STOPPED, "paused", "ended"),
        (BOUNDED, STOPPED, "stopped", "nobody's"),
        (replace(BOUNDED, generation=5, is_bounded=False), STOPPED, "active", "theirs"),
    ],
)
def test_a_link_is_taken_up_again_only_after_a_bounded_run(
    driver: Driver | None, report: LinkReport | None, wanted: str, turn: Turn
) -> None:
    control = {WANTED: row(Wanted(state=wanted))}  # type: ignore[arg-type]
    control |= {DRIVER: row(driver)} if driver else {}
    state = {LINK: row(report)} if report else {}
    assert turn_of(control, state, MINE) == (turn, report.at_ms if report else -1)
