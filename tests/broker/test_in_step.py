"""Mirrors kept in step on real brokers: settings and partitions follow, and `plan` tells before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from bench.raw_copy import within
from heliograph.cli.app import run
from heliograph.control.reconcile import Observed, Reconciler
from heliograph.control.voice import Voice
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.links.helm import Helm
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.launch import start
from heliograph.local.spec import Spec, User
from heliograph.model.acls import Acl, AclFilter, Operation, Pattern, Permission, Resource
from heliograph.model.blueprint import Ours
from heliograph.model.configs import ConfigSource
from heliograph.model.control import Wanted
from heliograph.wiring import load_config, setups
from tests.broker.links import make_link
from tests.making import create_topic


class Kept:
    """A link of one topic: its source, its mirror, and what keeps them in step."""

    def __init__(self, file: Path, topic: str, source: Admin, target: Admin) -> None:
        self.file, self.topic = file, topic
        self.source, self.target = source, target
        self.ours = Ours()

    def look(self) -> Observed:
        (setup,) = setups(load_config(self.file))
        with closing(Reconciler(setup)) as reconciler:
            observed = reconciler.look(self.ours, Wanted(), within(30))
        noted = observed.grants.noted if observed.grants else self.ours.noted
        self.ours = Ours({**self.ours.made, **observed.made}, noted)
        return observed

    def set(self, admin: Admin, remove: tuple[str, ...] = (), **put: str) -> None:
        values = {name.replace("_", "."): value for name, value in put.items()}
        admin.configs.change_topic(self.topic, put=values, remove=remove, deadline=within(20))

    def settings(self, admin: Admin) -> dict[str, str | None]:
        """Return what was set on the topic itself."""
        found = admin.configs.of_topics([self.topic], within(20))[self.topic]
        return {n: e.value for n, e in found.items() if e.source is ConfigSource.TOPIC}


@pytest.fixture
def kept(source: Any, target: Any, tmp_path: Path, topic_name: str) -> Iterator[Kept]:
    link = make_link(tmp_path, source.bootstrap, target, topics=topic_name)
    with (
        Admin(parse("source", source.client_properties()), "source") as one,
        Admin(parse("target", target.client_properties()), "target") as other,
    ):
        yield Kept(link.file, topic_name, one, other)


def partitions(admin: Admin, topic: str) -> list[int]:
    return sorted(admin.topics.describe([topic], within(20))[topic].partitions)


def test_a_new_mirror_takes_the_settings_of_its_source(kept: Kept, source: Any) -> None:
    create_topic(source.bootstrap, kept.topic, 3, config={"retention.ms": "7200000"})
    observed = kept.look()
    assert list(observed.made) == [kept.topic]
    assert kept.settings(kept.target)["retention.ms"] == "7200000"
    assert len(observed.parts) == len(partitions(kept.target, kept.topic)) == 3
    brokers = kept.target.configs.of_broker(1, within(20))
    assert brokers["auto.create.topics.enable"].value == "false"


def test_settings_follow_and_edits_of_what_is_left_out_survive(kept: Kept, source: Any) -> None:
    create_topic(source.bootstrap, kept.topic, config={"segment.ms": "60000"})
    kept.look()
    kept.set(kept.source, segment_ms="90000", max_message_bytes="5000000")
    kept.set(kept.target, min_insync_replicas="1", flush_ms="1000", compression_type="lz4")
    assert kept.look().altered == (kept.topic,)
    now = kept.settings(kept.target)
    assert (now["segment.ms"], now["max.message.bytes"]) == ("90000", "5000000")
    assert (now["min.insync.replicas"], now["compression.type"]) == ("1", "lz4")
    assert "flush.ms" not in now, "nobody set it on the source"
    assert kept.look().altered == ()
    kept.set(kept.source, remove=("segment.ms",))
    kept.look()
    assert "segment.ms" not in kept.settings(kept.target)


def test_a_topic_of_others_keeps_what_decides_which_records_are_deleted(
    kept: Kept, source: Any, target: Any
) -> None:
    create_topic(source.bootstrap, kept.topic, config={"cleanup.policy": "compact"})
    create_topic(target.bootstrap, kept.topic, config={"retention.ms": "3600000"})
    kept.look()
    now = kept.settings(kept.target)
    assert now["retention.ms"] == "3600000"
    assert "cleanup.policy" not in now


def test_a_mirror_grows_with_its_source(kept: Kept, source: Any) -> None:
    create_topic(source.bootstrap, kept.topic, 2)
    kept.look()
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    for done in admin.create_partitions([NewPartitions(kept.topic, 5)]).values():
        done.result(20)
    observed = kept.look()
    assert observed.altered == (kept.topic,)
    assert len(observed.parts) == len(partitions(kept.target, kept.topic)) == 5


def test_a_larger_mirror_is_left_alone_and_told_of(kept: Kept, source: Any, target: Any) -> None:
    create_topic(source.bootstrap, kept.topic, 2)
    create_topic(target.bootstrap, kept.topic, 4)
    observed = kept.look()
    assert len(observed.parts) == 2
    assert any("has 4 partitions" in note for note in observed.notes)


def planned(kept: Kept, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert run(["plan", "-f", str(kept.file), "-o", "json"]) == 0
    shown: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return shown


def test_a_plan_tells_what_run_would_do_and_changes_nothing(
    kept: Kept, source: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(source.bootstrap, kept.topic, 3, config={"segment.ms": "60000"})
    (step,) = planned(kept, capsys)
    assert (step["action"], step["topic"]) == ("create", kept.topic)
    assert "3 partitions" in step["detail"] and "segment.ms=60000" in step["detail"]
    assert not kept.target.topics.describe([kept.topic], within(20))
    kept.look()
    assert planned(kept, capsys) == []
    kept.set(kept.source, remove=("segment.ms",), flush_ms="5000")
    (step,) = planned(kept, capsys)
    assert step["action"] == "alter"
    assert "set flush.ms=5000" in step["detail"] and "unset segment.ms" in step["detail"]
    assert kept.settings(kept.target)["segment.ms"] == "60000"


# Times


APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def is_kept_time(kept: Kept) -> bool:
    found = kept.target.configs.of_topics([kept.topic], within(20))[kept.topic]
    return found["message.timestamp.type"].value == "CreateTime"


@pytest.mark.parametrize(
    ("more", "is_ours", "why_not"),
    [
        ("", True, ""),
        ("    mirrors: {configs_exclude: []}", False, ""),
        ("", False, "mirrors.configs_exclude"),
        ("    sync: {configs: off}", True, "sync.configs"),
        ("    mirrors: {configs_exclude: [], merge: true}", False, "others write to it"),
    ],
    ids=["ours", "followed", "left-out", "off", "shared"],
)
def test_a_mirror_that_replaces_times_is_corrected_where_we_may_and_else_not_copied_to(
    kept: Kept, source: Any, target: Any, more: str, is_ours: bool, why_not: str
) -> None:
    kept.file.write_text(f"{kept.file.read_text()}{more}\n")
    create_topic(source.bootstrap, kept.topic)
    if is_ours:
        assert kept.look().parts
        kept.set(kept.target, message_timestamp_type="LogAppendTime")
    else:
        create_topic(target.bootstrap, kept.topic, config=APPEND_TIME)
    observed = kept.look()
    if not why_not:
        assert observed.parts and not observed.errors and observed.altered == (kept.topic,)
        assert any("message.timestamp.type" in note for note in observed.notes)
        assert is_kept_time(kept) and kept.look().altered == ()
        return
    assert not observed.parts and not is_kept_time(kept)
    (error,) = observed.errors
    assert error.startswith("mirror-append-time") and why_not in error
    assert f"--topic {kept.topic} --add-config message.timestamp.type=CreateTime" in error
    kept.set(kept.target, message_timestamp_type="CreateTime")
    observed = kept.look()
    assert observed.parts and not observed.errors, "done by hand"


@pytest.mark.parametrize(
    ("configs", "are_noticed"), [("10ms", True), ("1h", False)], ids=["due", "later"]
)
def test_times_that_are_replaced_while_a_link_runs_stop_the_topic_until_they_are_not(
    kept: Kept, source: Any, target: Any, configs: str, are_noticed: bool
) -> None:
    text = f"{kept.file.read_text()}    sync: {{configs: {configs}}}\n"
    kept.file.write_text(text.replace(f"[{kept.topic}]", f"[{kept.topic}, {kept.topic}.2]"))
    for name in (kept.topic, f"{kept.topic}.2"):
        create_topic(source.bootstrap, name)
    create_topic(target.bootstrap, kept.topic)
    (setup,) = setups(load_config(kept.file))
    with closing(Reconciler(setup)) as reconciler:

        def copied() -> set[str]:
            return {one.topic for one in reconciler.look(Ours(), Wanted(), within(30)).parts}

        assert copied() == {kept.topic, f"{kept.topic}.2"}
        kept.set(kept.target, message_timestamp_type="LogAppendTime")
        assert (kept.topic not in copied()) == are_noticed
    with closing(Reconciler(setup)) as reconciler:
        # Nothing is due at the second look: what the first has seen still holds.
        assert copied() == copied() == {f"{kept.topic}.2"}
        kept.set(kept.target, message_timestamp_type="CreateTime")
        assert (kept.topic in copied()) == are_noticed


# ACLs


def test_clusters_without_acls_are_told_of_once_and_copied_all_the_same(
    kept: Kept, source: Any, target: Any
) -> None:
    create_topic(source.bootstrap, kept.topic)
    text = kept.file.read_text().replace(
        "target: target\n", "target: target\n    sync: {acls: 10ms}\n"
    )
    kept.file.write_text(text)
    said: list[str] = []
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        voice = Voice("it", Helm(cluster, "it"), said.append)
        for _ in range(3):
            observed = kept.look()
            assert observed.parts and not observed.errors and observed.notes
            voice.saw(observed)
    (told,) = [line for line in said if "ACLs" in line]
    assert "cluster source" in told and "no authorizer" in told


@pytest.fixture(scope="module")
def guarded(clusters_folder: Path) -> Iterator[LocalCluster]:
    """A cluster with ACLs; who comes in by the internal listener may do everything."""
    spec = Spec(name="guarded", sasl="PLAIN", acls=True, users=(User("app", "secret-of-app"),))
    (cluster,) = start(spec, under=clusters_folder)
    with cluster:
        yield cluster


def rule(topic: str, operation: Operation = Operation.READ, **other: Any) -> Acl:
    return Acl(Resource.TOPIC, topic, "User:app", operation, **other)


def test_settings_that_may_not_be_read_are_told_with_the_permission(
    guarded: LocalCluster,
    target: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create_topic(guarded.internal_bootstrap, topic_name, config={"segment.ms": "60000"})
    link = make_link(tmp_path, guarded.bootstrap, target, topics=topic_name)
    login = json.dumps(guarded.client_properties("app"))[1:-1]
    text = link.file.read_text().replace(
        f'bootstrap.servers: "{guarded.bootstrap}"', f"allow_literal_secrets: true, {login}"
    )
    link.file.write_text(text)
    root = parse("guarded", {"bootstrap.servers": guarded.internal_bootstrap})
    with (
        Admin(root, "guarded") as admin,
        Admin(parse("target", target.client_properties()), "target") as there,
    ):
        kept = Kept(link.file, topic_name, admin, there)
        admin.acls.create([rule(topic_name)], within(20))
        deadline = within(20)
        while not (observed := kept.look()).parts:
            assert not deadline.passed, observed
        assert not observed.errors, "copying does not need them"
        (note,) = observed.notes
        assert "cluster source" in note and "DescribeConfigs" in note
        assert run(["plan", "-f", str(link.file)]) == 0
        assert note in capsys.readouterr().err.replace("\n", " ")
        admin.acls.create([rule(topic_name, Operation.DESCRIBE_CONFIGS)], within(20))
        while (observed := kept.look()).notes:
            assert not deadline.passed, observed
        assert kept.settings(there)["segment.ms"] == "60000"


def test_acls_follow_and_only_our_own_are_removed(
    guarded: LocalCluster, topic_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = f"copy.{topic_name}"
    file = tmp_path / "heliograph.yaml"
    file.write_text(f"""
