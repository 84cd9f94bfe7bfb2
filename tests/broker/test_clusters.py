"""Local clusters on real brokers, seen by librdkafka: start, secure, break, stop."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from heliograph.local import jars, java
from heliograph.local.brokers import Cluster
from heliograph.local.launch import start
from heliograph.local.processes import Process
from heliograph.local.spec import Certificate, Spec, User

ALICE = User("alice", 'p"a\\ss=w,o]rd')
BOB = User("bob", "bob's")
WITHIN_S = 30
Private = Callable[..., Cluster]


def client(cluster: Cluster, user: str | None = None, **more: Any) -> dict[str, Any]:
    """Return librdkafka's configuration for a cluster: Java's names, but for the token."""
    properties: dict[str, Any] = cluster.client_properties(user)
    token = properties.pop("sasl.oauthbearer.token.endpoint.url", None)
    if token is not None:
        text = Path(token.removeprefix("file://")).read_text()
        properties["oauth_cb"] = lambda _: (text, time.time() + 3600)
    return properties | {"log_level": 0} | more


def internal(cluster: Cluster) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.internal_bootstrap, "log_level": 0}


def create(settings: dict[str, Any], topic: str, partitions: int = 1, copies: int = 1) -> None:
    # The client must outlive its answers: they are cancelled when it goes.
    admin = AdminClient(settings)
    made = admin.create_topics([NewTopic(topic, partitions, copies)], operation_timeout=WITHIN_S)
    made[topic].result(WITHIN_S)


def write(settings: dict[str, Any], topic: str, value: bytes) -> None:
    """Write a record and wait for its acknowledgement."""
    outcomes: list[Any] = []
    producer = Producer({"message.timeout.ms": WITHIN_S * 1000} | settings)
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(WITHIN_S + 5) == 0
    (error,) = outcomes
    # By identity: librdkafka's error cannot be compared with None.
    if error is not None:
        raise KafkaException(error)


def read(settings: dict[str, Any], topic: str) -> bytes:
    """Return the first record of a topic."""
    consumer = Consumer(settings | {"group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(WITHIN_S)
        assert message is not None and message.error() is None, message and message.error()
        value: bytes = message.value()
        return value
    finally:
        consumer.close()


def refuses(settings: dict[str, Any]) -> bool:
    """Tell whether a client cannot even get the list of brokers."""
    try:
        AdminClient(settings).list_topics(timeout=3)
    except KafkaException:
        return True
    return False


def is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def heliograph(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, with state of its own."""
    return subprocess.run(
        [sys.executable, "-m", "heliograph.cli.app", *words],
        env=os.environ | {"HELIOGRAPH_STATE": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def shell(clusters_folder: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command, on a state folder that is emptied in any case."""
    folder = clusters_folder / "state"
    yield lambda *words: heliograph(folder, *words)
    heliograph(folder, "clusters", "down", "--all")
    (folder / "clusters" / ".lock").unlink()
    (folder / "clusters").rmdir()
    folder.rmdir()


def test_the_shell_brings_two_clusters_up_and_leaves_nothing(
    shell: Callable[..., subprocess.CompletedProcess[str]], clusters_folder: Path, topic_name: str
) -> None:
    up = shell("clusters", "up", "left", "right", "-o", "json")
    assert up.returncode == 0, up.stderr
    told = json.loads(up.stdout)
    assert [one["name"] for one in told] == ["left", "right"]
    assert "heliograph clusters down left right" in up.stderr
    for one in told:
        create(one["client"], topic_name)
    records = list((clusters_folder / "state" / "clusters").glob("*.json"))
    pids = [
        Process(**process)
        for record in records
        for process in [json.loads(record.read_text())["keeper"]]
        + json.loads(record.read_text())["nodes"]
    ]
    assert len(pids) == 4 and all(process.is_alive() for process in pids)

    again = shell("clusters", "up", "left")
    assert again.returncode == 1
    assert again.stderr.startswith("error: local: the local cluster left is already running")

    pids[1].send(signal.SIGKILL)
    assert pids[1].wait_gone(timedelta(seconds=WITHIN_S))
    states = {
        one["name"]: one["state"]
        for one in json.loads(shell("clusters", "list", "-o", "json").stdout)
    }
    assert sorted(states.values()) == ["dead", "running"]

    assert shell("clusters", "down", "left", "right").returncode == 0
    assert not any(process.is_alive() for process in pids)
    assert all(is_free(int(one["bootstrap"].split(":")[1])) for one in told)
    assert not any(Path(one["data"]).exists() for one in told)
    assert shell("clusters", "down", "left").returncode == 2


@pytest.mark.parametrize("moment", ["starting", "Ctrl-C stops them"])
def test_ctrl_c_leaves_nothing_while_starting_or_later(moment: str, clusters_folder: Path) -> None:
    folder = clusters_folder / "foreground"
    with subprocess.Popen(
        [sys.executable, "-m", "heliograph.cli.app", "clusters", "up", "x", "--foreground"],
        env=os.environ | {"HELIOGRAPH_STATE": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell ignores Ctrl-C for what it runs in the background, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as holder:
        assert holder.stderr is not None
        assert any(moment in line for line in holder.stderr)
        holder.send_signal(signal.SIGINT)
        holder.communicate(timeout=60)
    assert holder.returncode == 130
    assert [path.name for path in (folder / "clusters").iterdir()] == [".lock"]
    shutil.rmtree(folder)


OWNER = """
import sys
from pathlib import Path
from heliograph.local.launch import start
from heliograph.local.spec import Spec
(cluster,) = start(Spec(name="orphan"), under=Path(sys.argv[1]))
node = cluster.node(1).process
print(node.pid, node.mark, cluster.keeper.pid, cluster.keeper.mark, cluster.folder.root, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("victim", ["owner", "keeper"])
def test_brokers_die_when_their_owner_or_keeper_is_killed(
    victim: str, clusters_folder: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(clusters_folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pid, mark, keeper_pid, keeper_mark, folder = owner.stdout.readline().split()
        broker, keeper = Process(int(pid), mark), Process(int(keeper_pid), keeper_mark)
        assert broker.is_alive() and keeper.is_alive()
        if victim == "keeper":
            keeper.send(signal.SIGKILL)
            assert broker.wait_gone(timedelta(seconds=5))
        owner.kill()
    assert broker.wait_gone(timedelta(seconds=5))
    assert keeper.wait_gone(timedelta(seconds=10))
    if victim == "keeper":
        # Nobody was left to remove them.
        shutil.rmtree(folder)
    assert not Path(folder).exists()


def test_three_nodes_on_three_racks_survive_a_kill_a_pause_and_a_restart(
    private_cluster: Private, topic_name: str
) -> None:
    # A killed broker is missed, and may come back, only when its session is over.
    properties = {"broker.session.timeout.ms": "3000"}
    cluster = private_cluster(nodes=3, racks=("a", "b", "c"), properties=properties)
    admin = AdminClient(client(cluster))
    seen = admin.describe_cluster().result(WITHIN_S)
    assert {node.id: node.rack for node in seen.nodes} == {1: "a", 2: "b", 3: "c"}
    create(client(cluster), topic_name, copies=3)

    cluster.node(1).kill()
    write(client(cluster), topic_name, b"without the first")
    ports = cluster.node(1).ports
    cluster.node(1).start()
    assert cluster.node(1).ports == ports

    cluster.node(2).pause()
    assert cluster.node(2).is_alive()
    cluster.node(2).resume()
    assert read(client(cluster), topic_name) == b"without the first"


def test_a_kept_folder_keeps_records_and_a_restart_keeps_ports(
    clusters_folder: Path, topic_name: str
) -> None:
    folder = clusters_folder / "kept"
    try:
        with start(Spec(name="kept", data=folder))[0] as cluster:
            create(client(cluster), topic_name)
            write(client(cluster), topic_name, b"kept")
            bootstrap, cluster_id = cluster.bootstrap, cluster.cluster_id
            cluster.node(1).stop()
            assert not cluster.node(1).is_alive()
            cluster.node(1).start()
            assert cluster.bootstrap == bootstrap
            assert read(client(cluster), topic_name) == b"kept"
        assert folder.exists()
        with start(Spec(name="kept", data=folder))[0] as again:
            assert again.cluster_id == cluster_id
            assert read(client(again), topic_name) == b"kept"
    finally:
        shutil.rmtree(folder)


def test_a_broker_property_is_applied(private_cluster: Private) -> None:
    cluster = private_cluster(properties={"log.retention.ms": "12345"})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient(client(cluster))
    (answer,) = admin.describe_configs([resource]).values()
    assert answer.result(WITHIN_S)["log.retention.ms"].value == "12345"


def test_a_broker_maps_the_archive_of_its_classes_that_setup_made(source: Any) -> None:
    if not isinstance(source, Cluster):
        pytest.skip("a borrowed broker's process is not ours to look into")
    archive = java.class_archive(jars.classpath(jars.ensure()))
    maps = Path(f"/proc/{source.node(1).process.pid}/maps")
    assert str(archive) in maps.read_text(), "run make setup"


@pytest.mark.parametrize("content", ["noise", "an archive of other jars"])
def test_an_archive_that_does_not_fit_is_passed_over_without_a_word(
    tmp_path: Path, content: str
) -> None:
    for jar in jars.ensure().glob("*.jar"):
        (tmp_path / jar.name).symlink_to(jar)
    classpath = jars.classpath(tmp_path)
    if content == "noise":
        java.class_archive(classpath).write_bytes(os.urandom(100_000))
    else:
        made = java.class_archive(jars.classpath(jars.ensure()))
        java.class_archive(classpath).symlink_to(made)
    command = java.short_lived(classpath, "kafka.tools.StorageTool", ["random-uuid"])
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(ended.stdout.split()) == 1 and not ended.stderr


def test_what_a_broker_unpacks_stays_in_its_folder(
    private_cluster: Private, topic_name: str
) -> None:
    cluster = private_cluster()
    create(client(cluster), topic_name)
    write(client(cluster, **{"compression.type": "lz4"}), topic_name, b"x" * 10_000)
    assert list(cluster.folder.scratch.glob("*lz4*"))


def test_tls_is_verified_by_the_client(private_cluster: Private, topic_name: str) -> None:
    cluster = private_cluster(tls=True)
    create(client(cluster), topic_name)
    write(client(cluster), topic_name, b"by TLS")
    assert read(internal(cluster), topic_name) == b"by TLS"
    untrusting = client(cluster)
    del untrusting["ssl.ca.location"]
    assert refuses(untrusting)


@pytest.mark.parametrize("wrong", [Certificate.EXPIRED, Certificate.WRONG_HOST])
def test_a_wrong_server_certificate_is_refused_by_the_client(
    wrong: Certificate, private_cluster: Private
) -> None:
    cluster = private_cluster(tls=True, certificate=wrong)
    assert refuses(client(cluster))
    assert not refuses(internal(cluster))


def test_mtls_asks_for_a_certificate_and_acls_know_its_name(
    private_cluster: Private, topic_name: str
) -> None:
    cluster = private_cluster(mtls=True, acls=True, users=(ALICE, BOB))
    create(internal(cluster), topic_name)
    nameless = client(cluster, "alice")
    del nameless["ssl.certificate.location"], nameless["ssl.key.location"]
    assert refuses(nameless)
    allow(cluster, "User:alice", topic_name)
    write(client(cluster, "alice"), topic_name, b"alice's")
    with pytest.raises(KafkaException):
        write(client(cluster, "bob", **{"message.timeout.ms": 3000}), topic_name, b"bob's")


@pytest.mark.parametrize(
    ("mechanism", "tls"),
    [("PLAIN", False), ("SCRAM-SHA-256", False), ("SCRAM-SHA-512", True), ("OAUTHBEARER", False)],
)
def test_a_login_is_asked_for_and_acls_hold(
    mechanism: str, tls: bool, private_cluster: Private, topic_name: str
) -> None:
    cluster = private_cluster(sasl=mechanism, tls=tls, acls=True, users=(ALICE, BOB))
    create(internal(cluster), topic_name)
    if mechanism != "OAUTHBEARER":
        assert refuses(client(cluster, "alice") | {"sasl.password": "wrong"})
    with pytest.raises(KafkaException):
        write(client(cluster, "alice", **{"message.timeout.ms": 3000}), topic_name, b"too early")
    allow(cluster, "User:alice", topic_name)
    write(client(cluster, "alice"), topic_name, b"alice's")
    assert read(internal(cluster), topic_name) == b"alice's"


def allow(cluster: Cluster, principal: str, topic: str) -> None:
    """Allow a principal to write to a topic; returns when the brokers know."""
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient(internal(cluster))
    (made,) = admin.create_acls([binding]).values()
    made.result(WITHIN_S)
