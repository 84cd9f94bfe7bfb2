"""`check --stretch` on a cluster of three nodes in three sites."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.cli.app import run
from heliograph.kafka.admin import Admin
from heliograph.kafka.properties import parse
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.launch import start
from heliograph.local.spec import Spec, User
from heliograph.model.configs import NewTopic

Found = list[dict[str, Any]]

SAFE = {
    # A killed broker is missed, and may come back, only when its session is over.
    "broker.session.timeout.ms": "3000",
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


@pytest.fixture(scope="module")
def stretched(clusters_folder: Path) -> Iterator[LocalCluster]:
    spec = Spec(name="stretched", nodes=3, racks=("a", "b", "c"), properties=SAFE, heap="256m")
    (cluster,) = start(spec, under=clusters_folder)
    with cluster:
        yield cluster


@pytest.fixture
def admin(stretched: LocalCluster) -> Iterator[Admin]:
    with Admin(parse("stretched", stretched.client_properties()), "stretched") as one:
        yield one


def configured(cluster: LocalCluster, folder: Path, user: str | None = None) -> Path:
    """Configure links that have nothing to do with the cluster."""
    file = folder / "heliograph.yaml"
    properties = json.dumps(cluster.client_properties(user))
    file.write_text(
        f"""
clusters:
  stretched: {{allow_literal_secrets: true, {properties[1:-1]}}}
  paris: {{bootstrap.servers: "127.0.0.1:1"}}
  dublin: {{bootstrap.servers: "127.0.0.1:1"}}
links:
  paris-dublin: {{source: paris, target: dublin, topics: [orders]}}
"""
    )
    return file


def check(file: Path, capsys: pytest.CaptureFixture[str], *, code: int) -> Found:
    left = run(["check", "--stretch", "stretched", "-f", str(file), "-o", "json"])
    found: Found = json.loads(capsys.readouterr().out)
    assert left == code, found
    assert all(one["finding"] and one["remedy"] for one in found)
    return found


def await_health(file: Path) -> None:
    deadline = within(60)
    while run(["check", "--stretch", "stretched", "-f", str(file)]) != 0:
        assert not deadline.passed


def codes(found: Found) -> dict[str, str]:
    return {one["code"]: one["severity"] for one in found}


def named(found: Found, code: str) -> dict[str, Any]:
    return next(one for one in found if one["code"] == code)


def make(admin: Admin, topic: str, *replicas: tuple[int, ...], **settings: str) -> None:
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    new = NewTopic(topic, configs=configs, assignments=dict(enumerate(replicas)))
    admin.topics.create(new, deadline=within(20))
    admin.topics.await_leaders([topic], within(20))


def test_voters_are_told(admin: Admin) -> None:
    assert admin.voters(within(20)) == (1, 2, 3)


def test_only_the_settings_that_are_asked_for_are_read(admin: Admin, topic_name: str) -> None:
    make(admin, topic_name, (1, 2, 3))
    found = admin.configs.of_topics([topic_name], within(20), only=["min.insync.replicas"])
    assert {name: one.value for name, one in found[topic_name].items()} == {
        "min.insync.replicas": "2"
    }
    admin.topics.delete(topic_name, within(20))


def test_three_sites_are_healthy_until_a_topic_is_not(
    stretched: LocalCluster,
    admin: Admin,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = configured(stretched, tmp_path)
    make(admin, topic_name, (1, 2, 3), (2, 3, 1), (3, 1, 2))
    assert check(file, capsys, code=0) == []
    assert run(["check", "--stretch", "stretched", "-f", str(file)]) == 0
    said = capsys.readouterr().err
    assert "stretched (brokers: 3); stretched (topics: " in said
    assert "Errors: 0, warnings: 0." in said
    make(admin, f"{topic_name}.one", (1,))
    make(admin, f"{topic_name}.low", (1, 2, 3), min_insync_replicas="1")
    make(admin, f"{topic_name}.high", (1, 2, 3), min_insync_replicas="3")
    unclean = {"unclean_leader_election_enable": "true"}
    make(admin, f"{topic_name}.unclean", (1, 2, 3), **unclean)
    found = check(file, capsys, code=1)
    assert codes(found) == {
        "site-holds-all": "error",
        "site-loses-records": "error",
        "site-stops-writes": "error",
        "unclean-election": "error",
    }
    assert f"{topic_name}.one" in named(found, "site-holds-all")["finding"]
    for which in ("low", "high"):
        code = "site-loses-records" if which == "low" else "site-stops-writes"
        topic, remedy = f"{topic_name}.{which}", named(found, code)["remedy"]
        assert remedy.endswith(f"--topic {topic} --add-config min.insync.replicas=2")
        admin.configs.change_topic(topic, put={"min.insync.replicas": "2"}, deadline=within(20))
    for which in ("one", "unclean"):
        admin.topics.delete(f"{topic_name}.{which}", within(20))
    await_health(file)
    capsys.readouterr()


def test_a_lost_site_is_told_while_it_is_lost(
    stretched: LocalCluster,
    admin: Admin,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = configured(stretched, tmp_path)
    make(admin, topic_name, (1, 2, 3), (2, 3, 1), (3, 1, 2))
    stretched.node(3).kill()
    try:
        deadline = within(60)
        while "broker-away" not in codes(check(file, capsys, code=1)):
            assert not deadline.passed
        assert codes(check(file, capsys, code=1))["out-of-sync"] == "error"
    finally:
        stretched.node(3).start()
    await_health(file)
    capsys.readouterr()


def test_a_cluster_without_racks_is_not_stretched(
    private_cluster: Callable[..., LocalCluster],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = private_cluster(heap="256m")
    found = check(configured(cluster, tmp_path), capsys, code=1)
    assert codes(found) == {
        "rack-missing": "error",
        "quorum-too-small": "error",
        "reads-cross-sites": "note",
    }


def test_what_a_user_may_not_see_is_told_as_such(
    private_cluster: Callable[..., LocalCluster],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    users = (User("looker", "password-of-looker"),)
    cluster = private_cluster(racks=("a",), sasl="PLAIN", acls=True, users=users, heap="256m")
    file = configured(cluster, tmp_path, "looker")
    found = check(file, capsys, code=1)
    assert codes(found) == {"one-site": "error", "acl-missing": "warning"}
    denied = [one["finding"] for one in found if one["code"] == "acl-missing"]
    assert [one.partition(" (for")[0] for one in denied] == [
        "User:looker lacks Describe on Cluster kafka-cluster",
        "User:looker lacks DescribeConfigs on Cluster kafka-cluster",
    ]


def test_a_cluster_that_is_not_configured_or_named_with_links_is_a_usage_error(
    stretched: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = configured(stretched, tmp_path)
    assert run(["check", "--stretch", "rome", "-f", str(file)]) == 2
    assert "there is no cluster 'rome'" in capsys.readouterr().err
    assert run(["check", "paris-dublin", "--stretch", "stretched", "-f", str(file)]) == 2
    assert "name it alone" in capsys.readouterr().err
