"""Heliograph's copy in a simulated world of crashes, zombies, rivals and a faulty network.

``HELIOGRAPH_SIMULATION_EXAMPLES=20000`` looks for longer: so many histories of each kind.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from heliograph.copy import opening, stream
from heliograph.copy.case import Case
from heliograph.kafka import fence
from heliograph.kafka.fetch import Fetched, Fetcher
from tests.simulation.machine import ForgottenIds, LinkInTrouble, OldRecords

_EXAMPLES = int(os.environ.get("HELIOGRAPH_SIMULATION_EXAMPLES", "0"))
_FIXED, _RANDOM = _EXAMPLES or 200, _EXAMPLES or 50
_TO_FIND_A_DEFECT = 3000
_SETTINGS = settings(
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
KINDS = [LinkInTrouble, OldRecords, ForgottenIds]


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_copied_once_whatever_happens(kind: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        kind, settings=settings(_SETTINGS, max_examples=_FIXED, derandomize=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_copied_once_in_histories_never_seen_before(
    kind: type[RuleBasedStateMachine],
) -> None:
    number = random.SystemRandom().randrange(2**32)
    print(f"seed {number}")
    seeded = seed(number)(type(kind.__name__, (kind,), {}))
    run_state_machine_as_test(seeded, settings=settings(_SETTINGS, max_examples=_RANDOM))


# The machine must be able to fail: each of these takes one rule of the design away.


def _no_match(patch: pytest.MonkeyPatch) -> None:
    """What earlier writers left on the mirror and not in the ledger is overlooked."""
    take = Case.take_tail

    def overlook(case: Case, fetched: Fetched) -> bool:
        found = take(case, fetched)
        case.tail.clear()
        return found

    patch.setattr(Case, "take_tail", overlook)


def _no_identity(patch: pytest.MonkeyPatch) -> None:
    """The second InitProducerId does not carry ``(P, e)``."""
    init = fence._init
    patch.setattr(fence, "_init", lambda tid, _, doing: init(tid, (-1, -1), doing))


def _uncommitted(patch: pytest.MonkeyPatch) -> None:
    """Aborted records are copied as well."""
    patch.setattr(stream, "Fetcher", partial(Fetcher, read_committed=False))


def _no_stall(patch: pytest.MonkeyPatch) -> None:
    """A process that stood still does not notice it."""
    patch.setattr(stream, "is_stall", lambda *_: False)


def _no_wait(patch: pytest.MonkeyPatch) -> None:
    """A claim does not wait for what may still be on its way before its first old batch."""
    patch.setattr(opening, "REQUEST_LIFE", timedelta(0))


@pytest.mark.parametrize(
    ("kind", "defect"),
    [
        (LinkInTrouble, _no_match),
        (LinkInTrouble, _no_identity),
        (LinkInTrouble, _uncommitted),
        (OldRecords, _no_stall),
        (OldRecords, _no_wait),
    ],
)
def test_machine_finds_a_defect(
    kind: type[RuleBasedStateMachine],
    defect: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defect(monkeypatch)
    find = settings(
        _SETTINGS,
        max_examples=_TO_FIND_A_DEFECT,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(kind, settings=find)
