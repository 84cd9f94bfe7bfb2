"""What a command makes of what was wanted, and when a link does it."""

from dataclasses import replace

import pytest

from heliograph.control.commands import Asked, Verb, is_in_effect, steer
from heliograph.model.control import Wanted, leased
from heliograph.model.status import Books
from heliograph.model.topics import Partition
from tests.unit.model.books import LINK_REPORT, PART_REPORT, books

ZERO, ONE = Partition("orders", 0), Partition("orders", 1)
OTHER = Partition("other", 0)
BOTH = replace(LINK_REPORT, topics={"orders": "orders", "other": "other"})
PARTS = dict.fromkeys((ZERO, ONE, OTHER), PART_REPORT)


@pytest.mark.parametrize(
    ("verb", "topics", "before", "after"),
    [
        ("pause", None, Wanted(), Wanted("paused")),
        ("pause", "a", Wanted(), Wanted("active", ("a",))),
        ("pause", "b", Wanted("active", ("a",)), Wanted("active", ("a", "b"))),
        ("resume", "a", Wanted("paused", ("a", "b")), Wanted("paused", ("b",))),
        ("resume", None, Wanted("paused", ("a",)), Wanted()),
        ("resume", None, Wanted("stopped"), Wanted()),
        ("stop", None, Wanted("active", ("a",)), Wanted("stopped", ("a",))),
    ],
)
def test_a_command_changes_what_it_says_and_twice_is_as_once(
    verb: Verb, topics: str | None, before: Wanted, after: Wanted
) -> None:
    assert steer(verb, topics, before) == after
    assert steer(verb, topics, after) == after


def test_changes_are_told() -> None:
    asked = Asked(Wanted("active", ("a",)), Wanted("paused", ("b",)), (), is_driven=True)
    assert asked.changes == [
        "state: active -> paused",
        "paused topics: + b",
        "paused topics: - a",
    ]
    assert Asked(Wanted(), Wanted(), (), is_driven=True).changes == []


def test_leases_are_out_until_all_receipts_are_in() -> None:
    def out(rows: Books) -> set[Partition]:
        return leased(rows.control, rows.state)

    assert out(books(leased=(ZERO, ONE))) == {ZERO, ONE}
    assert out(books(leased=(ZERO, ONE), receipts=1)) == set()
    assert out(books()) == set()


def test_a_pause_is_in_effect_when_the_leases_have_ended_and_the_driver_knows() -> None:
    wanted = Wanted("paused")
    paused = replace(BOTH, state="PAUSED")
    assert not is_in_effect(books(link=BOTH, parts=PARTS, leased=(ZERO,)), wanted)
    assert not is_in_effect(books(link=paused, parts=PARTS, leased=(ZERO,)), wanted)
    # Between two plans no lease is out either.
    between = books(link=BOTH, parts=PARTS, leased=(ZERO,), receipts=1)
    assert not is_in_effect(between, wanted)
    assert is_in_effect(books(link=paused, parts=PARTS, leased=(ZERO,), receipts=1), wanted)


def test_topics_are_paused_when_the_leases_that_are_out_are_of_others() -> None:
    wanted = Wanted(paused=("orders",))
    assert not is_in_effect(books(link=BOTH, parts=PARTS, leased=(ZERO, ONE, OTHER)), wanted)
    assert is_in_effect(books(link=BOTH, parts=PARTS, leased=(OTHER,)), wanted)


def test_leases_count_before_anything_is_reported_of_them() -> None:
    wanted = Wanted(paused=("orders",))
    assert not is_in_effect(books(link=BOTH, leased=(ZERO, OTHER)), wanted)


def test_all_is_resumed_when_everything_is_out_on_lease_again() -> None:
    assert not is_in_effect(books(link=replace(BOTH, state="PAUSED"), parts=PARTS), Wanted())
    assert not is_in_effect(books(link=BOTH, parts=PARTS, leased=(OTHER,)), Wanted())
    assert is_in_effect(books(link=BOTH, parts=PARTS, leased=(ZERO, ONE, OTHER)), Wanted())


def test_what_a_bounded_run_has_done_is_not_waited_for() -> None:
    done = {**PARTS, OTHER: replace(PART_REPORT, state="DONE")}
    assert is_in_effect(books(link=BOTH, parts=done, leased=(ZERO, ONE)), Wanted())


def test_a_stop_is_in_effect_when_the_driver_says_so() -> None:
    assert not is_in_effect(books(link=BOTH, parts=PARTS), Wanted("stopped"))
    assert is_in_effect(books(link=replace(BOTH, state="STOPPED")), Wanted("stopped"))
    assert not is_in_effect(Books(), Wanted("stopped"))
