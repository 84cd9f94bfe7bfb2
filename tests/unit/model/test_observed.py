"""Invariant S: nothing that is missing from a link's rows is taken for news that all is well.

Every way in which a report can be missing, against what status, its exit code, `/health/ready` and
the RPO of `failover --dry-run` say: a moment after it began, and after the objective has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from heliograph.model.control import (
    LINK,
    PLAN,
    WAITING,
    WANTED,
    Heard,
    LinkReport,
    Plan,
    Waiting,
    Wanted,
    heard_key,
    part_key,
    row,
)
from heliograph.model.ledger import Ledger
from heliograph.model.outlook import outlook
from heliograph.model.stages import Stage, stage_key
from heliograph.model.status import Books, LinkStatus, link_status, unreadable
from heliograph.model.topics import Partition
from heliograph.model.watching import unready
from tests.unit.model.books import ABOUT, LINK_REPORT, NOW_MS, PART_REPORT, books, ledger

RPO = timedelta(seconds=10)
WITH_RPO = replace(ABOUT, rpo=RPO)
ORDERS, PAYMENTS = Partition("orders", 0), Partition("payments", 0)
LIVE = replace(LINK_REPORT, topics={"orders": "a.orders", "payments": "a.payments"})
PLAN_ROW = Plan(3, 2, 2, dealt_ms=NOW_MS - 200_000, heard_ms=NOW_MS - 200_000)
WHOLE = replace(PART_REPORT, number=2, newest_ms=NOW_MS - 3_600_000, whole_ms=NOW_MS - 3_600_000)


def heard(age_ms: int, **other: Any) -> bytes:
    at_ms = NOW_MS - age_ms
    return row(replace(Heard(3, 2, at_ms, at_ms, at_ms), **other))


def rows(
    link: LinkReport | None = LIVE,
    wanted: Wanted | None = None,
    plan: Plan = PLAN_ROW,
    **state: bytes | None,
) -> Books:
    """Return the rows of two tasks with a partition each, all told a moment ago, but for some."""
    found = books(link=link, parts={ORDERS: WHOLE, PAYMENTS: WHOLE}, wanted=wanted)
    changed = {heard_key(0): heard(900), heard_key(1): heard(900)}
    changed |= {name.replace("_", "/").encode(): it for name, it in state.items()}  # type: ignore[misc]
    kept = {key: it for key, it in {**found.state, **changed}.items() if it is not None}
    return Books({}, {**found.control, PLAN: row(plan)}, kept)


def late(age_ms: int) -> LinkReport:
    return replace(LIVE, at_ms=NOW_MS - age_ms)


def paused_topic(age_ms: int) -> Books:
    paused = Wanted(paused=("payments",), asked_ms=NOW_MS - age_ms)
    before = row(replace(WHOLE, number=0, whole_ms=NOW_MS - age_ms))
    return rows(wanted=paused, plan=replace(PLAN_ROW, leases=1), part_payments_0=before)


def paused_link(age_ms: int) -> Books:
    paused = Wanted(state="paused", asked_ms=NOW_MS - age_ms)
    silent = heard(age_ms)
    return rows(replace(LIVE, state="PAUSED"), paused, heard_0=silent, heard_1=silent)


def never_begun(age_ms: int) -> Books:
    plan = Plan(3, 2, 2, dealt_ms=NOW_MS - age_ms, heard_ms=NOW_MS - age_ms)
    return rows(plan=plan, heard_1=heard(age_ms, number=1))


def unread(age_ms: int) -> Books:
    faulted = replace(WHOLE, whole_ms=NOW_MS - age_ms)
    return replace(rows(part_orders_0=row(faulted)), ledger={b"orders/0": b"{}"})


def waiting(age_ms: int, at_ms: int = NOW_MS, is_final: bool = False) -> Books:
    found = Waiting("host:2", NOW_MS - age_ms, at_ms, "unreachable: no answer", is_final)
    return Books(state={WAITING: row(found)})


@dataclass(frozen=True)
class Way:
    """What is said a moment after, and after the objective has passed.

    ``rpo`` is that of status, ``lost`` that of a failover.
    """

    name: str
    rows: Callable[[int], Books]
    rpo: tuple[bool | None, bool | None]
    exits: tuple[int, int]
    ready: tuple[bool, bool]
    lost: tuple[bool | None, bool | None]
    says: str


WAYS = [
    Way(
        "a frozen or dead task",
        lambda age: rows(heard_1=heard(age)),
        (True, False), (0, 1), (True, False), (True, None),
        "1 of 2 tasks have not reported for 70 s",
    ),
    Way(
        "a task that never began",
        never_begun,
        (True, False), (0, 1), (True, False), (True, None),
        "1 of 2 tasks have not reported for 70 s",
    ),
    Way(
        "a dead driver",
        lambda age: rows(late(age)),
        (True, False), (0, 1), (True, False), (True, True),
        "no driver has reported for 70 s",
    ),
    Way(
        "a machine that is gone",
        lambda age: rows(late(age), heard_0=heard(age), heard_1=heard(age)),
        (True, False), (0, 1), (True, False), (True, None),
        "no driver has reported for 70 s",
    ),
    Way(
        "a target that the link is cut off from",
        lambda age: rows(late(age), heard_0=heard(age), heard_1=heard(age)),
        (True, False), (0, 1), (True, False), (True, None),
        "2 of 2 tasks have not reported for 70 s",
    ),
    Way(
        "a partition that no task has",
        lambda age: rows(
            part_payments_0=row(replace(WHOLE, number=0, whole_ms=NOW_MS - age)),
        ),
        (True, None), (0, 1), (True, True), (None, None),
        "whether the objective (rpo 10 s) is kept is not known",
    ),
    Way(
        "a paused link",
        paused_link,
        (True, False), (0, 1), (True, True), (None, None),
        "the objective (rpo 10 s) is missed: what a took in the last 70 s is not known",
    ),
    Way(
        "a paused topic",
        paused_topic,
        (True, False), (0, 1), (True, True), (None, None),
        "the objective (rpo 10 s) is missed: what a took in the last 70 s is not known",
    ),
    Way(
        "a source that is cut off",
        lambda age: rows(
            heard_0=heard(age, listened_ms=NOW_MS - 500, told_ms=NOW_MS - 500),
            heard_1=heard(age, listened_ms=NOW_MS - 500, told_ms=NOW_MS - 500),
        ),
        (True, False), (0, 1), (True, False), (True, None),
        "a was last heard from 70 s ago: the lag is at least what it was then",
    ),
    Way(
        "one broker of the source that is cut off",
        lambda age: rows(heard_1=heard(age, listened_ms=NOW_MS - 500, told_ms=NOW_MS - 500)),
        (True, False), (0, 1), (True, False), (True, None),
        "a was last heard from 70 s ago",
    ),
    Way(
        "a link that was never started",
        lambda _: Books(),
        (None, None), (1, 1), (True, True), (None, None),
        "whether the objective (rpo 10 s) is kept is not known",
    ),
    Way(
        "a link that cannot be started",
        waiting,
        (None, None), (1, 1), (False, False), (None, None),
        "host:2 cannot start the link, and tries again: unreachable: no answer",
    ),
    Way(
        "a driver that could not start a link, and is gone",
        lambda age: waiting(age, NOW_MS - 120_000),
        (None, None), (1, 1), (False, False), (None, None),
        "host:2 could not run the link 120 s ago, and is silent now",
    ),
    Way(
        "a link that was refused",
        lambda age: waiting(age, NOW_MS - age, is_final=True),
        (None, None), (1, 1), (False, False), (None, None),
        "host:2 could not run the link 70 s ago, and does not try again",
    ),
    Way(
        "a clock that is ahead",
        lambda _: rows(late(-60_000), heard_0=heard(-60_000), heard_1=heard(-60_000)),
        (None, None), (1, 1), (False, False), (None, None),
        "the clock of host:1 is 60 s ahead",
    ),
    Way(
        "a ledger that cannot be read",
        unread,
        (True, False), (1, 1), (False, False), (None, None),
        "ledger-unreadable",
    ),
    Way(
        "a partition that was never reported",
        lambda age: rows(part_payments_0=None, plan=replace(PLAN_ROW, dealt_ms=NOW_MS - age)),
        (None, None), (1, 1), (True, True), (None, None),
        "1 partitions were never reported",
    ),
]  # fmt: skip
BEFORE_MS, AFTER_MS = 3_000, 70_000


def verdict_of_failover(found: Books, *unread: Partition) -> bool | None:
    """Return what a failover of both partitions says of the objective."""
    parts = {one: one for one in (ORDERS, PAYMENTS)}
    ledgers: dict[Partition, Ledger] = {one: ledger(one) for one in parts if one not in unread}
    return outlook(found, parts, ledgers, NOW_MS).rpo_ok(RPO)


def told(status: LinkStatus) -> tuple[bool | None, int, bool]:
    """Return what is said: the objective, the exit code, whether it is ready."""
    return status.rpo_ok, 0 if status.is_healthy else 1, not unready([status])


def test_where_nothing_is_missing_all_is_well() -> None:
    status = link_status(WITH_RPO, rows(), NOW_MS)
    assert told(status) == (True, 0, True) and not status.errors
    assert (status.lag_records, status.lag_is_lower_bound) == (0, False)
    assert status.source_heard_age_seconds == 0.9
    assert verdict_of_failover(rows()) is True


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_what_is_missing_is_never_taken_for_good_news(way: Way) -> None:
    gone = (ORDERS,) if "ledger" in way.name else ()
    for at, age_ms in enumerate((BEFORE_MS, AFTER_MS)):
        found = way.rows(age_ms)
        status = link_status(WITH_RPO, found, NOW_MS)
        assert told(status) == (way.rpo[at], way.exits[at], way.ready[at]), status.errors
        assert verdict_of_failover(found, *gone) is way.lost[at]
    assert status.rpo_ok is not True and not status.is_healthy
    assert way.says in " ".join(status.errors)
    # The lag is known where tasks still hear of it: a driver reports none.
    assert status.lag_is_lower_bound is (way.name != "a dead driver")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_without_an_objective_silence_is_an_error_all_the_same(way: Way) -> None:
    status = link_status(ABOUT, way.rows(AFTER_MS), NOW_MS)
    # Plans follow each other: a partition that none has for a moment is no error by itself.
    wanted = ["a paused link", "a paused topic", "a partition that no task has"]
    wanted.append("a link that was never started")
    assert (status.rpo_ok, status.is_healthy) == (None, way.name in wanted)
    assert bool(status.notes) is (way.name == "a link that was never started")


def test_a_target_that_cannot_be_asked_tells_nothing() -> None:
    status = unreadable(WITH_RPO, "unreachable: no answer")
    assert told(status) == (None, 1, False)
    assert (status.lag_records, status.lag_is_lower_bound) == (None, True)


def test_who_cannot_start_a_link_that_another_driver_runs_is_nobodys_trouble() -> None:
    found = rows()
    both = replace(found, state={**found.state, **waiting(0).state})
    assert told(link_status(WITH_RPO, both, NOW_MS)) == (True, 0, True)


def test_tasks_of_a_plan_that_has_ended_need_not_report() -> None:
    stopped = replace(LIVE, state="STOPPED", at_ms=NOW_MS - 70_000)
    silent = heard(70_000)
    status = link_status(ABOUT, rows(stopped, heard_0=silent, heard_1=silent), NOW_MS)
    assert status.is_healthy and status.lag_is_lower_bound


def test_nobody_needs_to_hear_of_a_source_that_was_failed_over() -> None:
    gone, now = 3_600_000, NOW_MS - 3_600_000
    stages = {
        stage_key(topic): row(Stage("FAILED_OVER", now, f"a.{topic}", "id", copies=False))
        for topic in ("orders", "payments")
    }
    silent = rows(replace(late(gone), partitions=3), heard_0=heard(gone), heard_1=heard(gone))
    status = link_status(WITH_RPO, replace(silent, control={**silent.control, **stages}), NOW_MS)
    assert status.state == "FAILED_OVER" and status.rpo_ok is None
    assert status.is_healthy, status.errors


def test_an_objective_below_the_rhythm_of_reports_is_judged_by_that() -> None:
    about = replace(ABOUT, rpo=timedelta(seconds=1))
    assert link_status(about, rows(), NOW_MS + 2_000).rpo_ok is True
    assert link_status(about, rows(), NOW_MS + 4_000).rpo_ok is False


def test_rows_are_named_as_the_state_topic_names_them() -> None:
    assert set(rows().state) == {
        LINK, heard_key(0), heard_key(1), part_key(ORDERS), part_key(PAYMENTS)
    }  # fmt: skip
    assert WANTED in paused_link(0).control
