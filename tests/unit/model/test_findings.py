"""What `check` says, and the remedies it gives."""

import shlex
from datetime import timedelta
from uuid import UUID

import pytest

from heliograph.model.acls import Operation, Pattern, Resource
from heliograph.model.configs import ConfigEntry, ConfigSource
from heliograph.model.findings import (
    LONGEST_EXPIRATION_MS,
    NEEDS_OF_TARGET,
    Finding,
    Side,
    java,
    mirror_unfit,
    missing_acl,
    near,
    old_records,
    one_replica,
    quoted,
    replication,
    same_cluster,
    slots,
    too_old,
    worst_first,
)
from heliograph.model.topics import PartitionView, TopicView

SIDE = Side("dublin", "dublin-1:9092", "User:mirror")


def settings(**values: str) -> dict[str, ConfigEntry]:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return {name: ConfigEntry(name, value, ConfigSource.TOPIC) for name, value in named.items()}


SOURCE = settings(cleanup_policy="delete", max_message_bytes="2000")


def test_a_missing_acl_is_named_in_full_with_the_command_that_grants_it() -> None:
    found = missing_acl(
        "error",
        SIDE,
        [Operation.WRITE],
        Resource.TRANSACTIONAL_ID,
        ["heliograph.a-b."],
        "claiming",
        pattern=Pattern.PREFIXED,
    )
    assert found.where == "cluster dublin"
    expected = "User:mirror lacks Write on TransactionalId prefix heliograph.a-b. (for: claiming)"
    assert found.finding == expected
    assert found.remedy == (
        "kafka-acls.sh --bootstrap-server dublin-1:9092 --command-config admin.properties --add"
        " --allow-principal User:mirror --operation Write --transactional-id heliograph.a-b."
        " --resource-pattern-type prefixed"
    )


def test_one_command_grants_several_operations_on_several_topics() -> None:
    operations = [Operation.READ, Operation.DESCRIBE_CONFIGS]
    found = missing_acl("error", SIDE, operations, Resource.TOPIC, ["a", "b"], "copying")
    assert "lacks Read, DescribeConfigs on Topic a, b" in found.finding
    assert found.remedy.endswith("--operation Read --operation DescribeConfigs --topic a --topic b")
    operations = [Operation.DESCRIBE_CONFIGS]
    whole = missing_acl("warning", SIDE, operations, Resource.CLUSTER, ["kafka-cluster"], "x")
    assert whole.remedy.endswith("--operation DescribeConfigs --cluster")


@pytest.mark.parametrize("text", ["orders.v1", "it's", "a b", "$(rm)", "User:CN=mirror,O=x", ""])
def test_a_quoted_word_is_one_word_to_a_shell(text: str) -> None:
    assert shlex.split(quoted(text)) == [text]


def test_errors_stand_before_warnings_and_each_once() -> None:
    warning = Finding("warning", "w", "x", "y", "z")
    error = Finding("error", "e", "x", "y", "z")
    assert worst_first([warning, error, warning]) == [error, warning]


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, []),
        ({"message_timestamp_type": "LogAppendTime"}, ["mirror-append-time"]),
        ({"cleanup_policy": "compact,delete"}, ["mirror-compacted"]),
        ({"max_message_bytes": "1999"}, ["mirror-too-small"]),
        ({"max_message_bytes": "3000"}, []),
    ],
)
def test_a_mirror_that_cannot_hold_what_its_source_holds_is_found(
    changed: dict[str, str], codes: list[str]
) -> None:
    target = SOURCE | settings(**changed)
    found = list(mirror_unfit("link a-b, topic t", "t", "b:9092", SOURCE, target))
    assert [one.code for one in found] == codes
    assert all(one.remedy.startswith("kafka-configs.sh --bootstrap-server b:9092") for one in found)


def test_a_compacted_mirror_of_a_compacted_source_is_right() -> None:
    both = SOURCE | settings(cleanup_policy="compact")
    assert list(mirror_unfit("x", "t", "b:9092", both, both)) == []


