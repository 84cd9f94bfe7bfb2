"""A Kafka cluster of one broker, in memory, at the level of bytes: requests in, replies out.

It speaks what Heliograph's copy speaks, each in one version, with kafka-python's messages. What
it answers is held against a real broker by tests/contract.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka.protocol.admin import DescribeConfigsRequest, DescribeTransactionsRequest
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

from tests.simulation import answers
from tests.simulation.topics import SimCluster
from tests.simulation.world import World

_Answer: TypeAlias = Callable[[SimCluster, Any], Any]

# All of them have tagged fields in their headers. The last three are those of a claim: the newest
# before KIP-890.
_SPOKEN: tuple[tuple[Any, int, _Answer | None], ...] = (
    (FetchRequest, 17, None),
    (ProduceRequest, 13, answers.produce),
    (ListOffsetsRequest, 7, answers.list_offsets),
    (MetadataRequest, 12, answers.metadata),
    (FindCoordinatorRequest, 4, answers.find_coordinator),
    (DescribeTransactionsRequest, 0, answers.describe_transactions),
    (DescribeConfigsRequest, 4, answers.describe_configs),
    (InitProducerIdRequest, 4, answers.init_producer_id),
    (AddPartitionsToTxnRequest, 3, answers.add_partitions),
    (EndTxnRequest, 3, answers.end_txn),
)
_HEAD = struct.Struct(">hhih")
_REPLY_HEAD = struct.Struct(">ib")


@dataclass(slots=True, eq=False)
class _Parked:
    """A fetch that waits for records."""

    request: Any
    reply: Callable[[Any], None]


class SimBroker(SimCluster):
    """The only broker of a cluster: takes frames, answers frames."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.versions: Mapping[int, tuple[int, int]] = {
            kind.API_KEY: (version, version) for kind, version, _ in _SPOKEN
        }
        self._spoken = {kind.API_KEY: (kind[version], how) for kind, version, how in _SPOKEN}
        self._parked: list[_Parked] = []

    def handle(self, frame: bytes, reply: Callable[[bytes], None]) -> None:
        """Carry out one request; the reply may come later, as that to a fetch does."""
        key, version, number, client_id_bytes = _HEAD.unpack_from(frame)
        kind, answer = self._spoken[key]
        assert self.versions[key] == (version, version), f"{kind} in version {version}"
        request = kind.decode(frame[_HEAD.size + client_id_bytes + 1 :])

        def send(message: Any) -> None:
            reply(_REPLY_HEAD.pack(number, 0) + bytes(message.encode(version=version)))

        if answer is None:
            self._park(_Parked(request, send))
        else:
            send(answer(self, request))
        self.look_at_fetches()

    def look_at_fetches(self) -> None:
        """Answer the fetches that have something to tell. Call it after every change."""
        for parked in list(self._parked):
            rows = answers.fetch(self, parked.request)
            if any(answers.is_news(row) for topic in rows for row in topic.partitions):
                self._answer(parked, rows)

    def _park(self, parked: _Parked) -> None:
        self._parked.append(parked)
        self._world.after(parked.request.max_wait_ms / 1000, lambda: self._time_out(parked))

    def _time_out(self, parked: _Parked) -> None:
        if parked in self._parked:
            self._answer(parked, answers.fetch(self, parked.request))

    def _answer(self, parked: _Parked, rows: list[Any]) -> None:
        self._parked.remove(parked)
        # No session: the client names all it wants each time.
        reply = FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            session_id=0,
            responses=rows,
            node_endpoints=[],
            version=17,
        )
        parked.reply(reply)
