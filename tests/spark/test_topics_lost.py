"""Topics deleted, made anew, refused or written to by others: they stop, the others go on."""

import re
import time
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from heliograph.model.control import PartReport
from tests.broker.linked import produce
from tests.checker.reading import read_partition
from tests.faults.engine import Driver, Link, until
from tests.making import create_topic, delete_topic

SET = AlterConfigOpType.SET


def copied(link: Link, topic: str, source_next: int, driver: Driver) -> None:
    """Wait until the ledger says that a topic is copied so far."""

    def is_there() -> bool:
        report = link.report(topic)
        return report is not None and report.source_next == source_next

    driver.wait_copying()
    until(is_there, 240, lambda: f"{topic} is not copied: {driver.said}")


def fault(link: Link, topic: str, driver: Driver) -> PartReport:
    """Wait until a topic's partition is told to be faulted."""

    def faulted() -> PartReport | None:
        report = link.report(topic)
        return report if report is not None and report.state == "FAULTED" else None

    found = until(faulted, 60, lambda: f"{topic} does not stop: {driver.said}")
    assert found is not None
    return found


def test_a_topic_made_anew_under_the_same_name_stops_and_is_not_mixed_up(
    source: Any, driver: Driver, shared_link: Link, shared_topic: str
) -> None:
    link, topic, other = shared_link, shared_topic, f"{shared_topic}.other"
    for name in (topic, other):
        create_topic(source.bootstrap, name)
        produce(source.bootstrap, name, [b"%d" % number for number in range(50)])
    copied(link, topic, 50, driver)
    delete_topic(source.bootstrap, topic)
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, [b"another %d" % number for number in range(80)])
    found = fault(link, topic, driver)
    assert found.error[0] in ("topic-recreated", "ledger-unfit"), found
    assert f"{topic}-0 goes on" not in driver.said
    produce(source.bootstrap, other, [b"more"])
    copied(link, other, 51, driver)
    link.check(other)
    assert link.ledger(topic).source_next == 50


def test_a_topic_that_is_deleted_while_it_is_copied_stops_no_other(
    source: Any, driver: Driver, shared_link: Link, shared_topic: str
) -> None:
    link, topic, other = shared_link, shared_topic, f"{shared_topic}.other"
    for name in (topic, other):
        create_topic(source.bootstrap, name)
        produce(source.bootstrap, name, [b"%d" % number for number in range(50)])
    copied(link, topic, 50, driver)
    delete_topic(source.bootstrap, topic)
    produce(source.bootstrap, other, [b"at once"])
    copied(link, other, 51, driver)
    assert fault(link, topic, driver).error[0] == "topic-missing"
    produce(source.bootstrap, other, [b"later"])
    copied(link, other, 52, driver)
    link.check(other)
    assert link.ledger(topic).source_next == 50


def test_a_mirror_that_cannot_be_made_is_tried_again_until_it_can(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str
) -> None:
    """Brokers refuse a name that differs from an existing one only in a dot and an underscore."""
    link, topic, other = shared_link, f"{shared_topic}.x", f"{shared_topic}.other"
    in_the_way = f"{shared_topic}_x"
    create_topic(target.bootstrap, in_the_way)
    for name in (topic, other):
        create_topic(source.bootstrap, name)
        produce(source.bootstrap, name, [b"%d" % number for number in range(50)])
    until(lambda: "collides" in driver.said, 120, lambda: driver.said)
    copied(link, other, 50, driver)
    assert topic not in AdminClient({"bootstrap.servers": target.bootstrap}).list_topics().topics
    delete_topic(target.bootstrap, in_the_way)
    copied(link, topic, 50, driver)
    link.check(topic, other)


def test_a_mirror_that_is_deleted_stops_its_topic_alone(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str
) -> None:
    link, topic, other = shared_link, shared_topic, f"{shared_topic}.other"
    for name in (topic, other):
        create_topic(source.bootstrap, name)
        produce(source.bootstrap, name, [b"%d" % number for number in range(50)])
    copied(link, topic, 50, driver)
    delete_topic(target.bootstrap, topic)
    produce(source.bootstrap, topic, [b"more"])
    found = fault(link, topic, driver)
    assert found.error[0] in ("topic-recreated", "topic-missing", "ledger-unfit"), found
    produce(source.bootstrap, other, [b"more"])
    copied(link, other, 51, driver)
    link.check(other)


def test_records_of_others_on_a_mirror_are_named_by_their_offsets(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str
) -> None:
    link, topic, other = shared_link, shared_topic, f"{shared_topic}.other"
    for name in (topic, other):
        create_topic(source.bootstrap, name)
        produce(source.bootstrap, name, [b"%d" % number for number in range(50)])
    copied(link, topic, 50, driver)
    disturbed_s = -60.0

    def named() -> re.Match[str] | None:
        """Disturb the mirror now and then: a claim in between passes over what others wrote."""
        nonlocal disturbed_s
        if time.monotonic() - disturbed_s > 10:
            produce(target.bootstrap, topic, [b"foreign %d" % number for number in range(7)])
            produce(source.bootstrap, topic, [b"ours"])
            disturbed_s = time.monotonic()
        line = rf"{re.escape(topic)}-0 stopped: foreign-records: .* offset (\d+) to (\d+)"
        return re.search(line, driver.said)

    found = until(named, 60, lambda: driver.said)
    assert found is not None
    start, end = map(int, found.groups())
    seen = read_partition(target.bootstrap, topic, 0, committed=False)
    values = [one.value for at, one in seen if start <= at < end]
    assert values and all((value or b"").startswith(b"foreign") for value in values), values
    produce(source.bootstrap, other, [b"more"])
    copied(link, other, 51, driver)
    link.check(other)


def test_a_mirror_that_replaces_times_gets_no_record_until_it_keeps_them(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str
) -> None:
    link, topic, other = shared_link, shared_topic, f"{shared_topic}.other"
    create_topic(target.bootstrap, topic, config={"message.timestamp.type": "LogAppendTime"})
    for name in (topic, other):
        create_topic(source.bootstrap, name)
        produce(source.bootstrap, name, [b"%d" % number for number in range(50)])
    copied(link, other, 50, driver)
    until(lambda: "mirror-append-time" in driver.said, 60, lambda: driver.said)
    assert link.report(topic) is None
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "nobody"})
    with closing(consumer):
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 20) == (0, 0)
    setting = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[setting])
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.incremental_alter_configs([change])[change].result(20)
    copied(link, topic, 50, driver)
    link.check(topic, other)
