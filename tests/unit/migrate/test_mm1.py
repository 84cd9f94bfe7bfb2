"""Each flag and property of MirrorMaker 1, and what becomes of it."""

from typing import Any

import pytest

from heliograph.config.values import SAME
from heliograph.errors import ConfigError
from heliograph.migrate.entries import read_properties
from heliograph.migrate.mm1 import Flags, import_mm1
from heliograph.model.selection import select
from tests.unit.migrate.imported import config, mm1, mm1_link, mm1_refused

SECRET = "Hunter2Hunter2"


def test_a_call_becomes_a_link_named_after_the_group() -> None:
    found = mm1()
    link = config(found).links["mirror"]
    assert (link.source, link.target, link.naming) == ("source", "target", SAME)
    assert link.sync.groups is None, "MirrorMaker 1 moves no groups"
    assert link.topics == ("orders",) and link.on_refuse == "stop" and link.limits.tasks == "auto"
    clusters = config(found).clusters
    assert clusters["source"].properties == {"bootstrap.servers": "a:9092"}
    assert clusters["target"].properties == {"bootstrap.servers": "b:9092"}
    assert found.group == "mirror"


def test_an_odd_group_keeps_its_name_beside_the_links() -> None:
    found = mm1("group.id = my.group\n")
    assert list(config(found).links) == ["my-group"] and found.group == "my.group"


@pytest.mark.parametrize(
    ("include", "topics"),
    [
        ("orders", ("orders",)),
        ("a,b", ("a", "b")),
        ("a|b", ("a|b",)),
        ("(a,b)c", ("(a|b)c",)),
        ("' a , b '", ("a", "b")),
        ('"a.*"', ("a.*",)),
    ],
)
@pytest.mark.parametrize("flag", ["include", "whitelist"])
def test_topics(flag: str, include: str, topics: tuple[str, ...]) -> None:
    assert mm1_link(**{flag: include}).topics == topics


def test_the_newer_name_wins() -> None:
    found = mm1(include="a", whitelist="b")
    assert config(found).links["mirror"].topics == ("a",)
    assert "--whitelist: --include wins" in found.ignored


def test_what_mirrormaker_1_copies_is_copied() -> None:
    link = mm1_link(include=".*")
    topics = ["a.internal", "b.replica", "__c", "__consumer_offsets", "__transaction_state"]
    assert select(topics, link.topics, link.exclude) == ["__c", "a.internal", "b.replica"]


def test_a_blacklist_leaves_out() -> None:
    link = mm1_link(blacklist="a,b.*")
    topics = ["a", "b1", "c", "__consumer_offsets"]
    assert select(topics, link.topics, link.exclude) == ["c"]


def test_flags_that_keep_their_meaning() -> None:
    assert mm1_link(num_streams=3).limits.tasks == 3
    assert mm1_link(abort_on_send_failure=True).on_refuse == "stop"
    assert mm1_link(abort_on_send_failure=False).on_refuse == "quarantine"


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({"offset_commit_interval_ms": 1000}, "--offset.commit.interval.ms"),
        ({"message_handler_args": "x"}, "--message.handler.args"),
        ({"consumer_rebalance_listener": "x"}, "--consumer.rebalance.listener"),
        ({"rebalance_listener_args": "x"}, "--rebalance.listener.args"),
        ({"obsolete": ("--new.consumer",)}, "--new.consumer"),
    ],
)
def test_flags_without_effect_are_told(flags: dict[str, Any], name: str) -> None:
    found = mm1(**flags)
    assert any(one.startswith(f"{name}: ") for one in found.ignored)
    assert f"# not needed: {name}: " in found.text


@pytest.mark.parametrize(
    ("reset", "start"),
    [
        ("earliest", "earliest"),
        ("smallest", "earliest"),
        ("latest", "latest"),
        ("largest", "latest"),
    ],
)
def test_a_start(reset: str, start: object) -> None:
    assert mm1_link(f"auto.offset.reset = {reset}\n").start == start


