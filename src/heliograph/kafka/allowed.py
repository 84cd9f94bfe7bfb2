"""What a user may do, found out by requests that cannot do anything.

A broker looks at the ACLs before it looks at anything else. So each request here is one that must
fail, or would only validate, and all that counts is whether it fails for want of an ACL. That
also tells of topics that do not exist yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import BOOTSTRAP, Cluster
from heliograph.kafka.connect import ask
from heliograph.kafka.conversation import Question, talk
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.messages import version_for
from heliograph.model.acls import Operation

_FORBIDDEN = 29
_FORBIDDEN_GROUP = 30
_GROUPS_BY_NAME = 8  # the first version that asks for many groups, the last that names topics
_COMMIT_OUTSIDE = 2  # the first version of OffsetCommit without a retention of its own
_ALL_TOPICS = 2  # the first version of OffsetFetch that asks for all topics of a group
_BY_NAME = 12  # from version 13 on, Fetch and Produce name topics by id
_TOPIC = 2  # the type of a resource
_SET = 0
_NOWHERE = (1 << 62) - 1  # no log holds this offset
_AT_ONCE = 500
_TIMEOUT = timedelta(seconds=5)
_INIT = 4


class _Try(NamedTuple):
    """How to ask for one operation: the request, and the codes by topic in its reply."""

    request: Callable[[Sequence[str]], Any]
    response: type[Any]
    codes: Callable[[Any], Iterator[tuple[str, int]]]
    most: int
    of_controller: bool = False


def forbidden(
    cluster: Cluster, topics: Collection[str], operation: Operation, deadline: Deadline
) -> set[str]:
    """Return those topics, existing or not, for which the user lacks the ACL of an operation."""
    wanted = sorted(topics)
    found: set[str] = set()
    for at in range(0, len(wanted), _AT_ONCE):
        some = wanted[at : at + _AT_ONCE]
        codes = cluster.retry(
            f"trying what is allowed ({operation})",
            lambda some=some: _ask(cluster, _TRIES[operation], some, deadline),  # type: ignore[misc]
            deadline,
        )
        found |= {topic for topic, code in codes.items() if code == _FORBIDDEN}
    return found


def forbidden_groups(
    cluster: Cluster, groups: Collection[str], operation: Operation, deadline: Deadline
) -> set[str]:
    """Return those groups, existing or not, that the user may not Describe, or not Read.

    Any broker tells: it looks for the group's coordinator later.
    """
    tries = [sorted(groups)] if operation is Operation.DESCRIBE else [[one] for one in groups]
    found: set[str] = set()
    for some in tries if groups else ():
        found |= cluster.retry(
            f"trying what is allowed with groups ({operation})",
            lambda some=some: _ask_groups(cluster, some, operation, deadline),  # type: ignore[misc]
            deadline,
        )
    return found


def _ask_groups(
    cluster: Cluster, groups: list[str], operation: Operation, deadline: Deadline
) -> set[str]:
    by = deadline.within(cluster.attempt_timeout)
    if operation is Operation.DESCRIBE:
        return _undescribed(cluster, groups, by)
    answer = cluster.call(
        _commit_nowhere(groups[0]),
        OffsetCommitResponse,
        broker=BOOTSTRAP,
        deadline=by,
        most=_GROUPS_BY_NAME,
        least=_COMMIT_OUTSIDE,
    )
    codes = {row.error_code for topic in answer.topics for row in topic.partitions}
    return set(groups) if _FORBIDDEN_GROUP in codes else set()


def _undescribed(cluster: Cluster, groups: list[str], deadline: Deadline) -> set[str]:
    """Ask of all groups at once where the broker can, else of one after the other."""
    channel = cluster.connected(BOOTSTRAP, deadline)
    version = version_for(channel, OffsetFetchRequest, most=_GROUPS_BY_NAME, least=_ALL_TOPICS)
    found: set[str] = set()
    for some in [groups] if version >= _GROUPS_BY_NAME else [[one] for one in groups]:
        request = _fetch_offsets(some, version)
        answer = ask(channel, cluster.loop, request, OffsetFetchResponse, version, deadline)
        if version >= _GROUPS_BY_NAME:
            found |= {one.group_id for one in answer.groups if one.error_code == _FORBIDDEN_GROUP}
        elif answer.error_code == _FORBIDDEN_GROUP:
            found.update(some)
    return found


def may_claim(
    cluster: Cluster, transactional_id: str, deadline: Deadline
) -> HeliographError | None:
    """Return why this user may not claim under a transactional id, if that is so.

    Fences whoever writes under it: use one that nobody writes under.
    """

    def conversation() -> Generator[Question, Any, bool]:
        yield Question(
            transactional_id,
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=int(_TIMEOUT.total_seconds() * 1000),
                producer_id=-1,
                producer_epoch=-1,
            ),
            InitProducerIdResponse,
            _INIT,
            lambda answer: (answer.error_code,),
            f"trying a claim as {transactional_id}",
        )
        return True

    outcome = talk(cluster, {transactional_id: conversation()}, deadline)[transactional_id]
    return outcome if isinstance(outcome, HeliographError) else None


def _ask(cluster: Cluster, how: _Try, topics: Sequence[str], deadline: Deadline) -> dict[str, int]:
    controller = cluster.view.controller if how.of_controller else None
    answer = cluster.call(
        how.request(topics),
        how.response,
        broker=BOOTSTRAP if controller is None else controller,
        deadline=deadline.within(cluster.attempt_timeout),
        most=how.most,
    )
    return dict(how.codes(answer))


def _fetch_offsets(groups: list[str], version: int) -> Any:
    if version < _GROUPS_BY_NAME:
        (group,) = groups
        return OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[kind(group_id=group, topics=None) for group in groups], require_stable=False
    )


def _commit_nowhere(group: str) -> Any:
    # Of a topic that nobody could make: no offset is ever stored.
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic(name="..", partitions=[row])],
    )


def _read(topics: Sequence[str]) -> Any:
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=_NOWHERE,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=name, partitions=[partition]) for name in topics],
        forgotten_topics_data=[],
        rack_id="",
    )


def _write(topics: Sequence[str]) -> Any:
    # Without a batch: a log takes nothing from such a request.
    partition = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=b"")
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=int(_TIMEOUT.total_seconds() * 1000),
        topic_data=[
            ProduceRequest.TopicProduceData(name=name, partition_data=[partition])
            for name in topics
        ],
    )


def _alter(topics: Sequence[str]) -> Any:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=1, assignments=None)
            for name in topics
        ],
        timeout_ms=int(_TIMEOUT.total_seconds() * 1000),
        validate_only=True,
    )


def _describe_configs(topics: Sequence[str]) -> Any:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=["cleanup.policy"]
            )
            for name in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def _alter_configs(topics: Sequence[str]) -> Any:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = kind.AlterableConfig(name="compression.type", config_operation=_SET, value="producer")
    return IncrementalAlterConfigsRequest(
        resources=[
            kind(resource_type=_TOPIC, resource_name=name, configs=[change]) for name in topics
        ],
        validate_only=True,
    )


def _fetch_codes(answer: Any) -> Iterator[tuple[str, int]]:
    for topic in answer.responses:
        yield from ((topic.topic, row.error_code) for row in topic.partitions)


def _produce_codes(answer: Any) -> Iterator[tuple[str, int]]:
    for topic in answer.responses:
        yield from ((topic.name, row.error_code) for row in topic.partition_responses)


def _results(field: str, name: str) -> Callable[[Any], Iterator[tuple[str, int]]]:
    return lambda answer: ((getattr(row, name), row.error_code) for row in getattr(answer, field))


_TRIES = {
    Operation.READ: _Try(_read, FetchResponse, _fetch_codes, _BY_NAME),
    Operation.WRITE: _Try(_write, ProduceResponse, _produce_codes, _BY_NAME),
    Operation.ALTER: _Try(
        _alter, CreatePartitionsResponse, _results("results", "name"), 3, of_controller=True
    ),
    Operation.DESCRIBE_CONFIGS: _Try(
        _describe_configs, DescribeConfigsResponse, _results("results", "resource_name"), 4
    ),
    Operation.ALTER_CONFIGS: _Try(
        _alter_configs,
        IncrementalAlterConfigsResponse,
        _results("responses", "resource_name"),
        1,
        of_controller=True,
    ),
}
