"""The admin layer on real brokers: what it says is what the cluster holds."""

import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from heliograph.errors import (
    ClusterError,
    DeadlinePassed,
    RequestRefused,
    TopicExists,
    TopicMissing,
    TopicRecreated,
)
from heliograph.kafka.admin import ALL_BROKERS, Admin, At
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import ClientSettings, Endpoint, parse
from heliograph.model.configs import ConfigSource, NewTopic
from heliograph.model.groups import Committed, GroupListing
from heliograph.model.topics import Partition

WITHIN = timedelta(seconds=20)


def settings_of(cluster: Any, user: str | None = None) -> ClientSettings:
    return parse(cluster.name, cluster.client_properties(user), allow_literal_secrets=True)


def wait_until(claim: Callable[[], bool]) -> None:
    deadline = Deadline.after(WITHIN)
    while not claim():
        assert not deadline.passed, "it did not come true in time"
        time.sleep(0.05)


@pytest.fixture
def admin(source: Any) -> Iterator[Admin]:
    with Admin(settings_of(source), "source") as made:
        yield made


@pytest.fixture
def topic(admin: Admin, topic_name: str) -> str:
    admin.topics.create(NewTopic(topic_name, partitions=2))
    admin.topics.await_leaders([topic_name])
    return topic_name


