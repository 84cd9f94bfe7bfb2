"""Which offsets a log holds: its start, its end, the first at or after a time, and whether all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from heliograph.errors import DeadlinePassed, HeliographError, NotReady, ProtocolBroken
from heliograph.kafka import clock
from heliograph.kafka.cluster import PROPAGATION, Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for
from heliograph.kafka.leaders import no_partition
from heliograph.kafka.messages import decode, encode, version_for
from heliograph.kafka.transport import Channel, Reply
from heliograph.model.topics import Partition

EARLIEST, LATEST = -2, -1
"""In place of a timestamp in milliseconds."""
_MOST, _LEAST = 7, 2
_PAUSE_S = 0.05
_TOPIC, _CLEANUP = 2, "cleanup.policy"


def list_offsets(
    cluster: Cluster,
    wanted: Mapping[Partition, int],
    deadline: Deadline,
    *,
    read_committed: bool = False,
) -> dict[Partition, int]:
    """Return the offset for each partition's time, EARLIEST or LATEST.

    With ``read_committed`` the end is the last stable offset. A time after the last record gives
    -1, as Kafka does.
    """
    found: dict[Partition, int] = {}
    patience = deadline.within(PROPAGATION)

    def attempt() -> dict[Partition, int]:
        left = wanted.keys() - found.keys()
        view = cluster.describe({one.topic for one in left}, deadline, led=left)
        for partition in wanted if patience.passed else ():
            if partition not in found and view.find(partition) is None:
                count = len(view.topics[partition.topic].partitions)
                raise no_partition(partition, count, cluster.name)
        for broker, some in _by_leader(cluster, (p for p in wanted if p not in found)).items():
            request = _request({p: wanted[p] for p in some}, read_committed)
            answer = cluster.call(
                request,
                ListOffsetsResponse,
                broker=broker,
                deadline=deadline.within(cluster.attempt_timeout),
                most=_MOST,
                least=_LEAST,
            )
            found.update(_read(answer, some, cluster.name))
        return found

    return cluster.retry("listing offsets", attempt, deadline)


def try_offsets(
    cluster: Cluster,
    wanted: Mapping[Partition, int],
    deadline: Deadline,
    *,
    read_committed: bool = False,
) -> dict[Partition, int | HeliographError]:
    """Ask for each partition alone, all at once: what is wrong with one stands in its place."""
    cluster.watch({partition.topic for partition in wanted})
    patience = deadline.within(PROPAGATION)
    trying = [
        _Trying(cluster, one, time_ms, patience, read_committed) for one, time_ms in wanted.items()
    ]
    while not deadline.passed:
        left = [one for one in trying if not one.is_over]
        if not left:
            break
        for one in left:
            one.step()
        cluster.loop.turn(min(deadline.left_s, _PAUSE_S))
    return {one.partition: one.result for one in trying}


class _Trying:
    """One partition that is asked for until it answers, or will not."""

    def __init__(
        self,
        cluster: Cluster,
        partition: Partition,
        time_ms: int,
        patience: Deadline,
        read_committed: bool,
    ) -> None:
        self.partition = partition
        self.is_over = False
        message = f"the leader of {partition} did not answer in the time allowed"
        self.result: int | HeliographError = DeadlinePassed(message, cluster=cluster.name)
        self._cluster = cluster
        self._time_ms = time_ms
        self._patience = patience
        self._read_committed = read_committed
        self._not_before_s = 0.0

    def step(self) -> None:
        if clock.now_s() >= self._not_before_s:
            self._not_before_s = inf
            ask_offsets(
                self._cluster,
                self.partition,
                [self._time_ms],
                self._answered,
                read_committed=self._read_committed,
            )

    def _answered(self, answer: dict[int, int] | HeliographError) -> None:
        if isinstance(answer, HeliographError):
            gone = self._cluster.view.find(self.partition) is None and self._patience.passed
            self.result = self._why_gone() if gone else answer
            self.is_over = gone or not answer.retriable
            self._not_before_s = clock.now_s() + _PAUSE_S
        else:
            self.result, self.is_over = answer[self._time_ms], True

    def _why_gone(self) -> HeliographError:
        topic = self._cluster.view.topics.get(self.partition.topic)
        if topic is None:
            return self._cluster.why_absent(self.partition.topic)
        return no_partition(self.partition, len(topic.partitions), self._cluster.name)


def ask_offsets(
    cluster: Cluster,
    partition: Partition,
    times: Iterable[int],
    on_answer: Callable[[dict[int, int] | HeliographError], None],
    *,
    read_committed: bool = False,
) -> None:
    """Ask the leader without waiting; ``on_answer`` is called once, with offsets by time."""
    known = cluster.view.find(partition)
    try:
        channel = None
        if known is not None and known.leader is not None:
            channel = cluster.channel(known.leader)
        if channel is None:
            cluster.look_again()
            raise NotReady(f"{partition} has no leader to ask", cluster=cluster.name)
        asking = _Asking(cluster, channel, partition, list(times), on_answer, read_committed)
    except HeliographError as failure:
        on_answer(failure)
    else:
        asking.go_on()


class _Asking:
    """One request a time: a request may name a partition only once."""

    def __init__(
        self,
        cluster: Cluster,
        channel: Channel,
        partition: Partition,
        times: list[int],
        on_answer: Callable[[dict[int, int] | HeliographError], None],
        read_committed: bool,
    ) -> None:
        self._cluster = cluster
        self._read_committed = read_committed
        self._channel = channel
        self._partition = partition
        self._left = times
        self._found: dict[int, int] = {}
        self._on_answer = on_answer
        self._version = version_for(channel, ListOffsetsRequest, most=_MOST, least=_LEAST)

    def go_on(self) -> None:
        if not self._left:
            self._on_answer(self._found)
            return
        request = _request({self._partition: self._left[0]}, self._read_committed)
        deadline = Deadline.after(self._cluster.attempt_timeout)
        self._channel.send(encode(request, self._version), self._answered, deadline)

    def _answered(self, reply: Reply) -> None:
        if isinstance(reply, HeliographError):
            self._on_answer(reply)
            return
        try:
            answer = decode(ListOffsetsResponse, self._version, reply, self._channel)
            offsets = _read(answer, [self._partition], self._cluster.name)
            self._found[self._left.pop(0)] = offsets[self._partition]
        except HeliographError as failure:
            self._on_answer(failure)
            return
        self.go_on()


def _by_leader(cluster: Cluster, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
    leaders: dict[int, list[Partition]] = {}
    for partition in partitions:
        known = cluster.view.find(partition)
        if known is None or known.leader is None:
            raise NotReady(f"{partition} has no leader", cluster=cluster.name)
        leaders.setdefault(known.leader, []).append(partition)
    return leaders


def is_compacted(cluster: Cluster, topic: str, deadline: Deadline) -> bool:
    """Tell whether compaction may remove records from the middle of a topic's logs.

    Raises where its settings may not be read.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=topic, configuration_keys=[_CLEANUP]
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=False, include_documentation=False
    )

    def attempt() -> bool:
        cluster.describe([topic], deadline, led=())
        answer = cluster.call(
            request,
            DescribeConfigsResponse,
            broker=min(cluster.view.brokers),
            deadline=deadline.within(cluster.attempt_timeout),
            most=4,
            least=1,
        )
        (result,) = answer.results
        if result.error_code:
            doing = f"reading the settings of topic {topic}"
            raise error_for(result.error_code, cluster=cluster.name, doing=doing)
        return any("compact" in (entry.value or "") for entry in result.configs)

    return cluster.retry(f"reading the settings of topic {topic}", attempt, deadline)


def _request(wanted: Mapping[Partition, int], read_committed: bool) -> Any:
    topics: dict[str, list[Any]] = {}
    for partition, time_ms in wanted.items():
        row = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition.partition, current_leader_epoch=-1, timestamp=time_ms
        )
        topics.setdefault(partition.topic, []).append(row)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=rows)
            for name, rows in topics.items()
        ],
    )


def _read(answer: Any, asked: Iterable[Partition], cluster: str) -> dict[Partition, int]:
    offsets = {}
    for topic in answer.topics:
        for row in topic.partitions:
            partition = Partition(topic.name, row.partition_index)
            if row.error_code:
                doing = f"listing the offsets of {partition}"
                raise error_for(row.error_code, cluster=cluster, doing=doing)
            offsets[partition] = row.offset
    for partition in asked:
        if partition not in offsets:
            message = f"a reply does not tell the offset of {partition}, which it was asked for"
            raise ProtocolBroken(message, cluster=cluster)
    return offsets
