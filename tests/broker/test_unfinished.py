"""Recovery verbs that were cut off in the middle, and those that follow them."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from heliograph.copy.opening import Opened, open_all
from heliograph.errors import MirrorClosed
from heliograph.model.names import control_topic
from heliograph.model.recovery import under_way
from heliograph.model.topics import Partition
from heliograph.recovery.journal import Journal
from tests.broker.groups import GroupLink, commit, consume
from tests.broker.linked import copy_all, produce, within
from tests.broker.links import link_report, part_report
from tests.broker.recovering import (
    Make,
    die_at,
    lose_source,
    lose_target,
    mirrored,
    numbers,
    opposite_ends,
    opposite_of,
    recover,
    refused,
    stages,
    tell,
    values,
)
from tests.making import create_topic


def fill(link: GroupLink, topic: str, counts: Mapping[int, int]) -> None:
    producer = Producer({"bootstrap.servers": link.source.bootstrap})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(20) == 0


def test_a_promotion_that_died_half_closed_is_finished_or_taken_back(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    link.make(topic_name, 2)
    parts = [Partition(topic_name, number) for number in range(2)]
    fill(link, topic_name, {0: 5, 1: 5})
    for one in parts:
        link.copy(one)
    link.link.report(
        link_report(topics={topic_name: topic_name}), dict.fromkeys(parts, part_report())
    )
    assert die_at("R-ledger-put", link.link.words("promote")) == -signal.SIGKILL
    fill(link, topic_name, {0: 3, 1: 3})  # the producers know nothing of it
    told = refused(link, capsys, "promote", "--timeout", "1s")
    assert "up to 6 records have not arrived" in told and stages(link) == {}
    for one in parts:  # both are mirrored as ever
        link.copy(one)
    link.link.report(
        link_report(topics={topic_name: topic_name}), dict.fromkeys(parts, part_report())
    )
    assert recover(link, capsys, "promote")["missing_records"] == 0
    found = open_all(link.ends, {one: one for one in parts}, within(30))
    assert all(isinstance(one, MirrorClosed) for one in found.values())


def test_a_partition_that_has_no_mirror_yet_keeps_a_promotion_waiting(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    create_topic(link.source.bootstrap, topic_name, 2)
    create_topic(link.target.bootstrap, topic_name, 1)
    here = Partition(topic_name, 0)
    link.copy(here)
    tell(link, here)
    fill(link, topic_name, {1: 7})
    told = refused(link, capsys, "promote", "--timeout", "1s")
    assert "up to 7 records have not arrived" in told and stages(link) == {}
    assert isinstance(open_all(link.ends, {here: here}, within(30))[here], Opened)


def test_a_mirror_with_more_partitions_than_its_source_is_promoted(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    create_topic(link.source.bootstrap, topic_name, 1)
    create_topic(link.target.bootstrap, topic_name, 2)
    here = Partition(topic_name, 0)
    produce(link.source.bootstrap, topic_name, numbers(0, 5))
    link.copy(here)
    tell(link, here)
    assert recover(link, capsys, "promote")["state"] == "PROMOTED"


def test_what_a_failover_closed_is_compared_before_anything_else(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    mirrored(link, topic_name, 5)
    assert die_at("R-close-recorded", link.link.words("failover", "--yes")) == -signal.SIGKILL
    told = refused(link, capsys, "switch", "--fence", "none")
    assert "a failover of this link" in told and "has not ended" in told


def test_a_part_of_an_unfinished_verb_leaves_the_rest_unfinished(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, other = link.make(topic_name), link.make(f"{topic_name}.other")
    for one in (here, other):
        produce(link.source.bootstrap, one.topic, numbers(0, 5))
        link.copy(one)
    topics = {one.topic: one.topic for one in (here, other)}
    link.link.report(link_report(topics=topics), dict.fromkeys((here, other), part_report()))
    assert die_at("R-groups-recorded", link.link.words("failover", "--yes")) == -signal.SIGKILL
    recover(link, capsys, "failover", "--yes", "--topics", topic_name)
    assert stages(link) == {topic_name: "FAILED_OVER", other.topic: "PROMOTING"}
    left = under_way(link.link.rows(control_topic(link.name)))
    assert left is not None and left.topics == (other.topic,)
    assert left.done == ("before", "close", "groups")
    recover(link, capsys, "failover", "--yes")
    assert set(stages(link).values()) == {"FAILED_OVER"}
    assert under_way(link.link.rows(control_topic(link.name))) is None


def test_a_source_that_dies_after_a_switch_back_can_be_failed_over(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, 5)
    recover(link, capsys, "switch", "--fence", "none")
    copy_all(opposite_ends(link), here)
    words = [*link.link.words("switch", "--back", "--fence", "none")]
    assert die_at("R-mark-recorded", words) == -signal.SIGKILL
    assert stages(link) == {}
    lose_source(link)
    assert "switch --back" in refused(link, capsys, "promote", "--timeout", "1s")
    assert recover(link, capsys, "failover", "--yes")["state"] == "FAILED_OVER"


def test_the_other_side_may_die_too_while_the_link_is_turned_round(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    back = opposite_ends(link)
    produce(link.source.bootstrap, topic_name, numbers(0, 5))
    link.copy(here)
    tell(link, here)
    recover(link, capsys, "switch", "--fence", "none")
    produce(link.target.bootstrap, topic_name, numbers(5, 10))
    copy_all(back, here)
    tell(opposite_of(link), here)
    produce(link.target.bootstrap, topic_name, numbers(10, 12))  # they never get back
    text = link.link.file.read_text()
    lose_target(link)
    found = recover(opposite_of(link), capsys, "failover", "--yes")
    assert found["state"] == "FAILED_OVER"
    link.link.file.write_text(text)
    produce(link.source.bootstrap, topic_name, numbers(20, 25))
    # What the opposite direction failed over is compared first.
    assert "heliograph failback" in refused(link, capsys, "switch", "--back", "--fence", "none")
    found = recover(opposite_of(link), capsys, "failback")
    assert [one["records"] for one in found["diverged"]] == [2]
    link.copy(here)
    assert values(link.source, topic_name) == [*numbers(0, 10), *numbers(20, 25)]
    assert values(link.target, topic_name) == [*numbers(0, 12), *numbers(20, 25)]
    tell(link, here)
    recover(link, capsys, "switch", "--fence", "none")  # and round again
    produce(link.target.bootstrap, topic_name, numbers(30, 33))
    copy_all(back, here)
    assert values(link.source, topic_name)[-3:] == numbers(30, 33)


def test_the_new_primary_may_be_lost_after_a_failback_and_every_record_is_accounted_for(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tells = '"echo $HELIOGRAPH_HOOK_VERB $HELIOGRAPH_HOOK_LINK $HELIOGRAPH_HOOK_PRIMARY'
    link = make(f"""    hooks:
      after_failover: [{tells} >> {tmp_path}/hooks"]
      after_failback: [{tells} >> {tmp_path}/hooks"]
""")
    here, back = link.make(topic_name), opposite_of(link)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    link.copy(here)
    tell(link, here)
    produce(link.source.bootstrap, topic_name, numbers(10, 12))  # these do not arrive
    text = link.link.file.read_text()
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    link.link.file.write_text(text)
    produce(link.target.bootstrap, topic_name, numbers(20, 25))
    first = recover(link, capsys, "failback")
    assert stages(link) == {topic_name: "REVERSING"}
    copy_all(opposite_ends(link), here)
    tell(back, here)
    commit(link.target, topic_name, {here: 0})
    assert consume(link.target, topic_name, topic_name, 13)[-3:] == numbers(20, 23)
    assert not back.sync().errors
    produce(link.target.bootstrap, topic_name, numbers(30, 33))  # nor do these
    lose_target(link)
    assert recover(back, capsys, "failover", "--yes")["state"] == "FAILED_OVER"
    assert consume(link.source, topic_name, topic_name, 2) == numbers(23, 25)
    produce(link.source.bootstrap, topic_name, numbers(40, 45))
    link.link.file.write_text(text)
    # Whoever takes the wrong direction is told the right one.
    assert f"heliograph failback {back.name}" in refused(link, capsys, "failover", "--yes")
    second = recover(back, capsys, "failback")
    # The link runs in its own direction again.
    assert stages(link) == {}
    link.copy(here)
    tell(link, here)
    assert [one["records"] for one in first["diverged"]] == [2]
    # What diverged at first was saved then, and is not told again.
    assert [(one["side"], one["records"]) for one in second["diverged"]] == [("source", 3)]
    assert values(link.target, f"{topic_name}.diverged") == numbers(10, 12)
    assert values(link.source, f"{topic_name}.diverged") == numbers(30, 33)
    common = [*numbers(20, 25), *numbers(40, 45)]
    assert values(link.source, topic_name) == [*numbers(0, 12), *common]
    on_target = [*numbers(0, 10), *numbers(20, 25), *numbers(30, 33), *numbers(40, 45)]
    assert values(link.target, topic_name) == on_target
    assert (tmp_path / "hooks").read_text().splitlines() == [
        f"failover {link.name} target",
        f"failback {link.name} target",
        f"failover {back.name} source",
        f"failback {back.name} source",
    ]


def test_a_failover_of_other_topics_leaves_a_verb_under_way_to_be_finished(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, other = link.make(topic_name), link.make(f"{topic_name}.other")
    for one in (here, other):
        produce(link.source.bootstrap, one.topic, numbers(0, 5))
        link.copy(one)
    tell(link, here, other)
    recover(link, capsys, "switch", "--fence", "none", "--topics", topic_name)
    copy_all(opposite_ends(link), here)
    tell(opposite_of(link), here)
    words = link.link.words("switch", "--back", "--fence", "none", "--topics", topic_name)
    assert die_at("R-turn-recorded", words) == -signal.SIGKILL
    # Also where the failover itself is cut off.
    over = link.link.words("failover", "--yes")
    assert die_at("R-close-recorded", over) == -signal.SIGKILL
    found = recover(link, capsys, "failover", "--yes")
    assert f"{topic_name} is REVERSING already: left alone" in found["notes"]
    assert stages(link) == {topic_name: "REVERSING", other.topic: "FAILED_OVER"}
    left = under_way(link.link.rows(control_topic(link.name)))
    assert left is not None and (left.verb, left.topics) == ("switch-back", (topic_name,))
    assert "switch --back" in refused(link, capsys, "failback", "--topics", other.topic)
    recover(link, capsys, "switch", "--back", "--fence", "none", "--topics", topic_name)
    assert stages(link) == {other.topic: "FAILED_OVER"}
    assert under_way(link.link.rows(control_topic(link.name))) is None
    produce(link.source.bootstrap, topic_name, numbers(5, 8))
    link.copy(here)
    for cluster in (link.source, link.target):
        assert values(cluster, topic_name) == numbers(0, 8)


def test_what_was_under_way_is_finished_after_whatever_came_between(make: Make) -> None:
    link = make()
    journal = Journal(link.ends.target, link.name)
    journal.open(within(20))
    journal.begin("switch", ["a", "b"], "somebody")
    journal.tell("fence", "done")
    journal.begin("failover", ["c"], "somebody")
    journal.tell("before", "done")
    journal.begin("failover", ["b", "c"], "somebody else")  # of which one was under way
    journal.tell("close", "done")
    journal.end()
    left = journal.unfinished
    assert left is not None and (left.verb, left.topics, left.done) == (
        "switch",
        ("a",),
        ("fence",),
    )
    journal.begin("failover", ["a"], "somebody")
    journal.end()
    assert journal.unfinished is None


def test_what_only_ran_hooks_keeps_nobody_from_meaning_more_topics(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, other = link.make(topic_name), link.make(f"{topic_name}.other")
    for one in (here, other):
        produce(link.source.bootstrap, one.topic, numbers(0, 5))
        link.copy(one)
    tell(link, here, other)
    words = link.link.words("failover", "--yes", "--topics", topic_name)
    assert die_at("R-before-recorded", words) == -signal.SIGKILL
    recover(link, capsys, "failover", "--yes")
    assert stages(link) == dict.fromkeys((here.topic, other.topic), "FAILED_OVER")
