"""Old records: of writers that brokers forget, of old formats; and mirrors that others write to."""

import time
from collections.abc import Iterator
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest

from heliograph.copy.lease import work
from heliograph.copy.opening import Ends
from heliograph.errors import ForeignRecords, LogTruncated, OutcomeUnknown, Stalled
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.records import encode
from heliograph.kafka.tables import Table
from heliograph.kafka.transport import Loop
from heliograph.links.own_topics import make_own_topics
from heliograph.model.control import DRIVER, Driver, Plan, plan_rows, row
from heliograph.model.expiry import CLAIM_WAIT, REQUEST_LIFE
from heliograph.model.leases import Access, Job, Lease, Part, Seat
from heliograph.model.names import control_topic, own_topics
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import (
    check_link,
    copy_all,
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
from tests.checker.compare import count_equal
from tests.doubles.behind import Behind
from tests.doubles.old_messages import old_message, wrapped
from tests.doubles.proxy import FETCH, LIST_OFFSETS, PRODUCE, Alter, Cut, Hold, Side, wait_until
from tests.making import create_topic

LONG_AGO = int(time.time() * 1000) - 3 * 86_400_000


class Moved:
    """The real clocks, moved ahead by hand; ``set_s`` is how far the time of day was set."""

    def __init__(self) -> None:
        self.ahead_s = self.set_s = 0.0

    def monotonic(self) -> float:
        return clock.REAL.monotonic() + self.ahead_s

    def time(self) -> float:
        return clock.REAL.time() + self.ahead_s + self.set_s


@pytest.fixture
def moved() -> Iterator[Moved]:
    double = Moved()
    with clock.moved_by(double):
        yield double


def old(count: int = 5) -> bytearray:
    """A batch too large to be joined to others."""
    return encode([record(b"%d" % n + bytes(30_000), LONG_AGO) for n in range(count)])


@pytest.fixture
def through(source: Any, behind: Behind, here: Partition) -> Iterator[Ends]:
    """A link whose target is behind a proxy."""
    for bootstrap in (source.bootstrap, behind.direct):
        create_topic(bootstrap, here.topic)
    loop, near = Loop(), {"bootstrap.servers": source.bootstrap}
    far = {"bootstrap.servers": behind.proxy.address}
    with (
        Cluster(parse("source", near), "source", loop) as one,
        Cluster(parse("target", far), "target", loop) as other,
    ):
        yield Ends("test", one, other, make_ledger(behind.direct, here.topic))
    loop.close()


def test_an_old_batch_whose_reply_is_lost_is_matched_and_not_sent_again(
    source: Any, behind: Behind, through: Ends, here: Partition
) -> None:
    write_batches(through.source, here, [old() for _ in range(4)])
    stream = streaming(through, opened_one(through, here))
    behind.proxy.on_reply(PRODUCE, Cut(), skip=1)
    error = step_until_failure(stream)
    assert isinstance(error, OutcomeUnknown)
    stream.close()
    copy_all(through, here, expiration=timedelta(days=30))
    both = (source.bootstrap, here.topic, behind.direct, here.topic)
    assert count_equal(*both, 1) == 20


def test_one_old_batch_at_a_time_is_in_flight(link: Ends, here: Partition) -> None:
    write_batches(link.source, here, [old() for _ in range(10)])
    stream = streaming(link, opened_one(link, here))
    part, most, deadline = stream.parts[here], 0, within(30)
    while part.position < 50:
        assert not deadline.passed and not stream.take_failures()
        stream.step()
        most = max(most, len(part.flying))
    assert most == 1


def test_fresh_batches_fly_together(behind: Behind, through: Ends, here: Partition) -> None:
    rows = [record(bytes(30_000)) for _ in range(5)]
    write_batches(through.source, here, [encode(rows) for _ in range(10)])
    stream = streaming(through, opened_one(through, here))
    held = behind.proxy.on_reply(PRODUCE, Hold())
    step_until(stream, lambda: len(stream.parts[here].flying) == 5)
    behind.proxy.release(held)
    step_until(stream, lambda: stream.parts[here].position == 50)


def test_a_process_that_stood_still_sends_no_old_record_afterwards(
    behind: Behind, through: Ends, here: Partition, moved: Moved
) -> None:
    stream = streaming(through, opened_one(through, here))
    part = stream.parts[here]
    step_until(stream, lambda: part.is_caught_up)
    write_batches(through.source, here, [old() for _ in range(3)])
    held = behind.proxy.on_reply(PRODUCE, Hold())
    step_until(stream, lambda: bool(part.flying and part.queue))
    sent = behind.proxy.passed(Side.REQUEST, PRODUCE)
    moved.ahead_s += REQUEST_LIFE.total_seconds() + 1
    error = step_until_failure(stream)
    assert isinstance(error, Stalled) and error.retriable
    behind.proxy.release(held)
    for _ in range(5):
        stream.step()
    assert behind.proxy.passed(Side.REQUEST, PRODUCE) == sent
    stream.close()


def test_a_process_that_stood_still_sends_no_fresh_record_either(
    source: Any, target: Any, link: Ends, here: Partition, moved: Moved
) -> None:
    """A week in which nobody claims makes a broker forget who was fenced."""
    stream = streaming(link, opened_one(link, here))
    produce(source.bootstrap, here.topic, [b"a"])
    step_until(stream, lambda: stream.parts[here].position == 1)
    moved.ahead_s += REQUEST_LIFE.total_seconds() + 1
    assert isinstance(step_until_failure(stream), Stalled)
    produce(source.bootstrap, here.topic, [b"b"])
    stream.add(opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].position == 2)
    stream.close()
    assert same(source, target, here) == 2


