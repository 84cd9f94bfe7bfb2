"""The follower on real brokers: a mirror that grows is a prefix at all times, or is told."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.checker.follow import following
from tests.doubles.mirrored import Image, Pair
from tests.making import create_topic


@pytest.fixture
def pair(source: Any, target: Any, topic_name: str) -> Pair:
    """A filled source; its mirror does not exist yet."""
    create_topic(source.bootstrap, topic_name)
    pair = Pair(source.bootstrap, target.bootstrap, topic_name)
    pair.fill()
    return pair


def write(pair: Pair, images: list[Image]) -> None:
    producer = Producer({"bootstrap.servers": pair.target})
    for image in images:
        pair.send(producer, image)
    assert producer.flush(20) == 0


def test_a_mirror_that_is_made_and_grows_under_its_readers_is_clean(pair: Pair) -> None:
    with following(pair.source, pair.target, {pair.topic: pair.topic}, stuck_s=20) as followers:
        followers.healed()
        create_topic(pair.target, pair.topic)
        for at in range(0, 30, 5):
            write(pair, pair.images[at : at + 5])
        followers.catch_up(within_s=30)
    assert followers.anomalies == []
    assert [follower.images for follower in followers.each] == [30, 30]


def skip(images: list[Image]) -> None:
    del images[3]


def repeat(images: list[Image]) -> None:
    images.insert(5, images[2])


def change(images: list[Image]) -> None:
    images[4].seen = images[4].seen._replace(value=b"changed")


@pytest.mark.parametrize(
    ("inject", "name"), [(skip, "reordered"), (repeat, "duplicate"), (change, "mismatch")]
)
def test_what_is_no_prefix_of_the_source_is_told_by_each_reader(
    pair: Pair, inject: Callable[[list[Image]], None], name: str
) -> None:
    create_topic(pair.target, pair.topic)
    inject(pair.images)
    with following(pair.source, pair.target, {pair.topic: pair.topic}) as followers:
        write(pair, pair.images)
        followers.catch_up(within_s=30)
    assert [str(anomaly.name) for anomaly in followers.anomalies] == [name, name]


def test_an_image_that_the_source_never_had_is_a_phantom(pair: Pair) -> None:
    create_topic(pair.target, pair.topic)
    with following(pair.source, pair.target, {pair.topic: pair.topic}) as followers:
        write(pair, pair.images)
        followers.catch_up(within_s=30)
        write(pair, [Image(pair.images[0].seen._replace(value=b"invented"), None)])
        followers.see_mirror(within_s=30)
    assert [str(anomaly.name) for anomaly in followers.anomalies] == ["phantom", "phantom"]


def test_a_record_that_is_not_copied_in_time_after_healing_is_stuck(pair: Pair) -> None:
    create_topic(pair.target, pair.topic)
    with following(pair.source, pair.target, {pair.topic: pair.topic}, stuck_s=0.5) as followers:
        write(pair, pair.images[:10])
        followers.healed()
        followers.catch_up(within_s=30)
    assert [str(anomaly.name) for anomaly in followers.anomalies] == ["stuck", "stuck"]
    assert {anomaly.source for anomaly in followers.anomalies} == {(10, 11)}


def test_a_gap_is_allowed_where_the_test_says_so(pair: Pair) -> None:
    create_topic(pair.target, pair.topic)
    del pair.images[10:15]
    ends = (pair.source, pair.target, {pair.topic: pair.topic})
    with following(*ends, gaps_ok=True) as followers:
        write(pair, pair.images)
        followers.catch_up(within_s=30)
    assert followers.anomalies == []
