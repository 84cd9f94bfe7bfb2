"""What people get wrong: addresses, passwords, certificates.

Each mistake is one error of the right class that names the cluster, comes within its deadline and
writes nothing. No error and no log line, at DEBUG, holds a secret. And what is right works, for
every way to log in.
"""

from __future__ import annotations

import io
import logging
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import (
    CertificateRefused,
    ClusterError,
    ConfigError,
    HeliographError,
    LoginRefused,
    Unreachable,
)
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import claim
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.certs import Authority
from heliograph.local.credentials import unsigned_token, write_private
from heliograph.local.launch import start
from heliograph.local.spec import Certificate, Spec
from heliograph.model.topics import Partition
from tests.broker.linked import make_ledger, produce, step_until, streaming
from tests.checker.compare import count_equal
from tests.doubles import outside
from tests.doubles.driving import Writing, read_values, within
from tests.doubles.mistakes import (
    DEADLINE_S,
    PASSWORD,
    SECRETS,
    SLACK_S,
    USERS,
    WRONG,
    failure_of,
    open_cluster,
)
from tests.doubles.proxy import SASL_AUTHENTICATE, Cut, Proxy
from tests.doubles.tls_listener import TlsListener


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with Proxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def secured(clusters_folder: Path, proxy: Proxy) -> Iterator[Mapping[str, LocalCluster]]:
    """One cluster for each way to log in, started side by side."""
    specs = (
        Spec(name="plain", sasl="PLAIN", users=USERS, advertised_port=proxy.port),
        Spec(name="scram256", sasl="SCRAM-SHA-256", users=USERS, tls=True, certificate=WRONG_HOST),
        Spec(name="scram512", sasl="SCRAM-SHA-512", users=USERS, tls=True),
        Spec(name="token", sasl="OAUTHBEARER", users=USERS),
        Spec(name="mutual", mtls=True, users=USERS),
    )
    with ExitStack() as stack:
        started = start(*specs, under=clusters_folder)
        for cluster in started:
            stack.enter_context(cluster)
        proxy.point_at(started[0].node(1).ports.client)
        yield {cluster.name: cluster for cluster in started}


