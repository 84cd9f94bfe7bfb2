"""What the simulated broker answers to each request. Kafka's messages in, Kafka's messages out."""

from __future__ import annotations

from itertools import groupby
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeConfigsResponse, DescribeTransactionsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ProduceResponse,
)

from heliograph.kafka.isolation import Aborted
from heliograph.kafka.offsets import EARLIEST, LATEST
from heliograph.model.topics import Partition
from tests.simulation.log import Refused, SimLog
from tests.simulation.topics import SimCluster
from tests.simulation.transactions import NOT_FOUND

_NODE = 1
_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID, _NOT_ATTEMPTED = 3, 100, 55
_OLD_LEADER_EPOCH, _NEW_LEADER_EPOCH = 74, 75


def metadata(cluster: SimCluster, request: Any) -> Any:
    names = cluster.topics if request.topics is None else [one.name for one in request.topics]
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=_NODE, host=cluster.endpoint.host, port=cluster.endpoint.port, rack=None
            )
        ],
        cluster_id=cluster.name,
        controller_id=_NODE,
        topics=[_described(cluster, name) for name in names],
    )


def _described(cluster: SimCluster, name: str) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    topic = cluster.topics.get(name)
    if topic is None:
        return kind(error_code=_UNKNOWN_TOPIC, name=name, topic_id=UUID(int=0), partitions=[])
    rows = [
        kind.MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=_NODE,
            leader_epoch=log.leader_epoch,
            replica_nodes=[_NODE],
            isr_nodes=[_NODE],
            offline_replicas=[],
        )
        for number, log in enumerate(topic.partitions)
    ]
    return kind(error_code=0, name=name, topic_id=topic.topic_id, partitions=rows)


def find_coordinator(cluster: SimCluster, request: Any) -> Any:
    found = [
        FindCoordinatorResponse.Coordinator(
            key=key,
            node_id=_NODE,
            host=cluster.endpoint.host,
            port=cluster.endpoint.port,
            error_code=0,
            error_message=None,
        )
        for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(throttle_time_ms=0, coordinators=found)


def describe_configs(cluster: SimCluster, request: Any) -> Any:
    kind = DescribeConfigsResponse.DescribeConfigsResult
    results = []
    for asked in request.resources:
        topic = cluster.topics.get(asked.resource_name)
        entry = kind.DescribeConfigsResourceResult(
            name="cleanup.policy",
            value="compact" if topic and topic.is_compacted else "delete",
            read_only=False,
            config_source=1,
            is_sensitive=False,
            synonyms=[],
            config_type=7,
            documentation=None,
        )
        results.append(
            kind(
                error_code=0 if topic else _UNKNOWN_TOPIC,
                error_message=None,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                configs=[entry] if topic else [],
            )
        )
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def init_producer_id(cluster: SimCluster, request: Any) -> Any:
    code, producer_id, epoch = cluster.coordinator.init(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch
    )


def add_partitions(cluster: SimCluster, request: Any) -> Any:
    wanted = [
        Partition(topic.name, number)
        for topic in request.v3_and_below_topics
        for number in topic.partitions
    ]
    codes = {one: 0 if cluster.find_log(one) else _UNKNOWN_TOPIC for one in wanted}
    if any(codes.values()):
        codes = {one: code or _NOT_ATTEMPTED for one, code in codes.items()}
    else:
        code = cluster.coordinator.add(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            wanted,
        )
        codes = dict.fromkeys(wanted, code)
    kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    rows = [
        kind(
            name=name,
            results_by_partition=[
                kind.AddPartitionsToTxnPartitionResult(
                    partition_index=one.partition, partition_error_code=codes[one]
                )
                for one in some
            ],
        )
        for name, some in groupby(wanted, key=lambda one: one.topic)
    ]
    return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=rows)


def end_txn(cluster: SimCluster, request: Any) -> Any:
    code = cluster.coordinator.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
    )
    return EndTxnResponse(throttle_time_ms=0, error_code=code)


