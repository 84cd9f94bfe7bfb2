"""Answers that a claim must not take at their word, from a real broker."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from heliograph.kafka.conversation import Question, talk
from heliograph.kafka.fence import Claim, steps
from heliograph.model.topics import Partition
from tests.doubles import outside
from tests.doubles.behind import Behind
from tests.doubles.driving import Writing, claim_of, connect_to, offsets_of, within
from tests.doubles.proxy import ADD_PARTITIONS_TO_TXN, Side, flip_in

_LAST_EPOCH = 32766  # the next InitProducerId gives another producer id


def test_claim_whose_epochs_run_out_midway_ends_under_one_id(
    behind: Behind, topic_name: str
) -> None:
    """Its marker must bear the id that it writes with: that is how a match knows where to stop."""
    outside.make_topic(behind.direct, topic_name)
    with connect_to(behind.direct) as cluster:
        old = claim_of(cluster, topic_name)
        bumps = talk(cluster, {"bumps": _bump(old, _LAST_EPOCH - 1)}, within(120))
        assert bumps == {"bumps": (old.producer_id, _LAST_EPOCH - 1)}
        new = claim_of(cluster, topic_name)
        assert new.producer_id != old.producer_id
        assert new.epoch > new.marker_epoch, "both are of the same id"
        writing = Writing(cluster, Partition(topic_name, 0), new)
        writing.send(b"a")
        offsets_of(writing.finish())
    assert outside.values(behind.direct, topic_name) == [b"a"]


def _bump(old: Claim, last: int) -> Generator[Question, Any, tuple[int, int]]:
    """Raise the epoch step by step, as so many claims would."""
    identity = (old.producer_id, old.epoch)
    while identity[1] < last:
        question = next(steps(old.transactional_id, ()))
        question.request.producer_id, question.request.producer_epoch = identity
        answer = yield question
        identity = (answer.producer_id, answer.producer_epoch)
    return identity


def test_reply_about_another_partition_is_no_answer(behind: Behind, topic_name: str) -> None:
    outside.make_topic(behind.direct, topic_name)
    before = behind.proxy.passed(Side.REQUEST, ADD_PARTITIONS_TO_TXN)
    rule = behind.proxy.on_reply(ADD_PARTITIONS_TO_TXN, flip_in(topic_name.encode()))
    with behind.connect() as cluster:
        claim_of(cluster, topic_name)
    assert rule.caught == 1
    assert behind.proxy.passed(Side.REQUEST, ADD_PARTITIONS_TO_TXN) - before == 2
