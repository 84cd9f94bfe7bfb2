"""Where links lead: cycles are found, and what is none is left alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.topology import Cycle, Flow, Spot, examples, find_cycles, judge

PREFIX = "{source}.{topic}"


def flow(way: str, *topics: str, naming: str = "{topic}", local: bool = False) -> Flow:
    """Make a flow from "a-b": its link, its source and its target."""
    source, target = way.split("-")
    return Flow(way, source, target, topics or ("orders",), (), naming, local)


def found(flows: list[Flow], *starts: Spot) -> list[Cycle]:
    """Return one cycle for each set of links."""
    return [alike[0] for alike in find_cycles(flows, starts or examples(flows))]


def codes(flows: list[Flow], *starts: Spot) -> list[str]:
    return [judge(alike).code for alike in find_cycles(flows, starts or examples(flows))]


@pytest.mark.parametrize("ways", [["a-b", "b-a"], ["a-b", "b-c", "c-a"]])
def test_links_that_lead_back_under_the_same_name_are_a_cycle(ways: list[str]) -> None:
    (cycle,) = found([flow(way) for way in ways])
    assert cycle.repeats and cycle.links == tuple(ways)
    assert cycle.spots[0] == cycle.spots[-1] == Spot("a", "orders")


def test_a_cycle_is_told_with_its_way_its_topics_and_a_remedy() -> None:
    flows = [flow("paris-dublin", "orders", "payments"), flow("dublin-paris", "orders", "pay.*")]
    (alike,) = find_cycles(flows, examples(flows))
    told = judge(alike)
    assert (told.severity, told.code) == ("error", "cycle")
    assert told.where == "links paris-dublin, dublin-paris"
    assert "paris → dublin → paris: records of orders, payments come back" in told.finding
    assert "origin: local on each" in told.remedy and "naming: prefix" in told.remedy


@pytest.mark.parametrize(
    "flows",
    [
        [flow("a-b"), flow("b-c"), flow("c-d")],
        [flow("a-b"), flow("a-c"), flow("b-d"), flow("c-d", naming=PREFIX)],
        [flow("a-b"), flow("b-a", "payments")],
        [flow("a-b", naming=PREFIX), flow("b-a", naming=PREFIX)],
        [flow("a-b", "o.*", naming=PREFIX), flow("b-a", "o.*", naming=PREFIX)],
        [flow("a-a", naming="copy-{topic}")],
        [flow("a-b", ".*", local=True), flow("b-a", ".*", local=True)],
    ],
)
def test_what_never_leads_back_is_no_cycle(flows: list[Flow]) -> None:
    assert found(flows) == []


def test_every_link_of_two_must_be_local() -> None:
    """The other one would bring back what the local one copied."""
    (cycle,) = found([flow("a-b"), flow("b-a", local=True)])
    assert cycle.repeats and cycle.links == ("b-a", "a-b")


def test_names_that_grow_are_a_cycle_and_its_remedy_ends_it() -> None:
    flows = [flow("a-b", ".*", naming=PREFIX), flow("b-a", ".*", naming=PREFIX)]
    (alike,) = find_cycles(flows, examples(flows))
    told = judge(alike)
    assert alike[0].repeats and alike[0].spots[-1] == Spot("a", "b.a.any")
    assert "come back under other names (b.a.any), which a-b copies again" in told.finding
    assert r"add 'b\..*' to exclude of a-b, 'a\..*' to exclude of b-a" in told.remedy
    excluded = [replace(flows[0], exclude=(r"b\..*",)), replace(flows[1], exclude=(r"a\..*",))]
    assert found(excluded) == []


def test_a_link_within_one_cluster_that_takes_its_own_mirrors_is_a_cycle() -> None:
    within = flow("a-a", ".*", naming="copy-{topic}")
    assert codes([within]) == ["cycle"]
    assert codes([replace(within, exclude=("copy-.*",))]) == []


def test_records_that_come_back_once_are_a_warning() -> None:
    flows = [flow("a-b", naming=PREFIX), flow("b-a", ".*", naming=PREFIX)]
    (cycle,) = found(flows, Spot("a", "orders"))
    assert not cycle.repeats and cycle.spots[-1] == Spot("a", "b.a.orders")
    assert codes(flows, Spot("a", "orders")) == ["mirror-returns"]


def test_a_cycle_away_from_where_a_topic_began_is_found() -> None:
    flows = [flow("a-b"), flow("a-c"), flow("b-c"), flow("c-b")]
    assert [set(one.links) for one in found(flows, Spot("a", "orders"))] == [{"b-c", "c-b"}]


def test_topics_that_exist_show_what_patterns_hide() -> None:
    flows = [flow("a-b", "[xy]+"), flow("b-a", "(x|y)*")]
    assert list(examples(flows)) == [] == found(flows)
    assert [one.repeats for one in found(flows, Spot("b", "xy"))] == [True]


def test_our_own_topics_go_nowhere() -> None:
    flows = [flow("a-b", ".*"), flow("b-a", ".*")]
    assert found(flows, Spot("a", "__heliograph.a-b.ledger")) == []


CLUSTERS = "abcd"
TOPICS = st.sampled_from([("x",), ("x", "y"), (".*",), ("x.*",), (r"a\..*", "x")])
FLOWS = st.builds(
    lambda ends, topics, naming, local, at: Flow(
        f"{ends[0]}-{ends[1]}-{at}", ends[0], ends[1], topics, (), naming, local
    ),
    st.permutations(CLUSTERS).map(lambda order: (order[0], order[1])),
    TOPICS,
    st.sampled_from(["{topic}", PREFIX, "m-{topic}"]),
    st.booleans(),
    st.integers(0, 3),
)
STARTS = [Spot(cluster, topic) for cluster in CLUSTERS for topic in ("x", "y", "xy")]


@given(st.lists(FLOWS, max_size=7))
def test_links_that_only_lead_forward_are_never_refused(flows: list[Flow]) -> None:
    assert found([one for one in flows if one.source < one.target], *STARTS) == []


@given(st.lists(FLOWS, max_size=7))
def test_who_follows_a_cycle_by_hand_comes_back(flows: list[Flow]) -> None:
    for alike in find_cycles(flows, STARTS):
        for cycle in alike:
            spot = cycle.spots[0]
            for step, there in zip(cycle.flows, cycle.spots[1:], strict=True):
                spot = step.carry(spot) or pytest.fail(f"{step} does not copy {spot}")
                assert spot == there
            assert spot.cluster == cycle.spots[0].cluster
            again = cycle.flows[0].carry(spot) is not None and not cycle.flows[0].is_local
            assert cycle.repeats == (spot == cycle.spots[0] or again)
            assert not any(step.is_local for step in cycle.flows[1:])


@given(st.lists(FLOWS, max_size=7))
def test_where_no_cycle_repeats_all_ways_end(flows: list[Flow]) -> None:
    """Follow every way blindly. Names grow by two letters a step: 100 steps fit in any name."""
    if any(cycle.repeats for cycle in found(flows, *STARTS)):
        return
    spots = {(start, False) for start in STARTS}
    for _ in range(100):
        spots = {
            (there, True)
            for spot, is_copy in spots
            for step in flows
            if not (is_copy and step.is_local)
            if (there := step.carry(spot)) is not None
        }
    assert spots == set()
