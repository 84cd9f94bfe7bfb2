"""Topics that come back under the same name: offsets of the one before mean nothing to groups."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from heliograph.errors import Unsafe
from heliograph.links.group_changes import carry_out, plan_rollback, take_snapshot
from heliograph.links.group_ends import GroupEnds
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.groups import commit, consume, offset
from tests.broker.linked import copy_all, produce, within
from tests.broker.recovering import Make, lose_source, numbers, recover, tell
from tests.making import create_topic, delete_topic


def test_a_group_that_read_a_topic_to_its_end_reads_the_one_made_in_its_place(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    on_recreate: restart")
    here, daily = link.make(topic_name), f"{topic_name}.daily"
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    for group in (topic_name, daily):
        commit(link.source, group, {here: 20})
    link.copy(here)
    assert not link.sync().errors
    delete_topic(link.source.bootstrap, topic_name)
    create_topic(link.source.bootstrap, topic_name)
    produce(link.source.bootstrap, topic_name, numbers(20, 30))
    copy_all(link.ends, here, Policies(on_recreate="restart"))
    commit(link.source, daily, {here: 4})
    tell(link, here)
    assert not link.sync().errors  # the other one has no offsets any more, so nobody sees it
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes")
    why = {one["group"]: one["why"] for one in found["groups"]}
    assert "made anew" in why[topic_name] and "made anew" not in why[daily]
    assert consume(link.target, topic_name, topic_name, 10) == numbers(20, 30)
    assert consume(link.target, daily, topic_name, 6) == numbers(24, 30)


def test_a_rollback_leaves_groups_alone_on_mirrors_that_were_made_anew(
    make: Make, topic_name: str
) -> None:
    link, told = make(), list[str]()
    here, other = link.make(topic_name), link.make(f"{topic_name}.other")
    for one in (here, other):
        produce(link.source.bootstrap, one.topic, numbers(0, 10))
        link.copy(one)
    commit(link.target, topic_name, {here: 3, other: 3})
    with closing(GroupEnds(link.setup)) as ends:
        nowhere = f"{topic_name}.nowhere"
        taken = take_snapshot(ends, "me", "test", within(30), also=[nowhere])
        delete_topic(link.target.bootstrap, topic_name)
        create_topic(link.target.bootstrap, topic_name)
        produce(link.target.bootstrap, topic_name, numbers(0, 10))
        for group in (topic_name, nowhere):
            commit(link.target, group, {here: 8, other: 8})
        _, changes = plan_rollback(ends, taken.id, within(30), told.append)
        found = {(one.group, one.partition): one.after and one.after.offset for one in changes}
        assert found == {(topic_name, other): 3, (nowhere, other): None}
        assert len(told) == 1 and told[0].startswith(f"{topic_name}: made anew since, or gone.")
        assert not carry_out(ends, "target", changes, within(30))
        assert offset(link.target, topic_name, here) == 8 == offset(link.target, nowhere, here)
        # Nothing is left of it that could be gone back to.
        delete_topic(link.target.bootstrap, other.topic)
        with pytest.raises(Unsafe, match="mean nothing in another topic"):
            plan_rollback(ends, taken.id, within(30))


def test_a_rollback_deletes_no_offset_of_a_partition_that_was_added_since(
    make: Make, topic_name: str
) -> None:
    link = make()
    here, added = link.make(topic_name), Partition(topic_name, 1)
    link.copy(here)
    with closing(GroupEnds(link.setup)) as ends:
        taken = take_snapshot(ends, "me", "test", within(30), also=[topic_name])
        for cluster in (link.source, link.target):
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            admin.create_partitions([NewPartitions(topic_name, 2)])[topic_name].result(20)
        copy_all(link.ends, added)
        commit(link.target, topic_name, {here: 0, added: 0})
        _, changes = plan_rollback(ends, taken.id, within(30))
        assert [(one.partition, one.after) for one in changes] == [(here, None)]
