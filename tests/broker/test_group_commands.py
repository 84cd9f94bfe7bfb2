"""`heliograph groups` against real clusters: list, translate, sync, reset, snapshot, rollback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from heliograph.cli.app import run
from heliograph.kafka import clock
from heliograph.model.names import control_topic, state_topic
from heliograph.model.snapshots import KEPT
from heliograph.model.stages import stage_key
from heliograph.model.topics import Partition
from tests.broker.groups import GroupLink, commit, committed, consume, group_link, joined, offset
from tests.broker.linked import produce
from tests.broker.recovering import recover, tell

ROWS = list[dict[str, Any]]


class Commands:
    """Types commands on a link that has copied ten records, each a second after the other."""

    def __init__(self, link: GroupLink, capsys: pytest.CaptureFixture[str]) -> None:
        self.link, self._capsys = link, capsys

    def __call__(self, verb: str, *words: str) -> ROWS:
        """Run a command that must succeed; return its rows."""
        assert self.code(verb, *words, "-o", "json") == 0, self.said
        found: ROWS = json.loads(self.printed)
        return found

    def code(self, verb: str, *words: str) -> int:
        status = run(["groups", verb, self.link.name, "-f", str(self.link.link.file), *words])
        self.printed, self.said = self._capsys.readouterr()
        return status


@pytest.fixture
def here(topic_name: str) -> Partition:
    return Partition(topic_name, 0)


@pytest.fixture
def groups(
    tmp_path: Path,
    source: Any,
    target: Any,
    ends: tuple[Any, Any],
    here: Partition,
    capsys: pytest.CaptureFixture[str],
) -> Commands:
    link = group_link(tmp_path, source, target, ends, here.topic)
    link.make(here.topic)
    producer = Producer({"bootstrap.servers": source.bootstrap})
    for number in range(10):
        at_ms = 1_700_000_000_000 + number * 1000
        producer.produce(here.topic, b"%d" % number, partition=0, timestamp=at_ms)
    assert producer.flush(20) == 0
    link.copy(here)
    return Commands(link, capsys)


def test_groups_are_listed_translated_and_synced(groups: Commands, here: Partition) -> None:
    link, group = groups.link, here.topic
    assert groups("list") == [] and groups("translate") == [] and groups("sync") == []
    commit(link.source, group, {here: 4})
    (row,) = groups("list")
    assert (row["group"], row["lag_source"], row["lag_target"]) == (group, 6, None)
    assert (row["kind"], row["state"], row["sync"]) == ("classic", "Empty", "due")
    (row,) = groups("translate", "--group", group)
    there = row["target_offset"]
    assert (row["source_offset"], row["reason"]) == (4, "the same record")
    one = ("--topic", here.topic, "--offset")
    assert groups("translate", *one, "4")[0]["target_offset"] == there
    assert groups("translate", *one, str(there), "--back")[0]["source_offset"] == 4
    assert groups("translate", *one, "99")[0]["reason"].startswith("not copied yet")
    (row,) = groups("sync", "--dry-run")
    assert (row["before"], row["after"]) == (None, there) and "would set" in row["outcome"]
    assert committed(link.target, group) == {} and groups("snapshot", "--list") == []
    assert groups("sync")[0]["outcome"] == "set: the same record"
    assert offset(link.target, group, here) == there
    assert groups("sync")[0]["outcome"].startswith("left: it is there already")
    assert groups("list")[0]["lag_target"] == 6
    assert [one["why"] for one in groups("snapshot", "--list")] == ["sync"]


def test_an_active_group_is_refused_and_told_what_to_do(groups: Commands, here: Partition) -> None:
    link, group = groups.link, here.topic
    commit(link.source, group, {here: 4})
    commit(link.target, group, {here: 1})
    with joined(link.target, group, here.topic):
        assert groups.code("sync", "--group", group) == 3
        assert group in groups.said and "Stop them" in groups.said
        assert "active" in groups("sync")[0]["outcome"]
        assert groups.code("reset", "--group", group, "--to-earliest") == 3
        assert group in groups.said and "Stop its consumers" in groups.said
    assert offset(link.target, group, here) == 1
    assert groups("snapshot", "--list") == []


def test_reset_to_a_time_an_end_or_an_offset_on_either_side(
    groups: Commands, here: Partition
) -> None:
    link, group = groups.link, here.topic
    named = ("--group", group)
    for words, wanted in (
        (("--to-earliest",), b"0"),
        (("--to-time", "1700000003500"), b"4"),
        (("--to-time", "2023-11-14T22:13:27Z"), b"7"),
        (("--to-offset", "0"), b"0"),
    ):
        (row,) = groups("reset", *named, *words)
        assert row["outcome"] == "set"
        assert consume(link.target, group, here.topic, 1) == [wanted]
    before = offset(link.target, group, here)
    (row,) = groups("reset", *named, "--to-latest", "--dry-run")
    assert (row["before"], row["outcome"]) == (before, "would set")
    assert offset(link.target, group, here) == before
    assert groups("reset", *named, "--to-latest")[0]["after"] == row["after"]
    assert groups("reset", *named, "--to-time", "2090-01-01") == []
    assert committed(link.source, group) == {}
    (row,) = groups("reset", *named, "--on", "source", "--to-offset", "99")
    assert row["after"] == 10 == offset(link.source, group, here)


def test_a_time_is_found_on_the_mirror_where_the_source_does_not_know_it(
    groups: Commands, here: Partition
) -> None:
    link, group = groups.link, here.topic
    admin = AdminClient({"bootstrap.servers": link.source.bootstrap})
    for done in admin.delete_records([TopicPartition(*here, 6)]).values():
        done.result(20)
    for time, wanted in (("1700000003500", b"4"), ("1700000007500", b"8")):
        groups("reset", "--group", group, "--to-time", time)
        assert consume(link.target, group, here.topic, 1) == [wanted]


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_time_is_found_among_what_applications_wrote_since_the_mirror_was_closed(
    is_marked: bool, groups: Commands, here: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    link, group = groups.link, here.topic
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    if not is_marked:  # as while a failover is under way
        link.link.put(control_topic(link.name), {stage_key(here.topic): None})
    producer = Producer({"bootstrap.servers": link.target.bootstrap})
    for number in range(20, 23):
        at_ms = 1_700_000_000_000 + number * 1000
        producer.produce(here.topic, b"%d" % number, partition=0, timestamp=at_ms)
    assert producer.flush(20) == 0
    # The source answers still, and has nothing as late as the second time.
    for time, wanted in (("1700000003500", b"4"), ("1700000020500", b"21")):
        groups("reset", "--group", group, "--to-time", time)
        assert consume(link.target, group, here.topic, 1) == [wanted]


MISTAKES = (
    (("reset", "--group", "g"), "give exactly one of"),
    (("reset", "--group", "g", "--to-earliest", "--to-latest"), "give exactly one of"),
    (("reset", "--to-earliest"), "--group"),
    (("reset", "--group", "g", "--to-time", "latest"), "is not a time"),
    (("reset", "--group", "a(b", "--to-latest"), "a(b"),
    (("reset", "--group", "no-such-group.*", "--to-latest"), "Nothing was changed. heliograph"),
    (("reset", "--group", "g", "--topics", "nothing", "--to-latest"), "nothing fits no topic"),
    (("translate", "--offset", "3"), "go together"),
    (("translate", "--topic", "nothing", "--offset", "3"), "was never copied"),
    (("translate", "--topic", "a", "--offset", "3", "--group", "g"), "not both"),
    (("rollback",), "has no snapshot. Nothing was changed. Known: none"),
    (("rollback", "20200101T000000.000Z"), "has no snapshot 20200101T000000.000Z. Nothing"),
)


def test_what_cannot_be_meant_is_refused(groups: Commands) -> None:
    for words, told in MISTAKES:
        assert groups.code(*words) == 2, words
        assert groups.said.startswith("error: ") or "\nerror: " in groups.said
        assert told in groups.said, words


def test_a_rollback_undoes_what_was_changed_and_can_be_undone(
    groups: Commands, here: Partition
) -> None:
    link, group, new = groups.link, here.topic, f"{here.topic}.new"
    commit(link.target, group, {here: 3}, "meta")
    (taken,) = groups("snapshot")
    assert taken["groups"] == 1 and taken["why"] == "snapshot" and taken["by"]
    groups("reset", "--group", group, "--group", new, "--to-latest")
    assert f"rollback {link.name}" in groups.said
    after = offset(link.target, group, here)
    rows = groups("rollback", "--dry-run")
    assert [row["outcome"] for row in rows] == ["would set", "would delete"]
    groups("rollback")
    assert committed(link.target, group) == {here: (3, "meta")}
    assert committed(link.target, new) == {}
    assert [one["why"] for one in groups("snapshot", "--list")] == ["rollback", "reset", "snapshot"]
    groups("rollback")  # the newest is the one that the rollback took
    assert offset(link.target, group, here) == after
    groups("rollback", taken["id"])
    assert offset(link.target, group, here) == 3
    with joined(link.target, group, here.topic):
        assert groups("rollback", taken["id"]) == []  # nothing to change disturbs nobody
        assert groups.code("rollback") == 3


def test_a_rollback_undoes_a_sync_also_of_groups_that_were_nowhere(
    groups: Commands, here: Partition
) -> None:
    link, group = groups.link, here.topic
    commit(link.source, group, {here: 4})
    groups("sync")
    assert offset(link.target, group, here) is not None
    groups("rollback")
    assert committed(link.target, group) == {}


def test_the_newest_snapshot_is_the_last_one_although_clocks_differ(
    groups: Commands, here: Partition
) -> None:
    link, group = groups.link, here.topic
    commit(link.target, group, {here: 3})
    with pytest.MonkeyPatch.context() as patch:
        ahead_ms = clock.wall_ms() + 3_600_000
        patch.setattr(clock, "wall_ms", lambda: ahead_ms)
        (ahead,) = groups("snapshot")
    commit(link.target, group, {here: 5})
    (mine,) = groups("snapshot")
    assert [one["id"] for one in groups("snapshot", "--list")] == [mine["id"], ahead["id"]]
    commit(link.target, group, {here: 7})
    groups("rollback")
    assert offset(link.target, group, here) == 5


def test_the_last_snapshots_are_kept(groups: Commands, here: Partition) -> None:
    commit(groups.link.target, here.topic, {here: 3})
    with _few(4):
        for _ in range(6):
            groups("snapshot")
    assert len(groups("snapshot", "--list")) == 4
    rows = groups.link.link.rows(state_topic(groups.link.name))
    # Each is a row of its own, one of its group and one of its mirror.
    assert sum(key.startswith(b"snapshot/") for key in rows) == 4 * 3
    assert KEPT == 20


@contextmanager
def _few(count: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heliograph.links.group_changes.KEPT", count)
        yield


def test_status_shows_the_groups(
    groups: Commands, here: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    link, group = groups.link, here.topic
    produce(link.source.bootstrap, here.topic, [b"more"])
    commit(link.source, group, {here: 4})
    link.sync()
    words = ["status", link.name, "-f", str(link.link.file)]
    assert run([*words, "-o", "json"]) == 0
    ((row,),) = [one["groups"] for one in json.loads(capsys.readouterr().out)]
    assert (row["group"], row["lag_source"], row["lag_target"]) == (group, 7, 6)
    assert row["sync"] == "in_sync" and row["age_seconds"] < 60
    assert run([*words, "--groups"]) == 0
    assert group in capsys.readouterr().out
