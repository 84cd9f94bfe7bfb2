"""Opened and streamed partitions on real clusters: where they begin, and when they refuse to."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as RdProducer

from bench.raw_copy import within
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.copy.stream import Stream
from heliograph.errors import Diverged, HeliographError, LedgerUnfit, Superseded
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import DEFAULT_LIMITS
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import Record, encode
from heliograph.kafka.waiting import write
from heliograph.model.runs import Reason
from heliograph.model.topics import Partition
from tests.checker.compare import count_equal
from tests.checker.reading import read_partition
from tests.making import create_topic, delete_topic


@pytest.fixture
def link(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> Iterator[Ends]:
    """A link of one topic of one partition, its mirror and its ledger; all empty."""
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name)
    compacted = {"cleanup.policy": "compact"}
    create_topic(target.bootstrap, f"{topic_name}.ledger", config=compacted)
    yield Ends("test", *ends, f"{topic_name}.ledger")


@pytest.fixture
def here(topic_name: str) -> Partition:
    return Partition(topic_name, 0)


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: Any) -> None:
    producer = RdProducer({"bootstrap.servers": bootstrap} | settings)
    for value in values:
        producer.produce(topic, value, key=value[:1], partition=0)
    assert producer.flush(20) == 0


def open_one(link: Ends, here: Partition) -> Opened | HeliographError:
    return open_all(link, {here: here}, within(30))[here]


def copy_all(link: Ends, here: Partition) -> Opened:
    """Open, copy to the source's present end, and record it."""
    opened = open_one(link, here)
    assert isinstance(opened, Opened), opened
    # The end of the log, not of what is committed by now: reading waits for open transactions.
    end = list_offsets(link.source, {here: LATEST}, within(20))[here]
    stream, deadline = Stream(link, [opened]), within(30)
    while stream.positions[here] < end:
        assert not deadline.passed and not stream.errors, stream.errors
        stream.step()
    stream.finish(within(20))
    return opened


def mirror_end(link: Ends, here: Partition) -> int:
    return list_offsets(link.target, {here: LATEST}, within(10))[here]


def same(source: Any, target: Any, here: Partition) -> int:
    both = (source.bootstrap, here.topic, target.bootstrap, here.topic)
    return count_equal(*both, 1)


def test_a_second_opening_goes_on_where_the_first_ended(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    copy_all(link, here)
    produce(source.bootstrap, here.topic, [b"c"])
    again = copy_all(link, here)
    assert same(source, target, here) == 3
    assert [run.length for run in again.ledger.runs] == [2, 1]  # a marker of the claim between


def test_what_is_not_on_record_is_matched_and_not_copied_again(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(100)])
    opened = open_one(link, here)
    assert isinstance(opened, Opened)
    stream = Stream(link, [opened])
    while stream.positions[here] < 100:
        stream.step()
    # It ends here without a word, as if killed: the ledger may be up to a second behind.
    copy_all(link, here)
    assert same(source, target, here) == 100


def test_a_first_opening_begins_at_the_oldest_record(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(10)])
    with Admin(link.source.settings, "source") as admin:
        admin.logs.delete_records({here: 4})
    opened = copy_all(link, here)
    assert same(source, target, here) == 6
    assert opened.ledger.runs.translate(4).reason is Reason.EXACT


def test_a_superseded_stream_stops_and_writes_nothing_more(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    old = open_one(link, here)
    assert isinstance(old, Opened)
    stream = Stream(link, [old])
    copy_all(link, here)
    produce(source.bootstrap, here.topic, [b"x"])
    deadline = within(20)
    while not stream.errors:
        assert not deadline.passed
        stream.step()
    assert isinstance(stream.errors[here], Superseded)
    copy_all(link, here)
    assert same(source, target, here) == 1


def test_a_lost_ledger_stops_the_partition_and_nothing_is_written(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    copy_all(link, here)
    delete_topic(target.bootstrap, link.ledger_topic)
    create_topic(target.bootstrap, link.ledger_topic, config={"cleanup.policy": "compact"})
    refused = open_one(link, here)
    assert isinstance(refused, LedgerUnfit) and "no ledger" in refused.message
    assert same(source, target, here) == 2


def test_a_mirror_made_anew_is_not_taken_for_the_old_one(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    copy_all(link, here)
    delete_topic(target.bootstrap, here.topic)
    create_topic(target.bootstrap, here.topic)
    refused = open_one(link, here)
    assert isinstance(refused, LedgerUnfit) and "mirror topic id" in refused.message


def test_a_record_that_is_not_the_sources_stops_the_partition(
    source: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    opened = open_one(link, here)
    assert isinstance(opened, Opened)
    alien = encode(
        [Record(-1, 1_790_000_000_000, None, b"not from the source")],
        producer_id=opened.claim.producer_id,
        producer_epoch=opened.claim.epoch,
        base_sequence=0,
    )
    topic_id = link.target.view.topics[here.topic].topic_id
    write(link.target, here, topic_id, [alien], within(10))
    refused = open_one(link, here)
    assert isinstance(refused, Diverged) and refused.source_offset == 0
    # One more offset for the marker of the claim that found it, and nothing else.
    assert mirror_end(link, here) == refused.target_offset + 2


def test_aborted_records_and_markers_leave_exact_translations(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    settings = {"bootstrap.servers": source.bootstrap, "transactional.id": here.topic}
    producer = RdProducer(settings)
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        for step in range(3):
            producer.produce(here.topic, b"%d %d" % (number, step), partition=0)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(20)
        produce(source.bootstrap, here.topic, [b"plain"])
    opened = copy_all(link, here)
    theirs = list(read_partition(source.bootstrap, here.topic, 0, committed=True))
    ours = list(read_partition(target.bootstrap, here.topic, 0, committed=False))
    assert [record for _, record in ours] == [record for _, record in theirs]
    runs = opened.ledger.runs
    for (source_offset, _), (target_offset, _) in zip(theirs, ours, strict=True):
        assert runs.translate(source_offset) == (target_offset, Reason.EXACT)
        assert runs.translate_back(target_offset) == (source_offset, Reason.EXACT)


def test_what_waits_is_bounded_whatever_the_backlog(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> None:
    partitions, most = 4, 1 << 20
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name, partitions)
    ledger = f"{topic_name}.ledger"
    create_topic(target.bootstrap, ledger, config={"cleanup.policy": "compact"})
    rows = [Record(-1, 1_790_000_000_000, None, bytes(1000)) for _ in range(100)]
    parts = [Partition(topic_name, number) for number in range(partitions)]
    topic_id = ends[0].describe([topic_name], within(10)).topics[topic_name].topic_id
    for part in parts:  # 40 MB
        write(ends[0], part, topic_id, [encode(rows)] * 100, within(60))

    link = Ends("test", *ends, ledger)
    opened = open_all(link, {part: part for part in parts}, within(30)).values()
    ready = [one for one in opened if isinstance(one, Opened)]
    assert len(ready) == partitions
    stream, deadline, peak = Stream(link, ready, most_waiting_bytes=most), within(60), 0
    while any(position < 10_000 for position in stream.positions.values()):
        assert not deadline.passed and not stream.errors, stream.errors
        stream.step()
        peak = max(peak, stream.waiting_bytes)
    assert most < peak <= most + DEFAULT_LIMITS.max_bytes
    both = (source.bootstrap, topic_name, target.bootstrap, topic_name)
    assert count_equal(*both, partitions) == 40_000
