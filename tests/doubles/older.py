"""Kafka of older versions: one broker, with ZooKeeper or without, from the jars of its version.

It ends with this process, whatever becomes of it.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from heliograph.local import jars, java
from heliograph.local.ivy import Artifact
from heliograph.local.layout import HOST
from heliograph.local.owner import Owner
from heliograph.local.ports import reserve
from heliograph.local.probe import nodes_seen
from tests.faults.engine import until

# What Kafka's own jars leave out: a binding of its logging interface, of the same age.
_LOGGING = {
    "2.8.2": Artifact("org.slf4j", "slf4j-log4j12", "1.7.30"),
    "3.9.1": Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
}
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_SMALL = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


def bundle(version: str) -> jars.Bundle:
    """Return the jars of a version; ``jars.ensure`` fetches them once and keeps them."""
    kafka = Artifact("org.apache.kafka", "kafka_2.13", version)
    expected = ("kafka_2.13", "kafka-clients", "zookeeper", _LOGGING[version].name)
    return jars.Bundle(f"kafka-{version}", (kafka, _LOGGING[version]), expected)


@dataclass(frozen=True)
class OlderCluster:
    """A cluster of one broker, as fixtures know clusters."""

    name: str
    bootstrap: str

    @property
    def internal_bootstrap(self) -> str:
        return self.bootstrap

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        assert user is None
        return {"bootstrap.servers": self.bootstrap, "security.protocol": "PLAINTEXT"}


@contextmanager
def older(
    version: str, folder: Path, *, zookeeper: bool, name: str = "older"
) -> Iterator[OlderCluster]:
    """Run a broker of a version; ``folder`` is left as it was found."""
    classpath = jars.classpath(jars.ensure(bundle(version)))
    home = folder / f"{name}-{version}"
    home.mkdir()
    owner = Owner(folder / f"{name}-{version}.keeper", [home, folder / f"{name}-{version}.keeper"])
    held = reserve(2)
    client, other = (one.getsockname()[1] for one in held)
    for one in held:
        one.close()
    try:
        lines = {"log.dirs": str(home / "data"), **_SMALL}
        if zookeeper:
            lines |= _with_zookeeper(owner, classpath, home, other) | _listener(client)
        else:
            lines |= _alone(other) | _listener(client, other)
        properties = _write(home / "server.properties", lines)
        if not zookeeper:
            _format(classpath, properties)
        owner.start(2, _java(classpath, home, "kafka.Kafka", properties), home / "broker.out")
        cluster = OlderCluster(name, f"{HOST}:{client}")
        said = home / "broker.out"
        until(lambda: nodes_seen(HOST, client, 1.0), 60, lambda: said.read_text()[-3000:])
        yield cluster
    finally:
        owner.stop(timedelta())


def _with_zookeeper(owner: Owner, classpath: str, home: Path, port: int) -> dict[str, str]:
    lines = {
        "dataDir": str(home / "zookeeper"),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }
    config = _write(home / "zookeeper.properties", lines)
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    owner.start(1, _java(classpath, home, main, config), home / "zookeeper.out")
    return {"broker.id": "1", "zookeeper.connect": f"{HOST}:{port}"}


def _alone(controller: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
    }


def _listener(client: int, controller: int | None = None) -> dict[str, str]:
    if controller is None:
        return {"listeners": f"PLAINTEXT://{HOST}:{client}"}
    return {
        "listeners": f"CLIENT://{HOST}:{client},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"CLIENT://{HOST}:{client}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


def _format(classpath: str, properties: Path) -> None:
    cluster_id = "h" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    arguments = ["format", "--cluster-id", cluster_id, "--config", str(properties)]
    command = java.short_lived(classpath, "kafka.tools.StorageTool", arguments)
    subprocess.run(command, check=True, capture_output=True)


def _java(classpath: str, home: Path, main: str, config: Path) -> list[str]:
    logging = home / "log4j.properties"
    logging.write_text(_LOG4J)
    settings = {"log4j.configuration": logging.as_uri(), "java.io.tmpdir": str(home)}
    return java.long_lived(classpath, main, [str(config)], heap="256m", settings=settings)


def _write(path: Path, lines: dict[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path
