"""Consumer groups for tests: a link whose topics are copied here, and consumers by librdkafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from heliograph.copy.opening import Ends
from heliograph.links.group_sync import GroupSync, Synced
from heliograph.links.setup import Setup
from heliograph.model.names import ledger_topic, state_topic
from heliograph.model.topics import Partition
from heliograph.wiring import load_config, setups
from tests.broker.linked import copy_all, within
from tests.broker.links import Link, make_link
from tests.making import create_topic

_WITHIN_S = 20.0
PROTOCOLS = ("classic", "consumer")


@dataclass(frozen=True)
class GroupLink:
    """A link of a file, both of its clusters, and what copies its topics."""

    link: Link
    source: Any
    target: Any
    ends: Ends

    @property
    def name(self) -> str:
        return self.link.name

    @property
    def setup(self) -> Setup:
        (found,) = setups(load_config(self.link.file), [self.name])
        return found

    def make(self, topic: str, partitions: int = 1, **config: str) -> Partition:
        """Create a topic that the link copies, and its mirror."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        for cluster in (self.source, self.target):
            create_topic(cluster.bootstrap, topic, partitions, config=named)
        return Partition(topic, 0)

    def make_on(self, cluster: Any, topic: str) -> None:
        """Create a topic of one partition on one of the clusters."""
        create_topic(cluster.bootstrap, topic)

    def copy(self, here: Partition) -> None:
        """Copy a partition to the source's present end."""
        copy_all(self.ends, here)

    def sync(self, *, deletes: bool = False) -> Synced:
        """Make one pass over the groups."""
        with closing(GroupSync(self.setup)) as sync:
            return sync.run(within(30), deletes=deletes)

    def state(self) -> dict[bytes, bytes]:
        return dict(self.link.rows(state_topic(self.name)))


def group_link(
    folder: Path, source: Any, target: Any, ends: tuple[Any, Any], groups: str, more: str = ""
) -> GroupLink:
    """Write a link of the groups whose names begin like ``groups``, with its own topics."""
    settings = f'    groups: ["{groups}.*"]\n{more}'
    link = make_link(folder, source.bootstrap, target, settings, topics=f'"{groups}.*"')
    link.make_topics()
    return GroupLink(link, source, target, Ends(link.name, *ends, ledger_topic(link.name)))


def commit(cluster: Any, group: str, offsets: dict[Partition, int], metadata: str = "") -> None:
    """Commit as a consumer does that nobody coordinates."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    wanted = [TopicPartition(*one, at, metadata) for one, at in offsets.items()]
    over = within(_WITHIN_S)
    while True:
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False)
            break
        except KafkaException as failure:
            # The first group of a cluster that was just started.
            if failure.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS or over.passed:
                raise
    assert done is not None and not any(one.error for one in done), done
    consumer.close()


def commit_many(cluster: Any, groups: list[str], offsets: dict[Partition, int]) -> None:
    """Set the offsets of many groups from outside, at once."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [TopicPartition(*one, at) for one, at in offsets.items()]
    asked = [
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[group]
        for group in groups
    ]
    for done in asked:
        done.result(_WITHIN_S)


def committed(cluster: Any, group: str) -> dict[Partition, tuple[int, str]]:
    """Return all offsets of a group with their metadata."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(_WITHIN_S).topic_partitions
    return {
        Partition(one.topic, one.partition): (one.offset, one.metadata or "")
        for one in found
        if one.offset >= 0
    }


def offset(cluster: Any, group: str, here: Partition) -> int | None:
    """Return where a group goes on in a partition; None if it never committed there."""
    found = committed(cluster, group).get(here)
    return found[0] if found else None


@contextmanager
def joined(cluster: Any, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    """Be the only member of a group, with partitions assigned; leave at the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        | ({"session.timeout.ms": 6000} if protocol == "classic" else {})
    )
    assigned: list[TopicPartition] = []

    def on_assign(_: Consumer, parts: list[TopicPartition]) -> None:
        (consumer.assign if protocol == "classic" else consumer.incremental_assign)(parts)
        consumer.pause(parts)  # whoever joined reads when it wants to
        assigned.extend(parts)

    consumer.subscribe([topic], on_assign=on_assign)
    over = within(_WITHIN_S)
    try:
        while not assigned:
            assert not over.passed, "nothing was assigned"
            consumer.poll(0.1)
        consumer.resume(assigned)
        yield consumer
    finally:
        consumer.close()


def consume(
    cluster: Any, group: str, topic: str, count: int, protocol: str = "classic"
) -> list[bytes]:
    """Read so many records as a member of a group, commit, and leave."""
    found: list[bytes] = []
    with joined(cluster, group, topic, protocol) as consumer:
        over = within(_WITHIN_S)
        while len(found) < count:
            assert not over.passed, found
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                found.append(message.value() or b"")
                consumer.commit(message, asynchronous=False)
    return found


def delete_groups(cluster: Any, *groups: str) -> None:
    """Delete groups and wait until they are."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.delete_consumer_groups(list(groups)).values():
        done.result(_WITHIN_S)


def records(cluster: Any, here: Partition, count: int) -> list[tuple[int, bytes]]:
    """Return the first records of a partition with their offsets, as a reader sees them."""
    reader = _reader(cluster)
    reader.assign([TopicPartition(*here, 0)])
    found = reader.consume(count, _WITHIN_S)
    reader.close()
    return [(one.offset() or 0, one.value() or b"") for one in found]


def end(cluster: Any, here: Partition) -> int:
    """Return where a partition ends."""
    reader = _reader(cluster)
    _, found = reader.get_watermark_offsets(TopicPartition(*here), _WITHIN_S)
    reader.close()
    return int(found)


def _reader(cluster: Any) -> Consumer:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader"}
    return Consumer(settings | {"enable.auto.commit": False})
