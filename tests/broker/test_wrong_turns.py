"""Verbs in the wrong moment: for the other direction, taken up late, cut off by a death."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.copy.opening import open_all
from heliograph.errors import MirrorClosed, Superseded
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster as KafkaCluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.local.brokers import Cluster
from heliograph.local.spec import User
from heliograph.model.acls import Acl
from heliograph.model.control import Heard, heard_key, row
from heliograph.model.names import own_topics, reverse_name, state_topic
from heliograph.model.topics import Partition
from heliograph.recovery.journal import Journal
from heliograph.recovery.perform import Step, perform
from tests.broker.groups import GroupLink, commit, consume, group_link
from tests.broker.linked import (
    copy_all,
    opened_one,
    produce,
    step_until,
    step_until_failure,
    streaming,
    within,
)
from tests.broker.links import link_report, part_report
from tests.broker.recovering import (
    Make,
    die_at,
    find_source,
    lose_source,
    mirrored,
    numbers,
    opposite_ends,
    opposite_of,
    opposite_stages,
    recover,
    refused,
    stages,
    switched,
    tell,
    values,
)
from tests.conftest import BorrowedCluster
from tests.making import delete_topic


@pytest.mark.parametrize("more", [[], ["--wipe", "--all", "--yes"]])
def test_the_direction_of_an_earlier_turn_does_not_turn_round_again(
    more: list[str], make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    switched(link, topic_name, capsys)
    recover(link, capsys, "switch", "--back", "--fence", "none")
    here = _only(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(5, 10))
    link.copy(here)
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    produce(link.target.bootstrap, topic_name, numbers(100, 103))
    told = refused(opposite_of(link), capsys, "failback", *more)
    assert f"heliograph failback {link.name}" in told, told
    assert stages(link) == {topic_name: "FAILED_OVER"}
    assert isinstance(open_all(link.ends, {here: here}, within(30))[here], MirrorClosed)
    assert values(link.target, topic_name) == [*numbers(0, 10), *numbers(100, 103)]
    recover(link, capsys, "failback")  # as it told


def test_an_old_side_that_was_built_anew_is_mirrored_to_once_it_is_wiped(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    switched(link, topic_name, capsys)
    for one in (*own_topics(reverse_name(link.name)), topic_name):
        delete_topic(link.source.bootstrap, one)
    produce(link.target.bootstrap, topic_name, numbers(5, 8))
    found = recover(link, capsys, "failback", "--wipe", "--all", "--yes")
    assert found["state"] == "REVERSING" and stages(link) == {topic_name: "REVERSING"}
    link.make_on(link.source, topic_name)  # as the driver of the opposite direction does
    copy_all(opposite_ends(link), _only(topic_name))
    assert values(link.source, topic_name) == numbers(0, 8)
    tell(opposite_of(link), _only(topic_name))
    recover(link, capsys, "switch", "--back", "--fence", "none")
    assert stages(link) == {}


def test_what_others_wrote_among_the_copies_is_saved_by_a_switch(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    stream = streaming(link.ends, opened_one(link.ends, here))
    step_until(stream, lambda: stream.parts[here].position >= 10)
    produce(link.target.bootstrap, topic_name, [b"early", b"bird"])
    produce(link.source.bootstrap, topic_name, numbers(10, 15))
    step_until_failure(stream)
    stream.close()
    link.copy(here)
    tell(link, here)
    found = recover(link, capsys, "switch", "--fence", "none")
    assert [(one["side"], one["records"]) for one in found["diverged"]] == [("target", 2)]
    assert values(link.target, f"{topic_name}.diverged") == [b"early", b"bird"]


def test_a_command_that_was_superseded_takes_no_further_step(make: Make, topic_name: str) -> None:
    link = make()
    tell(link, link.make(topic_name))
    journals = [Journal(link.ends.target, link.name) for _ in range(2)]
    for one in journals:
        one.open(within(20))
        one.begin("failover", [topic_name], "somebody")
    ran: list[str] = []

    def act() -> list[str]:
        ran.append("a hook, days later")
        return []

    with pytest.raises(Superseded):
        perform(journals[0], [Step("after", act)], lambda _: None)
    assert ran == []


@pytest.mark.writers
def test_taken_up_again_a_failback_looks_whether_somebody_writes(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    mirrored(link, topic_name, 5)
    recover(link, capsys, "failover", "--yes")
    assert die_at("R-compare-recorded", link.link.words("failback")) == -signal.SIGKILL
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.2):
            produce(link.source.bootstrap, topic_name, [b"late"])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert "somebody still writes to source" in refused(link, capsys, "failback")
    finally:
        over.set()
        writer.join()
    written = values(link.source, topic_name).count(b"late")
    found = recover(link, capsys, "failback")
    assert [one["records"] for one in found["diverged"]] == [written]


def test_a_switch_back_leaves_alone_what_a_promotion_has_closed(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    switched(link, topic_name, capsys)
    here, back = _only(topic_name), opposite_ends(link)
    recover(opposite_of(link), capsys, "promote")
    produce(link.source.bootstrap, topic_name, [b"of an application"])
    told = refused(link, capsys, "switch", "--back", "--fence", "none", "--timeout", "1s")
    assert "its mirror is the applications'" in told
    assert isinstance(open_all(back, {here: here}, within(30))[here], MirrorClosed)
    assert opposite_stages(link) == {topic_name: "PROMOTED"}


def test_a_failover_that_was_cut_off_cuts_groups_at_the_time_it_began_with(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 5))
    link.copy(here)
    commit(link.source, topic_name, {here: 5})
    report = replace(part_report(lag=3, newest_ms=1000), source_end=8, source_next=5)
    link.link.report(link_report(topics={topic_name: topic_name}), {here: report})
    link.link.put(state_topic(link.name), {heard_key(0): row(Heard(1, 1, 5000))})
    assert not link.sync().errors
    lose_source(link)
    words = link.link.words("failover", "--yes", "--consistent")
    assert die_at("R-close-recorded", words) == -signal.SIGKILL
    found = recover(link, capsys, "failover", "--yes")  # without a word of that
    assert "every partition has reached 1970-01-01T00:00:01" in found["notes"][0]
    assert consume(link.target, topic_name, topic_name, 5) == numbers(0, 5)


# Fences


@contextmanager
def guarded(
    private_cluster: Callable[..., Cluster], source: Any, topic: str, folder: Path
) -> Iterator[GroupLink]:
    """A link to a cluster of this test alone that keeps to ACLs."""
    users = (User("app", "secret-of-app"),)
    local = private_cluster(name="guarded", sasl="PLAIN", acls=True, users=users)
    target, loop = BorrowedCluster("guarded", local.internal_bootstrap), Loop()
    ends = [
        KafkaCluster(parse(name, {"bootstrap.servers": one.bootstrap}), name, loop)
        for name, one in (("source", source), ("target", target))
    ]
    try:
        yield group_link(folder, source, target, (ends[0], ends[1]), topic)
    finally:
        loop.close()


def rules(cluster: Any) -> list[Acl]:
    with Admin(parse("guarded", {"bootstrap.servers": cluster.bootstrap}), "guarded") as admin:
        return list(admin.acls.matching(deadline=within(20)))


def test_a_fence_does_not_outlive_the_cluster_it_was_put_up_for(
    private_cluster: Callable[..., Cluster],
    source: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The cluster to switch back to dies when the fence is up, and once more behind the turn."""
    with guarded(private_cluster, source, topic_name, tmp_path) as link:
        switched(link, topic_name, capsys)
        words = link.link.words("switch", "--back")
        assert die_at("R-fence-recorded", words) == -signal.SIGKILL and rules(link.target)
        lose_source(link)
        told = refused(link, capsys, "switch", "--back", code=1)
        assert "target stays primary. The fence around 1 topic of target is down." in told, told
        assert not rules(link.target) and stages(link) == {topic_name: "REVERSING"}
        find_source(link)
        assert die_at("R-mark-recorded", words) == -signal.SIGKILL and rules(link.target)
        lose_source(link)
        found = recover(link, capsys, "failover", "--yes")
        assert found["state"] == "FAILED_OVER" and not rules(link.target)


def _only(topic: str) -> Partition:
    return Partition(topic, 0)
