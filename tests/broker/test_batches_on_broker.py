"""Batches between us, the broker's Java code and librdkafka: each reads what the others wrote.

Raw bytes travel over a bare socket, so that nothing of Heliograph but the code under test is
involved. A broker whose topic wants another codec unpacks and packs every batch by itself: that
is how Java comes to read ours, and how we come to read Java's.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from heliograph.kafka.batch import Header, Marker, marker_of, restamp, split_batches
from heliograph.kafka.compress import Codec
from heliograph.kafka.rebuild import crop, join, rebuild, split
from heliograph.kafka.records import Record, decode, encode

NAMES = [codec.name.lower() for codec in Codec]
PACKING = NAMES[1:]
NOW = int(time.time() * 1000) - 3_600_000
WITHIN_S = 60

# Large enough for several blocks of lz4 (64 KB) and of snappy (32 KB), odd enough to pack badly.
RECORDS = [
    Record(
        place,
        NOW + place % 7 * 1_000,
        None if place % 11 == 0 else b"key-%d" % (place % 50),
        None if place % 13 == 0 else b"value %d " % (place * place) * (place % 40),
        ((b"trace", b"%x" % place), (b"trace", b""), (b"empty", None))[: place % 4],
    )
    for place in range(2_000)
]


@contextmanager
def connected(cluster: Any) -> Iterator[Callable[[int, int, bytes], bytes]]:
    """A function that sends one request (key, version, body) and returns the reply's body."""
    host, port = cluster.bootstrap.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), WITHIN_S) as sock, sock.makefile("rb") as file:

        def ask(key: int, version: int, body: bytes) -> bytes:
            frame = struct.pack(">hhih", key, version, 1, -1) + body
            sock.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", file.read(4))
            return file.read(size)[4:]

        yield ask


def text(name: str) -> bytes:
    return struct.pack(">h", len(name)) + name.encode()


def fetch(cluster: Any, topic: str, offset: int = 0) -> list[tuple[Header, memoryview]]:
    """Fetch v11 of partition 0: the batches from ``offset`` on, checked."""
    body = struct.pack(">iiiibii", -1, 500, 1, 64 << 20, 0, 0, -1) + struct.pack(">i", 1)
    body += text(topic) + struct.pack(">iiiqqi", 1, 0, -1, offset, -1, 64 << 20)
    body += struct.pack(">i", 0) + text("")
    with connected(cluster) as ask:
        reply = ask(1, 11, body)
    at = 14 + 2 + len(topic) + 4
    _, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", reply, at)
    assert error == 0
    at += 34 + 16 * max(aborted, 0) + 4
    (size,) = struct.unpack_from(">i", reply, at)
    records = memoryview(bytearray(reply[at + 4 : at + 4 + size]))
    return list(split_batches(records, check=True))


def fetch_all(cluster: Any, topic: str) -> list[tuple[Header, memoryview]]:
    """Fetch until nothing more comes."""
    found = fetch(cluster, topic)
    while more := fetch(cluster, topic, found[-1][0].next_offset):
        found += more
    return found


def send(cluster: Any, topic: str, batch: bytes | bytearray | memoryview) -> int:
    """Produce v8 to partition 0; the error code."""
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + text(topic)
    body += struct.pack(">iii", 1, 0, len(batch)) + bytes(batch)
    deadline = time.monotonic() + WITHIN_S
    with connected(cluster) as ask:
        while True:
            reply = ask(0, 8, body)
            (error,) = struct.unpack_from(">h", reply, 4 + 2 + len(topic) + 4 + 4)
            # A new topic's leader may not know of it yet.
            if error not in (3, 6) or time.monotonic() > deadline:
                return int(error)