def test_a_clock_that_is_set_costs_a_claim_and_no_record(
    source: Any, target: Any, link: Ends, here: Partition, moved: Moved
) -> None:
    opened = opened_one(link, here)
    for number, set_s in enumerate((3600.0, -3600.0, 0.0)):
        stream = streaming(link, opened)
        produce(source.bootstrap, here.topic, [b"%d" % number])
        part = stream.parts[here]
        step_until(stream, lambda part=part, end=number + 1: part.position == end)  # type: ignore[misc]
        moved.set_s = set_s
        assert isinstance(step_until_failure(stream), Stalled)
        stream.close()
        opened = opened_one(link, here)
    assert same(source, target, here) == 3


def test_a_task_that_stood_still_looks_who_took_over_before_it_claims_again(
    behind: Behind, moved: Moved, topic_name: str
) -> None:
    """Its successor would be fenced, and has to wait before it copies old records."""
    mine = (3, 7)
    near, far = {"bootstrap.servers": behind.direct}, {"bootstrap.servers": behind.proxy.address}
    job = Job(topic_name.replace(".", "-"), mine[0], Access("source", near), Access("target", far))
    here, mirror = Partition(topic_name, 0), Partition(f"{topic_name}.mirror", 0)
    for topic in (here.topic, mirror.topic):
        create_topic(behind.direct, topic)
    with Admin(parse("target", near), "target") as admin:
        make_own_topics(admin, job.link, within(20))
    lease = Lease(job.link, *mine, 0, 60.0, 86_400_000, (Part(here, mirror),))
    seat = Seat(*mine, index=0, most_s=20.0)
    with Cluster(parse("target", near), "target") as cluster:
        cluster.describe(own_topics(job.link), within(10))
        table = Table(cluster, control_topic(job.link))
        table.put(plan_rows(Plan(*mine, 1), [lease], {}), within(10))
        task = Thread(target=work, args=(job, seat), kwargs={"attempt": 0, "control_offset": 0})
        task.start()

        def end() -> int:
            found = list_offsets(cluster, {mirror: LATEST}, within(10))[mirror]
            assert isinstance(found, int)
            return found

        produce(behind.direct, here.topic, [b"a"])
        wait_until(lambda: end() == 2, "a claim and a record")
        held = behind.proxy.on_reply(FETCH, Hold(), times=None)
        table.put({DRIVER: row(Driver(mine[0] + 1, "elsewhere:1", 0))}, within(10))
        looked = behind.proxy.passed(Side.REQUEST, LIST_OFFSETS)
        moved.ahead_s += REQUEST_LIFE.total_seconds() + 1
        wait_until(lambda: behind.proxy.passed(Side.REQUEST, LIST_OFFSETS) > looked, "a look")
        behind.proxy.release(held)
        task.join(30)
        assert not task.is_alive() and end() == 2, "no second claim"


@pytest.mark.parametrize("shown", ["ahead_s", "set_s"])
def test_a_partition_opened_long_ago_copies_no_old_record(
    target: Any, link: Ends, here: Partition, moved: Moved, shown: str
) -> None:
    write_batches(link.source, here, [old()])
    opened = opened_one(link, here)
    setattr(moved, shown, REQUEST_LIFE.total_seconds() + 1)
    assert isinstance(step_until_failure(streaming(link, opened)), Stalled)
    assert not on_mirror(target, here)


def test_after_a_claim_old_records_wait_until_no_earlier_request_lives(
    source: Any, target: Any, link: Ends, here: Partition, moved: Moved
) -> None:
    write_batches(link.source, here, [encode([record(b"fresh")])])
    copy_all(link, here)
    write_batches(link.source, here, [old()])
    opened = opened_one(link, here)
    assert opened.old_not_before_s > moved.monotonic()
    stream = streaming(link, opened)
    part = stream.parts[here]
    step_until(stream, lambda: bool(part.queue))
    for _ in range(5):
        stream.step()
        moved.ahead_s += 1
    assert not part.flying and part.position == 1
    for _ in range(2):  # not at once: that would be a standstill
        moved.ahead_s += (CLAIM_WAIT.total_seconds() - 5) / 2
        stream.step()
    step_until(stream, lambda: part.position == 6)
    stream.close()
    assert same(source, target, here) == 6


def test_a_first_claim_waits_for_nothing(link: Ends, here: Partition) -> None:
    assert opened_one(link, here).old_not_before_s == 0


