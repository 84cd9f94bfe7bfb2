"""`check` on real brokers: what it finds, and that its remedies heal."""

import json
import shlex
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bench.raw_copy import within
from heliograph.cli.app import run
from heliograph.kafka.admin import Admin
from heliograph.kafka.properties import parse
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.launch import start
from heliograph.local.spec import Spec, User
from heliograph.model.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from heliograph.model.findings import acl_word
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.names import ledger_topic
from heliograph.model.runs import Run
from heliograph.model.topics import Partition
from tests.broker.links import Link, make_link
from tests.making import create_topic

DAY_S = 86_400

Found = list[dict[str, Any]]


def check(file: Path, capsys: pytest.CaptureFixture[str], *, code: int | None = None) -> Found:
    left = run(["check", "-f", str(file), "-o", "json"])
    found: Found = json.loads(capsys.readouterr().out)
    assert left == (1 if any(one["severity"] == "error" for one in found) else 0)
    assert code in (None, left)
    assert all(one["finding"] and one["remedy"] for one in found)
    return found


def codes(found: Found) -> list[str]:
    return [one["code"] for one in found]


@pytest.fixture
def topic(source: Any, topic_name: str) -> str:
    create_topic(source.bootstrap, topic_name)
    return topic_name


def linked(folder: Path, source: Any, target: Any, topic: str, more: str = "") -> Link:
    link = make_link(folder, source.bootstrap, target, more)
    link.file.write_text(link.file.read_text().replace("orders, payments", topic))
    return link


