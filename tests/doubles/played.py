"""A cluster whose brokers a test plays by hand, over socket pairs: replies in any order of faults.

Only connections and the view are doubles; frames, codecs and what drives them are the real ones.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import FetchResponse
from kafka.protocol.producer import ProduceResponse

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Channel
from heliograph.model.topics import Broker, ClusterView, Partition, PartitionView, TopicView

TOPIC, TOPIC_ID = "played", UUID(int=7)
VERSIONS = {0: (3, 13), 1: (4, 17), 2: (1, 11), 3: (0, 13)}
_HEAD = struct.Struct(">ihhih")


class Asked(NamedTuple):
    """One request as the broker got it."""

    api_key: int
    version: int
    correlation_id: int
    body: bytes


class Player:
    """The broker's end of one channel."""

    def __init__(self, channel: Channel, sock: socket.socket) -> None:
        self.channel = channel
        self.sock = sock
        self._received = bytearray()
        self._asked: list[Asked] = []

    @property
    def asked(self) -> list[Asked]:
        """Requests that wait for a reply, oldest first."""
        try:
            while some := self.sock.recv(1 << 20):
                self._received += some
        except BlockingIOError:
            pass
        while len(self._received) >= 4:
            size = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < size:
                break
            _, key, version, number, _ = _HEAD.unpack_from(self._received)
            self._asked.append(
                Asked(key, version, number, bytes(self._received[_HEAD.size : size]))
            )
            del self._received[:size]
        return self._asked

    def answer(self, message: Any) -> None:
        """Reply to the oldest request with one of kafka-python's messages."""
        asked = self.asked.pop(0)
        body = bytes(message.encode(version=asked.version))
        head = struct.pack(">i", asked.correlation_id) + b"\0"  # no tagged fields
        self.sock.sendall(struct.pack(">i", len(head) + len(body)) + head + body)


class PlayedCluster(Cluster):
    """One topic, led as the test says; every connection is there at once."""

    def __init__(self, leaders: Mapping[int, int | None], **properties: str) -> None:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        super().__init__(parse("c", {"bootstrap.servers": "localhost:1"} | named), "c")
        self.players: dict[tuple[int, str], Player] = {}
        self.refusal: HeliographError | None = None
        """What stands in the way of new connections from now on."""
        self.lead(leaders)

    def lead(self, leaders: Mapping[int, int | None], epoch: int = 0) -> None:
        """Say which broker leads each partition from now on, if any."""
        partitions = {n: PartitionView(n, who, epoch, (), ()) for n, who in leaders.items()}
        brokers = {who: Broker(who, "localhost", 1) for who in leaders.values() if who}
        topic = TopicView(TOPIC, TOPIC_ID, MappingProxyType(partitions))
        self.view = ClusterView("id", 1, brokers, {TOPIC: topic})

    def channel(self, broker: int, lane: str = "control") -> Channel | None:
        player = self.players.get((broker, lane))
        if player is None or player.channel.error is not None:
            if self.refusal is not None:
                raise self.refusal
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.setblocking(False)
            channel = Channel(
                ours,
                cluster="c",
                address=f"broker-{broker}:1",
                client_id="",
                versions=VERSIONS,
            )
            self.loop.add(channel)
            player = self.players[broker, lane] = Player(channel, theirs)
        return player.channel

    def look_again(self) -> None:
        self.looks += 1

    def close(self) -> None:
        super().close()
        for player in self.players.values():
            player.sock.close()


def partition(number: int = 0) -> Partition:
    return Partition(TOPIC, number)


def acks(*rows: tuple[int, int, int]) -> Any:
    """Return a produce reply: partition, error code and base offset of each row."""
    topic = ProduceResponse.TopicProduceResponse
    return ProduceResponse(
        responses=[
            topic(
                topic_id=TOPIC_ID,
                partition_responses=[
                    topic.PartitionProduceResponse(
                        index=number,
                        error_code=code,
                        base_offset=offset,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=None,
                    )
                    for number, code, offset in rows
                ],
            )
        ],
        throttle_time_ms=0,
        version=13,
    )


def fetched(*rows: Mapping[str, Any], session_id: int = 0) -> Any:
    """Return a fetch reply; a row may say ``code``, ``records``, ``aborted`` of its partition."""
    topic = FetchResponse.FetchableTopicResponse
    aborting = topic.PartitionData.AbortedTransaction
    return FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=session_id,
        responses=[
            topic(
                topic_id=TOPIC_ID,
                partitions=[
                    topic.PartitionData(
                        partition_index=row["partition"],
                        error_code=row.get("code", 0),
                        high_watermark=row.get("end", 1000),
                        last_stable_offset=row.get("end", 1000),
                        log_start_offset=0,
                        aborted_transactions=[
                            aborting(producer_id=who, first_offset=first, version=17)
                            for who, first in row.get("aborted", ())
                        ],
                        preferred_read_replica=-1,
                        records=row.get("records", b""),
                        version=17,
                    )
                    for row in rows
                ],
                version=17,
            )
        ],
        node_endpoints=[],
        version=17,
    )
