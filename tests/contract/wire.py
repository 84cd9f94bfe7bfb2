"""Single requests and their error codes: below what heals and retries, above the socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from heliograph.errors import HeliographError
from heliograph.kafka import clock, produce_codec
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.produce_codec import Entry
from heliograph.kafka.records import Record, encode
from heliograph.kafka.transport import Bytes, Reply
from heliograph.model.topics import Partition
from tests.contract.sides import within

NOBODY = (-1, -1)
# The coordinator is being found, is loading, or is still at the last transaction.
_NOT_YET = (14, 15, 16, 51)
_PAUSE_S = 0.005


class Ack(NamedTuple):
    code: int
    offset: int


class Wire:
    """Requests of one client to the only broker there is."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._found: set[str] = set()

    def topic_id(self, topic: str) -> UUID:
        return self.cluster.describe([topic], within()).topics[topic].topic_id

    def produce(self, partition: Partition, batch: Bytes, topic_id: UUID | None = None) -> Ack:
        view = self.cluster.describe([partition.topic], within())
        known = view.find(partition)
        assert known is not None and known.leader is not None
        channel = self.cluster.connected(known.leader, within(), "produce")
        version = produce_codec.version_of(channel)
        topic_id = topic_id or view.topics[partition.topic].topic_id
        entry = Entry(partition.topic, topic_id, partition.partition, batch)
        replies: list[Reply] = []
        channel.send(produce_codec.request(version, [entry], 5000), replies.append, within())
        self.cluster.loop.wait(lambda: bool(replies), within(), "produce", "contract")
        if isinstance(replies[0], HeliographError):
            raise replies[0]
        _, (ack,) = produce_codec.parse(version, replies[0], channel)
        return Ack(ack.code, ack.base_offset)

    def init(
        self, tid: str, identity: tuple[int, int] = NOBODY, timeout_ms: int = 10_000
    ) -> tuple[int, int, int]:
        """Return error code, producer id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=tid,
            transaction_timeout_ms=timeout_ms,
            producer_id=identity[0],
            producer_epoch=identity[1],
        )
        answer = self._ask(tid, request, InitProducerIdResponse, 4, _code)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def add(self, tid: str, identity: tuple[int, int], *partitions: Partition) -> list[int]:
        """Return the error code of each partition."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=tid,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=[topic(name=p.topic, partitions=[p.partition]) for p in partitions],
        )
        answer = self._ask(
            tid, request, AddPartitionsToTxnResponse, 3, lambda one: list(_add_codes(one).values())
        )
        codes = _add_codes(answer)  # in an order of the broker's own
        return [codes[partition] for partition in partitions]

    def end(self, tid: str, identity: tuple[int, int], *, commit: bool = False) -> int:
        """Return the error code."""
        request = EndTxnRequest(
            transactional_id=tid,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=commit,
        )
        return int(self._ask(tid, request, EndTxnResponse, 3, _code).error_code)

    def state(self, tid: str) -> str:
        """Return the state of a transactional id, or the error code as text."""
        request = DescribeTransactionsRequest(transactional_ids=[tid])
        answer = self._ask(
            tid,
            request,
            DescribeTransactionsResponse,
            0,
            lambda answer: [row.error_code for row in answer.transaction_states],
        )
        row = answer.transaction_states[0]
        return row.transaction_state or str(row.error_code)

    def _ask(
        self,
        tid: str,
        request: Any,
        response: type[Any],
        version: int,
        codes: Callable[[Any], list[int]],
    ) -> Any:
        """Ask the only broker there is, until its answer is not "not yet"."""
        if not self.cluster.view.brokers:
            self.cluster.look([], within())
        (broker,) = self.cluster.view.brokers
        if tid not in self._found and not isinstance(request, FindCoordinatorRequest):
            self._find(tid)
        deadline = within()
        while True:
            answer = self.cluster.call(
                request, response, broker=broker, deadline=deadline, most=version, least=version
            )
            if not any(code in _NOT_YET for code in codes(answer)):
                return answer
            assert not deadline.passed, answer
            self.cluster.loop.turn(_PAUSE_S)

    def _find(self, tid: str) -> None:
        """Ask who coordinates an id: a broker sets up then where it keeps transactions."""
        self._found.add(tid)
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[tid])
        self._ask(
            tid,
            request,
            FindCoordinatorResponse,
            4,
            lambda answer: [row.error_code for row in answer.coordinators],
        )


def _code(answer: Any) -> list[int]:
    return [answer.error_code]


def _add_codes(answer: Any) -> dict[Partition, int]:
    return {
        Partition(topic.name, row.partition_index): row.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    }


def batch(
    identity: tuple[int, int], sequence: int, count: int = 1, *, age_ms: int = 0
) -> bytearray:
    """Return a batch of ``count`` records, so old."""
    now_ms = clock.wall_ms() - age_ms
    records = [Record(-1, now_ms, None, b"%d" % number) for number in range(count)]
    return encode(
        records, producer_id=identity[0], producer_epoch=identity[1], base_sequence=sequence
    )
