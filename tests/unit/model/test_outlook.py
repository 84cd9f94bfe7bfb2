"""What may be missing, by what the source was known to hold."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from heliograph.model.control import (
    LINK,
    PLAN,
    WANTED,
    Heard,
    PartReport,
    Plan,
    Wanted,
    heard_key,
    part_key,
    read,
    row,
)
from heliograph.model.ledger import Closing, Ledger, Origin
from heliograph.model.outlook import Outlook, outlook, reached_ms
from heliograph.model.runs import Run
from heliograph.model.status import Books
from heliograph.model.topics import Partition
from tests.unit.model.books import LINK_REPORT, books

HERE = Partition("orders", 0)
PARTS = {HERE: Partition("paris.orders", 0)}
NOW = 100_000_000
HOUR = 3_600_000
RPO = timedelta(seconds=5)


def seen(source_end: int, source_next: int, newest_ms: int, heard_ms: int = NOW) -> Books:
    report = PartReport(
        LINK_REPORT.generation, 1, NOW, "ACTIVE", 0, source_end, source_next, 0, newest_ms, 0.0, 0.0
    )
    link = replace(LINK_REPORT, since_ms=NOW - 9 * HOUR, at_ms=NOW - 1000)
    return heard_by(books(link=link, parts={HERE: report}), (heard_ms, heard_ms))


def heard_by(found: Books, *tasks: tuple[int, int], number: int = 1) -> Books:
    """Return the books with when each task last heard from the source, and listened."""
    rows = {
        heard_key(index): row(Heard(LINK_REPORT.generation, number, *times))
        for index, times in enumerate(tasks)
    }
    return replace(found, state={**found.state, **rows})


def changed(found: Books, **other: Any) -> Books:
    """Return the books with another report of the partition."""
    report = read(found.state, part_key(HERE), PartReport)
    assert report is not None
    return replace(found, state={**found.state, part_key(HERE): row(replace(report, **other))})


def linked(found: Books, wanted: Wanted | None = None, **other: Any) -> Books:
    """Return the books with another report of the driver, and what people asked for."""
    link = replace(LINK_REPORT, **{"since_ms": NOW - 9 * HOUR, "at_ms": NOW - 1000} | other)
    control = {WANTED: row(wanted)} if wanted else {}
    return replace(found, state={**found.state, LINK: row(link)}, control=control)


def now(found: Books, copied: int = 100, closing: Closing | None = None) -> Outlook:
    return outlook(found, PARTS, ledger(copied, closing), NOW)


def ledger(copied: int, closing: Closing | None = None) -> dict[Partition, Ledger]:
    found = Ledger(HERE, Origin("a", "b", "c", "d"))
    found.add(Run(0, 0, copied))
    found.closing = closing
    return {HERE: found}


def test_what_the_source_held_and_did_not_arrive_is_counted() -> None:
    found = outlook(seen(150, 100, NOW - 4000, NOW - 1000), PARTS, ledger(100), NOW)
    (topic,) = found.topics
    assert (topic.topic, topic.mirror, topic.partitions) == ("orders", "paris.orders", 1)
    assert (topic.missing_records, topic.missing_seconds) == (50, 3.0)
    assert (found.missing_records, found.rpo_seconds, found.heard_seconds) == (50, 3.0, 1.0)
    assert found.rpo_ok(timedelta(seconds=3)) and not found.rpo_ok(timedelta(seconds=2))


def test_what_arrived_and_is_not_on_record_is_not_missing() -> None:
    closed = ledger(100, Closing("FAILED_OVER", NOW, 151, unmatched=50))
    found = outlook(seen(150, 150, NOW), PARTS, closed, NOW)
    assert (found.missing_records, found.rpo_seconds) == (0, 0.0)
    assert found.topics[0].unmatched_records == 50


def test_a_report_may_be_ahead_of_the_ledger_while_the_link_copies() -> None:
    assert outlook(seen(150, 150, NOW), PARTS, ledger(100), NOW).missing_records == 0


def test_what_was_never_heard_of_is_not_known() -> None:
    found = outlook(Books(), PARTS, {}, NOW)
    assert (found.missing_records, found.heard_seconds) == (None, None)
    assert found.rpo_ok(timedelta(seconds=1)) is None


def test_a_source_that_answers_says_itself_where_it_ends() -> None:
    found = outlook(seen(150, 100, NOW - 1000), PARTS, ledger(100), NOW, {HERE: 130})
    assert (found.missing_records, found.heard_seconds) == (30, 0.0)


def test_a_partition_of_which_nobody_knows_the_end_is_told_and_counts_as_no_success() -> None:
    other = Partition("orders", 1)
    parts = {**PARTS, other: Partition("paris.orders", 1)}
    found = outlook(seen(100, 100, NOW), parts, ledger(100), NOW)
    assert (found.missing_records, found.unknown_partitions, found.rpo_seconds) == (0, 1, 0.0)
    assert found.topics[0].unknown_partitions == 1
    assert found.rpo_ok(timedelta(seconds=1)) is None
    # What is known may be too much already.
    late = outlook(seen(150, 100, NOW - 4000), parts, ledger(100), NOW)
    assert late.missing_records == 50 and late.rpo_ok(timedelta(seconds=1)) is False
    answered = outlook(seen(100, 100, NOW), parts, ledger(100), NOW, {other: 0})
    assert answered.unknown_partitions == 0 and answered.rpo_ok(timedelta(seconds=1)) is True


def test_records_of_which_nobody_knows_the_time_may_be_of_any_age() -> None:
    found = outlook(seen(50, 0, -1), PARTS, {}, NOW)
    assert (found.missing_records, found.rpo_seconds) == (50, None)
    assert found.rpo_ok(timedelta(seconds=1)) is None


@pytest.mark.parametrize(("ahead_ms", "seconds"), [(500, 0.0), (60_000, None)])
def test_records_that_are_stamped_in_the_future_have_no_age(
    ahead_ms: int, seconds: float | None
) -> None:
    found = outlook(seen(150, 100, NOW + ahead_ms), PARTS, ledger(100), NOW)
    assert (found.missing_records, found.rpo_seconds) == (50, seconds)
    assert found.rpo_ok(timedelta(seconds=1)) is (None if seconds is None else True)
    told = " ".join(found.doubts())
    assert ("orders: its records are stamped up to 60 s after" in told) is (seconds is None)


def test_a_source_that_was_heard_in_the_future_was_heard_nobody_knows_when() -> None:
    found = outlook(seen(150, 100, NOW, heard_ms=NOW + 60_000), PARTS, ledger(100), NOW)
    assert (found.heard_seconds, found.rpo_seconds) == (None, 60.0)
    (line,) = found.doubts()
    assert "60 s ahead of this one" in line


WHOLE = seen(100, 100, NOW - 3 * HOUR, NOW - 500)
REFUSED = ("foreign-records", "something else writes here")


@pytest.mark.parametrize(
    "found",
    [
        changed(WHOLE, state="FAULTED", at_ms=NOW - 3 * HOUR, error=REFUSED),
        changed(WHOLE, state="FAULTED", error=("superseded", "by whom?")),
        changed(WHOLE, state="DONE"),
        linked(WHOLE, Wanted(paused=("ord.*",))),
        linked(WHOLE, Wanted(state="paused")),
        linked(WHOLE, state="PAUSED"),
        linked(WHOLE, Wanted(state="stopped")),
        linked(WHOLE, state="STOPPED"),
        heard_by(WHOLE, (NOW, NOW), number=7),  # by tasks of later plans, without this one
        changed(WHOLE, generation=LINK_REPORT.generation - 1),
    ],
)
def test_what_is_not_followed_may_have_more_than_was_last_reported(found: Books) -> None:
    told = now(found)
    assert (told.missing_records, told.unknown_partitions, told.rpo_ok(RPO)) == (0, 1, None)
    # It has arrived up to its newest record, and who knows what came after that.
    assert reached_ms(found, [HERE], ledger(100)) == {HERE: NOW - 3 * HOUR}
    # What is known to be missing is counted, and may be too much already.
    late = now(changed(found, source_end=150))
    assert (late.missing_records, late.unknown_partitions, late.rpo_ok(RPO)) == (50, 1, False)
    # A source that answers is believed.
    answered = outlook(found, PARTS, ledger(100), NOW, {HERE: 100})
    assert answered.unknown_partitions == 0 and answered.rpo_ok(RPO) is True


@pytest.mark.parametrize(
    "found",
    [
        WHOLE,
        changed(WHOLE, at_ms=NOW - 9 * HOUR),  # nothing has changed since
        linked(WHOLE, state="FAULTED"),  # another one is
        linked(WHOLE, Wanted(paused=("payments",))),
        heard_by(WHOLE, (NOW, NOW), number=2),  # its own task comes a moment later
        changed(WHOLE, state="FAULTED", error=("topic-missing", "deleted on the source")),
        linked(changed(WHOLE, generation=1), topics={"other": "a.other"}),  # the same, long ago
    ],
)
def test_a_report_is_old_where_nothing_changed(found: Books) -> None:
    told = now(found)
    assert (told.missing_records, told.unknown_partitions, told.rpo_ok(RPO)) == (0, 0, True)


def test_a_writer_that_the_failover_itself_has_fenced_was_followed() -> None:
    closing = Closing("FAILED_OVER", NOW, 101)
    for code in ("superseded", "mirror-closed"):
        fenced = changed(WHOLE, state="FAULTED", error=(code, "by the failover"))
        assert now(fenced, 100, closing).rpo_ok(RPO) is True
    for error in (REFUSED, ()):
        faulted = changed(WHOLE, state="FAULTED", error=error)
        assert now(faulted, 100, closing).rpo_ok(RPO) is None


LONG_AGO = NOW - 3 * HOUR


@pytest.mark.parametrize(
    ("tasks", "is_ok"),
    [
        ([(LONG_AGO, LONG_AGO + 100)], None),  # the tasks stopped while it answered
        ([(LONG_AGO, NOW - 1000)], None),  # it fell silent: dead, or cut off and alive
        ([(NOW - 1000, NOW), (LONG_AGO, NOW)], None),  # one of its brokers did
        ([(NOW - 3000, NOW - 2900)], True),  # a moment ago all was well
        ([(NOW - 4900, NOW - 4800)], True),  # all of that is within the objective
        ([(NOW - 5100, NOW - 5000)], None),
    ],
)
def test_an_objective_is_kept_where_all_the_time_since_is_within_it(
    tasks: list[tuple[int, int]], is_ok: bool | None
) -> None:
    found = now(heard_by(WHOLE, *tasks))
    assert (found.rpo_seconds, found.unknown_partitions, found.rpo_ok(RPO)) == (0.0, 0, is_ok)


def test_a_driver_that_lives_on_without_its_tasks_has_seen_nothing() -> None:
    found = linked(heard_by(WHOLE, (LONG_AGO, LONG_AGO)), at_ms=NOW)
    assert now(found).rpo_ok(RPO) is None
    assert now(found).rpo_ok(timedelta(hours=4)) is True
    (line,) = now(found).doubts()
    assert "last heard from 10800 s ago. It may have lived on" in line


def test_by_a_clock_that_is_behind_nobody_knows_how_long_nobody_listened() -> None:
    assert now(heard_by(WHOLE, (NOW + 60_000, NOW + 60_000))).rpo_ok(RPO) is None


def test_a_task_that_has_heard_nothing_itself_knows_what_its_plan_knew() -> None:
    generation = LINK_REPORT.generation
    plan = Plan(generation, 2, 2, dealt_ms=NOW - 1000, heard_ms=LONG_AGO)
    silent = row(Heard(generation, 2, -1, NOW, NOW))
    found = replace(WHOLE, control={PLAN: row(plan)})
    assert now(found).heard_seconds == 3 * 3600  # neither has told anything yet
    one = replace(found, state={**found.state, heard_key(0): silent})
    assert now(one).heard_seconds == 3 * 3600
    both = {heard_key(index): row(Heard(generation, 2, NOW - 900)) for index in range(2)}
    assert now(replace(found, state={**found.state, **both})).heard_seconds == 0.9


def test_a_source_that_no_task_of_this_driver_has_heard_keeps_no_objective() -> None:
    state = {key: it for key, it in WHOLE.state.items() if key != heard_key(0)}
    found = now(replace(WHOLE, state=state))
    assert (found.missing_records, found.rpo_seconds, found.rpo_ok(RPO)) == (0, 0.0, None)


def test_what_lies_behind_an_open_transaction_has_not_arrived() -> None:
    found = changed(WHOLE, log_end=130, newest_ms=NOW - 60_500)
    told = now(found)
    assert (told.missing_records, told.rpo_seconds, told.rpo_ok(RPO)) == (30, 60.0, False)
    assert reached_ms(found, [HERE], ledger(100)) == {HERE: NOW - 60_500}


def test_what_is_missing_is_not_older_than_when_nothing_was() -> None:
    found = changed(WHOLE, log_end=101, newest_ms=NOW - 9 * HOUR, whole_ms=NOW - 2500)
    assert (now(found).missing_records, now(found).rpo_seconds) == (1, 2.0)
    assert now(changed(found, newest_ms=NOW - 1500)).rpo_seconds == 1.0
    assert now(changed(found, newest_ms=NOW + HOUR)).rpo_seconds == 2.0  # its producer is ahead


def test_a_report_of_an_earlier_version_is_still_read() -> None:
    text = row(PartReport(3, 1, NOW, "ACTIVE", 0, 100, 100, 0, NOW, 0.0, 0.0, log_end=7))
    older = text.replace(b',"log_end":7,"whole_ms":-1', b"")
    assert older != text
    report = read({b"part": older}, b"part", PartReport)
    assert report is not None and report.log_end == -1


def test_a_stamp_of_the_future_is_no_time_that_a_partition_has_reached() -> None:
    late = seen(150, 100, NOW + HOUR)
    assert reached_ms(late, [HERE], ledger(100)) == {HERE: None}
    # What lacks nothing has reached the present, whatever its stamps say.
    assert reached_ms(seen(100, 100, NOW + HOUR), [HERE], ledger(100)) == {HERE: NOW}
    assert reached_ms(seen(150, 100, NOW - 4000), [HERE], ledger(100)) == {HERE: NOW - 4000}
