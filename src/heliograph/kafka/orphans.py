"""Orphans: ids for which every claimer lost.

Kafka lets a stale second InitProducerId abort the open transaction of the claim that overtook it,
and only then refuses it. Then both claims are lost, and nobody is the writer. The coordinator
shows it: after a claim that was won the id is Empty, since the winner's InitProducerId came last;
after a claim that nobody won it stays at the end of an abort.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Generator
from datetime import timedelta
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.conversation import Question, talk
from heliograph.kafka.deadline import Deadline

_NOBODYS = ("CompleteAbort", "CompleteCommit")
# A rival on its way is between its abort and its InitProducerId for some milliseconds. Taken for
# dead while it was only slow, it loses to the next claim: that is safe.
_PATIENCE_S = 0.2
_LOOKS = 3


def orphans(cluster: Cluster, lost: Collection[str], deadline: Deadline) -> set[str]:
    """Return those ids whose claim was lost by everybody; waits only if there are any to ask for.

    The wait is random, so that rivals who look for orphans do not claim in step again.
    """
    left = set(lost)
    for _ in range(_LOOKS):
        if not left or deadline.passed:
            break
        pause = Deadline.after(timedelta(seconds=_PATIENCE_S * random.uniform(0.5, 1.5)))
        while not pause.passed:
            cluster.loop.turn(pause.left_s)
        states = talk(cluster, {tid: _state(tid) for tid in left}, deadline)
        left = {tid for tid, state in states.items() if state in _NOBODYS}
    return left if not deadline.passed else set()


def _state(transactional_id: str) -> Generator[Question, Any, str]:
    answer = yield Question(
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        0,
        _codes,
        f"looking who won the claim on {transactional_id}",
    )
    return str(answer.transaction_states[0].transaction_state)


def _codes(answer: Any) -> list[int]:
    if len(answer.transaction_states) != 1:
        raise ValueError("it does not tell the state of one id")
    return [row.error_code for row in answer.transaction_states]
