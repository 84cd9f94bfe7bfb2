"""What is told of groups: lags on both sides, the worst first, and only when it changed."""

from dataclasses import replace

from heliograph.model.control import row
from heliograph.model.group_reports import (
    GROUPS,
    QUIET,
    GroupReport,
    GroupsReport,
    group_statuses,
    must_report,
    report_of,
)
from heliograph.model.group_sync import Decision, Left, Sides, Why
from heliograph.model.groups import GroupListing
from heliograph.model.topics import Partition

ORDERS = Partition("orders", 0)
NOW_MS = 1_800_000_000_000


def left(why: Why) -> Left:
    return Left(ORDERS, ORDERS, 5, 5, why)


def test_the_worst_reason_is_told() -> None:
    decision = Decision(Sides("a", {}), (), (left(Why.THERE), left(Why.AHEAD)))
    listing = GroupListing("a", "Stable", "consumer")
    found = report_of(decision, listing, None, (7, None))
    assert found == GroupReport("a", "consumer", "Stable", "", 7, None, "ahead", Why.AHEAD.value)
    failed = report_of(decision, None, None, (None, None), "not-authorized: no")
    assert (failed.sync, failed.why) == ("failed", "not-authorized: no")


def test_status_shows_failures_first_then_the_greatest_lag() -> None:
    groups = (
        GroupReport("small", lag_source=1, lag_target=1),
        GroupReport("great", kind="classic", lag_source=9),
        GroupReport("failed", sync="failed", why="no"),
    )
    rows = {GROUPS: row(GroupsReport(NOW_MS - 2_000, groups))}
    found = group_statuses(rows, NOW_MS)
    assert [one.group for one in found] == ["failed", "great", "small"]
    assert found[1].kind == "classic" and found[1].state is None
    assert {one.age_seconds for one in found} == {2.0}


def test_a_link_without_groups_shows_none() -> None:
    assert group_statuses({}, NOW_MS) == ()
    assert group_statuses({GROUPS: b"of another version"}, NOW_MS) == ()


def test_the_row_is_put_when_it_changed_or_is_old() -> None:
    before = GroupsReport(NOW_MS, (GroupReport("a", lag_source=1),))
    assert not must_report(None, GroupsReport(NOW_MS))
    assert must_report(None, before)
    assert not must_report(before, replace(before, at_ms=NOW_MS + 5_000))
    assert must_report(before, replace(before, at_ms=NOW_MS + QUIET.seconds * 1000))
    assert must_report(before, GroupsReport(NOW_MS + 5_000))
