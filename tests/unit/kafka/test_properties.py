"""A cluster's properties: all of Java's common ones in, every mistake out at once."""

import pickle
from datetime import timedelta

import pytest

from heliograph.errors import ConfigError
from heliograph.kafka.properties import PROPERTIES, Endpoint, parse

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
HOST_CHECK = "ssl.endpoint.identification.algorithm"

BASE: dict[str, object] = {"bootstrap.servers": "a:9092"}
TLS = BASE | {"security.protocol": "SSL"}
SASL = BASE | {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
USER = {"sasl.username": "mirror", "sasl.password": "${env:HELIO_PW}"}
OAUTH = BASE | {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def mistakes(properties: dict[str, object], allow_literal_secrets: bool = False) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse("paris", properties, allow_literal_secrets)
    head, *lines = refused.value.message.split("\n  - ")
    assert "paris" in head
    return lines


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:9092", [("a", 9092)]),
        ("a:9092, b-1.c:1", [("a", 9092), ("b-1.c", 1)]),
        (["a:9092", "b:9092"], [("a", 9092), ("b", 9092)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("10.0.0.1:65535", [("10.0.0.1", 65535)]),
    ],
)
def test_bootstrap_servers_are_read(text: object, found: list[tuple[str, int]]) -> None:
    settings = parse("paris", {"bootstrap.servers": text})
    assert settings.bootstrap == tuple(Endpoint(*one) for one in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "has no port"),
        ("[::1]", "has no port"),
        ("::1:9092", "stands in brackets"),
        ("a:b", "number from 1 to 65535"),
        ("a:0", "number from 1 to 65535"),
        ("a:70000", "number from 1 to 65535"),
        ("SSL://a:9092", "leave SSL:// out"),
        ("a b:9092", "not a host name"),
        (":9092", "not a host name"),
        ("a:1,,b:1", "has no port"),
        ("a:1,a:1", "listed twice"),
        ("", "is empty"),
        (9092, "must be text"),
        ([1], "must be text"),
        (None, "has no value"),
    ],
)
def test_a_wrong_bootstrap_server_is_explained(text: object, words: str) -> None:
    (mistake,) = mistakes({"bootstrap.servers": text})
    assert mistake.startswith("bootstrap.servers")
    assert words in mistake


def test_little_is_needed_and_the_rest_has_defaults() -> None:
    settings = parse("paris", BASE)
    assert settings.security_protocol == "PLAINTEXT"
    assert (settings.login, settings.tls, settings.warnings) == (None, None, ())
    assert settings.request_timeout == timedelta(seconds=30)


