"""The admin layer and TLS on secured brokers: logins, users, ACLs and refusals."""

import logging
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from heliograph.errors import LoginRefused, NotAuthorized
from heliograph.kafka import oauth, tls
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import ClientSettings, Endpoint, parse
from heliograph.kafka.secret import Secret
from heliograph.model.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from heliograph.model.configs import NewTopic

WITHIN = timedelta(seconds=20)


def wait_until(claim: Callable[[], bool]) -> None:
    deadline = Deadline.after(WITHIN)
    while not claim():
        assert not deadline.passed, "it did not come true in time"
        time.sleep(0.05)


@contextmanager
def open_tls(settings: ClientSettings, endpoint: Endpoint) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection((endpoint.host, endpoint.port), 5) as plain,
        tls.context(settings).wrap_socket(plain, server_hostname=endpoint.host) as secure,
    ):
        yield secure


def test_users_acls_and_refusals_on_a_secured_cluster(
    private_cluster: Callable[..., Any], topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cluster = private_cluster(tls=True, sasl="SCRAM-SHA-512", acls=True)
    # Who comes in by the internal listener may do everything.
    root = parse(cluster.name, {"bootstrap.servers": cluster.internal_bootstrap})
    password = secrets.token_hex(8)
    with Admin(root, cluster.name) as admin:
        admin.topics.create(NewTopic(topic_name))
        admin.users.put("guest", "SCRAM-SHA-512", Secret.literal("guest", password))
        wait_until(lambda: "guest" in admin.users.names())
        rule = Acl(
            Resource.TOPIC,
            topic_name[:20],
            "User:guest",
            Operation.DESCRIBE,
            Permission.ALLOW,
            Pattern.PREFIXED,
        )
        other = Acl(Resource.CLUSTER, CLUSTER_NAME, "User:guest", Operation.ALTER, Permission.DENY)
        admin.acls.create([rule, other])
        wait_until(lambda: len(admin.acls.matching(AclFilter(principal="User:guest"))) == 2)
        assert admin.acls.matching(AclFilter(resource=Resource.CLUSTER)) == [other]

        guest = parse(
            cluster.name,
            cluster.client_properties() | {"sasl.username": "guest", "sasl.password": password},
            allow_literal_secrets=True,
        )
        with Admin(guest, cluster.name) as limited:
            wait_until(lambda: limited.topics.names() == [topic_name])
            with pytest.raises(NotAuthorized, match="DescribeConfigs"):
                limited.configs.of_topics([topic_name])
            with pytest.raises(NotAuthorized, match="Create"):
                limited.topics.create(NewTopic(f"other.{topic_name}"))
            with pytest.raises(NotAuthorized, match="Describe to read ACLs"):
                limited.acls.matching()

        wrong = parse(
            cluster.name,
            cluster.client_properties() | {"sasl.username": "guest", "sasl.password": "wrong"},
            allow_literal_secrets=True,
        )
        with Admin(wrong, cluster.name) as nobody, pytest.raises(LoginRefused, match="as guest"):
            nobody.topics.names()

        assert admin.acls.delete([rule, other]) == sorted([rule, other])
        assert admin.acls.matching() == []
        admin.users.delete("guest", "SCRAM-SHA-512")
        wait_until(lambda: "guest" not in admin.users.names())
    assert password not in caplog.text


@pytest.mark.parametrize(
    "spec",
    [{"mtls": True}, {"sasl": "OAUTHBEARER"}, {"sasl": "PLAIN", "tls": True}],
    ids=["mtls", "oauthbearer", "plain"],
)
def test_every_way_to_log_in_works_and_leaves_no_secret_in_the_log(
    private_cluster: Callable[..., Any], spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cluster = private_cluster(**spec)
    settings = parse(cluster.name, cluster.client_properties(reveal=False))
    with Admin(settings, cluster.name) as admin:
        assert admin.describe().cluster_id
    values = [secret.reveal() for secret in settings.secrets]
    values += [oauth.token(settings)] if settings.sasl_mechanism == "OAUTHBEARER" else []
    assert not [value for value in values if value in caplog.text]


def test_a_plain_listener_spoken_to_with_tls_is_explained(source: Any) -> None:
    settings = parse("source", {"bootstrap.servers": source.bootstrap, "security.protocol": "SSL"})
    endpoint = settings.bootstrap[0]
    with pytest.raises(OSError) as failure, open_tls(settings, endpoint):
        pass
    assert "should be PLAINTEXT" in str(tls.explain(failure.value, "source", endpoint))


def test_a_listener_that_wants_a_certificate_says_so(private_cluster: Callable[..., Any]) -> None:
    cluster = private_cluster(mtls=True)
    properties = cluster.client_properties()
    del properties["ssl.certificate.location"], properties["ssl.key.location"]
    settings = parse(cluster.name, properties)
    endpoint = settings.bootstrap[0]
    with pytest.raises(OSError) as failure, open_tls(settings, endpoint) as secure:
        # With TLS 1.3 the refusal comes after the handshake, with the first bytes.
        secure.recv(1)
    assert "client certificate" in str(tls.explain(failure.value, "source", endpoint))
