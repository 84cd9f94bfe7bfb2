"""Heliograph's copy in a simulated world of crashes, zombies, rivals and a faulty network.

``HELIOGRAPH_SIMULATION_EXAMPLES=20000`` looks for longer: so many histories of each kind, and as
many again that nobody has seen before, whose seed it prints.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.simulation import defects
from tests.simulation.link import Link
from tests.simulation.machine import (
    AgingLink,
    AgingLinkInTrouble,
    CompactedLink,
    ForgottenLink,
    ForgottenLinkInTrouble,
    LinkInTrouble,
    LossyLink,
    LossyLinkInTrouble,
    OldLink,
    OldLinkInTrouble,
)

# A failure is shrunk for up to five minutes.
pytestmark = pytest.mark.timeout(900)

_EXAMPLES = int(os.environ.get("HELIOGRAPH_SIMULATION_EXAMPLES", "0"))
_FIXED = _EXAMPLES or 120
_TO_FIND_A_DEFECT = 2000
_SETTINGS = settings(
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
KINDS = [
    LinkInTrouble,
    OldLinkInTrouble,
    AgingLinkInTrouble,
    ForgottenLinkInTrouble,
    LossyLinkInTrouble,
    CompactedLink,
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_copied_once_whatever_happens(kind: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        kind, settings=settings(_SETTINGS, max_examples=_FIXED, derandomize=True)
    )


if _EXAMPLES:  # a search without an end: for `make soak`, not for every change

    @pytest.mark.parametrize("kind", KINDS)
    def test_every_record_is_copied_once_in_histories_never_seen_before(
        kind: type[RuleBasedStateMachine],
    ) -> None:
        number = random.SystemRandom().randrange(2**32)
        print(f"seed {number}")
        seeded = seed(number)(type(kind.__name__, (kind,), {}))
        run_state_machine_as_test(seeded, settings=settings(_SETTINGS, max_examples=_EXAMPLES))


@pytest.mark.parametrize(
    ("kind", "defect"),
    [
        (Link, defects.no_match),
        (LinkInTrouble, defects.uncommitted),
        (OldLink, defects.no_stall),
        (OldLink, defects.no_wait),
        (OldLink, defects.no_time_of_day),
        (AgingLink, defects.together),
        (ForgottenLink, defects.no_stall),
        (LossyLink, defects.no_epochs),
        (CompactedLink, defects.no_compaction),
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
