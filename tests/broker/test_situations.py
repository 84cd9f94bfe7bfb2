"""Each situation of a batch that the plain copy does not cover, through a stream on real logs.

What Heliograph wrote is read back by librdkafka; the checker follows the ledger.
"""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer as RdProducer

from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import TopicRecreated
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.records import encode
from heliograph.kafka.tables import Table
from heliograph.kafka.transport import Loop
from heliograph.model.ledger import read_ledger
from heliograph.model.runs import Reason
from heliograph.model.topics import Partition
from heliograph.model.translation import Translator
from tests.broker.linked import (
    await_holes,
    check_link,
    copy_all,
    headers,
    make_ledger,
    on_mirror,
    opened_one,
    produce,
    record,
    same,
    step_until,
    step_until_failure,
    streaming,
    within,
    write_batches,
)
from tests.checker.reading import CREATE_TIME, read_partition
from tests.making import create_topic, delete_topic


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_small_batches_that_wait_are_joined(
    source: Any, target: Any, link: Ends, here: Partition, codec: Codec
) -> None:
    batches = [encode([record(b"%d" % n, key=None)], codec=codec) for n in range(500)]
    write_batches(link.source, here, batches)
    opened = copy_all(link, here)
    assert same(source, target, here) == 500
    mirrored = headers(link.target, here)
    assert len(mirrored) < 100
    assert {header.codec for header in mirrored} == {codec}
    assert [run.length for run in opened.ledger.runs] == [500]
    check_link(source, target, link, here.topic)