def describe_transactions(cluster: SimCluster, request: Any) -> Any:
    rows = []
    for name in request.transactional_ids:
        state = cluster.coordinator.state_of(name)
        rows.append(
            DescribeTransactionsResponse.TransactionState(
                error_code=0 if state else NOT_FOUND,
                transactional_id=name,
                transaction_state=state.value if state else "",
                transaction_timeout_ms=0,
                transaction_start_time_ms=-1,
                producer_id=-1,
                producer_epoch=-1,
                topics=[],
            )
        )
    return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=rows)


def list_offsets(cluster: SimCluster, request: Any) -> Any:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    topics = []
    for topic in request.topics:
        rows = []
        for asked in topic.partitions:
            log = cluster.find_log(Partition(topic.name, asked.partition_index))
            committed = bool(request.isolation_level)
            offset = -1 if log is None else _offset_for(log, asked.timestamp, committed)
            rows.append(
                kind.ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index,
                    error_code=_UNKNOWN_TOPIC if log is None else 0,
                    timestamp=-1,
                    offset=offset,
                    leader_epoch=log.leader_epoch if log else -1,
                )
            )
        topics.append(kind(name=topic.name, partitions=rows))
    return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


def produce(cluster: SimCluster, request: Any) -> Any:
    kind = ProduceResponse.TopicProduceResponse
    topics = []
    for topic in request.topic_data:
        rows = []
        for part in topic.partition_data:
            log = cluster.log_of(topic.topic_id, part.index)
            code, offset = _UNKNOWN_TOPIC_ID, -1
            if log is not None:
                code, offset = _append(log, part.records)
            rows.append(
                kind.PartitionProduceResponse(
                    index=part.index,
                    error_code=code,
                    base_offset=offset,
                    log_append_time_ms=-1,
                    log_start_offset=log.start if log else -1,
                    record_errors=[],
                    error_message=None,
                )
            )
        topics.append(kind(topic_id=topic.topic_id, partition_responses=rows))
    return ProduceResponse(responses=topics, throttle_time_ms=0, version=13)


def fetch(cluster: SimCluster, request: Any) -> list[Any]:
    """Return what a reply to a fetch would say now, topic by topic."""
    committed = bool(request.isolation_level)
    return [
        FetchResponse.FetchableTopicResponse(
            topic_id=topic.topic_id,
            partitions=[_read(cluster, topic.topic_id, one, committed) for one in topic.partitions],
            version=17,
        )
        for topic in request.topics
    ]


def is_news(row: Any) -> bool:
    """Tell whether a fetch need not wait any longer because of this partition."""
    return bool(row.error_code or row.records or row.diverging_epoch)


def _read(cluster: SimCluster, topic_id: UUID, place: Any, committed: bool) -> Any:
    kind = FetchResponse.FetchableTopicResponse.PartitionData
    log = cluster.log_of(topic_id, place.partition)
    code, records, diverging = 0, b"", None
    aborted: list[Aborted] = []
    if log is None:
        code = _UNKNOWN_TOPIC_ID
    elif place.current_leader_epoch >= 0 and place.current_leader_epoch != log.leader_epoch:
        older = place.current_leader_epoch < log.leader_epoch
        code = _OLD_LEADER_EPOCH if older else _NEW_LEADER_EPOCH
    else:
        # A log that parted is told of before an offset that it does not hold.
        diverging = log.diverges(place.last_fetched_epoch, place.fetch_offset)
        try:
            most = place.partition_max_bytes
            if diverging is None:
                records, aborted = log.read(place.fetch_offset, most, committed=committed)
        except Refused as refused:
            code = refused.code
    known = log if log is not None and not code else None
    return kind(
        partition_index=place.partition,
        error_code=code,
        high_watermark=known.end if known else -1,
        last_stable_offset=known.stable_end if known else -1,
        log_start_offset=known.start if known else -1,
        diverging_epoch=diverging and kind.EpochEndOffset(*diverging),
        aborted_transactions=[
            kind.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in aborted
        ],
        preferred_read_replica=-1,
        records=records,
        version=17,
    )


def _offset_for(log: SimLog, timestamp: int, committed: bool) -> int:
    if timestamp == EARLIEST:
        return log.start
    if timestamp == LATEST:
        return log.stable_end if committed else log.end
    return log.offset_at(timestamp)


def _append(log: SimLog, records: bytes) -> tuple[int, int]:
    try:
        return 0, log.append(bytes(records))
    except Refused as refused:
        return refused.code, -1
