"""Streams: partitions come and go, fail alone, end where they are told, and are handed over."""

from copy import deepcopy
from functools import partial
from typing import Any

from heliograph.copy.copying import Copying
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import OutcomeUnknown, TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.records import encode
from heliograph.kafka.tables import Table, Writer
from heliograph.model.ledger import read_ledger
from heliograph.model.topics import Partition
from tests.broker.linked import (
    check_link,
    copy_all,
    make_ledger,
    open_one,
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
from tests.checker.compare import count_equal
from tests.making import create_topic, delete_topic

LEDGER_SECONDS = 5


def handed_over(link: Ends, opened: Opened) -> Opened:
    """Return the partition as another process would have it: by values, and the ledger's topic."""
    ledger = read_ledger(opened.source, Table(link.target, link.ledger_topic).load(within(20)))
    assert ledger is not None
    writer = Writer(opened.writer.producer_id, opened.writer.epoch, opened.writer.sequence)
    return Opened(
        opened.source, opened.mirror, opened.claim, writer, ledger, sequence=opened.sequence
    )


def _is_at(part: Copying, source_offset: int) -> bool:
    return part.position == source_offset


def test_a_finished_partition_is_handed_over_without_a_claim(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    opened = opened_one(link, here)
    claim = deepcopy(opened.claim)
    for turn in range(1, 5):
        produce(source.bootstrap, here.topic, [b"%d %d" % (turn, n) for n in range(25)])
        stream = streaming(link, opened)
        part = stream.parts[here]
        step_until(stream, partial(_is_at, part, 25 * turn))
        stream.finish(within(20))
        assert not stream.take_failures()
        opened = handed_over(link, stream.parts[here].opened)
        stream.close()
    assert opened.claim == claim and opened.sequence == 100
    assert [run.length for run in opened.ledger.runs] == [100], "no claim in between"
    assert same(source, target, here) == 100
    check_link(source, target, link, here.topic)
    copy_all(link, here)


def test_a_stream_that_is_finished_under_load_can_be_handed_over(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    rows = [record(bytes(3000)) for _ in range(100)]
    write_batches(link.source, here, [encode(rows) for _ in range(60)])
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].records > 0)
    stream.finish(within(20))
    first = stream.parts[here].position
    assert 0 < first < 6000 and not stream.take_failures()
    opened = handed_over(link, stream.parts[here].opened)
    stream.close()
    stream = streaming(link, opened)
    step_until(stream, lambda: stream.parts[here].position == 6000)
    assert stream.parts[here].records == 6000 - first
    stream.finish(within(20))
    stream.close()
    assert same(source, target, here) == 6000
    check_link(source, target, link, here.topic)


def test_a_partition_that_cannot_be_finished_in_time_fails(link: Ends, here: Partition) -> None:
    rows = [record(bytes(5000)) for _ in range(100)]
    write_batches(link.source, here, [encode(rows) for _ in range(20)])
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: len(stream.parts[here].flying) > 1)
    stream.finish(within(0))
    ((failed, error),) = stream.take_failures()
    assert failed == here and isinstance(error, OutcomeUnknown)
    stream.close()


def test_records_at_or_beyond_the_end_given_are_not_copied(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(10)])
    until = list_offsets(link.source, {here: LATEST}, within(10))
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(10, 20)])
    stream = streaming(link, opened_one(link, here), until=until)
    part = stream.parts[here]
    assert not part.is_caught_up
    step_until(stream, lambda: part.is_caught_up)
    for _ in range(5):
        stream.step()
    assert part.position == 10 and part.records == 10
    stream.finish(within(20))
    again = streaming(link, handed_over(link, part.opened), until=until)
    assert again.parts[here].is_caught_up
    again.close()
    copy_all(link, here)
    assert same(source, target, here) == 20


def test_what_is_told_of_a_partition_is_what_was_seen(link: Ends, here: Partition) -> None:
    stream = streaming(link, opened_one(link, here))
    part = stream.parts[here]
    assert (part.high_watermark, part.last_stable, part.newest_ms) == (-1, -1, -1)
    rows = [record(b"%d" % n, 1_790_000_000_000 + n) for n in range(10)]
    write_batches(link.source, here, [encode(rows)])
    step_until(stream, lambda: part.position == 10)
    assert (part.high_watermark, part.last_stable, part.log_start) == (10, 10, 0)
    assert part.newest_ms == 1_790_000_000_009 and part.records == 10
    assert part.bytes == part.opened.ledger.bytes > 0 and part.opened.ledger.records == 10
    stream.close()


def test_totals_outlive_the_writers(source: Any, link: Ends, here: Partition) -> None:
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(10)])
    first = copy_all(link, here).ledger
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(5)])
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].position == 15)
    stream.close()  # as if killed: the last five are not on record
    ledger = opened_one(link, here).ledger
    assert ledger.records == 15 and ledger.bytes > first.bytes


def test_a_partition_that_failed_leaves_the_others_alone_and_can_be_added_again(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> None:
    parts = [Partition(topic_name, number) for number in range(3)]
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name, 3)
    link = Ends("test", *ends, make_ledger(target.bootstrap, topic_name))
    stream = streaming(link)
    for opened in open_all(link, {part: part for part in parts}, within(30)).values():
        assert isinstance(opened, Opened)
        stream.add(opened)
    for part in parts:
        write_batches(link.source, part, [encode([record(b"a")])])
    step_until(stream, lambda: all(part.position == 1 for part in stream.parts.values()))

    rival = opened_one(link, parts[1])  # which fences the writer of one partition
    for part in parts:
        write_batches(link.source, part, [encode([record(b"b")])])
    error = step_until_failure(stream)
    assert stream.parts[parts[1]].error is error
    step_until(stream, lambda: all(stream.parts[parts[n]].position == 2 for n in (0, 2)))
    assert stream.parts[parts[1]].position == 1

    stream.add(rival)
    step_until(stream, lambda: all(part.position == 2 for part in stream.parts.values()))
    stream.finish(within(20))
    stream.close()
    both = (source.bootstrap, topic_name, target.bootstrap, topic_name)
    assert count_equal(*both, 3) == 6
    check_link(source, target, link, topic_name)


def test_a_dropped_partition_is_silent_and_can_be_added_again(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].is_caught_up)
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(10)])
    stream.drop(here)
    for _ in range(5):
        stream.step()
    assert not stream.parts and not stream.take_failures()
    stream.add(opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].position == 10)
    stream.finish(within(20))
    stream.close()
    assert same(source, target, here) == 10


def test_a_mirror_that_is_gone_fails_its_partition(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].is_caught_up)
    delete_topic(target.bootstrap, here.topic)
    produce(source.bootstrap, here.topic, [b"x"])
    assert isinstance(step_until_failure(stream), TopicMissing)
    stream.close()
    assert isinstance(open_one(link, here), TopicMissing)


def test_the_ledger_is_at_most_seconds_behind(source: Any, link: Ends, here: Partition) -> None:
    stream = streaming(link, opened_one(link, here))
    produce(source.bootstrap, here.topic, [b"x"])
    step_until(stream, lambda: stream.parts[here].position == 1)
    table = Table(link.target, link.ledger_topic)
    table.load(within(10))
    deadline = within(LEDGER_SECONDS)
    while (found := read_ledger(here, table.rows)) is None or found.source_next < 1:
        assert not deadline.passed
        stream.step()
        table.catch_up(within(10))
    stream.close()
