"""Replies that are damaged: read as what they were, or refused; nothing else comes out."""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.producer import AddPartitionsToTxnResponse

from heliograph.errors import HeliographError, ProtocolBroken
from heliograph.kafka import produce_codec
from heliograph.kafka.messages import decode
from heliograph.kafka.metadata import merge
from heliograph.kafka.transport import Channel
from heliograph.model.topics import ClusterView
from tests.doubles.played import acks

HEAD = b"\0\0\0\x05\0"  # correlation id, no tagged fields


def metadata() -> Any:
    topic = MetadataResponse.MetadataResponseTopic
    row = topic.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=2,
        replica_nodes=[1],
        isr_nodes=[1],
        offline_replicas=[],
        version=12,
    )
    broker = MetadataResponse.MetadataResponseBroker(
        node_id=1, host="h", port=9092, rack=None, version=12
    )
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[broker],
        cluster_id="id",
        controller_id=1,
        topics=[
            topic(
                error_code=0,
                name="t",
                topic_id=UUID(int=3),
                is_internal=False,
                partitions=[row],
                version=12,
            )
        ],
        version=12,
    )


def offsets() -> Any:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    row = topic.ListOffsetsPartitionResponse(
        partition_index=0, error_code=0, timestamp=1, offset=4, leader_epoch=1, version=7
    )
    return ListOffsetsResponse(
        throttle_time_ms=0, topics=[topic(name="t", partitions=[row], version=7)], version=7
    )


def added() -> Any:
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    row = topic.AddPartitionsToTxnPartitionResult(
        partition_index=0, partition_error_code=0, version=3
    )
    rows = [topic(name="t", results_by_partition=[row], version=3)]
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0, results_by_topic_v3_and_below=rows, version=3
    )


def read_offsets(frame: memoryview, channel: Channel) -> object:
    answer = decode(ListOffsetsResponse, 7, frame, channel)
    return [row.offset for topic in answer.topics for row in topic.partitions]


def read_added(frame: memoryview, channel: Channel) -> object:
    answer = decode(AddPartitionsToTxnResponse, 3, frame, channel)
    topics = answer.results_by_topic_v3_and_below
    return [row.partition_index for topic in topics for row in topic.results_by_partition]


def read_metadata(frame: memoryview, channel: Channel) -> object:
    return merge(ClusterView(), decode(MetadataResponse, 12, frame, channel), {"t"})


def read_acks(frame: memoryview, channel: Channel) -> object:
    return produce_codec.parse(13, frame, channel)


READERS: dict[str, tuple[bytes, Callable[[memoryview, Channel], object]]] = {
    "Metadata": (bytes(metadata().encode(version=12)), read_metadata),
    "ListOffsets": (bytes(offsets().encode(version=7)), read_offsets),
    "AddPartitionsToTxn": (bytes(added().encode(version=3)), read_added),
    "Produce": (bytes(acks((0, 0, 5), (1, 6, -1)).encode(version=13)), read_acks),
}


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, cluster="c", address="broker:1", client_id="t", versions={})


@pytest.mark.parametrize("name", READERS)
def test_damaged_reply_raises_nothing_foreign(channel: Channel, name: str) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    body, read = READERS[name]
    read(memoryview(HEAD + body), channel)
    for _ in range(2000):
        damaged = bytearray(HEAD + body)
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(HEAD), len(damaged))
            damaged[at] = chance.choice((0, 1, 0xFF, damaged[at] ^ 1 << chance.randrange(8)))
        try:
            read(memoryview(damaged), channel)
        except HeliographError as refused:
            assert isinstance(refused, ProtocolBroken), refused


def test_null_in_place_of_a_list_is_refused(channel: Channel) -> None:
    with pytest.raises(ProtocolBroken, match=r"broker:1 .* api_keys is null"):
        decode(ApiVersionsResponse, 3, memoryview(b"\0\0\0\x05\0\0\0\0\0\0\0\0"), channel)
