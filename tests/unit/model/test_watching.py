"""What stands still, and what is not ready, told from statuses."""

from dataclasses import replace
from datetime import timedelta

from heliograph.model.control import PartReport, Wanted
from heliograph.model.status import LinkStatus, link_status, unreadable
from heliograph.model.topics import Partition
from heliograph.model.watching import Mark, mark, standing, unready, why_unready
from tests.unit.model.books import ABOUT, LINK_REPORT, NOW_MS, PART_REPORT, books, lagging

ZERO, ONE = Partition("orders", 0), Partition("orders", 1)
MINUTE = timedelta(minutes=1)


def status(*, wanted: Wanted | None = None, **parts: PartReport) -> LinkStatus:
    named = {Partition("orders", int(name[1:])): report for name, report in parts.items()}
    return link_status(ABOUT, books(parts=named, wanted=wanted), NOW_MS)


def test_a_partition_with_lag_stands_from_when_it_was_first_seen_there() -> None:
    stuck = status(p0=lagging(7), p1=PART_REPORT)
    marks = mark({}, stuck, NOW_MS)
    assert marks == {ZERO: Mark(100, NOW_MS)}
    marks = mark(marks, stuck, NOW_MS + 60_000)
    assert standing(stuck, marks, NOW_MS + 59_000, MINUTE) == ()
    (one,) = standing(stuck, marks, NOW_MS + 61_000, MINUTE)
    assert (one.topic, one.partition, one.lag_records) == ("orders", 0, 7)
    assert (one.source_position, one.standing_seconds) == (100, 61.0)


def test_what_moves_or_is_done_does_not_stand() -> None:
    marks = mark({}, status(p0=lagging(7), p1=lagging(7)), NOW_MS)
    moved = status(p0=lagging(9, source_next=101), p1=PART_REPORT)
    marks = mark(marks, moved, NOW_MS + 90_000)
    assert marks == {ZERO: Mark(101, NOW_MS + 90_000)}
    assert standing(moved, marks, NOW_MS + 91_000, MINUTE) == ()
    # A record that comes after a quiet hour does not make it an hour of standing.
    again = status(p0=lagging(9, source_next=101), p1=lagging(1))
    marks = mark(marks, again, NOW_MS + 95_000)
    assert marks[ONE] == Mark(100, NOW_MS + 95_000)


def test_what_is_paused_stands_because_somebody_wants_it_to() -> None:
    assert mark({}, status(p0=lagging(7), wanted=Wanted(paused=("orders",))), NOW_MS) == {}


def test_what_cannot_be_read_changes_no_mark() -> None:
    marks = mark({}, status(p0=lagging(7)), NOW_MS)
    assert mark(marks, unreadable(ABOUT, "away"), NOW_MS + 1) == marks


def test_the_longest_stands_first() -> None:
    marks = {ZERO: Mark(100, NOW_MS), ONE: Mark(100, NOW_MS - 5_000)}
    found = standing(status(p0=lagging(1), p1=lagging(1)), marks, NOW_MS + 70_000, MINUTE)
    assert [one.partition for one in found] == [1, 0]


def test_a_link_that_works_or_is_not_meant_to_is_ready() -> None:
    assert why_unready(status(p0=PART_REPORT)) == []
    assert why_unready(link_status(ABOUT, books(link=None), NOW_MS)) == []
    stopped = books(link=replace(LINK_REPORT, state="STOPPED", at_ms=NOW_MS - 3_600_000))
    assert why_unready(link_status(ABOUT, stopped, NOW_MS)) == []
    assert why_unready(status(p0=lagging(7), wanted=Wanted("paused"))) == []


def test_silence_faults_and_targets_that_are_away_are_reasons() -> None:
    silent = link_status(ABOUT, books(parts={ZERO: PART_REPORT}), NOW_MS + 60_000)
    assert why_unready(silent) == [
        "no driver has reported for 61 s",
        "a was last heard from 62 s ago",
    ]
    fault = replace(PART_REPORT, state="FAULTED", error=("gap-found", "gone"))
    assert why_unready(status(p0=fault, p1=PART_REPORT)) == ["1 of 2 partitions are faulted"]
    away = unreadable(ABOUT, "unreachable: no")
    assert unready([away]) == [{"link": "a-b", "reason": "unreachable: no"}]


def test_the_status_tells_who_asked_last() -> None:
    asked = Wanted("paused", asked_ms=NOW_MS, asked_by="token (eve)")
    found = status(p0=PART_REPORT, wanted=asked)
    assert (found.asked_by, found.asked_at) == ("token (eve)", "2027-01-15T08:00:00.000Z")
    assert status(p0=PART_REPORT).asked_by is None