def create(cluster: Any, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(WITHIN_S)


def produce(cluster: Any, topic: str, records: list[Record], **config: Any) -> None:
    """Let librdkafka produce the records."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 200, **config})
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp,
            headers=[(name.decode(), content) for name, content in record.headers],
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    assert failed == []


def consume(cluster: Any, topic: str, count: int) -> list[Record]:
    """Let librdkafka read ``count`` records, checksums and all."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Record] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 0.5):
            assert message.error() is None
            headers = tuple((name.encode(), value) for name, value in message.headers() or ())
            found.append(
                Record(
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    headers,
                )
            )
    consumer.close()
    return found


def decoded(batches: list[tuple[Header, memoryview]]) -> list[Record]:
    return [record for _, batch in batches for record in decode(batch)]


@pytest.mark.parametrize("codec", NAMES)
def test_we_read_what_librdkafka_wrote(source: Any, topic_name: str, codec: str) -> None:
    create(source, topic_name)
    produce(source, topic_name, RECORDS, **{"compression.type": codec})
    batches = fetch_all(source, topic_name)
    assert {header.codec for header, _ in batches} == {Codec[codec.upper()]}
    assert decoded(batches) == RECORDS


@pytest.mark.parametrize("codec", PACKING)
def test_we_read_what_java_packed(source: Any, topic_name: str, codec: str) -> None:
    create(source, topic_name, compression_type=codec)
    produce(source, topic_name, RECORDS, **{"compression.type": "none"})
    batches = fetch_all(source, topic_name)
    assert {header.codec for header, _ in batches} == {Codec[codec.upper()]}
    assert decoded(batches) == RECORDS


@pytest.mark.parametrize("codec", NAMES)
def test_librdkafka_reads_what_we_packed(target: Any, topic_name: str, codec: str) -> None:
    create(target, topic_name, max_message_bytes="10000000")
    assert send(target, topic_name, encode(RECORDS, codec=Codec[codec.upper()])) == 0
    assert consume(target, topic_name, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("codec", PACKING)
def test_java_reads_what_we_packed(target: Any, topic_name: str, codec: str) -> None:
    other = "uncompressed" if codec != "gzip" else "zstd"
    create(target, topic_name, max_message_bytes="10000000", compression_type=other)
    assert send(target, topic_name, encode(RECORDS, codec=Codec[codec.upper()])) == 0
    batches = fetch_all(target, topic_name)
    assert {header.codec for header, _ in batches} == {Codec.ZSTD if codec == "gzip" else 0}
    assert decoded(batches) == RECORDS
    assert consume(target, topic_name, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("codec", NAMES)
def test_restamped_batches_are_taken(source: Any, target: Any, topic_name: str, codec: str) -> None:
    create(source, topic_name)
    create(target, topic_name)
    produce(source, topic_name, RECORDS, **{"compression.type": codec})
    for _, batch in fetch_all(source, topic_name):
        restamp(batch, -1, -1, -1)
        assert send(target, topic_name, batch) == 0
    assert consume(target, topic_name, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("codec", NAMES)
def test_small_batches_arrive_joined(source: Any, target: Any, topic_name: str, codec: str) -> None:
    some = RECORDS[:200]
    create(source, topic_name)
    create(target, topic_name, compression_type="gzip" if codec == "none" else "uncompressed")
    produce(
        source,
        topic_name,
        some,
        **{"compression.type": codec, "batch.num.messages": 1, "enable.idempotence": True},
    )
    batches = fetch_all(source, topic_name)
    assert len(batches) == len(some)
    joined = join(batches)
    assert joined is not None
    assert joined.source_offsets == ((0, len(some)),)
    assert send(target, topic_name, joined.batch) == 0
    assert len(fetch_all(target, topic_name)) == 1
    assert consume(target, topic_name, len(some)) == some


def test_cropped_and_split_batches_are_taken(source: Any, target: Any, topic_name: str) -> None:
    create(source, topic_name, max_message_bytes="10000000")
    create(target, topic_name, max_message_bytes="20000")
    assert send(source, topic_name, encode(RECORDS, codec=Codec.SNAPPY)) == 0
    ((header, batch),) = fetch(source, topic_name, 700)
    assert header.base_offset == 0, "a fetch from the middle returns the whole batch"
    cropped = crop(batch, 700)
    assert cropped is not None
    assert send(target, topic_name, cropped.batch) == 10, "too large"
    for piece in split(cropped.batch, 20_000):
        assert send(target, topic_name, piece.batch) == 0
    wanted = [record._replace(offset=place) for place, record in enumerate(RECORDS[700:])]
    assert consume(target, topic_name, len(wanted)) == wanted


def test_append_time_arrives_as_create_time(source: Any, target: Any, topic_name: str) -> None:
    create(source, topic_name, message_timestamp_type="LogAppendTime")
    create(target, topic_name)
    produce(source, topic_name, RECORDS[:100], **{"compression.type": "lz4"})
    seen = consume(source, topic_name, 100)
    assert all(record.timestamp > NOW + 10_000 for record in seen)
    for header, batch in fetch_all(source, topic_name):
        assert header.has_append_time and header.needs_rebuild
        rebuilt = rebuild(batch)
        assert rebuilt is not None
        assert send(target, topic_name, rebuilt.batch) == 0
    assert consume(target, topic_name, 100) == seen


def test_markers_of_transactions_are_told_apart(source: Any, topic_name: str) -> None:
    create(source, topic_name)
    producer = Producer(
        {"bootstrap.servers": source.bootstrap, "transactional.id": topic_name, "linger.ms": 0}
    )
    producer.init_transactions(WITHIN_S)
    for finish in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic_name, b"value", partition=0)
        assert producer.flush(WITHIN_S) == 0
        finish(WITHIN_S)
    # The coordinator answers before the last marker is in the log.
    batches, deadline = fetch_all(source, topic_name), time.monotonic() + WITHIN_S
    while len(batches) < 4 and time.monotonic() < deadline:
        batches = fetch_all(source, topic_name)
    assert [header.is_control for header, _ in batches] == [False, True, False, True]
    assert all(header.is_transactional for header, _ in batches)
    markers = [marker_of(batch) for header, batch in batches if header.is_control]
    assert markers == [Marker.COMMIT, Marker.ABORT]


def test_compacted_batches_arrive_dense_and_with_their_times(
    private_cluster: Callable[..., Any], topic_name: str
) -> None:
    cluster, copy = private_cluster(properties={"log.cleaner.backoff.ms": "100"}), "copy"
    create(
        cluster,
        topic_name,
        cleanup_policy="compact",
        segment_ms="500",
        min_cleanable_dirty_ratio="0.0",
        delete_retention_ms="86400000",
    )
    create(cluster, copy)
    rewritten = [tombstone_at_fives(n, b"key-%d" % (n % 30)) for n in range(300)]
    unique = [tombstone_at_fives(n, b"only-%d" % n) for n in range(300, 340)]
    assert send(cluster, topic_name, encode(rewritten, codec=Codec.LZ4)) == 0
    assert send(cluster, topic_name, encode(unique, codec=Codec.ZSTD)) == 0
    (holes, first), (whole, second) = wait_for_compaction(cluster, topic_name)
    assert holes.has_holes and not whole.has_holes
    assert list(decode(first)) == rewritten[-30:], "times count from the horizon"
    assert list(decode(second)) == unique
    rebuilt = rebuild(first)
    assert rebuilt is not None
    assert rebuilt.source_offsets == ((270, 30),)
    assert send(cluster, copy, rebuilt.batch) == 0
    restamp(second, -1, -1, -1)
    assert send(cluster, copy, second) == 0
    assert not any(header.has_delete_horizon for header, _ in fetch_all(cluster, copy))
    wanted = [r._replace(offset=n) for n, r in enumerate(rewritten[-30:] + unique)]
    assert consume(cluster, copy, len(wanted)) == wanted


def tombstone_at_fives(place: int, key: bytes) -> Record:
    return Record(place, NOW + place, key, None if place % 5 == 0 else b"%d" % place)


def wait_for_compaction(cluster: Any, topic: str) -> list[tuple[Header, memoryview]]:
    """Roll segments by new records until the first two batches got their delete horizon."""
    deadline, filler = time.monotonic() + WITHIN_S, Record(0, NOW, b"filler", b"x")
    while time.monotonic() < deadline:
        # The active segment is never compacted. A record closes it whose own time is later than
        # its first one's by segment.ms.
        filler = filler._replace(timestamp=filler.timestamp + 1_000)
        assert send(cluster, topic, encode([filler])) == 0
        batches = fetch_all(cluster, topic)[:2]
        if all(header.has_delete_horizon for header, _ in batches):
            return batches
        time.sleep(0.2)
    raise AssertionError("the broker did not compact")
