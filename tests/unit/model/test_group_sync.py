"""Which offsets of a group are set on the target, and which are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.checkpoints import (
    Checkpoint,
    Place,
    checkpoint_key,
    place_key,
    read_checkpoints,
)
from heliograph.model.control import row
from heliograph.model.group_sync import (
    Decision,
    Ground,
    Left,
    Move,
    Sides,
    Why,
    cut_back,
    decide,
    may_delete,
)
from heliograph.model.groups import Committed
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.runs import Reason, Run
from heliograph.model.topics import Partition
from heliograph.model.translation import Translator

ORDERS, MIRROR = Partition("orders", 0), Partition("paris.orders", 0)
ORIGIN = Origin("source", "topic", "target", "mirror")


def ground(length: int = 100) -> Ground:
    """Return a mirror whose first record stands behind a marker."""
    ledger = Ledger(ORDERS, ORIGIN)
    if length:
        ledger.add(Run(0, 1, length))
    return Ground({ORDERS: MIRROR}, {ORDERS: Translator(ledger)})


def sides(
    source: int | None,
    target: int | None = None,
    place: tuple[int, int] | None = None,
    *,
    is_active: bool = False,
) -> Sides:
    seen = Checkpoint(1, {place_key(ORDERS): Place(*place)}) if place else None
    return Sides(
        "billing",
        {} if source is None else {ORDERS: Committed(source, 7, "meta")},
        {} if target is None else {MIRROR: Committed(target, None, "meta")},
        seen,
        is_active,
    )


def after(decision: Decision) -> int | None:
    """Return where the group stands on the target once this is done."""
    if decision.moves:
        (move,) = decision.moves
        return move.after
    (left,) = decision.left
    return left.at


def test_a_group_that_is_not_on_the_target_is_set_without_the_sources_epoch() -> None:
    decision = decide(sides(10), ground())
    assert decision.offsets == {MIRROR: Committed(11, None, "meta")}
    assert decision.moves[0].reason is Reason.EXACT
    found = decision.checkpoint(5, has_moved=True)
    assert found == Checkpoint(5, {"orders/0": Place(10, 11, "meta")})


def test_an_empty_partition_is_set_to_its_start() -> None:
    assert decide(sides(0), ground(0)).offsets == {MIRROR: Committed(0, None, "meta")}


@pytest.mark.parametrize(
    ("given_", "wanted", "why"),
    [
        (sides(50, 11, (10, 11)), 51, None),  # it went on
        (sides(50, 51, (50, 51)), 51, Why.THERE),
        (sides(50, 80, (50, 51)), 80, Why.AHEAD),  # somebody reads on the target
        (sides(50, 80), 80, Why.AHEAD),  # set by hand, ahead
        (sides(20, 51, (50, 51)), 21, None),  # the source was reset, and nobody was here
        (sides(20, 60, (50, 51)), 60, Why.AHEAD),  # the source was reset, but somebody was
        (sides(20, 51, (20, 51)), 21, None),  # it was reset while the group was active here
        (sides(50, 5, (50, 51)), 5, Why.SET_BACK),  # reset here
        (sides(60, 5, (50, 51)), 61, None),  # reset here, but the source goes on
        (sides(50, 5), 51, None),  # behind, and never set by us
        (sides(500, 101, (500, 101)), 101, Why.THERE),  # not copied yet
        (sides(50, 11, is_active=True), 11, Why.ACTIVE),
    ],
)
def test_each_offset_is_set_or_left_for_a_reason(
    given_: Sides, wanted: int, why: Why | None
) -> None:
    decision = decide(given_, ground())
    assert after(decision) == wanted
    assert [one.why for one in decision.left] == ([why] if why else [])
    assert decision.why is (why or Why.THERE)


def test_what_was_not_copied_advances_later_although_the_source_did_not_move() -> None:
    first = decide(sides(90), ground(50))
    assert first.moves[0].after == 51 and first.moves[0].reason is Reason.END
    seen = first.checkpoint(1, has_moved=True)
    again = decide(replace(sides(90, 51), seen=seen), ground(100))
    assert after(again) == 91


def test_metadata_follows_where_the_offset_is_ours() -> None:
    mine = replace(sides(50, 51, (50, 51)), target={MIRROR: Committed(51, None, "old")})
    assert decide(mine, ground()).offsets == {MIRROR: Committed(51, None, "meta")}
    theirs = replace(mine, seen=None)
    assert decide(theirs, ground()).why is Why.THERE


def test_a_group_without_an_offset_on_a_mirrored_topic_is_not_remembered() -> None:
    elsewhere = Sides("billing", {Partition("other", 0): Committed(5)})
    for one in (elsewhere, sides(None)):
        decision = decide(one, ground())
        assert not decision.moves and not decision.left
        assert decision.checkpoint(1, has_moved=True) is None


def test_on_a_shared_mirror_nothing_is_set_but_the_source_is_remembered() -> None:
    decision = decide(sides(10), replace(ground(), is_shared=True))
    assert decision.why is Why.SHARED and not decision.moves
    found = decision.checkpoint(1, has_moved=True)
    assert found is not None and found.places == {"orders/0": Place(10, -1, "meta")}


def test_without_a_ledger_only_the_source_is_remembered() -> None:
    decision = decide(sides(10, 3), Ground({ORDERS: MIRROR}))
    assert decision.why is Why.UNKNOWN
    found = decision.checkpoint(1, has_moved=True)
    assert found is not None and found.places == {"orders/0": Place(10, -1, "meta")}


def test_a_checkpoint_is_put_only_when_it_changed() -> None:
    decision = decide(sides(10), ground())
    seen = decision.checkpoint(1, has_moved=True)
    again = decide(replace(sides(10, 11), seen=seen), ground())
    assert again.checkpoint(2, has_moved=True) is None


def test_moves_that_failed_do_not_count_as_ours() -> None:
    found = decide(sides(50, 11, (10, 11)), ground()).checkpoint(2, has_moved=False)
    assert found is not None and found.places == {"orders/0": Place(50, 11, "meta")}


def test_a_checkpoint_keeps_what_a_pass_is_not_about() -> None:
    place, other = Place(7, 8), Partition("orders", 1)
    seen = Checkpoint(1, {place_key(ORDERS): place, place_key(other): place, "closed/0": place})
    on = ground()
    both = replace(on, mirrors={**on.mirrors, other: Partition("paris.orders", 1)})
    found = decide(replace(sides(50), seen=seen), both).checkpoint(2, has_moved=True)
    # The group has no offset in the other partition any more; the closed topic was not looked at.
    assert found is not None and found.places.keys() == {place_key(ORDERS), "closed/0"}
    assert found.places["closed/0"] == place


def test_an_offset_of_another_topic_of_that_name_is_left_alone() -> None:
    mine, other = {"orders": "topic"}, {"orders": "the one before"}
    for topics, why in ((mine, None), ({}, None), (other, Why.ANEW)):
        decision = decide(replace(sides(500, 11, (500, 11)), topics=topics), ground())
        assert [one.why for one in decision.left] == ([why] if why else []), topics
        assert after(decision) == (11 if why else 101)


def test_a_checkpoint_says_of_which_topics_its_offsets_are() -> None:
    now = replace(sides(10), topics={"orders": "topic", "unread": "id"})
    seen = decide(now, ground()).checkpoint(1, has_moved=True)
    assert seen is not None and seen.topics == {"orders": "topic"}
    again = replace(now, target={MIRROR: Committed(11, None, "meta")}, seen=seen)
    assert decide(again, ground()).checkpoint(2, has_moved=True) is None
    # One that an earlier version put is put anew; what nobody told of stays as it was.
    old = replace(again, seen=replace(seen, topics={}))
    assert decide(old, ground()).checkpoint(2, has_moved=True) == replace(seen, at_ms=2)
    untold = replace(again, topics={})
    assert decide(untold, ground()).checkpoint(2, has_moved=True) is None


def test_places_of_the_topic_before_are_forgotten_with_it() -> None:
    place = Place(7, 8)
    seen = Checkpoint(1, {"orders/0": place, "orders/9": place, "closed/0": place})
    seen = replace(seen, topics={"orders": "the one before", "closed": "id"})
    now = replace(sides(50, 8), seen=seen, topics={"orders": "topic"})
    found = decide(now, ground()).checkpoint(2, has_moved=True)
    assert found is not None and found.places.keys() == {"orders/0", "closed/0"}
    assert found.topics == {"orders": "topic", "closed": "id"}


def test_the_same_offset_of_another_topic_is_news() -> None:
    back = sides(50, 5, (50, 51))
    assert back.seen is not None
    for before, why in (({}, Why.SET_BACK), ({"orders": "the one before"}, Why.THERE)):
        seen = replace(back.seen, topics=before)
        decision = decide(replace(back, seen=seen, topics={"orders": "topic"}), ground())
        assert decision.why is why and bool(decision.moves) == (why is Why.THERE)


def test_a_checkpoint_of_an_earlier_version_is_read() -> None:
    text = b'{"at_ms":1,"places":{"orders/0":{"source_offset":5,"target_offset":6,"metadata":""}}}'
    found = read_checkpoints({checkpoint_key("billing"): text})["billing"]
    assert found == Checkpoint(1, {"orders/0": Place(5, 6)})


def test_a_checkpoint_gives_back_what_the_source_said() -> None:
    place = Place(50, 51, "meta")
    rows = {checkpoint_key("billing"): row(Checkpoint(1, {"a/b/0": place, "orders/3": place}))}
    found = read_checkpoints(rows)["billing"].committed
    assert found[Partition("orders", 3)] == Committed(50, None, "meta")
    assert len(found) == 2


@pytest.mark.parametrize(
    ("target", "wanted"), [({}, True), ({MIRROR: 51}, True), ({MIRROR: 60}, False)]
)
def test_only_groups_whose_offsets_are_ours_follow_into_deletion(
    target: dict[Partition, int], wanted: bool
) -> None:
    seen = Checkpoint(1, {"orders/0": Place(50, 51)})
    found = {one: Committed(at) for one, at in target.items()}
    assert may_delete(seen, found, {ORDERS: MIRROR}) is wanted


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["source", "reset", "consume", "copy", "join", "leave", "fail"]),
            st.integers(0, 60),
        ),
        max_size=40,
    )
)
def test_whatever_happens_no_reader_of_the_target_is_sent_back_or_past_the_data(
    events: list[tuple[str, int]],
) -> None:
    """The target goes back only where nobody was on it; it never points past the mirror."""
    source, copied, target = 0, 0, None
    seen: Checkpoint | None = None
    is_active = was_read = False
    for what, amount in events:
        if what == "source":
            source += amount
        elif what == "reset":
            source = min(source, amount)
        elif what == "copy":
            copied += amount
        elif what in ("join", "leave"):
            is_active = what == "join"
        elif what == "consume" and target is not None and amount:
            before, target = target, max(target, min(target + amount, copied + bool(copied)))
            was_read = was_read or target > before
        now = replace(sides(source, target, is_active=is_active), seen=seen)
        decision = decide(now, ground(copied))
        has_failed = what == "fail"
        seen = decision.checkpoint(1, has_moved=not has_failed) or seen
        moved = after(decision)
        if has_failed or not decision.moves:
            continue
        assert not is_active and moved is not None
        assert moved <= (copied + 1 if copied else 0)
        if target is not None and moved < target:
            assert not was_read
        target, was_read = moved, False


def test_a_cut_leaves_nobody_behind_it_but_who_is_active() -> None:
    moved = Move(ORDERS, MIRROR, 9, None, 9, Reason.EXACT)
    there = Left(ORDERS, MIRROR, 9, 9, Why.THERE)
    active = Left(ORDERS, MIRROR, 9, 9, Why.ACTIVE)
    nobody = Sides("g", {})
    cut = cut_back(Decision(nobody, (moved,), (there, active)), {MIRROR: 5})
    assert [(one.before, one.after, one.reason) for one in cut.moves] == [
        (None, 5, Reason.CUT),
        (9, 5, Reason.CUT),
    ]
    assert cut.left == (active,)
    assert cut_back(Decision(nobody, (moved,), (there,)), {MIRROR: 9}).moves == (moved,)
