"""Short words for links in tests: records on the source, partitions opened and copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from confluent_kafka import Producer as RdProducer

from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.copy.stream import Stream
from heliograph.errors import HeliographError
from heliograph.kafka import clock
from heliograph.kafka.batch import Bytes, Header
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.records import Record, encode
from heliograph.kafka.waiting import scan, write
from heliograph.model.leases import Begin
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.checker.check import Scope, check
from tests.checker.compare import count_equal
from tests.checker.reading import Seen, read_partition
from tests.making import create_topic


def within(seconds: float) -> Deadline:
    return Deadline.after(timedelta(seconds=seconds))


def make_ledger(bootstrap: str, topic: str) -> str:
    """Create an empty ledger for a test and return its name."""
    create_topic(bootstrap, f"{topic}.ledger", config={"cleanup.policy": "compact"})
    return f"{topic}.ledger"


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: Any) -> None:
    producer = RdProducer({"bootstrap.servers": bootstrap} | settings)
    for value in values:
        producer.produce(topic, value, key=value[:1], partition=0)
    assert producer.flush(20) == 0


def record(value: bytes | None, timestamp: int = 0, key: bytes | None = b"k") -> Record:
    """Return a record of the present time, or of the time given."""
    return Record(-1, timestamp or clock.wall_ms(), key, value)


def write_batches(cluster: Cluster, here: Partition, batches: Sequence[Bytes]) -> None:
    """Write batches as they are, under nobody's identity."""
    topic_id = cluster.describe([here.topic], within(10)).topics[here.topic].topic_id
    write(cluster, here, topic_id, batches, within(60))


def headers(cluster: Cluster, here: Partition) -> list[Header]:
    """Return the headers of all data batches of a partition."""
    ends = list_offsets(cluster, {here: LATEST}, within(10))
    starts = list_offsets(cluster, {here: EARLIEST}, within(10))
    fetched = scan(cluster, starts, within(20), ends=ends)
    return [header for some in fetched for header, _ in some.batches]


def await_holes(cluster: Cluster, here: Partition) -> None:
    """Roll segments by new records until the cleaner has been at the first batch."""
    deadline, filler = within(60), record(b"x", key=b"filler")
    while not headers(cluster, here)[0].has_holes:
        assert not deadline.passed, "the broker did not compact"
        # A record closes the active segment whose own time is later by segment.ms.
        later = filler.timestamp + 1_000
        filler = filler._replace(timestamp=later, value=b"at %d" % later)
        write_batches(cluster, here, [encode([filler])])
        cluster.loop.turn(0.2)


def open_one(
    link: Ends, here: Partition, policies: Policies | None = None, begin: int | None = None
) -> Opened | HeliographError:
    begins = {}
    if begin is not None:
        topic = link.source.describe([here.topic], within(20)).topics[here.topic]
        begins = {here: Begin(str(topic.topic_id), begin)}
    return open_all(link, {here: here}, within(60), policies, begins)[here]


def opened_one(
    link: Ends, here: Partition, policies: Policies | None = None, begin: int | None = None
) -> Opened:
    opened = open_one(link, here, policies, begin)
    assert isinstance(opened, Opened), opened
    return opened


def streaming(link: Ends, *opened: Opened, **options: Any) -> Stream:
    stream = Stream(link, **options)
    for one in opened:
        stream.add(one)
    return stream


def step_until(stream: Stream, met: Callable[[], bool], seconds: float = 30) -> None:
    """Drive a stream until a condition is met, without a failure."""
    deadline = within(seconds)
    while not met():
        assert not deadline.passed, stream.parts
        stream.step()
        assert not (failures := stream.take_failures()), failures


def step_until_failure(stream: Stream, seconds: float = 30) -> HeliographError:
    """Drive a stream until one partition fails; return why."""
    deadline = within(seconds)
    while not (failures := stream.take_failures()):
        assert not deadline.passed, stream.parts
        stream.step()
    ((source, error),) = failures
    assert stream.parts[source].error is error and not stream.take_failures()
    return error


def copy_all(
    link: Ends,
    here: Partition,
    policies: Policies | None = None,
    begin: int | None = None,
    **options: Any,
) -> Opened:
    """Open, copy to the source's present end, and record it."""
    opened = opened_one(link, here, policies, begin)
    # The end of the log, not of what is committed by now: reading waits for open transactions.
    end = list_offsets(link.source, {here: LATEST}, within(20))[here]
    stream = streaming(link, opened, policies=policies, **options)
    step_until(stream, lambda: stream.parts[here].position >= end)
    stream.finish(within(20))
    stream.close()
    return opened


def same(source: Any, target: Any, here: Partition) -> int:
    both = (source.bootstrap, here.topic, target.bootstrap, here.topic)
    return count_equal(*both, 1)


def on_mirror(target: Any, here: Partition) -> list[tuple[int, Seen]]:
    return list(read_partition(target.bootstrap, here.topic, here.partition, committed=False))


def check_link(source: Any, target: Any, link: Ends, topic: str, *, gaps_ok: bool = False) -> None:
    """Let the checker compare both logs along the ledger."""
    scope = Scope(
        source.bootstrap,
        target.bootstrap,
        link.link,
        {topic: topic},
        ledger=link.ledger_topic,
        gaps_ok=gaps_ok,
    )
    report = check(scope)
    assert not report.anomalies, str(report)
