"""Partitions opened in groups, a few at a time, on real brokers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from heliograph.copy.errands import Errands, Outcomes
from heliograph.copy.opened import Ends, Opened
from heliograph.errors import DeadlinePassed
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import make_ledger, within
from tests.doubles.behind import Behind
from tests.doubles.proxy import ADD_PARTITIONS_TO_TXN, Hold
from tests.making import create_topic


class Openings:
    """What became of partitions that errands open, one by one unless told."""

    def __init__(self, link: Ends, **options: Any) -> None:
        self.link = link
        self.found: dict[Partition, object] = {}
        self.order: list[Partition] = []
        self.most_at_work = 0
        ends = link.source.settings, link.target.settings
        options = {"together": 1} | options
        self.errands = Errands(link.target.loop, link.link, link.ledger_topic, *ends, **options)

    def open(self, *parts: Partition) -> None:
        self.errands.open({one: one for one in parts}, Policies(), {}, (), self._opened)

    def _opened(self, outcomes: Outcomes) -> None:
        self.found.update(outcomes)
        self.order.extend(outcomes)

    def wait(self, count: int, seconds: float = 60) -> None:
        over = within(seconds)
        while len(self.found) < count:
            assert not over.passed, self.found
            self.errands.pump()
            self.most_at_work = max(self.most_at_work, self.errands.at_work)
            self.link.target.loop.turn(0.01)


def test_groups_are_opened_a_few_at_a_time_and_each_sees_what_was_put_before_its_claim(
    link: Ends, source: Any, target: Any, topic_name: str
) -> None:
    wide = f"{topic_name}.wide"
    for cluster in (source, target):
        create_topic(cluster.bootstrap, wide, 12)
    parts = [Partition(wide, number) for number in range(12)]
    first = Openings(link, at_once=2)
    first.open(*parts)
    first.wait(12)
    assert 1 <= first.most_at_work <= 2
    # Each once more, in the same round: what the one before put is read beside the rest.
    again = Openings(link, at_once=2)
    again.open(*parts)
    again.open(parts[0])
    again.wait(12)
    over = within(30)
    while again.errands.at_work or again.errands.is_waiting:
        assert not over.passed
        again.errands.pump()
        link.target.loop.turn(0.01)
    assert len(again.order) == 13
    for one in parts:
        before, after = first.found[one], again.found[one]
        assert isinstance(before, Opened) and isinstance(after, Opened), (before, after)
        assert before.ledger.producer_ids == after.ledger.producer_ids
        assert after.claim.epoch > before.claim.epoch


def test_a_group_that_waits_for_its_turn_loses_no_time(
    behind: Behind, source: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> None:
    for bootstrap in (source.bootstrap, behind.direct):
        create_topic(bootstrap, topic_name, 3)
    ledger = make_ledger(behind.direct, topic_name)
    properties = {"bootstrap.servers": behind.proxy.address}
    with Cluster(parse("behind", properties), "target", ends[0].loop) as target:
        held, *others = [Partition(topic_name, number) for number in range(3)]
        transactional_id = f"heliograph.test.{topic_name}.0".encode()
        rule = behind.proxy.on_request(
            ADD_PARTITIONS_TO_TXN, Hold(), times=None, holding=transactional_id
        )
        link = Ends("test", ends[0], target, ledger)
        openings = Openings(link, at_once=1, timeout=timedelta(seconds=4))
        openings.open(held, *others)
        openings.wait(3)
        behind.proxy.release(rule)
    assert openings.order == [held, *others]
    assert isinstance(openings.found[held], DeadlinePassed), openings.found
    assert all(isinstance(openings.found[one], Opened) for one in others), openings.found


def test_what_waits_for_its_turn_is_left_out_when_a_lease_ends(
    link: Ends, source: Any, target: Any, topic_name: str
) -> None:
    wide = f"{topic_name}.wide"
    for cluster in (source, target):
        create_topic(cluster.bootstrap, wide, 4)
    parts = [Partition(wide, number) for number in range(4)]
    openings = Openings(link, at_once=1)
    openings.open(*parts)
    assert openings.errands.drop_waiting() == set(parts[1:])
    openings.wait(1)
    assert openings.order == parts[:1] and not openings.errands.at_work