def test_records_of_somebody_else_on_the_mirror_stop_the_partition_and_are_named(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    opened = opened_one(link, here)
    stream = streaming(link, opened)
    step_until(stream, lambda: stream.parts[here].position == 1)
    first = opened.ledger.target_next
    produce(target.bootstrap, here.topic, [b"alien", b"alien too"])
    produce(source.bootstrap, here.topic, [b"b"])
    error = step_until_failure(stream)
    assert isinstance(error, ForeignRecords)
    assert (error.target_start, error.target_end) == (first, first + 2)
    assert opened.ledger.source_next == 2, "it was acknowledged, so it is on record"
    stream.close()
    produce(source.bootstrap, here.topic, [b"c"])
    copy_all(link, here)
    wanted = [b"a", b"alien", b"alien too", b"b", b"c"]
    assert [seen.value for _, seen in on_mirror(target, here)] == wanted


def test_a_shared_mirror_takes_records_of_others(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    stream = streaming(link, opened_one(link, here), policies=Policies(is_shared=True))
    for number in range(1, 4):
        produce(target.bootstrap, here.topic, [b"theirs"])
        produce(source.bootstrap, here.topic, [b"ours"])
        step_until(stream, lambda wanted=number: stream.parts[here].position == wanted)  # type: ignore[misc]
    stream.close()
    assert len(on_mirror(target, here)) == 6


def test_a_mirror_that_lost_records_stops_the_partition(
    source: Any, link: Ends, here: Partition
) -> None:
    opened = opened_one(link, here)
    opened.ledger.skip_target_to(100)
    produce(source.bootstrap, here.topic, [b"a"])
    error = step_until_failure(streaming(link, opened))
    assert isinstance(error, LogTruncated) and error.cluster == "target"
    assert "to 100" in error.message


def test_old_records_are_copied_exactly(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    rows = [[record(b"%d" % n, LONG_AGO + n) for n in range(m * 7, m * 7 + 7)] for m in range(100)]
    fresh = [encode([record(b"fresh")])] * 20
    write_batches(link.source, here, [encode(some) for some in rows] + fresh + [old()])
    copy_all(link, here)
    assert same(source, target, here) == 725
    check_link(source, target, link, here.topic)


def replaced(batch: bytearray, message: bytes) -> Alter:
    """Put a message of an old format in the place of a stored batch of the same size.

    Kafka 4 stores no such messages any more; logs that were written by earlier versions hold them.
    """
    assert len(batch) == len(message)

    def change(frame: bytes) -> bytes:
        start = frame.find(batch[16:]) - 16  # the broker has set what stands before
        if start < 0:
            return frame
        return frame[:start] + message + frame[start + len(batch) :]

    return Alter(change)


@pytest.fixture
def from_behind(target: Any, behind: Behind, here: Partition) -> Iterator[Ends]:
    """A link whose source is behind a proxy."""
    for bootstrap in (behind.direct, target.bootstrap):
        create_topic(bootstrap, here.topic)
    loop, near = Loop(), {"bootstrap.servers": behind.proxy.address}
    with (
        Cluster(parse("source", near), "source", loop) as one,
        Cluster(parse("target", target.client_properties()), "target", loop) as other,
    ):
        yield Ends("test", one, other, make_ledger(target.bootstrap, here.topic))
    loop.close()


def test_messages_of_old_formats_are_copied_as_batches(
    target: Any, behind: Behind, from_behind: Ends, here: Partition
) -> None:
    batch = encode([record(b"will be old", LONG_AGO)])
    write_batches(from_behind.source, here, [batch, encode([record(b"new")])])
    size = len(batch) - len(old_message(1, 0, record(b"", LONG_AGO, None)))
    message = old_message(1, 0, record(b"v" * size, LONG_AGO, None))
    behind.proxy.on_reply(FETCH, replaced(batch, message), times=None)
    copy_all(from_behind, here)
    old_one, new_one = (seen for _, seen in on_mirror(target, here))
    assert old_one.value == b"v" * size
    assert (old_one.key, old_one.timestamp, new_one.value) == (None, LONG_AGO, b"new")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_a_compressed_set_of_an_old_format_is_copied_from_its_middle(
    target: Any, behind: Behind, from_behind: Ends, here: Partition, codec: Codec, magic: int
) -> None:
    rows = [record(b"%d" % n, LONG_AGO, None) for n in range(5)]
    batch = encode([record(bytes(100), LONG_AGO)] * 5)
    write_batches(from_behind.source, here, [batch, encode([record(b"new")])])
    size = len(batch) - len(wrapped(magic, codec, rows, 0))
    message = wrapped(magic, codec, rows, 0, padding=bytes(size))
    behind.proxy.on_reply(FETCH, replaced(batch, message), times=None)
    opened = copy_all(from_behind, here, begin=2)
    assert [seen.value for _, seen in on_mirror(target, here)] == [b"2", b"3", b"4", b"new"]
    (run,) = opened.ledger.runs
    assert (run.source_start, run.length) == (2, 4)
