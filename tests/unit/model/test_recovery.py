"""Which verb may follow what, and what a timeline shows."""

import pytest

from heliograph.errors import Unsafe
from heliograph.model.control import row
from heliograph.model.recovery import (
    Event,
    Recovery,
    as_rows,
    event_key,
    left_to_do,
    next_event,
    read_events,
)
from heliograph.model.stages import (
    LEGAL,
    Stage,
    StageState,
    Verb,
    closed_topics,
    link_state,
    read_stages,
    stage_key,
)


def stage(state: StageState, *, copies: bool = False) -> Stage:
    return Stage(state, 0, "orders", "before", copies)


@pytest.mark.parametrize("verb", LEGAL)
@pytest.mark.parametrize(
    "state", [None, "PROMOTING", "PROMOTED", "FAILED_OVER", "REVERSING", "FAILING_BACK"]
)
def test_only_legal_transitions_begin(verb: Verb, state: StageState | None) -> None:
    stages = {"orders": stage(state)} if state else {}
    if state in LEGAL[verb]:
        assert left_to_do(verb, ["orders"], stages, None) == ["orders"]
    else:
        try:
            assert left_to_do(verb, ["orders"], stages, None) == []  # it is there already
        except Unsafe as refused:
            assert "orders is" in str(refused) and "Nothing was done" in str(refused)


def test_a_verb_that_has_reached_its_topics_has_nothing_to_do() -> None:
    stages = {"orders": stage("FAILED_OVER")}
    assert left_to_do("failover", ["orders"], stages, None) == []
    assert left_to_do("failover", ["orders", "more"], stages, None) == ["more"]


def test_failover_of_what_is_promoted_is_refused_with_the_reason() -> None:
    with pytest.raises(Unsafe, match="orders is PROMOTED since 1970-01-01T00:00:00"):
        left_to_do("failover", ["orders"], {"orders": stage("PROMOTED")}, None)


def test_failback_without_a_failover_is_refused() -> None:
    with pytest.raises(Unsafe, match="neither promoted nor failed over"):
        left_to_do("failback", ["orders"], {}, None)


def test_an_unfinished_verb_goes_on_whatever_its_stages_are_by_now() -> None:
    unfinished = Recovery("id", "failover", "me", 0, ("orders",))
    stages = {"orders": stage("FAILED_OVER")}
    assert left_to_do("failover", ["orders"], stages, unfinished) == ["orders"]


def test_another_verb_waits_for_an_unfinished_one() -> None:
    unfinished = Recovery("id", "failover", "somebody", 0, ("orders",), done=("before", "close"))
    with pytest.raises(Unsafe, match="begun by somebody as id, has not ended"):
        left_to_do("promote", ["orders"], {}, unfinished)


def test_a_verb_that_did_nothing_yet_keeps_nobody_waiting() -> None:
    unfinished = Recovery("id", "failback", "somebody", 0, ("orders",), done=("before",))
    assert left_to_do("promote", ["orders"], {}, unfinished) == ["orders"]


def test_a_promotion_whose_source_died_is_finished_as_a_failover() -> None:
    unfinished = Recovery("id", "promote", "me", 0, ("orders",))
    stages = {"orders": stage("PROMOTING", copies=True)}
    assert left_to_do("failover", ["orders"], stages, unfinished) == ["orders"]


@pytest.mark.parametrize("verb", ["switch-back", "failback", "promote"])
def test_nothing_that_is_unfinished_keeps_a_mirrored_topic_from_failing_over(verb: Verb) -> None:
    unfinished = Recovery("id", verb, "me", 0, ("orders",))
    assert left_to_do("failover", ["orders"], {}, unfinished) == ["orders"]
    with pytest.raises(Unsafe, match="orders is REVERSING"):
        left_to_do("failover", ["orders"], {"orders": stage("REVERSING")}, unfinished)


def test_stages_are_read_back_and_say_what_is_closed() -> None:
    rows = {
        stage_key("orders"): row(stage("PROMOTED")),
        stage_key("more"): row(stage("PROMOTING", copies=True)),
        b"wanted": b"{}",
    }
    stages = read_stages(rows)
    assert stages == {"orders": stage("PROMOTED"), "more": stage("PROMOTING", copies=True)}
    assert closed_topics(stages) == {"orders": "orders"}


def test_a_link_is_where_all_its_topics_are() -> None:
    stages = {"a": stage("PROMOTED"), "b": stage("PROMOTED")}
    assert link_state("ACTIVE", ["a", "b"], stages) == "PROMOTED"
    assert link_state("ACTIVE", ["a", "b", "c"], stages) == "ACTIVE"
    assert link_state("PAUSED", [], stages) == "PAUSED"


def test_a_timeline_is_in_order_and_without_beginnings_that_ended() -> None:
    events = [
        Event("1-promote", "promote", "drain", "begun", 1),
        Event("1-promote", "promote", "drain", "failed", 2, 1.0, ("late",)),
        Event("2-failover", "failover", "close", "begun", 3),
    ]
    rows = {event_key(one.recovery, at): row(one) for at, one in reversed(list(enumerate(events)))}
    assert read_events(rows) == events
    assert next_event(rows, "1-promote") == 2
    shown = as_rows(read_events(rows))
    assert [(one["step"], one["outcome"]) for one in shown] == [
        ("drain", "failed"),
        ("close", "begun"),
    ]
