"""Bounded runs: when one is over, and what may be said of it at its end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from heliograph.cli.options import Session
from heliograph.cli.run import _tell
from heliograph.cli.stopping import Stopping
from heliograph.control.bound import Bound
from heliograph.errors import RunFailed
from heliograph.model.control import PartReport
from heliograph.model.topics import Partition
from tests.unit.model.books import PART_REPORT

ORDERS, PAYMENTS = Partition("orders", 0), Partition("payments", 0)
FAULT = replace(PART_REPORT, state="FAULTED", number=4, error=("gap-found", "gone"))


def bound() -> Bound:
    return Bound({ORDERS: 10, PAYMENTS: 20}, (5, 50), 0.0)


def is_over(done: set[Partition], active: set[Partition], report: PartReport | None) -> bool:
    return bound().is_over(done, active, lambda _: report, 4)


def test_a_run_is_over_when_all_has_arrived_or_will_not_without_help() -> None:
    both = {ORDERS, PAYMENTS}
    assert is_over(both, both, None)
    assert not is_over({ORDERS}, both, None) and not is_over({ORDERS}, both, PART_REPORT)
    assert is_over({ORDERS}, both, FAULT)
    assert not is_over({ORDERS}, both, replace(FAULT, again_ms=1)), "it is tried again by itself"
    assert not is_over({ORDERS}, both, replace(FAULT, number=3)), "another plan's fault"


def test_what_is_paused_ends_no_run_and_is_named_as_not_copied() -> None:
    assert is_over({ORDERS}, {ORDERS}, None) and is_over(set(), set(), None)
    found = bound()
    found.end({ORDERS}, {ORDERS}, (9, 90), "west")
    assert (found.copied, found.given_up) == ((4, 40), (PAYMENTS,))
    (line,) = found.left_out
    assert "not copied: payments" in line and "heliograph resume west" in line


def ended(found: Bound, status: int | None) -> Any:
    """Tell of a run that a signal ended, if there was one."""
    stopping = Stopping()
    if status is not None:
        stopping.status = status
        stopping.set()
    application: Any = SimpleNamespace(
        failures={}, supervisors={"west": SimpleNamespace(summary=found)}
    )
    _tell(Session(output="json"), application, stopping)


def test_an_interrupted_run_never_says_that_all_has_arrived(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = bound()
    found.end({ORDERS}, {ORDERS, PAYMENTS}, (9, 90), "west")
    with pytest.raises(RunFailed, match="not everything was copied: west"):
        ended(found, 0)  # SIGTERM
    assert '"lag": 1' in capsys.readouterr().out
    ended(found, 130)  # Ctrl-C has an exit status of its own
    said = capsys.readouterr()
    assert '"lag": 1' in said.out and "not everything was copied: west" in said.err
    with pytest.raises(RunFailed):
        ended(bound(), None)  # it never ended: nothing is known
    assert '"lag": null' in capsys.readouterr().out
    found.end({ORDERS, PAYMENTS}, {ORDERS, PAYMENTS}, (9, 90), "west")
    ended(found, 0)