clusters:
  all: {{bootstrap.servers: "{guarded.internal_bootstrap}"}}
links:
  within:
    {{source: all, target: all, topics: [{topic_name}], naming: "copy.{{topic}}",
     allow_same_cluster: true, sync: {{acls: 1s}}}}
""")
    settings = parse("all", {"bootstrap.servers": guarded.internal_bootstrap})
    deny = rule(topic_name, Operation.WRITE, permission=Permission.DENY)
    with Admin(settings, "all") as admin:
        kept = Kept(file, topic_name, admin, admin)
        create_topic(guarded.internal_bootstrap, topic_name)
        here = [
            rule(topic_name, Operation.ALL),
            rule(topic_name, Operation.WRITE),
            deny,
            rule(topic_name[:20], pattern=Pattern.PREFIXED),
        ]
        before = rule(mirror, Operation.DESCRIBE)  # somebody granted this on the mirror
        admin.acls.create([*here, before, rule(topic_name, Operation.DESCRIBE)], within(20))
        kept.look()
        shown = planned(kept, capsys)
        assert {(step["action"], step["topic"]) for step in shown} == {
            ("grant", mirror),
            ("grant", f"copy.{topic_name[:20]} (prefixed)"),
        }

        def on_mirrors() -> set[Acl]:
            every = admin.acls.matching(AclFilter(resource=Resource.TOPIC), within(20))
            return {one for one in every if one.name.startswith("copy.")}

        kept.look()
        assert on_mirrors() == {
            before,
            rule(mirror),
            rule(mirror, Operation.WRITE, permission=Permission.DENY),
            rule(f"copy.{topic_name[:20]}", pattern=Pattern.PREFIXED),
        }
        admin.acls.delete([*here, rule(topic_name, Operation.DESCRIBE)], within(20))
        kept.look()
        assert on_mirrors() == {before}


def test_times_that_may_not_be_corrected_are_told_with_the_permission(
    guarded: LocalCluster, source: Any, topic_name: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic_name)
    create_topic(guarded.internal_bootstrap, topic_name, config=APPEND_TIME)
    link = make_link(
        tmp_path, source.bootstrap, guarded, "    mirrors: {configs_exclude: []}", topic_name
    )
    login = json.dumps(guarded.client_properties("app"))[1:-1]
    text = link.file.read_text().replace(
        f'bootstrap.servers: "{guarded.bootstrap}"', f"allow_literal_secrets: true, {login}"
    )
    link.file.write_text(text)
    root = parse("guarded", {"bootstrap.servers": guarded.internal_bootstrap})
    with Admin(root, "guarded") as admin:
        kept = Kept(link.file, topic_name, admin, admin)
        describe = [Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS]
        admin.acls.create([rule(topic_name, one) for one in describe], within(20))
        deadline = within(20)
        while not (observed := kept.look()).errors:
            assert not deadline.passed and not observed.parts, observed
        assert not observed.parts and not is_kept_time(kept)
        (error,) = observed.errors
        assert "mirror-append-time" in error and "AlterConfigs" in error
        admin.acls.create([rule(topic_name, Operation.ALTER_CONFIGS)], within(20))
        while not (observed := kept.look()).parts:
            assert not deadline.passed, observed
        assert is_kept_time(kept)