def test_big_batches_go_through_untouched(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    rows = [record(bytes(500)) for _ in range(100)]
    write_batches(link.source, here, [encode(rows, codec=Codec.NONE)] * 20)
    copy_all(link, here)
    assert [header.count for header in headers(link.target, here)] == [100] * 20
    assert same(source, target, here) == 2000


def test_a_record_at_rest_is_sent_in_the_step_in_which_it_came(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    stream = streaming(link, opened_one(link, here))
    part = stream.parts[here]
    step_until(stream, lambda: part.is_caught_up)
    for number in range(1, 6):
        produce(source.bootstrap, here.topic, [b"x"])
        step_until(stream, lambda wanted=number: part.read_to == wanted)  # type: ignore[misc]
        assert part.flying or part.position == number, "it waits for something"
        step_until(stream, lambda: part.is_caught_up)
    stream.close()
    assert same(source, target, here) == 5


def test_markers_and_aborted_records_are_not_copied(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    producer = RdProducer({"bootstrap.servers": source.bootstrap, "transactional.id": here.topic})
    producer.init_transactions(20)
    for number in range(10):
        producer.begin_transaction()
        for step in range(3):
            producer.produce(here.topic, b"%d %d" % (number, step), partition=0)
            producer.flush(20)
        (producer.abort_transaction if number % 3 else producer.commit_transaction)(20)
        produce(source.bootstrap, here.topic, [b"plain %d" % number])
    copy_all(link, here)
    assert same(source, target, here) == 12 + 10
    check_link(source, target, link, here.topic)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_a_batch_is_cropped_at_both_ends(
    source: Any, target: Any, link: Ends, here: Partition, codec: Codec
) -> None:
    rows = [record(b"%d" % n) for n in range(10)]
    write_batches(link.source, here, [encode(rows, codec=codec), encode(rows, codec=codec)])
    with Admin(link.source.settings, "source") as admin:
        admin.logs.delete_records({here: 4})
    stream = streaming(link, opened_one(link, here), until={here: 15})
    step_until(stream, lambda: stream.parts[here].is_caught_up)
    stream.finish(within(20))
    stream.close()
    assert stream.parts == {}
    wanted = [b"%d" % n for n in [4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4]]
    assert [seen.value for _, seen in on_mirror(target, here)] == wanted
    copy_all(link, here)
    assert same(source, target, here) == 16
    check_link(source, target, link, here.topic)


def test_append_times_are_kept_as_create_times(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    create_topic(source.bootstrap, here.topic, config={"message.timestamp.type": "LogAppendTime"})
    create_topic(target.bootstrap, here.topic)
    link = Ends("test", *ends, make_ledger(target.bootstrap, here.topic))
    write_batches(link.source, here, [encode([record(b"%d" % n, 1000)] * 3) for n in range(5)])
    copy_all(link, here)
    theirs = list(read_partition(source.bootstrap, here.topic, 0, committed=True))
    ours = on_mirror(target, here)
    assert [seen.timestamp for _, seen in ours] == [seen.timestamp for _, seen in theirs]
    assert {seen.timestamp_type for _, seen in ours} == {CREATE_TIME}
    assert all(seen.timestamp > 1000 for _, seen in ours) and len(ours) == 15


def test_compacted_batches_are_copied_without_their_holes(
    private_cluster: Callable[..., Any], target: Any, here: Partition
) -> None:
    source = private_cluster(properties={"log.cleaner.backoff.ms": "100"})
    rolls = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.0"}
    create_topic(source.bootstrap, here.topic, config=rolls)
    create_topic(target.bootstrap, here.topic)
    loop = Loop()
    with (
        Cluster(parse("source", source.client_properties()), "source", loop) as one,
        Cluster(parse("target", target.client_properties()), "target", loop) as other,
    ):
        link = Ends("test", one, other, make_ledger(target.bootstrap, here.topic))
        rows = [record(b"%d" % n, key=b"%d" % (n * n % 40)) for n in range(200)]
        write_batches(one, here, [encode(rows, codec=Codec.LZ4), encode(rows[:150])])
        await_holes(one, here)
        copy_all(link, here)
        assert 0 < same(source, target, here) < 200
        check_link(source, target, link, here.topic)
        translate_over_holes(source, target, link, here)
    loop.close()


def test_compaction_of_what_is_not_on_record_yet_does_not_look_like_divergence(
    private_cluster: Callable[..., Any], here: Partition
) -> None:
    """A copier dies; before the next one starts, both logs are compacted behind its ledger."""
    cluster = private_cluster(properties={"log.cleaner.backoff.ms": "100"})
    mirror = Partition(f"{here.topic}.mirror", 0)
    rolls = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.0"}
    for one in (here, mirror):
        create_topic(cluster.bootstrap, one.topic, config=rolls)
    loop = Loop()
    with Cluster(parse("both", cluster.client_properties()), "both", loop) as both:
        link = Ends("test", both, both, make_ledger(cluster.bootstrap, here.topic))
        rows = [record(b"%d" % n, key=b"k%d" % (n * n % 20)) for n in range(60)]
        write_batches(both, here, [encode(rows[:30]), encode(rows[30:])])
        opened = open_all(link, {here: mirror}, within(30))[here]
        assert isinstance(opened, Opened)
        stream = streaming(link, opened)
        while stream.parts[here].position < 60:
            stream.step()
        await_holes(both, here)
        await_holes(both, mirror)
        again = open_all(link, {here: mirror}, within(30))[here]
        assert isinstance(again, Opened), again
        assert again.ledger.source_next >= 60, "what was copied is not copied again"
        end = list_offsets(both, {here: LATEST}, within(20))[here]
        stream = streaming(link, again)
        step_until(stream, lambda: stream.parts[here].position >= end)
        stream.finish(within(20))
        newest = [
            {
                one.key: one.value
                for _, one in read_partition(cluster.bootstrap, topic, 0, committed=False)
            }
            for topic in (here.topic, mirror.topic)
        ]
        for latest in newest:
            del latest[b"filler"]
        assert newest[0] == newest[1] == {row.key: row.value for row in rows}
    loop.close()


def translate_over_holes(source: Any, target: Any, link: Ends, here: Partition) -> None:
    """See that a reader of the source goes on with the same record, or the next, on the mirror."""
    ledger = read_ledger(here, Table(link.target, link.ledger_topic).load(within(20)))
    assert ledger is not None
    translator = Translator(ledger)
    mirror = dict(on_mirror(target, here))
    left = dict(read_partition(source.bootstrap, here.topic, 0, committed=True))
    for offset, seen in left.items():
        found = translator.to_target(offset)
        assert found.reason is Reason.EXACT and mirror[found.offset].value == seen.value
    holes = [translator.to_target(offset) for offset in range(max(left)) if offset not in left]
    assert any(one.reason is Reason.NEXT for one in holes)
    assert all(one.offset in mirror for one in holes)


def test_a_source_topic_made_anew_stops_only_its_own_partition(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> None:
    gone, stays = Partition(f"{topic_name}.gone", 0), Partition(f"{topic_name}.stays", 0)
    for one in (gone, stays):
        create_topic(source.bootstrap, one.topic)
        create_topic(target.bootstrap, one.topic)
        produce(source.bootstrap, one.topic, [b"a", b"b"])
    link = Ends("test", *ends, make_ledger(target.bootstrap, topic_name))
    opened = open_all(link, {one: one for one in (gone, stays)}, within(30))
    ready = [one for one in opened.values() if isinstance(one, Opened)]
    stream = streaming(link, *ready)
    step_until(stream, lambda: all(part.is_caught_up for part in stream.parts.values()))
    delete_topic(source.bootstrap, gone.topic)
    create_topic(source.bootstrap, gone.topic)
    produce(source.bootstrap, gone.topic, [b"new"] * 5)
    error = step_until_failure(stream)
    assert isinstance(error, TopicRecreated) and stream.parts[gone].error is error
    produce(source.bootstrap, stays.topic, [b"c"])
    step_until(stream, lambda: stream.parts[stays].position == 3)
    stream.finish(within(20))
    assert [seen.value for _, seen in on_mirror(target, gone)] == [b"a", b"b"]
    assert same(source, target, stays) == 3