def test_numbers_are_taken_as_numbers_and_as_text() -> None:
    settings = parse(
        "paris",
        BASE
        | {
            "request.timeout.ms": 1500,
            "socket.connection.setup.timeout.ms": "2500",
            "receive.buffer.bytes": -1,
            "send.buffer.bytes": "65536",
            "client.id": "me",
            "client.rack": "r1",
        },
    )
    assert settings.request_timeout == timedelta(milliseconds=1500)
    assert settings.connect_timeout == timedelta(milliseconds=2500)
    assert (settings.receive_buffer_bytes, settings.send_buffer_bytes) == (None, 65536)
    assert (settings.client_id, settings.client_rack) == ("me", "r1")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, ["bootstrap.servers is missing"]),
        (
            BASE | {"sasl.usernam": "x"},
            ["sasl.usernam: no such property. Did you mean sasl.userna"],
        ),
        (BASE | {"group.id": "x"}, ["group.id: no such property"]),
        (BASE | {"acks": "all"}, ["acks: no such property"]),
        (BASE | {"sasl.kerberos.service.name": "kafka"}, ["Kerberos is not supported"]),
        (BASE | {"security.protocol": "TLS"}, ["'TLS' is not supported. Use one of PLAINTEXT"]),
        (BASE | {"client.id": 5}, ["client.id must be text, not a number: put it in quotes"]),
        (BASE | {"client.id": True}, ["client.id must be text, not true or false"]),
        (BASE | {"client.id": ""}, ["client.id is empty"]),
        (BASE | {"request.timeout.ms": "5s"}, ["request.timeout.ms must be a whole number"]),
        (BASE | {"request.timeout.ms": True}, ["request.timeout.ms must be a whole number"]),
        (BASE | {"request.timeout.ms": 0}, ["the least it can be is 1"]),
        (BASE | USER, ["has no login, but sasl.username, sasl.password are set"]),
        (TLS | {"sasl.mechanism": "PLAIN"}, ["Set security.protocol to SASL_SSL"]),
        (BASE | {HOST_CHECK: "https"}, ["does not encrypt"]),
        (BASE | {"security.protocol": "SASL_SSL"}, ["sasl.mechanism is missing"]),
        (SASL | {"sasl.mechanism": "GSSAPI"}, ["'GSSAPI' is not supported"]),
        (SASL | {"sasl.username": "x"}, ["sasl.password is missing"]),
        (SASL | {"sasl.password": "${env:X}"}, ["sasl.username is missing"]),
        (SASL | USER | {TOKEN_URL: "file:///t"}, [f"{TOKEN_URL} must not be set"]),
        (SASL | USER | {"sasl.password": "open"}, ["sasl.password holds a secret in the open"]),
        (SASL | USER | {"sasl.password": 12345}, ["sasl.password must be text, not a number"]),
        (SASL | USER | {"sasl.password": ""}, ["sasl.password is empty"]),
        (OAUTH, [f"{TOKEN_URL} is missing"]),
        (OAUTH | {TOKEN_URL: "ftp://x"}, ["must begin with https://", "is missing", "is missing"]),
        (OAUTH | {TOKEN_URL: "https://x"}, [f"{CLIENT_ID} is missing", f"{CLIENT_SECRET} is mis"]),
        (OAUTH | {TOKEN_URL: "file:///t", CLIENT_ID: "x"}, [f"{CLIENT_ID} must not be set"]),
        (OAUTH | {TOKEN_URL: "file:///t", "sasl.username": "x"}, ["sasl.username must not be set"]),
        (TLS | {HOST_CHECK: "http"}, ["'http' is not supported"]),
        (TLS | {HOST_CHECK: None}, [f"{HOST_CHECK} has no value"]),
        (TLS | {"ssl.enabled.protocols": "TLSv1.1"}, ["'TLSv1.1' is not TLSv1.2 or TLSv1.3"]),
        (TLS | {"ssl.ca.location": "/absent.pem"}, ["/absent.pem cannot be read (No such file"]),
        (TLS | {"ssl.truststore.certificates": "x"}, ["does not hold a certificate in PEM form"]),
        (TLS | {"ssl.truststore.password": "${env:X}"}, ["a PEM file has none"]),
        (TLS | {"ssl.key.password": "${env:X}"}, ["ssl.key.password is set, but no key is"]),
        (TLS | {"ssl.keystore.key": "${env:X}"}, ["is set without ssl.keystore.certificate.chain"]),
    ],
)
def test_mistakes_are_named_with_their_property(
    properties: dict[str, object], words: list[str]
) -> None:
    found = mistakes(properties)
    assert len(found) == len(words), found
    for mistake, word in zip(found, words, strict=True):
        assert word in mistake


def test_all_mistakes_are_told_at_once_and_no_secret_with_them() -> None:
    found = mistakes(
        {
            "bootstrap.servers": "a",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": 7,
            "sasl.password": "hunter2",
            "ssl.ca.location": "/absent",
            "nonsense": 1,
        }
    )
    assert len(found) == 5
    assert "hunter2" not in "".join(found)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"])