def write(source: Any, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": source.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(10) == 0


def test_a_cluster_tells_its_id_and_its_brokers(admin: Admin, source: Any) -> None:
    view = admin.describe()
    assert view.cluster_id
    assert f"{view.brokers[next(iter(view.brokers))].port}" in source.bootstrap


def test_a_created_topic_is_described_with_its_id_partitions_and_leaders(
    admin: Admin, topic_name: str
) -> None:
    topic_id = admin.topics.create(NewTopic(topic_name, partitions=3, replication_factor=1))
    admin.topics.await_leaders([topic_name])
    view = admin.topics.describe([topic_name, "absent"])
    assert list(view) == [topic_name]
    assert view[topic_name].topic_id == topic_id
    assert view[topic_name].topic_id.int != 0
    assert list(view[topic_name].partitions) == [0, 1, 2]
    assert all(part.leader == part.replicas[0] for part in view[topic_name].partitions.values())
    assert topic_name in admin.topics.names()


def test_a_topic_made_anew_has_another_id(admin: Admin, topic: str) -> None:
    before = admin.topics.describe([topic])[topic].topic_id
    admin.topics.delete(before)
    wait_until(lambda: topic not in admin.topics.describe([topic]))
    after = admin.topics.create(NewTopic(topic))
    assert after != before
    with pytest.raises(TopicRecreated):
        admin.topics.delete(before)


def test_validation_creates_nothing(admin: Admin, topic_name: str) -> None:
    admin.topics.create(NewTopic(topic_name), validate_only=True)
    with pytest.raises(RequestRefused, match="INVALID_CONFIG"):
        admin.topics.create(
            NewTopic(topic_name, configs={"no.such.setting": "1"}), validate_only=True
        )
    assert topic_name not in admin.topics.names()


def test_one_refused_topic_does_not_hide_the_others(admin: Admin, topic: str) -> None:
    fresh = f"{topic}.fresh"
    outcome = admin.topics.create_many([NewTopic(topic), NewTopic(fresh)])
    assert isinstance(outcome[topic], TopicExists)
    assert "TOPIC_ALREADY_EXISTS" in str(outcome[topic])
    assert not isinstance(outcome[fresh], Exception)


def test_a_topic_can_be_assigned_by_hand(admin: Admin, topic_name: str) -> None:
    broker = next(iter(admin.describe().brokers))
    admin.topics.create(NewTopic(topic_name, assignments={0: (broker,), 1: (broker,)}))
    admin.topics.await_leaders([topic_name])
    assert admin.topics.describe([topic_name])[topic_name].partitions[1].replicas == (broker,)


def test_partitions_grow_and_never_shrink(admin: Admin, topic: str) -> None:
    admin.topics.grow(topic, 3, validate_only=True)
    admin.topics.grow(topic, 4)
    wait_until(lambda: len(admin.topics.describe([topic])[topic].partitions) == 4)
    with pytest.raises(RequestRefused, match="INVALID_PARTITIONS"):
        admin.topics.grow(topic, 2)


def test_deleting_an_absent_topic_says_so(admin: Admin) -> None:
    with pytest.raises(TopicMissing, match="deleting topic never-made"):
        admin.topics.delete("never-made")


def test_topic_settings_show_defaults_and_their_sources(admin: Admin, topic: str) -> None:
    admin.configs.change_topic(topic, put={"retention.ms": "12345"})
    configs = admin.configs.of_topics([topic])[topic]
    assert configs["retention.ms"].value == "12345"
    assert configs["retention.ms"].source is ConfigSource.TOPIC
    assert configs["max.message.bytes"].is_default
    assert configs["cleanup.policy"].value == "delete"


def test_changing_one_setting_leaves_the_others(admin: Admin, topic: str) -> None:
    admin.configs.change_topic(topic, put={"retention.ms": "1000", "segment.bytes": "2000000"})
    admin.configs.change_topic(topic, put={"cleanup.policy": "compact"}, remove=["retention.ms"])
    configs = admin.configs.of_topics([topic])[topic]
    assert configs["retention.ms"].source is not ConfigSource.TOPIC
    assert configs["segment.bytes"].value == "2000000"
    assert configs["cleanup.policy"].value == "compact"


def test_a_wrong_setting_is_refused_in_the_brokers_words(admin: Admin, topic: str) -> None:
    with pytest.raises(RequestRefused, match=r"INVALID_CONFIG.*retention\.ms"):
        admin.configs.change_topic(topic, put={"retention.ms": "soon"})


def test_settings_of_an_absent_topic_are_an_error_and_not_empty(admin: Admin) -> None:
    with pytest.raises(TopicMissing):
        admin.configs.of_topics(["never-made"])


def test_broker_settings_can_be_read_and_set_for_one_and_for_all(admin: Admin) -> None:
    def has_cleaner_threads(whose: int | None) -> bool:
        return "log.cleaner.threads" in admin.configs.of_broker(whose)

    broker = next(iter(admin.describe().brokers))
    assert "producer.id.expiration.ms" in admin.configs.of_broker(broker)
    for whose in (broker, ALL_BROKERS):
        admin.configs.change_broker(whose, put={"log.cleaner.threads": "1"})
        wait_until(partial(has_cleaner_threads, whose))
        admin.configs.change_broker(whose, remove=["log.cleaner.threads"])
    wait_until(lambda: not has_cleaner_threads(ALL_BROKERS))


def test_offsets_are_found_by_end_and_by_time(admin: Admin, source: Any, topic: str) -> None:
    begin = datetime.now(UTC) - timedelta(minutes=1)
    write(source, topic, [b"a", b"b", b"c"])
    first, second = Partition(topic, 0), Partition(topic, 1)
    both = [first, second]
    assert admin.logs.offsets(both, At.EARLIEST) == {first: 0, second: 0}
    assert admin.logs.offsets(both, At.LATEST, read_committed=True) == {first: 3, second: 0}
    assert admin.logs.offsets(both, begin) == {first: 0, second: None}
    with pytest.raises(TopicMissing):
        admin.logs.offsets([Partition(topic, 99)], At.LATEST)


def test_an_open_transaction_holds_back_the_committed_end(
    admin: Admin, source: Any, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(10)
    part = Partition(topic, 0)
    assert admin.logs.offsets([part], At.LATEST, read_committed=True) == {part: 0}
    assert admin.logs.offsets([part], At.LATEST) == {part: 1}
    (seen,) = admin.logs.producers([part])[part]
    assert seen.transaction_start_offset == 0
    assert seen.last_sequence == 0
    producer.abort_transaction(10)


def test_deleted_records_move_the_start(admin: Admin, source: Any, topic: str) -> None:
    write(source, topic, [b"a", b"b", b"c"])
    part = Partition(topic, 0)
    assert admin.logs.delete_records({part: 2}) == {part: 2}
    assert admin.logs.offsets([part], At.EARLIEST) == {part: 2}
    with pytest.raises(ClusterError, match="OFFSET_OUT_OF_RANGE"):
        admin.logs.delete_records({part: 99})


def test_offsets_committed_from_outside_are_what_a_consumer_gets(
    admin: Admin, source: Any, topic: str
) -> None:
    write(source, topic, [b"a", b"b", b"c"])
    part, group = Partition(topic, 0), f"group.{topic}"
    admin.groups.commit(group, {part: Committed(2, metadata="by hand")})
    assert admin.groups.committed([group, "never-made"]) == {
        group: {part: Committed(2, metadata="by hand")},
        "never-made": {},
    }
    consumer = Consumer({"bootstrap.servers": source.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    try:
        record = consumer.poll(20)
        assert record is not None
        assert record.value() == b"c"
    finally:
        consumer.close()


def test_groups_are_listed_with_state_and_kind(admin: Admin, topic: str) -> None:
    group = f"group.{topic}"
    admin.groups.commit(group, {Partition(topic, 0): Committed(0)})
    (mine,) = [one for one in admin.groups.listing() if one.group == group]
    assert mine == GroupListing(group, "Empty", "classic", "")
    assert mine.is_idle
    assert group in [one.group for one in admin.groups.listing(states=["Empty"])]
    assert group not in [one.group for one in admin.groups.listing(states=["Stable"])]
    assert group not in [one.group for one in admin.groups.listing(kinds=["consumer"])]


def test_a_live_group_shows_its_members_and_cannot_be_changed(
    admin: Admin, source: Any, topic: str
) -> None:
    group = f"group.{topic}"
    consumer = Consumer({"bootstrap.servers": source.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    try:
        deadline = Deadline.after(WITHIN)
        while not consumer.assignment() and not deadline.passed:
            consumer.poll(0.1)
        (view,) = admin.groups.describe([group])
        assert (view.state, len(view.members)) == ("Stable", 1)
        assert view.members[0].assigned == (Partition(topic, 0), Partition(topic, 1))
        with pytest.raises(RequestRefused, match="stop them first"):
            admin.groups.commit(group, {Partition(topic, 0): Committed(0)})
        with pytest.raises(RequestRefused, match="NON_EMPTY_GROUP"):
            admin.groups.delete(group)
    finally:
        consumer.close()


def test_offsets_and_groups_can_be_deleted(admin: Admin, topic: str) -> None:
    group, part = f"group.{topic}", Partition(topic, 0)
    admin.groups.commit(group, {part: Committed(0), Partition(topic, 1): Committed(0)})
    admin.groups.forget(group, [part])
    assert list(admin.groups.committed([group])[group]) == [Partition(topic, 1)]
    admin.groups.delete(group)
    assert group not in [one.group for one in admin.groups.listing()]
    with pytest.raises(RequestRefused, match="GROUP_ID_NOT_FOUND"):
        admin.groups.delete(group)
    assert [view.state for view in admin.groups.describe([group])] == ["Dead"]


def test_a_cluster_without_authorizer_says_that_it_has_no_acls(admin: Admin) -> None:
    with pytest.raises(RequestRefused, match="no authorizer"):
        admin.acls.matching()


def test_a_silent_broker_ends_at_the_deadline() -> None:
    begin = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ClientSettings("lost", (Endpoint("127.0.0.1", silent.getsockname()[1]),))
        with Admin(settings, "lost") as admin, pytest.raises(DeadlinePassed, match="cluster lost"):
            admin.topics.names(Deadline.after(timedelta(seconds=1)))
    assert time.monotonic() - begin < 3


def test_leaders_can_be_moved_and_elected(
    private_cluster: Callable[..., Any], topic_name: str
) -> None:
    cluster = private_cluster(nodes=2)
    with Admin(settings_of(cluster), cluster.name) as admin:
        one, two = sorted(admin.describe().brokers)
        part = Partition(topic_name, 0)
        admin.topics.create(NewTopic(topic_name, assignments={0: (one, two)}))
        admin.topics.await_leaders([topic_name])

        def leader() -> int | None:
            return admin.topics.describe([topic_name])[topic_name].partitions[0].leader

        assert leader() == one
        admin.logs.reassign({part: (two, one)})
        wait_until(lambda: part not in admin.logs.moving())
        admin.logs.elect_preferred([part])
        wait_until(lambda: leader() == two)
        admin.logs.elect_preferred([part])
        admin.logs.reassign({part: (one,)})
        wait_until(lambda: leader() == one)


def test_a_killed_or_paused_broker_is_outlived_or_told_in_time(
    private_cluster: Callable[..., Any], topic_name: str
) -> None:
    cluster = private_cluster()
    node = cluster.node(1)
    part = Partition(topic_name, 0)
    with Admin(settings_of(cluster), cluster.name) as admin:
        admin.topics.create(NewTopic(topic_name))
        admin.groups.commit("group", {part: Committed(0)})
        node.kill()
        with pytest.raises(ClusterError):
            admin.topics.names(Deadline.after(timedelta(seconds=1)))
        node.start()
        # The coordinator loads anew: errors that heal are waited out.
        admin.groups.commit("group", {part: Committed(1)}, Deadline.after(WITHIN))
        assert admin.groups.committed(["group"])["group"][part].offset == 1

        node.pause()
        begin = time.monotonic()
        with pytest.raises(DeadlinePassed):
            admin.topics.names(Deadline.after(timedelta(seconds=1)))
        assert time.monotonic() - begin < 3
        node.resume()
        assert topic_name in admin.topics.names(Deadline.after(WITHIN))
