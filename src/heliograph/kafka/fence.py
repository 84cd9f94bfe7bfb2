"""Fence: become the only writer of some partitions, and be sure of it.

The claim of the design, in four steps. Transactions are used only for this; data is written
without them, so every reader sees it at once, whatever its isolation level.

Facts this rests on, each tried on a real broker:

A. After an abort marker of ``(P, e)`` stands in a partition, its leader refuses batches of ``P``
   with an older epoch.
B. The reply to EndTxn comes before the markers are written. Only the second InitProducerId
   returns after them.
C. The second InitProducerId carries ``(P, e)``. Without them two claimers that interleave would
   both be given a valid epoch.
D. Epochs are never computed: a leader believes any higher one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from heliograph.errors import HeliographError, Superseded
from heliograph.kafka import crash
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.conversation import Question, talk
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, list_offsets, try_offsets
from heliograph.kafka.orphans import orphans
from heliograph.model.topics import Partition

# The newest versions before KIP-890's: from AddPartitionsToTxn 4 and EndTxn 5 on, the broker
# verifies and bumps epochs by itself, which the claim relies on not happening.
_INIT, _ADD, _END = 4, 3, 3
# Short: a claimer that dies after AddPartitionsToTxn fences the live writer when this runs out.
_TRANSACTION_TIMEOUT = timedelta(seconds=10)
_NOBODY = (-1, -1)
_NOT_ATTEMPTED = 55


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim gives: the identity to write with, sequences from 0.

    ``marker_epoch`` is the epoch of the abort marker that stands in each claimed partition: an
    earlier writer's last batch stands before it.
    """

    transactional_id: str
    producer_id: int
    marker_epoch: int
    epoch: int


def claim(
    cluster: Cluster, transactional_id: str, partitions: Sequence[Partition], deadline: Deadline
) -> Claim:
    """Fence every earlier writer of ``partitions`` under this id, and become their writer.

    Raises Superseded when another claimer came in between; then nothing was written.
    """
    result = claim_all(cluster, {transactional_id: partitions}, deadline)[transactional_id]
    if isinstance(result, HeliographError):
        raise result
    return result


def claim_all(
    cluster: Cluster, wanted: Mapping[str, Sequence[Partition]], deadline: Deadline
) -> dict[str, Claim | HeliographError]:
    """Claim for many transactional ids at once; one that fails does not touch the others.

    Rivals for an id leave one winner, whose claim is the last to end; the others get Superseded.
    """
    results: dict[str, Claim | HeliographError] = {}
    results.update(_unserved(cluster, wanted, deadline))
    open_ids = set(wanted) - set(results)
    while open_ids:
        results |= talk(cluster, {tid: steps(tid, wanted[tid]) for tid in open_ids}, deadline)
        lost = [tid for tid in open_ids if isinstance(results[tid], Superseded)]
        open_ids = orphans(cluster, lost, deadline)
    return results


def _unserved(
    cluster: Cluster, wanted: Mapping[str, Sequence[Partition]], deadline: Deadline
) -> dict[str, HeliographError]:
    """Wait until every partition's leader holds its log; return the ids that cannot be claimed.

    A broker that is told to write a marker into a log that it does not have yet (a topic just
    created) was seen to sit on that request, and on every other marker behind it, for 30 s.
    """
    served = dict.fromkeys((one for some in wanted.values() for one in some), EARLIEST)
    third = timedelta(seconds=deadline.left_s / 3)
    try:
        list_offsets(cluster, served, deadline if len(wanted) == 1 else deadline.within(third))
    except HeliographError as failure:
        if len(wanted) == 1:
            return dict.fromkeys(wanted, failure)
    else:
        return {}
    # One of many cannot be served: find out which, and leave the others their share of the time.
    offsets = try_offsets(cluster, served, deadline.within(third))
    return {
        tid: error
        for tid, some in wanted.items()
        for error in map(offsets.get, some)
        if isinstance(error, HeliographError)
    }


def steps(
    transactional_id: str, partitions: Sequence[Partition]
) -> Generator[Question, Any, Claim]:
    """Ask the coordinator what a claim takes; return the claim. Pure but for what it is told."""
    while True:
        answer = yield _init(transactional_id, _NOBODY, "claiming")
        crash.point("C1")
        identity = (answer.producer_id, answer.producer_epoch)
        yield _add(transactional_id, identity, partitions)
        crash.point("C2")
        yield _abort(transactional_id, identity)
        crash.point("C4")
        answer = yield _init(transactional_id, identity, "completing a claim")
        if answer.producer_id == identity[0]:
            return Claim(transactional_id, identity[0], identity[1], answer.producer_epoch)
        # The epochs ran out in between: the marker bears the old id. Claim under the new one.


def _init(transactional_id: str, identity: tuple[int, int], doing: str) -> Question:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=int(_TRANSACTION_TIMEOUT.total_seconds() * 1000),
        producer_id=identity[0],
        producer_epoch=identity[1],
    )
    return Question(
        transactional_id,
        request,
        InitProducerIdResponse,
        _INIT,
        lambda answer: (answer.error_code,),
        f"{doing} {transactional_id}",
    )


def _add(
    transactional_id: str, identity: tuple[int, int], partitions: Iterable[Partition]
) -> Question:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    rows = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
        for name, numbers in topics.items()
    ]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=rows,
    )
    return Question(
        transactional_id,
        request,
        AddPartitionsToTxnResponse,
        _ADD,
        partial(_add_codes, {(one.topic, one.partition) for one in partitions}),
        f"claiming {transactional_id} on {', '.join(map(str, partitions))}",
    )


def _add_codes(asked: set[tuple[str, int]], answer: Any) -> list[int]:
    codes = {
        (topic.name, row.partition_index): int(row.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    }
    if set(codes) != asked:
        raise ValueError("it is about other partitions than those asked for")
    # One partition that fails makes all others "not attempted", which explains nothing.
    told = list(codes.values())
    return [code for code in told if code != _NOT_ATTEMPTED] or told


def _abort(transactional_id: str, identity: tuple[int, int]) -> Question:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        committed=False,
    )
    return Question(
        transactional_id,
        request,
        EndTxnResponse,
        _END,
        lambda answer: (answer.error_code,),
        f"writing the marker of {transactional_id}",
        crash_point="C3",
    )
