"""Produce requests byte for byte against kafka-python's, and replies by its encoder."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from heliograph.errors import ProtocolBroken
from heliograph.kafka.produce_codec import BY_ID, NEWEST, OLDEST, Entry, parse, request
from heliograph.kafka.transport import Channel

VERSIONS = range(OLDEST, NEWEST + 1)
TOPICS = [("a", UUID(int=1)), ("ü" * 70, UUID(int=2**127 + 5)), ("b.c", UUID(int=3))]

entries = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 2**31 - 1), st.binary(max_size=300)),
    unique_by=lambda row: (row[0], row[1]),
    max_size=8,
).map(lambda rows: [Entry(name, uuid, number, batch) for (name, uuid), number, batch in rows])


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, cluster="c", address="broker:1", client_id="t", versions={})


@given(st.sampled_from(VERSIONS), entries, st.integers(0, 2**31 - 1))
def test_request_is_the_same_as_kafka_pythons(
    version: int, wanted: list[Entry], timeout_ms: int
) -> None:
    built = request(version, wanted, timeout_ms)
    assert (built.api_key, built.version, built.flexible) == (0, version, True)
    assert b"".join(built.body) == theirs(version, wanted, timeout_ms)


def theirs(version: int, wanted: list[Entry], timeout_ms: int) -> bytes:
    topics: dict[str, Any] = {}
    for entry in wanted:
        data = ProduceRequest.TopicProduceData
        if entry.topic not in topics:
            topics[entry.topic] = data(
                name=entry.topic, topic_id=entry.topic_id, partition_data=[], version=version
            )
        topics[entry.topic].partition_data.append(
            data.PartitionProduceData(
                index=entry.partition, records=bytes(entry.batch), version=version
            )
        )
    message = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=list(topics.values()),
        version=version,
    )
    return bytes(message.encode(version=version))


def test_batches_go_to_the_socket_from_where_they_are() -> None:
    batch = bytearray(b"x" * 100)
    built = request(NEWEST, [Entry("a", UUID(int=1), 0, batch)], 1000)
    assert any(part is batch for part in built.body)


@pytest.mark.parametrize("version", VERSIONS)
def test_reply_is_read_as_kafka_python_writes_it(channel: Channel, version: int) -> None:
    frame = memoryview(reply(version))
    throttle_ms, acks = parse(version, frame, channel)
    topic: UUID | str = UUID(int=7) if version >= BY_ID else "t"
    assert throttle_ms == 12
    assert [ack[:5] for ack in acks] == [(topic, 3, 0, 77, ()), (topic, 4, 87, -1, (2, 5))]
    assert [ack.message for ack in acks] == [None, "a null key"]


@pytest.mark.parametrize("version", VERSIONS)
def test_reply_cut_anywhere_is_broken_and_nothing_else(channel: Channel, version: int) -> None:
    whole = reply(version)
    for size in range(4, len(whole)):
        with pytest.raises(ProtocolBroken, match="broker:1"):
            parse(version, memoryview(whole[:size]), channel)


def reply(version: int) -> bytes:
    topic = ProduceResponse.TopicProduceResponse
    row = topic.PartitionProduceResponse
    bad = [
        row.BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message=None),
        row.BatchIndexAndErrorMessage(batch_index=5, batch_index_error_message="a null key"),
    ]
    rows = [
        row(
            index=3,
            error_code=0,
            base_offset=77,
            log_append_time_ms=-1,
            log_start_offset=0,
            record_errors=[],
            error_message=None,
        ),
        row(
            index=4,
            error_code=87,
            base_offset=-1,
            log_append_time_ms=-1,
            log_start_offset=0,
            record_errors=bad,
            error_message="one or more records are invalid",
        ),
    ]
    message = ProduceResponse(
        responses=[topic(name="t", topic_id=UUID(int=7), partition_responses=rows)],
        throttle_time_ms=12,
        version=version,
    )
    head = b"\0\0\0\x09" + b"\0"  # correlation id, no tagged fields
    return head + bytes(message.encode(version=version))