def test_old_records_name_the_limit_that_covers_them() -> None:
    day = timedelta(days=1)
    found = old_records("link a-b", "b:9092", 2 * day, day, ["orders-0"])
    # Up to twice as old as they surely are, and half the limit counts as old already.
    assert f"producer.id.expiration.ms={8 * 86_400_000}" in found.remedy
    assert "allow_broker_settings: true" in found.remedy
    assert "more than 48 hours old" in found.finding or "more than 2 days old" in found.finding
    found = old_records("link a-b", "b:9092", 30 * day, day, ["orders-0"])
    assert f"producer.id.expiration.ms={LONGEST_EXPIRATION_MS}" in found.remedy


def test_the_same_cluster_is_refused_unless_it_is_allowed_and_names_differ() -> None:
    def found(is_allowed: bool, renames: bool) -> list[str]:
        made = same_cluster("l", "a", "b", "id", is_allowed=is_allowed, renames=renames)
        return [one.remedy for one in made]

    assert found(is_allowed=True, renames=True) == []
    assert "naming: prefix" in found(is_allowed=True, renames=False)[0]
    assert "allow_same_cluster: true" in found(is_allowed=False, renames=True)[0]


def test_more_replicas_than_brokers_is_an_error() -> None:
    assert [one.code for one in replication("x", 3, 2)] == ["replication-factor"]
    assert list(replication("x", 3, 3)) == []


@pytest.mark.parametrize(
    ("master", "tasks", "codes"),
    [
        ("local", [40, 1], []),
        ("local[4]", [2, 2], []),
        ("local[4]", [4, 1], ["slots-short"]),
        ("local-cluster[2,1,1024]", [3], ["slots-short"]),
        ("spark://host:7077", [400], []),
    ],
)
def test_too_few_slots_are_found_where_the_master_tells(
    master: str, tasks: list[int], codes: list[str]
) -> None:
    found = list(slots(master, tasks, cores=2))
    assert [one.code for one in found] == codes
    assert all(one.remedy.startswith("Give Spark") for one in found)


@pytest.mark.parametrize(
    ("version", "codes"), [(17, []), (21, []), (11, ["java-too-old"]), (None, ["java-unknown"])]
)
def test_spark_needs_java_17(version: int | None, codes: list[str]) -> None:
    assert [one.code for one in java(version, "java")] == codes


def test_the_nearest_names_are_told() -> None:
    assert near("order", ["orders", "payments"]) == " The nearest: orders."
    assert near("zzz", ["orders"]) == ""


def test_own_topics_of_one_replica_are_named_where_there_could_be_more() -> None:
    def topic(name: str, *replicas: int) -> TopicView:
        part = PartitionView(0, 1, 0, replicas, replicas)
        return TopicView(name, UUID(int=1), {0: part}, internal=False)

    topics = {"own": topic("own", 1), "safe": topic("safe", 1, 2), "other": topic("other", 1)}
    own = ("own", "safe", "not there")
    (found,) = one_replica("x", own, topics, brokers=2)
    assert found.code == "one-replica" and found.finding.startswith("own on the target have")
    assert not list(one_replica("x", own, topics, brokers=1))
    assert not list(one_replica("x", ("safe",), topics, brokers=3))


def test_what_a_cluster_is_too_old_for_is_named() -> None:
    newest = {0: 13, 22: 5, 24: 5, 26: 5, 65: 0}
    assert not list(too_old("dublin", newest, NEEDS_OF_TARGET))
    (note,) = too_old("dublin", newest | {65: -1}, NEEDS_OF_TARGET)
    assert note.severity == "note" and "DescribeTransactions version 0 (Kafka 3.0)" in note.finding
    errors = [one for one in too_old("dublin", {0: 8}, NEEDS_OF_TARGET) if one.severity == "error"]
    assert {one.finding.split()[4] for one in errors} >= {"Produce", "InitProducerId"}
