"""Whether a cluster as a whole is able to lose a site."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from heliograph.model.findings import Finding, Side
from heliograph.model.stretch import closest, leaders, quorum, racks, sites_of
from heliograph.model.topics import Broker, PartitionView, TopicView

SIDE = Side("prod", "prod-1:9092", "User:admin")
CLOSEST = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def brokers(*sites: str | None) -> dict[int, Broker]:
    return {number: Broker(number, "h", 9092, site) for number, site in enumerate(sites, 1)}


def outcomes(found: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in found]


@pytest.mark.parametrize(
    ("sites", "expected"),
    [
        (("a", "b", "c"), []),
        (("a", "b", "c", "d", "e"), []),
        (("a", "a", "a"), [("error", "one-site")]),
        (("a",), [("error", "one-site")]),
        (("a", "b", "a", "b"), [("warning", "two-sites")]),
        ((None, None), [("error", "rack-missing")]),
        (("a", None, "b", "c"), [("error", "rack-missing")]),
        (("a", "", "a"), [("error", "rack-missing")]),
    ],
)
def test_every_broker_names_a_site_and_there_are_three(
    sites: tuple[str | None, ...], expected: list[tuple[str, str]]
) -> None:
    assert outcomes(racks(SIDE, brokers(*sites))) == expected


def test_brokers_without_a_site_are_named() -> None:
    (found,) = racks(SIDE, brokers("a", None, "b", None, "c"))
    assert "brokers 2, 4 do not say" in found.finding and "broker.rack" in found.remedy
    assert sites_of(brokers("a", None, "b")) == {1: "a", 3: "b"}


@pytest.mark.parametrize(
    ("sites", "voters", "expected"),
    [
        ("abc", [1, 2, 3], []),
        ("abcde", [1, 2, 3, 4, 5], []),
        ("aabbc", [1, 2, 3, 4, 5], []),
        ("aab", [1, 2, 3], [("error", "quorum-in-one-site")]),
        ("aaabc", [1, 2, 3, 4, 5], [("error", "quorum-in-one-site")]),
        ("ab", [1, 2], [("error", "quorum-too-small")]),
        ("abc", [1], [("error", "quorum-too-small")]),
        ("abc", [101], [("error", "quorum-too-small")]),
        ("abcd", [1, 2, 3, 4], [("warning", "quorum-even")]),
        ("aabb", [1, 2, 3, 4], [("error", "quorum-in-one-site"), ("warning", "quorum-even")]),
        ("abc", [101, 102, 103], [("warning", "quorum-sites-unknown")]),
        ("ab", [1, 2, 101], [("warning", "quorum-sites-unknown")]),
        ("aab", [1, 2, 101], [("error", "quorum-in-one-site")]),
        # Wherever the one that is not known stands, three of five are left.
        ("abcd", [1, 2, 3, 4, 101], []),
    ],
)
def test_no_site_holds_a_majority_of_the_voters(
    sites: str, voters: list[int], expected: list[tuple[str, str]]
) -> None:
    assert outcomes(quorum(SIDE, voters, sites_of(brokers(*sites)))) == expected


def test_voters_whose_site_is_not_known_are_named_with_what_must_hold() -> None:
    (found,) = quorum(SIDE, [101, 102, 103], sites_of(brokers("a", "b", "c")))
    assert "voters 101, 102, 103 of 3" in found.finding and "have no rack" in found.finding
    assert "no site may hold more than 1 of the 3" in found.remedy


def led(*partitions: tuple[int | None, tuple[int, ...]]) -> dict[str, TopicView]:
    views = {
        number: PartitionView(number, leader, 0, replicas, replicas)
        for number, (leader, replicas) in enumerate(partitions)
    }
    return {"orders": TopicView("orders", UUID(int=1), views)}


SITES = {1: "a", 2: "b", 3: "c"}


def test_leaders_in_one_site_are_a_note_with_an_election_where_that_helps() -> None:
    accident = led((1, (1, 2, 3)), (1, (2, 3, 1)), (1, (3, 1, 2)))
    (found,) = leaders(SIDE, accident, SITES)
    assert (found.severity, found.code) == ("note", "leaders-in-one-site")
    assert found.remedy.startswith("kafka-leader-election.sh ") and "site a" in found.finding
    (found,) = leaders(SIDE, led(*[(1, (1, 2, 3))] * 3), SITES)
    assert "reassign" in found.remedy


@pytest.mark.parametrize(
    ("topics", "sites"),
    [
        (led((1, (1, 2)), (2, (2, 1)), (1, (1, 3))), SITES),
        (led((1, (1, 2, 3))), SITES),
        (led(*[(1, (1, 2))] * 3), {1: "a", 2: "a"}),
        (led(*[(9, (9, 1))] * 3), SITES),
        (led(*[(None, (1, 2))] * 3), SITES),
        ({}, SITES),
    ],
)
def test_leaders_that_are_few_or_spread_or_unknown_are_none(
    topics: dict[str, TopicView], sites: dict[int, str]
) -> None:
    assert list(leaders(SIDE, topics, sites)) == []


def test_brokers_that_do_not_serve_the_closest_are_a_note() -> None:
    assert list(closest(SIDE, {1: CLOSEST, 2: CLOSEST})) == []
    (found,) = closest(SIDE, {1: CLOSEST, 2: ""})
    assert (found.severity, found.code) == ("note", "reads-cross-sites")
    assert "brokers 2 do" in found.finding and "client.rack" in found.remedy
