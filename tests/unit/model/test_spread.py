"""What is left of topics when a site is lost."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.configs import ConfigEntry, ConfigSource
from heliograph.model.findings import Finding, Settings, Side
from heliograph.model.spread import (
    FLOOR,
    UNCLEAN,
    Cure,
    Spread,
    cure,
    defaults,
    even,
    moment,
    placement,
    unclean,
)
from heliograph.model.topics import PartitionView, TopicView

SIDE = Side("prod", "prod-1:9092", "User:admin")
THREE = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
TWO = {1: "a", 2: "b", 3: "a", 4: "b"}


def topic(
    name: str,
    *replicas: Sequence[int],
    in_sync: Sequence[int] | None = None,
    internal: bool = False,
) -> TopicView:
    partitions = {
        number: PartitionView(number, one[0], 0, tuple(one), tuple(in_sync or one))
        for number, one in enumerate(replicas)
    }
    return TopicView(name, UUID(int=1), partitions, internal)


def entries(values: dict[str, str]) -> Settings:
    return {name: ConfigEntry(name, value, ConfigSource.TOPIC) for name, value in values.items()}


def judged(views: Sequence[TopicView], floor: int, sites: dict[int, str]) -> list[Finding]:
    seen = {view.topic: view for view in views}
    settings = dict.fromkeys(seen, entries({FLOOR: str(floor)}))
    return list(placement(SIDE, seen, settings, sites))


def outcomes(
    views: Sequence[TopicView], floor: int, sites: dict[int, str]
) -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in judged(views, floor, sites)]


def test_three_replicas_in_three_sites_with_two_in_sync_outlive_any_site() -> None:
    assert judged([topic("orders", (1, 2, 3), (2, 3, 4))], 2, THREE) == []


def test_five_sites_allow_floors_from_two_to_four() -> None:
    sites = dict(enumerate("abcde"))
    views = [topic("orders", (0, 1, 2, 3, 4))]
    assert [outcomes(views, floor, sites) for floor in (2, 3, 4)] == [[], [], []]
    assert outcomes(views, 1, sites) == [("error", "site-loses-records")]
    assert outcomes(views, 5, sites) == [("error", "site-stops-writes")]


@pytest.mark.parametrize(
    ("replicas", "floor", "expected"),
    [
        ((1,), 1, [("error", "site-holds-all")]),
        ((1, 4), 2, [("error", "site-holds-all")]),
        ((1, 2, 3), 1, [("error", "site-loses-records")]),
        ((1, 2, 3), 3, [("error", "site-stops-writes")]),
        ((1, 4, 2), 2, [("error", "site-stops-writes"), ("warning", "site-loses-records")]),
        ((1, 2), 2, [("error", "site-stops-writes")]),
    ],
)
def test_what_a_lost_site_takes_with_it(
    replicas: tuple[int, ...], floor: int, expected: list[tuple[str, str]]
) -> None:
    assert outcomes([topic("orders", replicas)], floor, THREE) == expected


def test_two_sites_cannot_have_both() -> None:
    view = [topic("orders", (1, 2, 3, 4))]
    (found,) = judged(view, 2, TWO)
    assert (found.severity, found.code) == ("warning", "site-loses-records")
    assert "third site" in found.remedy
    assert outcomes(view, 3, TWO) == [("error", "site-stops-writes")]


@pytest.mark.parametrize("sites", [{}, {1: "a", 2: "a", 3: "a"}])
def test_without_two_sites_topics_are_not_told_apart(sites: dict[int, str]) -> None:
    assert judged([topic("orders", (1, 2, 3))], 1, sites) == []


def test_a_replica_whose_site_is_not_known_is_not_judged() -> None:
    assert judged([topic("orders", (1, 9))], 2, THREE) == []
    assert list(placement(SIDE, {"orders": topic("orders", (1,))}, {}, THREE)) == []


def test_thousands_of_topics_with_one_problem_are_one_finding() -> None:
    views = [topic(f"topic-{number:04}", (1, 2, 3), (2, 3, 1)) for number in range(3000)]
    (found,) = judged(views, 1, THREE)
    assert "topic-0000, topic-0001" in found.finding and "and 2990 more" in found.finding
    assert "topic-0000-0 has 3, 1 in one site, and min.insync.replicas 1" in found.finding
    assert found.remedy == (
        "For each of these topics, as TOPIC: kafka-configs.sh --bootstrap-server prod-1:9092"
        " --alter --topic TOPIC --add-config min.insync.replicas=2"
    )


def test_internal_topics_are_told_apart() -> None:
    views = [topic("orders", (1,)), topic("__consumer_offsets", (2,), internal=True)]
    found = judged(views, 1, THREE)
    assert [one.where for one in found] == ["cluster prod, topics", "cluster prod, internal topics"]


def test_a_remedy_for_one_topic_is_a_command() -> None:
    (found,) = judged([topic("orders", (1, 2, 3))], 1, THREE)
    assert found.remedy.startswith("kafka-configs.sh ") and "--topic orders" in found.remedy
    (found,) = judged([topic("orders", (1,))], 1, THREE)
    assert "3 replicas, spread evenly" in found.remedy
    assert "min.insync.replicas=2" in found.remedy
    found = judged([topic("orders", (1, 4, 2))], 2, THREE)[0]
    assert "its replicas, spread evenly" in found.remedy
    assert "kafka-configs" not in found.remedy


@pytest.mark.parametrize(
    ("spread", "floor", "sites", "expected"),
    [
        (Spread(3, 1), 3, 3, Cure(floor=2)),
        (Spread(4, 2), 2, 3, Cure(replicas=3, is_spread=True)),
        (Spread(2, 1), 2, 3, Cure(replicas=3, is_spread=True)),
        (Spread(3, 2), 2, 2, Cure(replicas=4, is_spread=True)),
        (Spread(4, 2), 1, 2, Cure(floor=2)),
        (Spread(4, 2), 2, 2, Cure()),
    ],
)
def test_a_cure_is_the_least_that_helps(
    spread: Spread, floor: int, sites: int, expected: Cure
) -> None:
    assert cure(spread, floor, sites) == expected


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(2, 6))
def test_a_cure_cures_over_three_sites_and_leaves_no_error_over_two(
    replicas: int, most: int, floor: int, sites: int
) -> None:
    spread = Spread(replicas, min(replicas, max(most, even(replicas, sites).most)))
    better = cure(spread, floor, sites)
    count = better.replicas or replicas
    after = even(count, sites) if better.is_spread else spread
    left = list(after.problems(better.floor or floor))
    assert left == [] if sites > 2 else all(severity == "warning" for _, severity in left)


def test_unclean_elections_are_found() -> None:
    settings = {"orders": entries({UNCLEAN: "true"}), "payments": entries({UNCLEAN: "false"})}
    (found,) = unclean(SIDE, settings)
    assert found.code == "unclean-election" and "orders" in found.finding
    assert found.remedy.endswith("--topic orders --add-config unclean.leader.election.enable=false")
    assert list(unclean(SIDE, {"payments": settings["payments"]})) == []


def momentary(view: TopicView, floor: int = 2) -> list[Finding]:
    settings = {view.topic: entries({FLOOR: str(floor)})}
    return list(moment(SIDE, {view.topic: view}, settings, THREE, THREE))


def test_replicas_that_are_behind_are_an_error_when_a_site_could_not_be_lost_now() -> None:
    assert momentary(topic("orders", (1, 2, 3))) == []
    (found,) = momentary(topic("orders", (1, 2, 3), in_sync=(1, 2)))
    assert (found.severity, found.code) == ("error", "out-of-sync")
    (found,) = momentary(topic("orders", (1, 2, 3, 4, 5), in_sync=(1, 2, 3)))
    assert (found.severity, found.code) == ("warning", "out-of-sync")


def test_replicas_on_brokers_that_are_away_are_an_error() -> None:
    found = momentary(topic("orders", (1, 2, 9), in_sync=(1, 2)))
    assert [one.code for one in found] == ["broker-away", "out-of-sync"]
    assert "brokers 9 hold replicas" in found[0].finding


def test_defaults_of_topics_to_come_are_warned_of() -> None:
    low = {
        "default.replication.factor": "1",
        FLOOR: "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    }
    found = list(defaults(SIDE, {}, entries(low), THREE))
    assert [one.where.partition(", ")[2] for one in found] == ["new topics", "__consumer_offsets"]
    assert found[0].remedy.startswith("Set default.replication.factor=3 and min.insync.replicas=2")
    high = low | {"default.replication.factor": "3", FLOOR: "2"}
    assert list(defaults(SIDE, {}, entries(high), THREE)) == []
    assert list(defaults(SIDE, {}, entries(low), {1: "a"})) == []
    assert list(defaults(SIDE, {}, {}, THREE)) == []


def test_internal_topics_that_exist_are_judged_as_they_are() -> None:
    low = entries({"offsets.topic.replication.factor": "1", FLOOR: "2"})
    seen = {"__consumer_offsets": topic("__consumer_offsets", (1, 2, 3))}
    assert list(defaults(SIDE, seen, low, THREE)) == []
