"""Histories that the machine found, shrunk and kept: each broke a promise once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from heliograph.errors import Diverged, OutcomeUnknown
from tests.simulation.copier import PARTITION, Copier
from tests.simulation.link import PRODUCE, Link
from tests.simulation.log import NOT_ENOUGH_REPLICAS, TOO_LARGE
from tests.simulation.machine import (
    AgingLinkInTrouble,
    ForgottenLink,
    LinkInTrouble,
    OldLinkInTrouble,
)
from tests.simulation.network import Fate

L = TypeVar("L", bound=Link)


@contextmanager
def history(link: L) -> Iterator[L]:
    """Judge what the steps led to; then heal the world, and the rest must be copied."""
    try:
        yield link
        link.journal.judge()
    finally:
        link.teardown()


def test_copier_that_stood_still_with_nothing_in_hand_gives_up() -> None:
    """It holds no old record, so it does not give up; then it is given some to copy.

    Its successor has copied them meanwhile, and the target has forgotten both.
    """
    with history(OldLinkInTrouble()) as link:
        link.check_every(seconds=0.05)
        link.start_copier(turns=60)
        link.leave_behind(seconds=15.0)
        link.run(which=0, turns=60)


def test_copier_that_slept_for_a_week_gives_up() -> None:
    """Its records are fresh, but the target has forgotten the claim that superseded it."""
    with history(ForgottenLink()) as link:
        link.append(batches=1, records=1)
        link.take_over()
        link.leave_behind(seconds=0.002)
        link.pass_a_week()
        link.run(which=0, turns=60)


def test_claim_waits_for_a_standstill_and_for_the_network_after_it() -> None:
    """A copier stands still for nearly as long as it may; then the network holds its request.

    Each stays below the bound, but together they outlive the wait of the claim that followed.
    """
    with history(OldLinkInTrouble()) as link:
        link.check_every(seconds=0.05)
        link.append(batches=1, records=1)
        link.take_over()
        link.start_copier(turns=30)
        link.pass_time(9.0)
        link.append(batches=1, records=1)
        link.disturb(Fate.HOLD, PRODUCE, skip=0)
        link.run(which=0, turns=8)
        assert link.network.holding, "the first copier's request is on its way"
        link.work(which=1)
        if link.network.holding:
            link.let_go(which=0)


def test_copier_that_stood_still_while_it_opened_gives_up() -> None:
    """It stops between its claim and its first batch, as its ledger is on its way (C6).

    Its successor waits and copies. Nobody tells the first one how long its opening took.
    """
    with history(OldLinkInTrouble()) as link:
        link.check_every(seconds=0.05)
        link.append(batches=1, records=1)
        link.start_copier(turns=0)
        link.run_to(which=0, api_key=PRODUCE)
        link.leave_behind(seconds=0.002)
        link.run(which=0, turns=60)


@pytest.mark.parametrize("code", [TOO_LARGE, NOT_ENOUGH_REPLICAS])
def test_nothing_flies_behind_the_first_batch_after_one_that_the_target_forgot(code: int) -> None:
    """A leader that does not know a writer takes any sequence: also one behind a refused batch."""
    with history(AgingLinkInTrouble()) as link:
        link.check_every(seconds=0.05)
        link.take_over()
        link.refuse_first(which=0, code=code, ages=True)


def test_copier_that_was_suspended_gives_up() -> None:
    """Its clock stood still as well; only the time of day shows that it was away."""
    with history(OldLinkInTrouble()) as link:
        link.check_every(seconds=0.05)
        link.start_copier(turns=60)
        link.suspend(which=0, seconds=15.0)
        assert not link.journal.left, "the second copier has waited, and copied"
        link.run(which=0, turns=60)


def test_nothing_old_is_sent_while_a_repeat_of_something_fresh_may_still_arrive() -> None:
    """The network holds a fresh batch, whose repeat is stored; then an old one makes the target
    forget the writer, and with it that the first one is a repeat.
    """
    with history(AgingLinkInTrouble()) as link:
        link.check_every(seconds=0.05)
        link.write_records_of(days=0)
        link.append(batches=1, records=1)
        link.take_over()
        link.disturb(Fate.HOLD, PRODUCE, skip=0)
        link.append(batches=1, records=1)
        link.work(which=0)
        assert link.network.holding, "the first request is on its way, its repeat is stored"
        link.write_records_of(days=3)
        link.append(batches=1, records=1)
        link.run(which=0, turns=8)
        link.pass_time(2.0)
        link.let_go(which=0)
        link.work(which=0)


def test_records_that_are_out_of_order_all_the_same_stop_the_partition() -> None:
    """A leader that has lost its writers, whatever their time, stores what flies behind a refusal.

    Nothing can undo it. It never counts as copied, and whoever claims next names both offsets.
    """
    link = LinkInTrouble()
    try:
        link.append(batches=1, records=1)
        link.take_over()
        copier, mirror = link.copiers[0], link.target.log(PARTITION)
        link.disturb(Fate.HOLD, PRODUCE, skip=0)
        for _ in range(3):
            link.append(batches=1, records=3)
            copier.run(8)
        mirror._producers.clear()
        link.refuse(NOT_ENOUGH_REPLICAS, skip=0)
        link.let_go(which=0)
        copier.run(25)
        assert isinstance(copier.outcome, OutcomeUnknown) and "at offset 2" in str(copier.outcome)
        stored = [one for one in mirror.batches if not one.header.is_control]
        assert [one.header.base_offset for one in stored] == [1, 2, 5], "behind what was refused"
        again = Copier(link.network, link.source, link.target)
        again.run(300)
        assert isinstance(again.outcome, Diverged), again.outcome
        assert (again.outcome.source_offset, again.outcome.target_offset) == (1, 2)
    finally:
        link._kill_all()
        link.open.close()
