"""A link's status, from rows alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from heliograph.errors import LedgerUnreadable
from heliograph.model.control import Wanted
from heliograph.model.ledger import Gap
from heliograph.model.runs import Run
from heliograph.model.status import Books, LinkStatus, link_status, unreadable
from heliograph.model.topics import Partition
from tests.unit.model.books import ABOUT, LINK_REPORT, NOW_MS, PART_REPORT, books, lagging, ledger

ZERO, ONE = Partition("orders", 0), Partition("orders", 1)
LINK_KEYS = [
    "link",
    "source",
    "target",
    "state",
    "since",
    "lag_records",
    "lag_seconds",
    "records_total",
    "bytes_total",
    "records_per_second",
    "bytes_per_second",
    "partitions",
    "partitions_faulted",
    "gaps",
    "quarantined",
    "heartbeat_age_seconds",
    "source_heard_age_seconds",
    "lag_is_lower_bound",
    "rpo_ok",
    "eta_seconds",
    "asked_at",
    "asked_by",
    "errors",
    "notes",
    "topics",
    "groups",
]
PART_KEYS = [
    "partition",
    "leader",
    "state",
    "source_start",
    "source_end",
    "source_position",
    "target_end",
    "lag_records",
    "lag_seconds",
    "runs",
    "gaps",
    "error",
    "losses",
]


def status(rows: Books, now_ms: int = NOW_MS) -> LinkStatus:
    return link_status(ABOUT, rows, now_ms)


def test_json_has_the_keys_of_the_interface_and_in_its_order() -> None:
    for one in (status(books(parts={ZERO: PART_REPORT})), unreadable(ABOUT, "no answer")):
        assert list(one.as_dict()) == LINK_KEYS
    (topic,) = status(books(parts={ZERO: PART_REPORT})).as_dict()["topics"]
    assert list(topic) == ["topic", "mirror", "state", "partitions"]
    assert list(topic["partitions"][0]) == PART_KEYS


def test_a_link_that_never_ran_is_created_and_healthy() -> None:
    found = status(Books())
    assert (found.state, found.partitions, found.lag_records) == ("CREATED", 0, None)
    assert found.heartbeat_age_seconds is None and found.since is None
    assert found.is_healthy


def test_a_link_in_step_is_active_with_no_lag() -> None:
    found = link_status(
        ABOUT,
        books(parts={ZERO: PART_REPORT, ONE: PART_REPORT}, ledgers=(ledger(ZERO), ledger(ONE))),
        NOW_MS,
        {Partition("a.orders", 0): 7},
    )
    assert found.is_healthy and found.state == "ACTIVE"
    assert (found.lag_records, found.lag_seconds, found.eta_seconds) == (0, 0.0, 0.0)
    assert (found.records_total, found.bytes_total) == (180, 18_000)
    assert (found.records_per_second, found.bytes_per_second) == (100.0, 4_000.0)
    assert found.since == "2027-01-15T07:59:00.000Z" and found.heartbeat_age_seconds == 1.0
    (topic,) = found.topics
    assert (topic.topic, topic.mirror, topic.state) == ("orders", "a.orders", "ACTIVE")
    first, second = topic.partitions
    assert (first.leader, second.leader) == (7, None)
    assert (first.source_start, first.source_end, first.source_position) == (10, 100, 100)
    assert (first.target_end, first.runs, first.error) == (90, 1, None)


def test_lag_is_what_was_last_reported_and_its_time_runs_on() -> None:
    rows = books(parts={ZERO: lagging(30), ONE: lagging(20)})
    found = status(rows, NOW_MS + 4_000)
    assert (found.lag_records, found.lag_seconds) == (50, 9.0)
    assert found.eta_seconds == 0.5


def test_lag_is_never_negative() -> None:
    assert status(books(parts={ZERO: lagging(-5)})).lag_records == 0


def test_what_no_task_has_seen_is_not_known() -> None:
    unseen = replace(
        PART_REPORT, source_start=-1, source_end=-1, source_next=-1, target_next=-1, newest_ms=-1
    )
    found = status(books(parts={ZERO: unseen}))
    assert (found.lag_records, found.lag_seconds, found.eta_seconds) == (None, None, None)
    (part,) = found.topics[0].partitions
    assert (part.source_start, part.source_end, part.source_position) == (None, None, None)


def test_positions_of_a_link_without_reports_come_from_the_ledger() -> None:
    found = status(books(link=None, ledgers=(ledger(ZERO),)))
    (part,) = found.topics[0].partitions
    assert (part.source_position, part.target_end, part.runs) == (100, 90, 1)
    assert (found.state, found.records_total) == ("CREATED", 90)


@pytest.mark.parametrize(("silent_ms", "is_dead"), [(10_000, False), (10_001, True)])
def test_a_driver_that_is_silent_for_ten_seconds_is_dead(silent_ms: int, is_dead: bool) -> None:
    rows = books(link=replace(LINK_REPORT, at_ms=NOW_MS - silent_ms), parts={ZERO: PART_REPORT})
    found = status(rows)
    assert found.state == "ACTIVE"
    assert found.is_healthy is not is_dead
    assert any("no driver has reported for 10 s" in one for one in found.errors) is is_dead


@pytest.mark.parametrize(("ahead_ms", "is_told"), [(9_000, False), (30_000, True)])
def test_a_driver_whose_clock_is_far_ahead_is_told(ahead_ms: int, is_told: bool) -> None:
    found = status(books(link=replace(LINK_REPORT, at_ms=NOW_MS + ahead_ms)))
    assert found.heartbeat_age_seconds == (None if is_told else 0.0)
    assert any("is 30 s ahead of the one here" in one for one in found.errors) is is_told
    assert found.is_healthy is not is_told


def test_records_of_the_future_have_no_age() -> None:
    rows = books(parts={ZERO: replace(lagging(5), newest_ms=NOW_MS + 60_000)})
    found = link_status(replace(ABOUT, rpo=timedelta(minutes=1)), rows, NOW_MS)
    assert (found.lag_records, found.lag_seconds, found.rpo_ok) == (5, None, None)


def test_rates_of_tasks_that_report_no_more_do_not_count() -> None:
    found = status(books(parts={ZERO: lagging(5, at_ms=NOW_MS - 11_000), ONE: PART_REPORT}))
    assert found.records_per_second == 50.0


def test_one_faulted_partition_makes_the_link_faulted_and_says_why_and_until_when() -> None:
    fault = replace(
        PART_REPORT, state="FAULTED", error=("gap-found", "a hole"), again_ms=NOW_MS + 1_000
    )
    found = status(books(parts={ZERO: fault, ONE: PART_REPORT}))
    assert (found.state, found.partitions_faulted) == ("FAULTED", 1)
    assert not found.is_healthy
    assert found.errors == (
        "orders-0: gap-found: a hole (tried again at 2027-01-15T08:00:01.000Z)",
    )
    assert found.topics[0].state == "FAULTED"
    assert [part.state for part in found.topics[0].partitions] == ["FAULTED", "ACTIVE"]


def test_the_same_fault_of_many_partitions_is_one_error() -> None:
    fault = replace(PART_REPORT, state="FAULTED", error=("unreachable", "no answer"))
    parts = {Partition("orders", number): fault for number in range(7)}
    (error,) = status(books(parts=parts)).errors
    places = "orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"
    assert error == f"{places}: unreachable: no answer"


def test_a_fault_that_an_earlier_driver_met_is_over() -> None:
    old = replace(PART_REPORT, generation=2, state="FAULTED", error=("unreachable", "no answer"))
    found = status(books(parts={ZERO: old}))
    assert found.is_healthy and found.topics[0].partitions[0].state == "ACTIVE"


def test_what_the_driver_complains_of_is_an_error() -> None:
    found = status(books(link=replace(LINK_REPORT, errors=("topic x cannot be mirrored",))))
    assert found.errors == ("topic x cannot be mirrored",) and not found.is_healthy


def test_a_ledger_that_cannot_be_read_faults_its_partition_only() -> None:
    rows = books(parts={ZERO: PART_REPORT, ONE: PART_REPORT}, ledgers=(ledger(ONE),))
    broken = Books({**rows.ledger, b"orders/0": b"{}"}, rows.control, rows.state)
    found = status(broken)
    assert (found.partitions_faulted, found.records_total) == (1, 90)
    assert "ledger-unreadable" in found.errors[0]


def test_a_row_of_no_partition_is_an_error() -> None:
    with pytest.raises(LedgerUnreadable, match="orders/x"):
        status(Books(state={b"part/orders/x": b"{}"}))


def test_paused_topics_are_paused_and_others_are_not() -> None:
    other = Partition("other", 0)
    rows = books(
        link=replace(LINK_REPORT, topics={"orders": "a.orders", "other": "a.other"}),
        parts={ZERO: PART_REPORT, other: PART_REPORT},
        wanted=Wanted(paused=("ord.*",)),
    )
    assert [one.state for one in status(rows).topics] == ["PAUSED", "ACTIVE"]
    assert status(rows).state == "ACTIVE"


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
def test_a_link_that_is_not_copied_has_no_active_partition(state: str) -> None:
    rows = books(link=replace(LINK_REPORT, state=state), parts={ZERO: PART_REPORT})  # type: ignore[arg-type]
    found = status(rows)
    assert (found.state, found.topics[0].state) == (state, state)
    assert found.topics[0].partitions[0].state == "PAUSED"


def test_a_stopped_link_needs_no_driver() -> None:
    old_ms = NOW_MS - 3_600_000
    ended = books(link=replace(LINK_REPORT, state="STOPPED", at_ms=old_ms))
    assert status(ended).is_healthy
    # Its driver died, and then it was told to stop.
    asked = books(link=replace(LINK_REPORT, at_ms=old_ms), wanted=Wanted("stopped"))
    assert (status(asked).state, status(asked).is_healthy) == ("STOPPED", True)


def test_gaps_are_counted_and_quarantined_records_apart() -> None:
    made = ledger(ZERO)
    made.add_gap(110, "the source's retention overtook the mirror")
    made.add_gap(113, "quarantined: INVALID_TIMESTAMP")
    found = status(books(parts={ZERO: PART_REPORT}, ledgers=(made,)))
    assert (found.gaps, found.quarantined) == (1, 3)
    assert found.topics[0].partitions[0].gaps[1] == Gap(110, 113, "quarantined: INVALID_TIMESTAMP")


def test_what_the_target_lost_is_told_for_a_day_and_stays_in_json() -> None:
    made = ledger(ZERO)
    loss = made.go_back(80, NOW_MS - 1_000)
    assert loss is not None and loss.records == 10
    (note,) = status(books(parts={ZERO: PART_REPORT}, ledgers=(made,))).notes
    assert "orders-0: the target lost 10 records" in note and "are missing there" in note
    made.add(Run(90, 95, 10))
    found = status(books(parts={ZERO: PART_REPORT}, ledgers=(made,)))
    assert "were copied again, from source offset 90 on" in found.notes[0]
    assert found.topics[0].partitions[0].losses == (loss,)
    made.losses[0] = replace(loss, at_ms=NOW_MS - 25 * 3600 * 1000)
    assert status(books(parts={ZERO: PART_REPORT}, ledgers=(made,))).notes == ()


def test_totals_keep_what_was_copied_of_topics_that_are_not_copied_any_more() -> None:
    gone = Partition("gone", 0)
    found = status(books(parts={ZERO: PART_REPORT}, ledgers=(ledger(ZERO), ledger(gone))))
    assert [one.topic for one in found.topics] == ["orders"]
    assert found.records_total == 180


@pytest.mark.parametrize(
    ("lag", "rpo_s", "verdict"),
    [(0, 1, True), (5, 6, True), (5, 4, False)],
)
def test_the_objective_is_compared_with_the_worst_partition(
    lag: int, rpo_s: int, verdict: bool
) -> None:
    about = replace(ABOUT, rpo=timedelta(seconds=rpo_s))
    found = link_status(about, books(parts={ZERO: lagging(lag), ONE: PART_REPORT}), NOW_MS)
    assert found.rpo_ok is verdict and found.is_healthy is verdict


def test_no_objective_no_verdict_and_none_where_the_lag_is_not_known() -> None:
    rows = books(parts={ZERO: replace(PART_REPORT, source_end=-1)})
    assert status(books(parts={ZERO: PART_REPORT})).rpo_ok is None
    assert link_status(replace(ABOUT, rpo=timedelta(seconds=9)), rows, NOW_MS).rpo_ok is None


def test_an_objective_is_missed_when_nobody_has_looked_for_longer() -> None:
    about = replace(ABOUT, rpo=timedelta(seconds=60))
    silent = replace(LINK_REPORT, state="STOPPED", at_ms=NOW_MS - 120_000)
    found = link_status(about, books(link=silent, parts={ZERO: PART_REPORT}), NOW_MS)
    assert found.rpo_ok is False


def test_a_link_whose_target_does_not_answer_has_no_state() -> None:
    found = unreadable(ABOUT, "unreachable: no answer")
    assert found.state is None and not found.is_healthy
