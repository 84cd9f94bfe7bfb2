"""Opened and streamed partitions on real clusters: where they begin, and when they refuse to."""

from typing import Any

from confluent_kafka import Producer as RdProducer

from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.copy.stream import Stream
from heliograph.errors import Diverged, LedgerUnfit, Superseded
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import DEFAULT_LIMITS
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import Record, encode
from heliograph.kafka.waiting import write
from heliograph.model.runs import Reason
from heliograph.model.topics import Partition
from tests.broker.linked import copy_all, open_one, produce, same, streaming, within
from tests.checker.compare import count_equal
from tests.checker.reading import read_partition
from tests.making import create_topic, delete_topic


def mirror_end(link: Ends, here: Partition) -> int:
    return list_offsets(link.target, {here: LATEST}, within(10))[here]


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
    stream = streaming(link, opened)
    while stream.parts[here].position < 100:
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
    stream = streaming(link, old)
    copy_all(link, here)
    produce(source.bootstrap, here.topic, [b"x"])
    deadline = within(20)
    while not (failures := stream.take_failures()):
        assert not deadline.passed
        stream.step()
    ((failed, error),) = failures
    assert failed == here and isinstance(error, Superseded)
    assert stream.parts[here].error is error and not stream.take_failures()
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
    stream, deadline, peak = Stream(link, most_waiting_bytes=most), within(60), 0
    for one in ready:
        stream.add(one)
    while any(part.position < 10_000 for part in stream.parts.values()):
        assert not deadline.passed and not stream.take_failures()
        stream.step()
        peak = max(peak, stream.waiting_bytes)
    assert most < peak <= most + DEFAULT_LIMITS.max_bytes
    both = (source.bootstrap, topic_name, target.bootstrap, topic_name)
    assert count_equal(*both, partitions) == 40_000
