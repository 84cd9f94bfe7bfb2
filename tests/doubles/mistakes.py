"""How the tests of mistakes look at them: one error, in time, and no secret in it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)

from heliograph.errors import HeliographError, NotAuthorized, TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.spec import User
from tests.doubles.driving import within

PASSWORD = 'correct "horse" = battery\\staple; ä'
WRONG = "not-the-password-4711"
USERS = (User("alice", PASSWORD), User("stranger", PASSWORD + "!"))
SECRETS = (PASSWORD, PASSWORD + "!", WRONG)
DEADLINE_S = 3.0
# Looking at a certificate for the message, and a busy machine.
SLACK_S = 4.0


def open_cluster(name: str, properties: Mapping[str, str]) -> Cluster:
    return Cluster(parse(name, properties, allow_literal_secrets=True), name)


def failure_of(
    kind: type[HeliographError], name: str, act: Callable[[], object], seconds: float = DEADLINE_S
) -> str:
    """Return the text of the one error that ``act`` must raise, in time and without secrets."""
    begin_s = time.monotonic()
    with pytest.raises(HeliographError) as caught:
        act()
    took_s = time.monotonic() - begin_s
    error = caught.value
    print(error)
    assert type(error) is kind, repr(error)
    assert took_s < seconds + SLACK_S, f"took {took_s:.1f} s"
    assert f"cluster {name}" in str(error)
    told = "".join(traceback.format_exception(error))
    link: BaseException | None = error
    while link is not None:
        told += f"{link!r} {link} {link.args!r} {getattr(link, '__dict__', {})!r}"
        link = link.__cause__ or link.__context__
    leaked = [secret for secret in SECRETS if secret in told]
    assert not leaked, told
    return str(error)


def allow(local: LocalCluster, user: str, kind: Any, name: str, *operations: Any) -> None:
    admin = AdminClient({"bootstrap.servers": local.internal_bootstrap})
    bindings = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for made in admin.create_acls(bindings).values():
        made.result(20)


def until_described(cluster: Cluster, topic: str) -> Any:
    """An ACL holds a moment after it is confirmed."""
    deadline = within()
    while True:
        try:
            return cluster.describe([topic], within(DEADLINE_S)).topics[topic].topic_id
        except (NotAuthorized, TopicMissing):
            if deadline.passed:
                raise
