"""Which verb may follow what, and what a timeline shows."""

import pytest

from heliograph.errors import Unsafe
from heliograph.model.control import row
from heliograph.model.recovery import (
    Across,
    Directions,
    Event,
    Recovery,
    as_rows,
    event_key,
    left_alone,
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


def left(
    verb: Verb,
    topics: list[str],
    stages: dict[str, Stage],
    unfinished: Recovery | None = None,
) -> list[str]:
    turned = {topic: None for topic, one in stages.items() if one.state == "REVERSING"}
    names = Directions("west", "west-reverse")
    return left_to_do(verb, topics, stages, unfinished, names, Across(turned))


@pytest.mark.parametrize("verb", LEGAL)
@pytest.mark.parametrize(
    "state", [None, "PROMOTING", "PROMOTED", "FAILED_OVER", "REVERSING", "FAILING_BACK"]
)
def test_only_legal_transitions_begin(verb: Verb, state: StageState | None) -> None:
    stages = {"orders": stage(state)} if state else {}
    if state in LEGAL[verb]:
        assert left(verb, ["orders"], stages) == ["orders"]
    else:
        try:
            assert left(verb, ["orders"], stages) == []  # it is there already
        except Unsafe as refused:
            assert "orders is" in str(refused) and "Nothing was done" in str(refused)


def test_a_verb_that_has_reached_its_topics_has_nothing_to_do() -> None:
    stages = {"orders": stage("FAILED_OVER")}
    assert left("failover", ["orders"], stages) == []
    assert left("failover", ["orders", "more"], stages) == ["more"]


def test_failover_of_what_is_promoted_is_refused_with_the_reason() -> None:
    with pytest.raises(Unsafe, match=r"orders is PROMOTED since 1970-01-01T00:00:00\.000Z"):
        left("failover", ["orders"], {"orders": stage("PROMOTED")})


@pytest.mark.parametrize("state", ["PROMOTED", "REVERSING", "FAILING_BACK"])
def test_a_failover_leaves_alone_what_has_its_applications_on_the_target(state: StageState) -> None:
    stages, topics = {"orders": stage(state)}, ["more", "orders"]
    assert left("failover", topics, stages) == ["more"]
    assert left_alone(["more"], topics, stages) == {"orders": state}
    # Said again, it has nothing to do: that is no reason to refuse it.
    stages["more"] = stage("FAILED_OVER")
    assert left("failover", topics, stages) == []
    assert left_alone([], topics, stages) == {"orders": state}


@pytest.mark.parametrize(
    ("verb", "state", "told"),
    [
        ("failover", "PROMOTED", "to mirror back to the old source: heliograph failback west"),
        ("promote", "FAILED_OVER", "to mirror back to the old source: heliograph failback west"),
        ("switch", "FAILED_OVER", "to mirror back to the old source: heliograph failback west"),
        ("failover", "REVERSING", "primary now is lost: heliograph failover west-reverse"),
        ("failover", "FAILING_BACK", "The same heliograph failback west goes on with it"),
        ("switch-back", "FAILED_OVER", "switch --back is for topics that are REVERSING"),
        ("switch-back", "FAILED_OVER", "First: heliograph failback west"),
        ("failback", "PROMOTING", "heliograph timeline west says what"),
        ("failback", None, "There is nothing to fail back"),
        ("promote", "FAILED_OVER", "promote is for topics that are mirrored or PROMOTING"),
    ],
)
def test_who_is_refused_is_told_what_to_do_instead(
    verb: Verb, state: StageState | None, told: str
) -> None:
    with pytest.raises(Unsafe) as refused:
        left(verb, ["orders"], {"orders": stage(state)} if state else {})
    assert told in str(refused.value) and "Nothing was done. " in str(refused.value)


def test_who_means_too_many_topics_is_told_how_to_mean_fewer() -> None:
    with pytest.raises(Unsafe, match="For the other topics alone: --topics REGEX"):
        left("promote", ["more", "orders"], {"orders": stage("FAILED_OVER")})


def test_failback_without_a_failover_is_refused() -> None:
    with pytest.raises(Unsafe, match="neither promoted nor failed over"):
        left("failback", ["orders"], {})


def test_an_unfinished_verb_goes_on_whatever_its_stages_are_by_now() -> None:
    unfinished = Recovery("id", "failover", "me", 0, ("orders",))
    stages = {"orders": stage("FAILED_OVER")}
    assert left("failover", ["orders"], stages, unfinished) == ["orders"]


def test_another_verb_waits_for_an_unfinished_one() -> None:
    unfinished = Recovery("id", "failover", "somebody", 0, ("orders",), done=("before", "close"))
    with pytest.raises(Unsafe, match="begun by somebody as id, has not ended") as refused:
        left("promote", ["orders"], {}, unfinished)
    assert "the same heliograph failover west goes on" in str(refused.value)
    unfinished = Recovery("id", "switch-back", "somebody", 0, ("orders",), done=("fence",))
    with pytest.raises(Unsafe, match="a switch --back of this link"):
        left("failback", ["orders"], {}, unfinished)


def test_a_verb_that_did_nothing_yet_keeps_nobody_waiting() -> None:
    unfinished = Recovery("id", "failback", "somebody", 0, ("orders",), done=("before",))
    assert left("promote", ["orders"], {}, unfinished) == ["orders"]


def test_a_promotion_whose_source_died_is_finished_as_a_failover() -> None:
    unfinished = Recovery("id", "promote", "me", 0, ("orders",))
    stages = {"orders": stage("PROMOTING", copies=True)}
    assert left("failover", ["orders"], stages, unfinished) == ["orders"]


@pytest.mark.parametrize("verb", ["switch-back", "failback", "promote"])
def test_nothing_that_is_unfinished_keeps_a_mirrored_topic_from_failing_over(verb: Verb) -> None:
    unfinished = Recovery("id", verb, "me", 0, ("orders",))
    assert left("failover", ["orders"], {}, unfinished) == ["orders"]
    with pytest.raises(Unsafe, match="orders is REVERSING"):
        left("failover", ["orders"], {"orders": stage("REVERSING")}, unfinished)


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
    assert [(one["at"], one["step"], one["outcome"]) for one in shown] == [
        ("1970-01-01T00:00:00.002Z", "drain", "failed"),
        ("1970-01-01T00:00:00.003Z", "close", "begun"),
    ]