def produce(bootstrap: str, topic: str, ages_s: Sequence[float]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for age_s in ages_s:
        producer.produce(topic, b"x", timestamp=int((time.time() - age_s) * 1000))
    assert producer.flush(20) == 0


def test_a_mirror_that_somebody_else_filled_is_found(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(target.bootstrap, topic)
    produce(target.bootstrap, topic, [0])
    link = linked(tmp_path, source, target, topic)
    assert codes(check(link.file, capsys, code=0)) == ["mirror-occupied"]
    shared = linked(tmp_path, source, target, topic, "    mirrors: {merge: true}")
    assert "mirror-occupied" not in codes(check(shared.file, capsys))


def test_a_link_that_is_right_has_no_findings(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = linked(tmp_path, source, target, topic)
    assert check(link.file, capsys, code=0) == []
    assert run(link.words("check")) == 0
    said = capsys.readouterr()
    assert said.out == "" and "Errors: 0, warnings: 0." in said.err


def test_nothing_is_made_by_a_check(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = linked(tmp_path, source, target, topic)
    check(link.file, capsys, code=0)
    with Admin(parse("target", target.client_properties()), "target") as admin:
        names = admin.topics.names(within(20))
    assert topic not in names and ledger_topic(link.name) not in names


def test_one_cluster_at_both_ends_is_an_error(
    source: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = linked(tmp_path, source, source, topic)
    assert "same-cluster" in codes(check(link.file, capsys, code=1))
    allowed = "    allow_same_cluster: true\n    naming: prefix"
    link = linked(tmp_path, source, source, topic, allowed)
    assert check(link.file, capsys, code=0) == []


def test_names_that_select_nothing_are_warned_of_with_the_nearest(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = check(linked(tmp_path, source, target, f"{topic}x").file, capsys, code=0)
    assert codes(found) == ["no-such-topic"] and topic in found[0]["finding"]
    found = check(linked(tmp_path, source, target, '"zzz.*"').file, capsys, code=0)
    assert codes(found) == ["no-topics"] and "whole names" in found[0]["remedy"]


def test_a_cycle_that_only_existing_topics_show_is_an_error(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "heliograph.yaml"
    file.write_text(
        f"""
clusters:
  source: {json.dumps(source.client_properties())}
  target: {json.dumps(target.client_properties())}
links:
  there: {{source: source, target: target, topics: ["({topic})"]}}
  back: {{source: target, target: source, topics: ["({topic}|zzz)"]}}
"""
    )
    found = check(file, capsys, code=1)
    cycle = next(one for one in found if one["code"] == "cycle")
    assert cycle["where"] == "links there, back"
    assert "source → target → source" in cycle["finding"] and topic in cycle["finding"]
    file.write_text(file.read_text().replace('"]}', '"], origin: local}'))
    assert "cycle" not in codes(check(file, capsys))


def test_a_topic_whose_mirror_cannot_be_named_is_found(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = linked(tmp_path, source, target, topic, f"    naming: '{'x' * 240}{{topic}}'")
    found = check(link.file, capsys, code=1)
    assert codes(found) == ["mirror-name"] and topic in found[0]["finding"]


def test_a_mirror_with_unfit_settings_is_found(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfit = {
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "compact",
        "max.message.bytes": "1000",
    }
    create_topic(target.bootstrap, topic, config=unfit)
    found = check(linked(tmp_path, source, target, topic).file, capsys, code=1)
    assert codes(found) == ["mirror-append-time", "mirror-compacted", "mirror-too-small"]


def test_more_replicas_than_brokers_is_found(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = linked(tmp_path, source, target, topic, "    mirrors: {replication_factor: 30}")
    assert codes(check(link.file, capsys, code=1)) == ["replication-factor"]


def test_records_older_than_the_target_remembers_are_warned_of_until_they_are_copied(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(source.bootstrap, topic, [3 * DAY_S, 1.0])
    link = linked(tmp_path, source, target, topic)
    (found,) = check(link.file, capsys, code=0)
    assert found["code"] == "records-older-than-expiration"
    assert "more than 2 days old" in found["finding"] and f"{topic}-0" in found["finding"]
    assert f"producer.id.expiration.ms={8 * DAY_S * 1000}" in found["remedy"]
    for more in ("    allow_broker_settings: true", "    start: latest"):
        assert check(linked(tmp_path, source, target, topic, more).file, capsys, code=0) == []

    link = linked(tmp_path, source, target, topic)
    link.make_topics()
    ledger = Ledger(Partition(topic, 0), origin(source, target))
    ledger.add(Run(0, 0, 1))
    link.put(ledger_topic(link.name), ledger.take_changes())
    assert check(link.file, capsys, code=0) == []


def origin(source: Any, target: Any) -> Origin:
    ids = []
    for end in (source, target):
        with Admin(parse("x", end.client_properties()), "x") as admin:
            ids.append(str(admin.describe(within(20)).cluster_id))
    return Origin(ids[0], "topic", ids[1], "mirror")


def test_another_cluster_in_the_place_of_the_one_that_was_mirrored_is_found(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = linked(tmp_path, source, target, topic)
    link.make_topics()
    ledger = Ledger(
        Partition(topic, 0), Origin("another", "t", origin(source, target).target_cluster_id, "m")
    )
    link.put(ledger_topic(link.name), ledger.take_changes())
    (found,) = check(link.file, capsys, code=1)
    assert found["code"] == "cluster-replaced" and "the source is another" in found["finding"]


def test_too_few_slots_are_found(
    source: Any, target: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "    limits: {tasks: 5}\nspark: {master: 'local[4]'}"
    assert codes(check(linked(tmp_path, source, target, topic, more).file, capsys, code=1)) == [
        "slots-short"
    ]


def test_a_broker_that_advertises_an_address_where_it_is_not_is_found(
    private_cluster: Callable[..., LocalCluster],
    target: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        cluster = private_cluster(advertised_port=taken.getsockname()[1])
        link = linked(tmp_path, cluster, target, "orders")
        found = check(link.file, capsys, code=1)
    # Not one word about all that could not be asked either.
    assert codes(found) == ["broker-unreachable"]
    assert "advertised.listeners" in found[0]["remedy"]


# Permissions


@pytest.fixture(scope="module")
def secured(clusters_folder: Path) -> Iterator[LocalCluster]:
    """A cluster with ACLs, and a user for each test."""
    users = tuple(User(name, f"password-of-{name}") for name in ("mirror", "raiser", "typist"))
    spec = Spec(name="secured", sasl="SCRAM-SHA-512", acls=True, users=users)
    (cluster,) = start(spec, under=clusters_folder)
    with cluster:
        for topic in ("orders", "there", "mirrored.there"):
            create_topic(cluster.internal_bootstrap, topic)
        yield cluster


@pytest.fixture
def root(secured: LocalCluster) -> Iterator[Admin]:
    """Who comes in by the internal listener may do everything."""
    settings = parse(secured.name, {"bootstrap.servers": secured.internal_bootstrap})
    with Admin(settings, secured.name) as admin:
        yield admin


def link_within(cluster: LocalCluster, user: str, folder: Path, more: str = "") -> Path:
    """Configure a link within the cluster, for a user."""
    properties = json.dumps(cluster.client_properties(user))
    file = folder / "heliograph.yaml"
    file.write_text(
        f"""
clusters:
  private: {{allow_literal_secrets: true, {properties[1:-1]}}}
links:
  within:
    source: private
    target: private
    topics: [orders, there]
    naming: "mirrored.{{topic}}"
    allow_same_cluster: true
{more}
"""
    )
    return file


def grant(root: Admin, wanted: Sequence[Acl]) -> None:
    root.acls.create(wanted, within(20))
    deadline = within(20)
    while not set(wanted) <= set(root.acls.matching(deadline=within(20))):
        assert not deadline.passed


def granted(remedy: str) -> list[Acl]:
    """Return the ACLs that a kafka-acls.sh command line would create."""
    words = shlex.split(remedy)
    assert words[0] == "kafka-acls.sh" and "--add" in words
    pairs = list(pairwise(words))

    def all_of(option: str) -> list[str]:
        return [value for name, value in pairs if name == option]

    (principal,) = all_of("--allow-principal")
    operations = [one for one in Operation if acl_word(one) in all_of("--operation")]
    pattern = Pattern.PREFIXED if "prefixed" in words else Pattern.LITERAL
    names = [(Resource.TOPIC, name) for name in all_of("--topic")]
    names += [(Resource.TRANSACTIONAL_ID, name) for name in all_of("--transactional-id")]
    names += [(Resource.GROUP, name) for name in all_of("--group")]
    names += [(Resource.CLUSTER, CLUSTER_NAME)] if "--cluster" in words else []
    assert names and operations
    return [
        Acl(resource, name, principal, operation, Permission.ALLOW, pattern)
        for resource, name in names
        for operation in operations
    ]


def test_every_missing_acl_is_named_and_its_remedy_heals(
    secured: LocalCluster, root: Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = link_within(secured, "mirror", tmp_path)
    rounds = []
    deadline = within(90)
    while found := check(file, capsys):
        assert not deadline.passed, found
        assert set(codes(found)) == {"acl-missing"}, found
        rounds.append([one["finding"] for one in found])
        grant(root, [acl for one in found for acl in granted(one["remedy"])])
    which = AclFilter(principal="User:mirror")
    made = root.acls.matching(which, within(20))
    assert any("Read on Topic orders, there (for: fetching" in one for one in rounds[0])
    claims = "User:mirror lacks Write on TransactionalId prefix heliograph.within."
    assert any(one.startswith(claims) for one in rounds[0])
    own = "User:mirror lacks Read, Write, Create on Topic prefix __heliograph.within."
    assert any(one.startswith(own) for one in rounds[0])
    # No more than the table of least privilege.
    topics = {(one.name, acl_word(one.operation)) for one in made if one.resource is Resource.TOPIC}
    assert topics == {
        *((name, word) for name in ("orders", "there") for word in ("Read", "DescribeConfigs")),
        *(("__heliograph.within.", word) for word in ("Read", "Write", "Create")),
        *(
            (f"mirrored.{name}", word)
            for name in ("orders", "there")
            for word in ("Write", "Read", "Create", "Alter", "DescribeConfigs", "AlterConfigs")
        ),
    }
    others = {
        (acl_word(one.resource), acl_word(one.operation))
        for one in made
        if one.resource is not Resource.TOPIC
    }
    assert others == {
        ("TransactionalId", "Write"),
        ("Cluster", "DescribeConfigs"),
        ("Group", "Describe"),
        ("Group", "Read"),
    }


def test_a_link_that_may_raise_the_limit_must_be_allowed_to(
    secured: LocalCluster, root: Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = link_within(secured, "raiser", tmp_path, "    allow_broker_settings: true")

    def lacking() -> list[str]:
        found = check(file, capsys, code=1)
        words = ("DescribeConfigs", "AlterConfigs")
        whole = [one["finding"] for one in found if "on Cluster" in one["finding"]]
        return [word for word in words if any(f"lacks {word} " in one for one in whole)]

    deadline = within(60)
    for operation in (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS):
        while lacking() != [acl_word(operation)]:
            assert not deadline.passed
        grant(root, [Acl(Resource.CLUSTER, CLUSTER_NAME, "User:raiser", operation)])
    while lacking():
        assert not deadline.passed


def test_a_wrong_password_is_told_as_such_and_never_shown(
    secured: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = link_within(secured, "typist", tmp_path)
    file.write_text(file.read_text().replace("password-of-typist", "wrong-horse"))
    found = check(file, capsys, code=1)
    refused = next(one for one in found if one["code"] == "login-refused")
    assert "sasl.password" in refused["remedy"]
    assert "wrong-horse" not in json.dumps(found)
