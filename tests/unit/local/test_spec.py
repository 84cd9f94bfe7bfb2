from pathlib import Path

import pytest

from heliograph.errors import ConfigError
from heliograph.local.layout import Folder, Ports, scram_arguments, server_properties
from heliograph.local.spec import Spec, User

FOLDER = Folder(Path("/somewhere"))
ONE = {1: Ports(client=2001, controller=2002, internal=2001)}
SECURED = {1: Ports(client=2001, controller=2002, internal=2003)}
ALICE = User("alice", 'p"a\\ss=w,o]rd')


def parse(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_plain_cluster_listens_on_loopback_only() -> None:
    lines = parse(server_properties(Spec(name="x"), 1, ONE, FOLDER, ()))
    assert lines["listeners"] == "CLIENT://127.0.0.1:2001,CONTROLLER://127.0.0.1:2002"
    assert lines["advertised.listeners"] == "CLIENT://127.0.0.1:2001"
    assert lines["inter.broker.listener.name"] == "CLIENT"
    assert lines["listener.security.protocol.map"] == "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert lines["auto.create.topics.enable"] == "false"


def test_a_secured_cluster_has_an_internal_listener_besides() -> None:
    spec = Spec(name="x", tls=True)
    lines = parse(server_properties(spec, 1, SECURED, FOLDER, ()))
    assert lines["advertised.listeners"] == "CLIENT://127.0.0.1:2001,INTERNAL://127.0.0.1:2003"
    assert lines["inter.broker.listener.name"] == "INTERNAL"
    assert "CLIENT:SSL" in lines["listener.security.protocol.map"]
    assert lines["listener.name.client.ssl.client.auth"] == "none"
    assert lines["listener.name.client.ssl.keystore.location"] == str(FOLDER.keystore(1))


def test_internal_topics_have_a_copy_on_every_node() -> None:
    ports = {node: Ports(node, 10 + node, node) for node in (1, 2, 3)}
    spec = Spec(name="x", nodes=3, racks=("a", "b", "c"))
    lines = parse(server_properties(spec, 2, ports, FOLDER, ()))
    assert lines["offsets.topic.replication.factor"] == "3"
    assert lines["controller.quorum.voters"] == "1@127.0.0.1:11,2@127.0.0.1:12,3@127.0.0.1:13"
    assert lines["broker.rack"] == "b"
    assert lines["node.id"] == "2"


def test_the_users_own_properties_win() -> None:
    spec = Spec(name="x", properties={"auto.create.topics.enable": "true", "odd": " ü\\"})
    text = server_properties(spec, 1, ONE, FOLDER, ())
    assert "auto.create.topics.enable=true\n" in text
    assert "false" not in parse(text)["auto.create.topics.enable"]
    assert "odd=\\ \\u00fc\\\\\n" in text


def test_passwords_are_quoted_for_jaas_and_then_for_the_properties_file() -> None:
    spec = Spec(name="x", sasl="PLAIN", users=(ALICE,))
    text = server_properties(spec, 1, SECURED, FOLDER, spec.users)
    jaas = parse(text)["listener.name.client.plain.sasl.jaas.config"]
    assert 'user_alice="p\\\\"a\\\\\\\\ss=w,o]rd";' in jaas


def test_only_scram_makes_its_users_when_formatting() -> None:
    scram = Spec(name="x", sasl="SCRAM-SHA-256", users=(ALICE,))
    option, credential = scram_arguments(scram, scram.users, b"salt")
    assert option == "--add-scram"
    assert credential.startswith("SCRAM-SHA-256=[name=alice,iterations=4096,salt=")
    assert ALICE.password not in credential
    assert scram_arguments(Spec(name="x", sasl="PLAIN"), (ALICE,), b"salt") == []


def test_with_acls_only_the_internal_listener_is_above_them() -> None:
    spec = Spec(name="x", sasl="PLAIN", acls=True)
    lines = parse(server_properties(spec, 1, SECURED, FOLDER, (ALICE,)))
    assert lines["authorizer.class.name"].endswith("StandardAuthorizer")
    assert lines["super.users"] == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("fields", "protocol", "words"),
    [
        ({}, "PLAINTEXT", "PLAINTEXT"),
        ({"tls": True}, "SSL", "SSL"),
        ({"mtls": True, "acls": True}, "SSL", "SSL mTLS ACLs"),
        ({"sasl": "PLAIN"}, "SASL_PLAINTEXT", "SASL_PLAINTEXT PLAIN"),
        ({"sasl": "SCRAM-SHA-512", "tls": True}, "SASL_SSL", "SASL_SSL SCRAM-SHA-512"),
    ],
)
def test_security_has_kafkas_name(fields: dict[str, object], protocol: str, words: str) -> None:
    spec = Spec(name="x", **fields)  # type: ignore[arg-type]
    assert (spec.security_protocol, spec.security) == (protocol, words)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a.b"},
        {"name": ""},
        {"nodes": 0},
        {"nodes": 4},
        {"sasl": "GSSAPI"},
        {"acls": True},
        {"acls": True, "tls": True},
        {"properties": {"node.id": "7"}},
        {"users": (User("a b", "x"),)},
        {"heap": "lots"},
    ],
)
def test_a_contradiction_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Spec(**({"name": "x"} | fields))  # type: ignore[arg-type]


def test_a_password_does_not_show() -> None:
    assert "ss=w" not in repr(Spec(name="x", users=(ALICE,)))