WRONG_HOST = Certificate.WRONG_HOST


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    """Everything that is logged at DEBUG; no secret may be in it."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)
    leaked = [secret for secret in SECRETS if secret in text.getvalue()]
    assert not leaked, text.getvalue()


def properties_of(secured: Mapping[str, LocalCluster], name: str, **changes: str) -> dict[str, str]:
    """Return what works for a cluster, with some properties changed; an empty one is left out."""
    local = secured[name]
    found = local.client_properties("alice")
    if name == "plain":
        found["bootstrap.servers"] = f"127.0.0.1:{local.spec.advertised_port}"
    if name == "scram256":
        found["ssl.endpoint.identification.algorithm"] = ""  # its certificate is for elsewhere
    for key, value in changes.items():
        found[key.replace("_", ".")] = value
        if not value:
            del found[key.replace("_", ".")]
    return found


def looking_fails(
    kind: type[HeliographError], name: str, properties: Mapping[str, str], **more: Any
) -> str:
    with open_cluster(name, properties) as cluster:
        return failure_of(kind, name, lambda: cluster.look(None, within(DEADLINE_S)), **more)


# Addresses


def test_closed_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    text = looking_fails(Unreachable, "closed", {"bootstrap.servers": f"127.0.0.1:{port}"})
    assert f"127.0.0.1:{port}" in text and "refused" in text


def test_port_that_accepts_and_says_nothing_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        looking_fails(Unreachable, "mute", {"bootstrap.servers": address})


def test_mute_broker_with_tls_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        properties = {
            "bootstrap.servers": address,
            "security.protocol": "SSL",
            "socket.connection.setup.timeout.ms": "1000",
        }
        text = looking_fails(Unreachable, "mute", properties)
    assert "TLS" in text


def test_name_that_cannot_be_resolved_is_unreachable() -> None:
    text = looking_fails(Unreachable, "nowhere", {"bootstrap.servers": "no-such.invalid:9092"})
    assert "no-such.invalid:9092" in text


def test_one_good_bootstrap_server_is_enough(target: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        servers = f"no-such.invalid:1,127.0.0.1:{mute.getsockname()[1]},{target.bootstrap}"
        properties = {"bootstrap.servers": servers, "socket.connection.setup.timeout.ms": "3000"}
        with open_cluster("target", properties) as cluster:
            assert cluster.look((), within()).brokers


# Logins


@pytest.mark.parametrize("name", ["plain", "scram256", "scram512"])
def test_wrong_password_is_refused_at_once(
    secured: Mapping[str, LocalCluster], name: str, log: io.StringIO
) -> None:
    wrong = properties_of(secured, name, sasl_password=WRONG)
    begin_s = time.monotonic()
    text = looking_fails(LoginRefused, name, wrong)
    assert time.monotonic() - begin_s < DEADLINE_S, "a refusal is not retried"
    assert "alice" in text
    assert log is not None


def test_unknown_user_is_refused(secured: Mapping[str, LocalCluster]) -> None:
    wrong = properties_of(secured, "scram512", sasl_username="nobody")
    assert "nobody" in looking_fails(LoginRefused, "scram512", wrong)


# Named, because a token holds the time: every worker must collect the same tests.
@pytest.mark.parametrize(
    "token",
    [unsigned_token("alice").replace(".", ".x", 1), "no.token.atall", "opaque"],
    ids=["damaged", "nonsense", "opaque"],
)
def test_bad_token_is_refused(
    secured: Mapping[str, LocalCluster], tmp_path: Path, token: str
) -> None:
    file = tmp_path / "token"
    write_private(file, token.encode())
    wrong = properties_of(secured, "token", sasl_oauthbearer_token_endpoint_url=file.as_uri())
    text = looking_fails(LoginRefused, "token", wrong)
    assert token not in text


def test_missing_secret_is_an_error_of_the_configuration(
    secured: Mapping[str, LocalCluster],
) -> None:
    wrong = properties_of(secured, "plain", sasl_password="${env:HELIOGRAPH_NO_SUCH_VARIABLE}")
    with (
        open_cluster("plain", wrong) as cluster,
        pytest.raises(ConfigError, match="HELIOGRAPH_NO_SUCH_VARIABLE"),
    ):
        cluster.look(None, within(DEADLINE_S))


def test_mechanism_that_is_not_offered_is_named_with_those_that_are(
    secured: Mapping[str, LocalCluster],
) -> None:
    wrong = properties_of(secured, "plain", sasl_mechanism="SCRAM-SHA-256")
    text = looking_fails(LoginRefused, "plain", wrong)
    assert "SCRAM-SHA-256" in text and "offers PLAIN" in text


def test_login_to_a_listener_without_one_is_refused(target: Any) -> None:
    wrong = {
        "bootstrap.servers": target.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }
    assert "security.protocol" in looking_fails(LoginRefused, "target", wrong)


def test_no_login_to_a_listener_with_one_is_unreachable(
    secured: Mapping[str, LocalCluster],
) -> None:
    wrong = {"bootstrap.servers": secured["token"].bootstrap}
    looking_fails(Unreachable, "token", wrong)


def test_connection_cut_during_a_login_is_made_again(
    secured: Mapping[str, LocalCluster], proxy: Proxy
) -> None:
    proxy.heal()
    rule = proxy.on_reply(SASL_AUTHENTICATE, Cut(), times=2)
    with open_cluster("plain", properties_of(secured, "plain")) as cluster:
        assert cluster.look((), within()).brokers
    assert rule.caught == 2
    proxy.heal()


# Certificates


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Certificate.EXPIRED, "expired on"), (Certificate.WRONG_HOST, "elsewhere.invalid")],
)
def test_wrong_certificate_is_refused(tmp_path: Path, kind: Certificate, words: str) -> None:
    authority = Authority("test")
    with TlsListener(authority.server("node-1", kind), tmp_path) as listener:
        text = looking_fails(CertificateRefused, "odd", _trusting(authority, listener, tmp_path))
    assert words in text


def test_certificate_of_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    with TlsListener(Authority("theirs").server("node-1"), tmp_path) as listener:
        properties = _trusting(Authority("ours"), listener, tmp_path)
        text = looking_fails(CertificateRefused, "odd", properties)
    assert "ssl.ca.location" in text


def _trusting(authority: Authority, listener: TlsListener, folder: Path) -> dict[str, str]:
    trusted = folder / "trusted.pem"
    write_private(trusted, authority.certificate)
    return {
        "bootstrap.servers": listener.address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(trusted),
    }


def test_host_that_is_not_in_a_brokers_certificate_is_refused(
    secured: Mapping[str, LocalCluster],
) -> None:
    wrong = properties_of(secured, "scram256", ssl_endpoint_identification_algorithm="https")
    assert "elsewhere.invalid" in looking_fails(CertificateRefused, "scram256", wrong)


def test_broker_that_wants_a_client_certificate_refuses_without(
    secured: Mapping[str, LocalCluster],
) -> None:
    wrong = properties_of(secured, "mutual", ssl_certificate_location="", ssl_key_location="")
    text = looking_fails(CertificateRefused, "mutual", wrong)
    assert "ssl.certificate.location" in text


def test_plain_text_to_a_tls_listener_says_so(secured: Mapping[str, LocalCluster]) -> None:
    wrong = {"bootstrap.servers": secured["mutual"].bootstrap}
    text = looking_fails(Unreachable, "mutual", wrong)
    assert "TLS" in text


def test_tls_to_a_plain_listener_says_so(target: Any) -> None:
    wrong = {"bootstrap.servers": target.bootstrap, "security.protocol": "SSL"}
    with open_cluster("target", wrong) as cluster:
        begin_s = time.monotonic()
        with pytest.raises(ClusterError) as caught:
            cluster.look(None, within(DEADLINE_S))
    assert isinstance(caught.value, Unreachable | CertificateRefused)
    assert "TLS" in str(caught.value) and "cluster target" in str(caught.value)
    assert time.monotonic() - begin_s < DEADLINE_S + SLACK_S


# What is right


@pytest.mark.parametrize("name", ["plain", "scram256", "scram512", "token", "mutual"])
def test_every_way_to_log_in_works_from_end_to_end(
    secured: Mapping[str, LocalCluster], proxy: Proxy, topic_name: str, name: str
) -> None:
    proxy.heal()
    local = secured[name]
    outside.make_topic(local.internal_bootstrap, topic_name)
    partition, identity = Partition(topic_name, 0), f"heliograph.test.{topic_name}.0"
    wanted = [f"{number}".encode() * 5000 for number in range(30)]
    with open_cluster(name, properties_of(secured, name)) as cluster:
        writing = Writing(cluster, partition, claim(cluster, identity, [partition], within()))
        for value in wanted:
            writing.send(value)
        assert all(isinstance(outcome, int) for outcome in writing.finish())
        found, error = read_values(cluster, partition, len(wanted))
    assert error is None and found == wanted
    assert outside.values(local.internal_bootstrap, topic_name) == wanted


@pytest.mark.parametrize("name", ["plain", "scram512", "mutual"])
def test_a_link_copies_each_record_once_by_each_security_protocol(
    secured: Mapping[str, LocalCluster], proxy: Proxy, topic_name: str, name: str
) -> None:
    """Plain text without a login is how all other tests of links connect."""
    proxy.heal()
    bootstrap = secured[name].internal_bootstrap
    here, there = Partition(topic_name, 0), Partition(f"mirror.{topic_name}", 0)
    for topic in (here.topic, there.topic):
        outside.make_topic(bootstrap, topic)
    ledger, loop = make_ledger(bootstrap, topic_name), Loop()
    settings = parse(name, properties_of(secured, name), allow_literal_secrets=True)
    link = Ends("test", Cluster(settings, name, loop), Cluster(settings, name, loop), ledger)
    with closing(loop):
        for turn in range(1, 4):
            produce(bootstrap, here.topic, [b"%d" % turn] * 100)
            copy_and_die(link, here, there, 100 * turn)
    assert count_equal(bootstrap, here.topic, bootstrap, there.topic, 1) == 300


def copy_and_die(link: Ends, here: Partition, there: Partition, end: int) -> None:
    """Copy up to an offset, and end as if killed: what was copied is not all on record."""
    opened = open_all(link, {here: there}, within(60))[here]
    assert isinstance(opened, Opened), opened
    stream = streaming(link, opened)
    step_until(stream, lambda: stream.parts[here].position == end)
    stream.close()
