"""Fetch replies as kafka-python encodes them, read by our own parser; and bytes that are none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse

from heliograph.errors import ProtocolBroken
from heliograph.kafka.fetch_codec import BY_ID, NEWEST, OLDEST, Limits, Place, parse, request
from heliograph.kafka.isolation import Aborted
from heliograph.kafka.messages import encode
from heliograph.kafka.transport import Channel

Topic = FetchResponse.FetchableTopicResponse
Row = Topic.PartitionData
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
HEAD = b"\0\0\0\x05" + b"\0"  # correlation id, no tagged fields

rows: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    partition_index=int32,
    error_code=int16,
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    aborted=st.none() | st.lists(st.tuples(int64, int64), max_size=3),
    preferred_read_replica=int32,
    records=st.none() | st.binary(max_size=300),
    diverging=st.none() | st.tuples(st.integers(0, 2**31 - 1), int64),
    leader=st.none() | st.tuples(int32, int32),
)
replies: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    throttle_ms=int32,
    code=int16,
    session_id=int32,
    topics=st.lists(st.tuples(st.uuids(), st.lists(rows, max_size=3)), max_size=3),
    endpoints=st.booleans(),
)
by_id = st.integers(BY_ID, NEWEST)


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, cluster="c", address="broker:1", client_id="t", versions={})


def frame_of(version: int, reply: dict[str, Any]) -> bytes:
    endpoints = []
    if reply["endpoints"] and version >= 16:
        endpoint = FetchResponse.NodeEndpoint
        endpoints = [endpoint(node_id=1, host="a", port=9092, rack=None, version=version)]
    message = FetchResponse(
        throttle_time_ms=reply["throttle_ms"],
        error_code=reply["code"],
        session_id=reply["session_id"],
        responses=[
            Topic(topic_id=uuid, partitions=[_row(version, row) for row in some], version=version)
            for uuid, some in reply["topics"]
        ],
        node_endpoints=endpoints,
        version=version,
    )
    return HEAD + bytes(message.encode(version=version))


def _row(version: int, row: dict[str, Any]) -> Any:
    more: dict[str, Any] = {}
    if row["diverging"] is not None:
        epoch, end = row["diverging"]
        more["diverging_epoch"] = Row.EpochEndOffset(epoch=epoch, end_offset=end, version=version)
    if row["leader"] is not None:
        broker, epoch = row["leader"]
        more["current_leader"] = Row.LeaderIdAndEpoch(
            leader_id=broker, leader_epoch=epoch, version=version
        )
    aborted = row["aborted"]
    if aborted is not None:
        aborted = [
            Row.AbortedTransaction(producer_id=who, first_offset=first, version=version)
            for who, first in aborted
        ]
    plain = ("partition_index", "error_code", "high_watermark", "last_stable_offset")
    return Row(
        **{name: row[name] for name in plain},
        log_start_offset=row["log_start_offset"],
        aborted_transactions=aborted,
        preferred_read_replica=row["preferred_read_replica"],
        records=row["records"],
        version=version,
        **more,
    )


@given(by_id, replies)
def test_reply_is_read_as_kafka_python_wrote_it(
    channel: Channel, version: int, reply: dict[str, Any]
) -> None:
    found = parse(version, memoryview(bytearray(frame_of(version, reply))), channel)
    assert found[:3] == (reply["throttle_ms"], reply["code"], reply["session_id"])
    wanted = [(uuid, row) for uuid, some in reply["topics"] for row in some]
    assert len(found.partitions) == len(wanted)
    for ours, (uuid, row) in zip(found.partitions, wanted, strict=True):
        assert (ours.topic, ours.partition, ours.code) == (
            uuid,
            row["partition_index"],
            row["error_code"],
        )
        assert ours.high_watermark == row["high_watermark"]
        assert ours.last_stable_offset == row["last_stable_offset"]
        assert ours.log_start_offset == row["log_start_offset"]
        assert ours.aborted == [Aborted(first, who) for who, first in row["aborted"] or ()]
        assert bytes(ours.records) == (row["records"] or b"")
        assert ours.diverging == row["diverging"]


@given(by_id, replies)
def test_records_are_views_that_may_be_rewritten(
    channel: Channel, version: int, reply: dict[str, Any]
) -> None:
    frame = bytearray(frame_of(version, reply))
    for ours in parse(version, memoryview(frame), channel).partitions:
        assert ours.records.obj is frame and not ours.records.readonly


@given(by_id, replies, st.data())
def test_reply_cut_or_lengthened_is_broken_and_nothing_else(
    channel: Channel, version: int, reply: dict[str, Any], data: st.DataObject
) -> None:
    whole = frame_of(version, reply)
    size = data.draw(st.integers(4, len(whole) - 1))
    for frame in (whole[:size], whole + b"\0"):
        with pytest.raises(ProtocolBroken, match="broker:1"):
            parse(version, memoryview(bytearray(frame)), channel)


@given(st.integers(OLDEST, NEWEST), st.binary(min_size=4, max_size=200))
@example(NEWEST, HEAD + b"\0" * 10 + b"\xff" * 20)
@example(NEWEST, HEAD + b"\0" * 10 + b"\xff\xff\xff\xff\x0f")
def test_garbage_is_broken_and_nothing_else(channel: Channel, version: int, frame: bytes) -> None:
    try:
        parse(version, memoryview(bytearray(frame)), channel)
    except ProtocolBroken as broken:
        assert "broker:1" in str(broken) and "cluster c" in str(broken)


@given(by_id, replies, st.data())
def test_reply_with_wrong_bytes_is_read_or_broken(
    channel: Channel, version: int, reply: dict[str, Any], data: st.DataObject
) -> None:
    frame = bytearray(frame_of(version, reply))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse(version, memoryview(frame), channel)
    except ProtocolBroken:
        return


@pytest.mark.parametrize("version", range(OLDEST, BY_ID))
def test_replies_of_old_brokers_name_topics(channel: Channel, version: int) -> None:
    row = Row(
        partition_index=3,
        error_code=0,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=2,
        aborted_transactions=[
            Row.AbortedTransaction(producer_id=5, first_offset=6, version=version)
        ],
        preferred_read_replica=-1,
        records=b"records",
        version=version,
    )
    message = FetchResponse(
        throttle_time_ms=4,
        error_code=0,
        session_id=0,
        responses=[Topic(topic="t", partitions=[row], version=version)],
        version=version,
    )
    head = HEAD if version >= 12 else HEAD[:4]
    frame = memoryview(bytearray(head + bytes(message.encode(version=version))))
    (ours,) = parse(version, frame, channel).partitions
    assert (ours.topic, ours.partition, ours.high_watermark) == ("t", 3, 9)
    assert ours.last_stable_offset == 8 and ours.diverging is None
    assert ours.aborted == [Aborted(6, 5)] and bytes(ours.records) == b"records"
    assert not ours.records.readonly
    if version >= 5:
        assert ours.log_start_offset == 2


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_request_says_what_was_asked(version: int) -> None:
    places = [Place("t", UUID(int=7), n, 1, 100 + n, 2) for n in (0, 1)]
    forgotten = [Place("u", UUID(int=8), 5, 1, 0, -1)]
    message = request(
        version,
        Limits(500, 1, 1 << 20, 1 << 16),
        read_committed=True,
        session=(11, 3) if version >= 7 else (0, -1),
        places=places,
        forgotten=forgotten if version >= 7 else (),
    )
    body = b"".join(bytes(part) for part in encode(message, version).body)
    read = FetchRequest[version].decode(body)
    assert (read.max_wait_ms, read.min_bytes, read.isolation_level) == (500, 1, 1)
    (topic,) = read.topics
    assert (topic.topic_id if version >= BY_ID else topic.topic) == (
        UUID(int=7) if version >= BY_ID else "t"
    )
    assert [(p.partition, p.fetch_offset) for p in topic.partitions] == [(0, 100), (1, 101)]
    if version >= 7:
        assert (read.session_id, read.session_epoch) == (11, 3)
        assert [list(t.partitions) for t in read.forgotten_topics_data] == [[5]]
    if version >= 11:
        assert read.rack_id == "", "a rack would have us sent to followers"
    if version >= 12:
        assert [p.last_fetched_epoch for p in topic.partitions] == [2, 2]