def test_user_and_password_are_kept_as_a_reference(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIO_PW", "hunter2")
    settings = parse("paris", SASL | USER | {"sasl.mechanism": mechanism})
    assert settings.sasl_mechanism == mechanism.upper()
    assert settings.sasl_username == "mirror"
    assert settings.sasl_password is not None
    assert settings.sasl_password.reveal() == "hunter2"
    assert settings.security_protocol == "SASL_SSL"


def test_a_reference_is_resolved_for_what_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIO_USER", "mirror")
    settings = parse("paris", SASL | USER | {"sasl.username": "${env:HELIO_USER}"})
    assert settings.sasl_username == "mirror"


@pytest.mark.parametrize(
    ("line", "password"),
    [
        (f'{SCRAM_MODULE} required username="mirror" password="${{env:HELIO_PW}}";', "hunter2"),
        (f"{SCRAM_MODULE} required password='${{env:HELIO_PW}}' username=mirror ;", "hunter2"),
        ("${env:HELIO_JAAS}", 'a"b;c'),
    ],
)
def test_a_jaas_line_gives_user_and_password(
    line: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIO_PW", "hunter2")
    jaas = f'{SCRAM_MODULE} required\n  username="mirror"\n  password="a\\"b;c";'
    monkeypatch.setenv("HELIO_JAAS", jaas)
    settings = parse("paris", SASL | {"sasl.jaas.config": line})
    assert settings.sasl_username == "mirror"
    packed = pickle.dumps(settings)
    assert password.encode() not in packed
    travelled = pickle.loads(packed)
    assert travelled == settings
    assert travelled.sasl_password.reveal() == password


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f'{SCRAM_MODULE} required username="u" password="hunter2";', "secret in the open"),
        (f'{SCRAM_MODULE} required username="u" password="${{env:X}}"', "not one JAAS entry"),
        (f'{SCRAM_MODULE} required username="u";', "has no password"),
        (f"{SCRAM_MODULE} required;", "has no username and no password"),
        (f'{SCRAM_MODULE} required username="u" hunter2;', "not a list of"),
        (f'{PLAIN_MODULE} required username="u" password="${{env:X}}";', "is for PLAIN"),
        ('com.example.Login required username="u" password="x";', "com.example.Login is not sup"),
        ("${env:HELIO_ABSENT}", "HELIO_ABSENT"),
        ("hunter2", "not one JAAS entry"),
    ],
)
def test_a_wrong_jaas_line_is_explained_and_never_quoted(line: str, words: str) -> None:
    (mistake,) = mistakes(SASL | {"sasl.jaas.config": line})
    assert mistake.startswith("sasl.jaas.config")
    assert words in mistake
    assert "hunter2" not in mistake


def test_a_jaas_line_and_a_user_contradict_each_other() -> None:
    line = f'{SCRAM_MODULE} required username="u" password="${{env:X}}";'
    found = mistakes(SASL | USER | {"sasl.jaas.config": line})
    assert [mistake.split()[0] for mistake in found] == ["sasl.username", "sasl.password"]


def test_tokens_come_from_an_endpoint_or_a_file() -> None:
    asked = parse(
        "paris",
        OAUTH
        | {
            TOKEN_URL: "https://idp/token",
            CLIENT_ID: "me",
            CLIENT_SECRET: "${env:X}",
            "sasl.oauthbearer.scope": "kafka",
        },
    )
    assert asked.login is not None
    assert (asked.login.client_id, asked.login.scope) == ("me", "kafka")
    read = parse("paris", OAUTH | {TOKEN_URL: "file:///run/token"})
    assert read.login is not None
    assert read.login.token_url == "file:///run/token"


def test_settings_hold_no_secret_in_their_repr_or_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIO_PW", "hunter2")
    settings = parse("paris", SASL | USER)
    assert settings.sasl_password is not None
    settings.sasl_password.reveal()
    assert "hunter2" not in repr(settings)
    assert b"hunter2" not in pickle.dumps(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_every_property_has_a_line_of_help() -> None:
    assert all(PROPERTIES.values())


def test_a_text_is_judged_alone_where_nothing_else_may_be_looked_at() -> None:
    named = {
        "bootstrap.servers": "${env:NO_SUCH}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "${file:/no/such}",
        "ssl.ca.location": "/no/such",
        "client.id": "${file:/no/such}",
    }
    parse("c", named, text_only=True)
    with pytest.raises(ConfigError) as refused:
        parse("c", named | {"sasl.mechanism": "GSSAPI", "x.y": "1"}, text_only=True)
    assert "GSSAPI" in refused.value.message and "x.y" in refused.value.message
    assert "/no/such" not in refused.value.message
