"""`failover` where not everything can be done: the rest is, and the same command goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.model.configs import NewTopic
from heliograph.model.names import ledger_topic, state_topic
from heliograph.model.topics import Partition
from tests.broker.groups import commit, consume, group_link, offset
from tests.broker.linked import produce, within
from tests.broker.recovering import (
    Make,
    checkpoint,
    lose_source,
    numbers,
    recover,
    refused,
    stages,
    tell,
)

# Dead brokers are noticed after this long, not after the nine seconds of the default.
QUICK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture
def make(tmp_path: Path, source: Any, target: Any, ends: tuple[Any, Any], topic_name: str) -> Make:
    def made(more: str = "") -> Any:
        return group_link(tmp_path, source, target, ends, topic_name, more)

    return made


@pytest.fixture
def three(private_cluster: Callable[..., Any]) -> Any:
    return private_cluster(name="three", nodes=3, properties=QUICK)


@pytest.fixture
def to_three(source: Any, three: Any) -> Iterator[tuple[Cluster, Cluster]]:
    """The session's source, and a target of three nodes."""
    with (
        closing(Loop()) as loop,
        Cluster(parse("source", source.client_properties()), "source", loop) as one,
        Cluster(parse("target", three.client_properties()), "target", loop) as other,
    ):
        yield one, other


def test_a_partition_that_cannot_be_closed_holds_up_its_topic_only(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    hooks = f"""    hooks:
      after_failover: ["echo $HELIOGRAPH_HOOK_TOPICS >> {tmp_path}/open"]
"""
    link = make(hooks)
    here, broken = link.make(topic_name), link.make(f"{topic_name}.broken")
    for one in (here, broken):
        produce(link.source.bootstrap, one.topic, numbers(0, 20))
        commit(link.source, topic_name, {one: 7})
        link.copy(one)
    tell(link, here, broken)
    assert not link.sync().errors
    lose_source(link)
    books, key = ledger_topic(link.name), f"{broken.topic}/0".encode()
    kept = link.link.rows(books)[key]
    link.link.put(books, {key: b"nonsense"})
    found = recover(link, capsys, "failover", "--yes", code=1)
    (failed,) = found["failed"]
    assert (failed["topic"], failed["partition"]) == (broken.topic, 0)
    assert "cannot be read" in failed["error"] and found["state"] == "PROMOTING"
    assert stages(link) == {here.topic: "FAILED_OVER", broken.topic: "PROMOTING"}
    assert consume(link.target, topic_name, here.topic, 13) == numbers(7, 20)
    # Its applications go on; what is mended follows with the same command.
    commit(link.target, topic_name, {here: 3})
    link.link.put(books, {key: kept})
    found = recover(link, capsys, "failover", "--yes")
    assert not found["failed"] and found["state"] == "FAILED_OVER"
    assert set(stages(link).values()) == {"FAILED_OVER"}
    assert offset(link.target, topic_name, here) == 3
    assert consume(link.target, topic_name, broken.topic, 13) == numbers(7, 20)
    opened = (tmp_path / "open").read_text().split()
    assert opened == [here.topic, f"{here.topic},{broken.topic}"]


def test_topics_whose_applications_have_moved_are_left_alone(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 60s, rto: 60s}")
    here, moved = link.make(topic_name), link.make(f"{topic_name}.moved")
    for one in (here, moved):
        produce(link.source.bootstrap, one.topic, numbers(0, 5))
        link.copy(one)
    tell(link, here, moved)
    recover(link, capsys, "promote", "--topics", moved.topic)
    lose_source(link)
    foreseen = recover(link, capsys, "failover", "--dry-run")
    assert "Fail over 1 topic now?" in refused(link, capsys, "failover")
    found = recover(link, capsys, "failover", "--yes")
    for report in (foreseen, found):
        assert [one["topic"] for one in report["topics"]] == [here.topic]
        assert report["notes"] == [f"{moved.topic} is PROMOTED already: left alone"]
    assert stages(link) == {here.topic: "FAILED_OVER", moved.topic: "PROMOTED"}
    # Said again, it has nothing to do, and keeps to no objective by that.
    again = recover(link, capsys, "failover", "--yes")
    assert "everything else was FAILED_OVER already" in again["notes"][1]
    assert (found["rto_ok"], again["rto_ok"], again["recovery"]) == (True, None, None)
    told = refused(link, capsys, "failover", "--yes", "--topics", moved.topic)
    assert "is PROMOTED since" in told and f"heliograph failback {link.name}" in told


def test_a_group_that_cannot_be_set_holds_up_nobody_and_is_tried_again(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, odd = link.make(topic_name), f"{topic_name}.odd"
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    link.copy(here)
    tell(link, here)
    rows = checkpoint(topic_name, {here: 7})
    rows |= checkpoint(odd, {here: 7}, metadata="longer than the broker takes" * 200)
    link.link.put(state_topic(link.name), rows)
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes", code=1)
    assert [one["group"] for one in found["failed"]] == [odd]
    assert stages(link) == {topic_name: "FAILED_OVER"}
    assert consume(link.target, topic_name, topic_name, 13) == numbers(7, 20)
    commit(link.target, topic_name, {here: 3})
    link.link.put(state_topic(link.name), checkpoint(odd, {here: 9}))
    assert not recover(link, capsys, "failover", "--yes")["failed"]
    assert offset(link.target, topic_name, here) == 3
    assert consume(link.target, odd, topic_name, 11) == numbers(9, 20)


def test_a_mirror_partition_that_nobody_leads_holds_up_its_topic_only(
    source: Any,
    three: Any,
    to_three: tuple[Cluster, Cluster],
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = group_link(tmp_path, source, three, to_three, topic_name)
    here, lost = Partition(topic_name, 0), Partition(f"{topic_name}.lost", 0)
    with Admin(to_three[1].settings, "three") as admin:
        admin.topics.create(NewTopic(here.topic, assignments={0: (1, 2)}))
        admin.topics.create(NewTopic(lost.topic, assignments={0: (3,)}))
    for one in (here, lost):
        link.make_on(source, one.topic)
        produce(source.bootstrap, one.topic, numbers(0, 20))
        commit(source, topic_name, {one: 7})
        link.copy(one)
    tell(link, here, lost)
    assert not link.sync().errors
    lose_source(link)
    three.node(3).kill()
    await_no_leader(to_three[1], lost)
    found = recover(link, capsys, "failover", "--yes", code=1)
    assert [one["topic"] for one in found["failed"]] == [lost.topic]
    assert stages(link) == {here.topic: "FAILED_OVER", lost.topic: "PROMOTING"}
    assert consume(three, topic_name, here.topic, 13) == numbers(7, 20)


def await_no_leader(cluster: Cluster, here: Partition) -> None:
    over = within(30)
    while True:
        view = cluster.look([here.topic], over).find(here)
        if view is not None and view.leader is None:
            return
        assert not over.passed, "it is led for ever"
        cluster.loop.turn(0.1)
