"""A link turns round with the permissions that the guide names, and with no others."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.copy.opening import Ends
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.links.own_topics import make_own_topics
from heliograph.local.spec import User
from heliograph.model.acls import CLUSTER_NAME, Acl, Operation, Pattern, Resource
from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition
from tests.broker.groups import GroupLink, commit, consume
from tests.broker.linked import copy_all, produce, within
from tests.broker.links import Link
from tests.broker.recovering import tell
from tests.conftest import BorrowedCluster
from tests.making import create_topic

LINK, MIRROR = "guarded", "User:mirror"


def needed(topic: str) -> list[Acl]:
    """Return the guide's table for the source, and what copying needs."""
    own, claims = f"__heliograph.{LINK}-reverse.", f"heliograph.{LINK}-reverse."
    return [
        *(
            Acl(Resource.TOPIC, own, MIRROR, one, pattern=Pattern.PREFIXED)
            for one in (Operation.CREATE, Operation.READ, Operation.WRITE)
        ),
        Acl(Resource.TRANSACTIONAL_ID, claims, MIRROR, Operation.WRITE, pattern=Pattern.PREFIXED),
        Acl(Resource.TOPIC, topic, MIRROR, Operation.READ),
        Acl(Resource.TOPIC, topic, MIRROR, Operation.WRITE),
        Acl(Resource.GROUP, topic, MIRROR, Operation.READ),
        Acl(Resource.CLUSTER, CLUSTER_NAME, MIRROR, Operation.DESCRIBE),
        Acl(Resource.CLUSTER, CLUSTER_NAME, MIRROR, Operation.ALTER),
    ]


def test_a_switch_keeps_everybody_out_but_itself(
    private_cluster: Callable[..., Any],
    target: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secured = private_cluster(
        sasl="SCRAM-SHA-512", acls=True, users=(User("mirror", "password-of-mirror"),)
    )
    # Who comes in by the internal listener may do everything.
    source = BorrowedCluster("source", secured.internal_bootstrap)
    here, wanted = Partition(topic_name, 0), needed(topic_name)
    file = _file(tmp_path, secured, target, topic_name)
    with Admin(parse("source", source.client_properties()), "source") as root:
        root.acls.create(wanted, within(20))
        while len(root.acls.matching(deadline=within(20))) < len(wanted):
            time.sleep(0.05)
    _copy(source, target, here, file)
    capsys.readouterr()
    assert run(["switch", LINK, "-f", str(file), "-o", "json"]) == 0, capsys.readouterr().err
    (found,) = json.loads(capsys.readouterr().out)
    assert found["state"] == "REVERSING" and found["missing_records"] == 0
    with Admin(parse("source", source.client_properties()), "source") as root:
        assert set(root.acls.matching(deadline=within(20))) == set(wanted)  # the fence is down
    assert consume(target, topic_name, topic_name, 6) == [b"%d" % one for one in range(4, 10)]


def _copy(source: Any, target: Any, here: Partition, file: Path) -> None:
    for cluster in (source, target):
        create_topic(cluster.bootstrap, here.topic)
    produce(source.bootstrap, here.topic, [b"%d" % number for number in range(10)])
    commit(source, here.topic, {here: 4})
    loop = Loop()
    with (
        closing(loop),
        Cluster(parse("source", source.client_properties()), "source", loop) as one,
        Cluster(parse("target", target.client_properties()), "target", loop) as other,
    ):
        with Admin(parse("target", target.client_properties()), "target") as admin:
            make_own_topics(admin, LINK, within(30))
        ends = Ends(LINK, one, other, ledger_topic(LINK))
        copy_all(ends, here)
        tell(GroupLink(Link(LINK, file, target), source, target, ends), here)


def _file(folder: Path, secured: Any, target: Any, topic: str) -> Path:
    properties = json.dumps(secured.client_properties("mirror"))
    file = folder / "heliograph.yaml"
    file.write_text(
        f"""
clusters:
  source: {{allow_literal_secrets: true, {properties[1:-1]}}}
  target: {{bootstrap.servers: "{target.bootstrap}"}}
links:
  {LINK}: {{source: source, target: target, topics: ["{topic}"], groups: ["{topic}.*"]}}
"""
    )
    return file