@pytest.mark.parametrize(
    ("consumer", "producer", "flags", "message"),
    [
        ("", "", {"message_handler": "my.Handler"}, "--message.handler: Java classes"),
        ("", "", {"include": " "}, "--include: it is blank"),
        ("", "", {"include": r"\p{L}"}, "--include: "),
        ("", "", {"include": "a", "blacklist": "b"}, "--blacklist: MirrorMaker takes it or"),
        ("", "", {"include": None}, "--include: it is missing"),
        ("group.id =\n", "", {}, "group.id is missing"),
        ("auto.offset.reset = none\n", "", {}, "earliest or latest"),
        ("interceptor.classes = my.Class\n", "", {}, "Java classes"),
        ("", "bootstrap.servers = b\n", {}, "'b' has no port"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", "", {}, "KAFKA_OPTS"),
        ("security.protocol=SSL\nssl.truststore.location=/x.jks\n", "", {}, "keytool"),
    ],
)
def test_what_cannot_be_kept_to_is_refused(
    consumer: str, producer: str, flags: dict[str, Any], message: str
) -> None:
    (refused,) = mm1_refused(consumer, producer, **flags)
    assert message in refused


def test_all_refusals_are_told_at_once() -> None:
    refused = mm1_refused(
        "auto.offset.reset = none\n", "bootstrap.servers = b\n", message_handler="x"
    )
    assert len(refused) == 3


@pytest.mark.parametrize(
    "line",
    [
        "isolation.level = read_committed",
        "client.id = x",
        "fetch.min.bytes = 1",
        "enable.auto.commit = true",
        "exclude.internal.topics = false",
        "zookeeper.connect = x:2181",
        "key.deserializer = x",
    ],
)
def test_properties_of_consumers_are_told(line: str) -> None:
    found = mm1(f"{line}\n")
    assert f"# not needed: consumer.config: {line.partition(' =')[0]}: " in found.text


@pytest.mark.parametrize(
    "line",
    ["compression.type = gzip", "acks = 1", "retries = 5", "linger.ms = 5", "client.rack = r"],
)
def test_properties_of_producers_are_told(line: str) -> None:
    found = mm1("", f"{line}\n")
    assert f"# not needed: producer.config: {line.partition(' =')[0]}: " in found.text


def test_the_producers_client_id_is_that_of_the_target() -> None:
    clusters = config(mm1("client.id = c\n", "client.id = mirror-7\n")).clusters
    assert clusters["target"].properties["client.id"] == "mirror-7"
    assert "client.id" not in clusters["source"].properties, "MirrorMaker overwrites it"
    found = mm1("client.id = c\n", "client.id =\n")
    assert "calls its consumers <group.id>-0" in str(found.ignored)
    assert "client.id" not in config(found).clusters["target"].properties


@pytest.mark.parametrize("key", ["receive.buffer.bytes", "send.buffer.bytes"])
def test_sizes_of_sockets_are_kept_on_either_side(key: str) -> None:
    found = mm1(f"{key} = 1048576\n", f"{key} = 65536\n")
    clusters = config(found).clusters
    assert clusters["source"].properties[key] == "1048576"
    assert clusters["target"].properties[key] == "65536"
    assert f"not needed: consumer.config: {key}" not in found.text
    (refused,) = mm1_refused(f"{key} = much\n")
    assert key in refused and "much" in refused


def test_the_rack_of_the_source_is_kept() -> None:
    assert config(mm1("client.rack = r\n")).clusters["source"].properties["client.rack"] == "r"


def test_secrets_become_variables_of_either_end() -> None:
    user = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\n"
    login = f"{user}sasl.password={SECRET}"
    found = mm1(f"{login}1\n", f"{login}2\n")
    assert dict(found.variables) == {
        "SOURCE_PASSWORD": f"{SECRET}1",
        "TARGET_PASSWORD": f"{SECRET}2",
    }
    assert SECRET not in found.text + repr(found) + str(found.ignored)


def test_zookeeper_alone_is_refused() -> None:
    keys = read_properties("zookeeper.connect = z:2181\ngroup.id = g\n", "consumer.config: ")
    brokers = read_properties("metadata.broker.list = b:9092\n", "producer.config: ")
    with pytest.raises(ConfigError, match="ZooKeeper alone does not do"):
        import_mm1(keys, brokers, Flags(include="a"))


def test_brokers_have_an_older_name_for_producers() -> None:
    keys = read_properties("bootstrap.servers = a:1\ngroup.id = g\n", "consumer.config: ")
    brokers = read_properties("metadata.broker.list = b:9092\n", "producer.config: ")
    found = import_mm1(keys, brokers, Flags(include="a"))
    properties = config(found).clusters["target"].properties
    assert properties == {"bootstrap.servers": "b:9092"}


def test_without_a_word_of_it_a_consumer_begins_at_the_end() -> None:
    keys = read_properties("bootstrap.servers = a:1\ngroup.id = g\n", "consumer.config: ")
    found = import_mm1(keys, read_properties("bootstrap.servers = b:1"), Flags(include="a"))
    assert config(found).links["g"].start == "latest"
