"""A target that lets its user set some groups only: the others are told, and stop nobody."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from heliograph.copy.opening import Ends
from heliograph.errors import NotAuthorized
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.links.group_changes import carry_out, plan_rollback, take_snapshot
from heliograph.links.group_ends import GroupEnds
from heliograph.links.group_sync import GroupSync
from heliograph.links.own_topics import make_own_topics
from heliograph.local.spec import User
from heliograph.model.acls import Acl, Operation, Pattern, Permission, Resource
from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition
from heliograph.wiring import load_config, setups
from tests.broker.groups import commit, offset
from tests.broker.linked import copy_all, produce, within
from tests.conftest import BorrowedCluster
from tests.making import create_topic

MIRROR = "User:mirror"
NEEDED = [
    Acl(Resource.TOPIC, "*", MIRROR, Operation.READ),
    Acl(
        Resource.TOPIC,
        "__heliograph.",
        MIRROR,
        Operation.WRITE,
        Permission.ALLOW,
        Pattern.PREFIXED,
    ),
]


def test_a_group_that_may_not_be_set_is_told_and_stops_no_other(
    private_cluster: Callable[..., Any], source: Any, topic_name: str, tmp_path: Path
) -> None:
    users = (User("mirror", "password-of-mirror"),)
    secured = private_cluster(sasl="SCRAM-SHA-512", acls=True, users=users)
    # Who comes in by the internal listener may do everything.
    target = BorrowedCluster("target", secured.internal_bootstrap)
    here, may, may_not = Partition(topic_name, 0), f"{topic_name}.may", f"{topic_name}.not"
    with Admin(parse("target", target.client_properties()), "target") as root:
        make_own_topics(root, "guarded", within(30))
        wanted = [*NEEDED, Acl(Resource.GROUP, may, MIRROR, Operation.READ)]
        _grant(root, *wanted)
    _copy(source, target, here)
    for group in (may, may_not):
        commit(source, group, {here: 4})
    (setup,) = setups(load_config(_file(tmp_path, source, secured, topic_name)))
    with closing(GroupSync(setup)) as sync:
        synced = sync.run(within(30))
    assert isinstance(synced.failed[may_not], NotAuthorized) and len(synced.failed) == 1
    assert may_not in synced.errors[0] and "Read on the target" in synced.errors[0]
    assert offset(target, may, here) is not None and offset(target, may_not, here) is None
    found = {one.group: one.sync for one in synced.report.groups}
    assert found == {may: "in_sync", may_not: "failed"}


def test_a_rollback_leaves_a_group_alone_that_its_snapshot_could_not_read(
    private_cluster: Callable[..., Any], source: Any, topic_name: str, tmp_path: Path
) -> None:
    users = (User("mirror", "password-of-mirror"),)
    secured = private_cluster(sasl="SCRAM-SHA-512", acls=True, users=users)
    target = BorrowedCluster("target", secured.internal_bootstrap)
    here, may, may_not = Partition(topic_name, 0), f"{topic_name}.may", f"{topic_name}.not"
    new = f"{topic_name}.new"
    granted = Acl(Resource.GROUP, topic_name, MIRROR, Operation.READ, pattern=Pattern.PREFIXED)
    with Admin(parse("target", target.client_properties()), "target") as root:
        make_own_topics(root, "guarded", within(30))
        # Who may describe the cluster sees the names of all groups.
        lists = Acl(Resource.CLUSTER, "kafka-cluster", MIRROR, Operation.DESCRIBE)
        _grant(root, *NEEDED, lists, Acl(Resource.GROUP, may, MIRROR, Operation.READ))
        _copy(source, target, here)
        for group in (may, may_not):
            commit(target, group, {here: 4})
        (setup,) = setups(load_config(_file(tmp_path, source, secured, topic_name)))
        with closing(GroupEnds(setup)) as ends:
            taken = take_snapshot(ends, "me", "test", within(30), also=[may, may_not])
            assert (taken.groups, taken.unread, taken.unread_names) == (1, 1, (may_not,))
            for group in (may, may_not, new):
                commit(target, group, {here: 6})
            _grant(root, granted)
            told: list[str] = []
            found, changes = plan_rollback(ends, None, within(30), told.append)
            assert found.id == taken.id and [one.group for one in changes] == [may]
            assert told == [f"1 group could not be read, and is not in the snapshot: {may_not}"]
            assert not carry_out(ends, "target", changes, within(30))
    assert [offset(target, group, here) for group in (may, may_not, new)] == [4, 6, 6]


def _grant(root: Admin, *acls: Acl) -> None:
    """Grant rights, and wait until the broker tells of them."""
    root.acls.create(acls, within(20))
    while not set(acls) <= set(root.acls.matching(deadline=within(20))):
        time.sleep(0.05)


def _copy(source: Any, target: Any, here: Partition) -> None:
    for cluster in (source, target):
        create_topic(cluster.bootstrap, here.topic)
    produce(source.bootstrap, here.topic, [b"%d" % number for number in range(10)])
    loop = Loop()
    with (
        closing(loop),
        Cluster(parse("source", source.client_properties()), "source", loop) as one,
        Cluster(parse("target", target.client_properties()), "target", loop) as other,
    ):
        copy_all(Ends("guarded", one, other, ledger_topic("guarded")), here)


def _file(folder: Path, source: Any, secured: Any, topic: str) -> Path:
    properties = json.dumps(secured.client_properties("mirror"))
    file = folder / "heliograph.yaml"
    file.write_text(
        f"""
clusters:
  source: {{bootstrap.servers: "{source.bootstrap}"}}
  target: {{allow_literal_secrets: true, {properties[1:-1]}}}
links:
  guarded: {{source: source, target: target, topics: ["{topic}"], groups: ["{topic}.*"]}}
"""
    )
    return file
