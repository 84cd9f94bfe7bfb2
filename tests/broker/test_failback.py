"""`failback` and `switch`: links turn round; no record is lost, doubled or dropped in silence."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.control.statuses import Statuses
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import MirrorClosed
from heliograph.kafka.admin import Admin
from heliograph.kafka.allowed import forbidden
from heliograph.kafka.cluster import Cluster as KafkaCluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.local.brokers import Cluster
from heliograph.local.spec import User
from heliograph.model.acls import Acl, Operation, Resource
from heliograph.model.names import control_topic, reverse_name
from heliograph.model.recovery import read_events, under_way
from heliograph.model.topics import Partition
from tests.broker.groups import GroupLink, commit, consume, group_link, offset
from tests.broker.linked import copy_all, opened_one, produce, step_until, streaming, within
from tests.broker.links import link_report, part_report
from tests.broker.recovering import (
    Make,
    die_at,
    find_source,
    lose_source,
    mirrored,
    numbers,
    opposite_ends,
    opposite_stages,
    recover,
    refused,
    stages,
    tell,
    values,
)
from tests.checker.reading import read_partition
from tests.conftest import BorrowedCluster
from tests.faults.engine import until
from tests.making import delete_topic

FAILBACK = ("before", "compare", "diverged", "turn", "groups", "mark", "after")
SWITCH = ("before", "fence", "drain", "turn", "groups", "mark", "open", "after")


def tell_opposite(link: GroupLink, here: Partition) -> None:
    """Report what the driver of the opposite direction would."""
    opposite = replace(link.link, name=reverse_name(link.name), target=link.source)
    tell(replace(link, link=opposite), here)


def failed_over(link: GroupLink, topic: str, capsys: pytest.CaptureFixture[str]) -> Partition:
    """Copy twenty records of which only the first fifteen arrive, and fail over."""
    here = link.make(topic)
    produce(link.source.bootstrap, topic, numbers(0, 15))
    commit(link.source, topic, {here: 7})
    link.copy(here)
    tell(link, here)
    assert not link.sync().errors
    produce(link.source.bootstrap, topic, numbers(15, 20))
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    find_source(link)
    return here


def test_the_whole_cycle_twice_keeps_every_record_on_both_sides(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    back = opposite_ends(link)
    expected: list[bytes] = []
    diverged: list[bytes] = []
    for turn in range(2):
        first = 1000 * turn
        produce(link.source.bootstrap, topic_name, numbers(first, first + 15))
        expected += numbers(first, first + 15)
        link.copy(here)
        tell(link, here)
        produce(link.source.bootstrap, topic_name, numbers(first + 15, first + 20))
        diverged += numbers(first + 15, first + 20)
        lose_source(link)
        recover(link, capsys, "failover", "--yes")
        find_source(link)
        produce(link.target.bootstrap, topic_name, numbers(first + 100, first + 110))
        expected += numbers(first + 100, first + 110)
        found = recover(link, capsys, "failback")
        assert [one["records"] for one in found["diverged"]] == [5]
        assert stages(link) == {topic_name: "REVERSING"}
        copy_all(back, here)  # as the driver of the opposite direction does
        tell_opposite(link, here)
        produce(link.target.bootstrap, topic_name, numbers(first + 110, first + 115))
        expected += numbers(first + 110, first + 115)
        copy_all(back, here)
        recover(link, capsys, "switch", "--back", "--fence", "none")
        assert stages(link) == {}
        assert isinstance(open_all(back, {here: here}, within(30))[here], MirrorClosed)
    produce(link.source.bootstrap, topic_name, [b"the end"])
    link.copy(here)
    assert values(link.target, topic_name) == [*expected, b"the end"]
    assert values(link.target, f"{topic_name}.diverged") == diverged
    on_source = values(link.source, topic_name)
    assert [one for one in on_source if one not in diverged] == [*expected, b"the end"]
    assert [one for one in on_source if one in diverged] == diverged


def test_what_diverged_stays_apart_although_nothing_was_mirrored_back(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = failed_over(link, topic_name, capsys)
    recover(link, capsys, "failback")
    back = opposite_ends(link)
    copy_all(back, here)
    tell_opposite(link, here)
    recover(link, capsys, "switch", "--back", "--fence", "none")
    produce(link.source.bootstrap, topic_name, numbers(30, 33))
    link.copy(here)
    assert values(link.target, topic_name) == [*numbers(0, 15), *numbers(30, 33)]
    assert values(link.target, f"{topic_name}.diverged") == numbers(15, 20)


def test_groups_go_there_and_back_and_read_each_record_once(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = failed_over(link, topic_name, capsys)
    assert consume(link.target, topic_name, topic_name, 5) == numbers(7, 12)
    produce(link.target.bootstrap, topic_name, numbers(100, 110))
    recover(link, capsys, "failback")
    said = [line for one in read_events(link.state()) for line in one.lines]
    undo = f"to undo this: heliograph groups rollback {reverse_name(link.name)} "
    assert any(line.startswith(undo) for line in said)
    back = opposite_ends(link)
    copy_all(back, here)
    # It had read up to 12 here, as the group on the target did.
    assert offset(link.source, topic_name, here) == 12
    assert consume(link.target, topic_name, topic_name, 6) == [*numbers(12, 15), *numbers(100, 103)]
    tell_opposite(link, here)
    recover(link, capsys, "switch", "--back", "--fence", "none")
    assert consume(link.source, topic_name, topic_name, 7) == numbers(103, 110)


def test_what_diverged_is_saved_with_where_it_stood(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = failed_over(link, topic_name, capsys)
    foreseen = recover(link, capsys, "failback", "--dry-run")
    assert [one["records"] for one in foreseen["diverged"]] == [5]
    assert stages(link) == {topic_name: "FAILED_OVER"}
    found = recover(link, capsys, "failback", "--diverged-to", "source")
    (one,) = found["diverged"]
    assert (one["records"], one["keys"], one["saved_as"]) == (5, ["1"], f"{topic_name}.diverged")
    saved = [
        it
        for _, it in read_partition(
            link.source.bootstrap, f"{topic_name}.diverged", 0, committed=True
        )
    ]
    original = dict(read_partition(link.source.bootstrap, here.topic, 0, committed=True))
    assert len(saved) == 5
    for record in saved:
        told = dict(record.headers)
        was = original[int(told["heliograph.source.offset"] or b"")]
        assert (record.key, record.value, record.timestamp) == (was.key, was.value, was.timestamp)
        assert int(told["heliograph.source.timestamp"] or b"") == was.timestamp


def test_what_was_not_on_record_at_the_failover_has_not_diverged(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 100))
    stream = streaming(link.ends, opened_one(link.ends, here))
    step_until(stream, lambda: stream.parts[here].position >= 100)
    stream.close()  # without a word: the ledger may be up to a second behind
    tell(link, here)
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    find_source(link)
    produce(link.target.bootstrap, topic_name, numbers(100, 103))
    assert recover(link, capsys, "failback")["diverged"] == []
    copy_all(opposite_ends(link), here)
    assert values(link.source, topic_name) == numbers(0, 103)


def test_a_wiped_side_is_mirrored_from_the_first_record(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = failed_over(link, topic_name, capsys)
    assert "name them with --topics" in refused(link, capsys, "failback", "--wipe", code=2)
    assert "With --yes nobody is asked" in refused(link, capsys, "failback", "--wipe", "--all")
    found = recover(link, capsys, "failback", "--wipe", "--all", "--yes")
    assert [one["records"] for one in found["diverged"]] == [5]
    assert values(link.target, f"{topic_name}.diverged") == numbers(15, 20)
    link.make_on(link.source, topic_name)  # as the driver of the opposite direction does
    copy_all(opposite_ends(link), here)
    assert values(link.source, topic_name) == numbers(0, 15)


@pytest.mark.parametrize(("verb", "steps"), [("failback", FAILBACK), ("switch", SWITCH)])
def test_killed_at_any_step_the_same_command_goes_on(
    verb: str,
    steps: tuple[str, ...],
    make: Make,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = make()
    words = link.link.words(verb)
    if verb == "failback":
        here = failed_over(link, topic_name, capsys)
        expected = numbers(0, 15)
    else:
        words += ["--fence", "none"]
        here = link.make(topic_name)
        produce(link.source.bootstrap, topic_name, numbers(0, 20))
        link.copy(here)
        tell(link, here)
        expected = numbers(0, 20)
    for step in steps:
        for moment in ("done", "recorded"):
            assert die_at(f"R-{step}-{moment}", words) == -signal.SIGKILL, (step, moment)
    recover(link, capsys, words[0], *words[4:])
    assert stages(link) == {topic_name: "REVERSING"}
    produce(link.target.bootstrap, topic_name, numbers(100, 105))
    copy_all(opposite_ends(link), here)
    diverged = numbers(15, 20) if verb == "failback" else []
    assert values(link.source, topic_name) == [*expected, *diverged, *numbers(100, 105)]
    if diverged:
        assert values(link.target, f"{topic_name}.diverged") == diverged


def test_a_switch_there_and_back_loses_nothing_and_said_twice_does_nothing(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make('    hooks: {after_switch: ["echo use $HELIOGRAPH_HOOK_PRIMARY"]}\n')
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    commit(link.source, topic_name, {here: 12})
    link.copy(here)
    tell(link, here)
    found = recover(link, capsys, "switch", "--fence", "none")
    assert found["state"] == "REVERSING" and found["missing_records"] == 0
    assert isinstance(open_all(link.ends, {here: here}, within(30))[here], MirrorClosed)
    again = recover(link, capsys, "switch", "--fence", "none")
    assert "target is primary already" in again["notes"][0]
    assert consume(link.target, topic_name, topic_name, 8) == numbers(12, 20)
    produce(link.target.bootstrap, topic_name, numbers(20, 30))
    back = opposite_ends(link)
    tell_opposite(link, here)
    told = refused(link, capsys, "switch", "--back", "--fence", "none", "--timeout", "1s")
    assert "records have not arrived" in told and "goes on as before" in told
    copy_all(back, here)
    recover(link, capsys, "switch", "--back", "--fence", "none")
    assert opposite_stages(link) == {topic_name: "REVERSING"} and stages(link) == {}
    produce(link.source.bootstrap, topic_name, numbers(30, 35))
    link.copy(here)
    for cluster in (link.source, link.target):
        assert values(cluster, topic_name) == numbers(0, 35)
    assert (
        "source is primary already"
        in recover(link, capsys, "switch", "--back", "--fence", "none")["notes"][0]
    )
    said = [line for one in read_events(link.state()) for line in one.lines]
    assert [one for one in said if ": use " in one] == [
        "after_switch 1: use target",
        "after_switch 1: use source",
    ]


def test_status_shows_the_opposite_direction_while_a_link_is_turned_round(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, 5)
    reverse = reverse_name(link.name)
    assert [one["link"] for one in status(link, capsys)] == [link.name]
    recover(link, capsys, "switch", "--fence", "none")
    tell_opposite(link, here)
    for words in ([], [link.name], [link.name, reverse]):
        found = {one["link"]: one for one in status(link, capsys, *words)}
        assert found.keys() == {link.name, reverse}
        assert found[link.name]["state"] == "REVERSING"
        back = found[reverse]
        assert (back["state"], back["lag_records"]) == ("ACTIVE", 0)
        assert (back["source"], back["target"]) == ("target", "source")
    assert [one["link"] for one in status(link, capsys, reverse)] == [reverse]
    lose_source(link)
    with Statuses([link.setup], opposites=True) as statuses:
        there, away = statuses.read(timedelta(seconds=3))
    assert there.state == "REVERSING" and not there.errors
    assert away.link == reverse and away.state is None and away.errors


def status(
    link: GroupLink, capsys: pytest.CaptureFixture[str], *names: str
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["status", *names, "-f", str(link.link.file), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    return found


@pytest.mark.writers
def test_a_source_that_is_still_written_to_refuses_a_failback(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    failed_over(link, topic_name, capsys)
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.2):
            produce(link.source.bootstrap, topic_name, [b"late"], **{"enable.idempotence": True})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        told = refused(link, capsys, "failback")
    finally:
        over.set()
        writer.join()
    assert "somebody still writes to source" in told and "producer ids" in told
    assert stages(link) == {topic_name: "FAILED_OVER"}
    *_, before, compare = [one for one in read_events(link.state()) if one.outcome != "begun"]
    assert (before.step, compare.step, compare.outcome) == ("before", "compare", "failed")
    assert "somebody still writes to source" in compare.lines[0]
    assert under_way(link.link.rows(control_topic(link.name))) is None


def test_without_an_authorizer_the_fence_says_what_to_do(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    link.copy(here)
    tell(link, here)
    told = refused(link, capsys, "switch", code=1)
    assert "could not be fenced by ACLs" in told and "--fence none" in told
    assert ". The fence is down again. Stop the producers" in told


def test_writers_are_kept_out_while_a_link_turns_round_and_let_in_again(
    private_cluster: Callable[..., Cluster],
    target: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    users = (User("app", "secret-of-app"),)
    local = private_cluster(name="guarded", sasl="PLAIN", acls=True, users=users)
    source = BorrowedCluster("guarded", local.internal_bootstrap)
    loop = Loop()
    ends = [
        KafkaCluster(parse(name, {"bootstrap.servers": address}), name, loop)
        for name, address in (("source", source.bootstrap), ("target", target.bootstrap))
    ]
    link = group_link(tmp_path, source, target, (ends[0], ends[1]), topic_name)
    here = link.make(topic_name)
    with Admin(parse("guarded", {"bootstrap.servers": source.bootstrap}), "guarded") as admin:
        writes = Acl(Resource.TOPIC, topic_name, "User:app", Operation.WRITE)
        admin.acls.create([writes], within(20))
        app = KafkaCluster(parse("guarded", local.client_properties("app"), True), "guarded", loop)

        def may_write() -> bool:
            return not forbidden(app, [topic_name], Operation.WRITE, within(20))

        produce(source.bootstrap, topic_name, [b"x"])
        until(may_write, 20, "the rule does not come into force")
        link.copy(here)
        tell(link, here)
        words = link.link.words("switch")
        assert die_at("R-fence-done", words) == -signal.SIGKILL
        until(lambda: not may_write(), 20, "the fence is not up")
        recover(link, capsys, "switch")
        assert admin.acls.matching(deadline=within(20)) == [writes]
        # Whoever still does is found at the next turn.
        until(may_write, 20, "the fence is still up")
    loop.close()


def test_a_topic_that_was_made_anew_on_the_old_source_is_not_mixed_up(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    failed_over(link, topic_name, capsys)
    delete_topic(link.source.bootstrap, topic_name)
    link.make_on(link.source, topic_name)
    told = refused(link, capsys, "failback", code=1)
    assert "source topic id was" in told and "--wipe" in told
    found = recover(link, capsys, "failback", "--wipe", "--all", "--yes")
    assert json.dumps(found["diverged"]) == "[]"


def copy_to(ends: Ends, here: Partition, mirror: Partition) -> None:
    """Copy a partition to one of another name, to the source's present end."""
    opened = open_all(ends, {here: mirror}, within(30))[here]
    assert isinstance(opened, Opened), opened
    stop = list_offsets(ends.source, {here: LATEST}, within(20))[here]
    stream = streaming(ends, opened)
    step_until(stream, lambda: stream.parts[here].position >= stop)
    stream.finish(within(20))
    stream.close()


def test_a_mirror_of_another_name_goes_back_to_where_it_came_from(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    naming: prefix")
    here, mirror = Partition(topic_name, 0), Partition(f"source.{topic_name}", 0)
    link.make_on(link.source, here.topic)
    link.make_on(link.target, mirror.topic)
    produce(link.source.bootstrap, here.topic, numbers(0, 5))
    copy_to(link.ends, here, mirror)
    topics = {here.topic: mirror.topic}
    link.link.report(link_report(topics=topics), {here: part_report()})
    recover(link, capsys, "failover", "--yes")
    produce(link.target.bootstrap, mirror.topic, numbers(5, 8))
    found = recover(link, capsys, "failback")
    assert found["diverged"] == []
    back = opposite_ends(link)
    copy_to(back, mirror, here)
    assert values(link.source, here.topic) == numbers(0, 8)
    opposite = replace(link.link, name=reverse_name(link.name), target=link.source)
    opposite.report(link_report(topics={mirror.topic: here.topic}), {mirror: part_report()})
    recover(link, capsys, "switch", "--back", "--fence", "none")
    produce(link.source.bootstrap, here.topic, numbers(8, 10))
    copy_to(link.ends, here, mirror)
    assert values(link.target, mirror.topic) == numbers(0, 10)


def test_failback_without_a_failover_is_refused(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    link.copy(here)
    tell(link, here)
    assert "neither promoted nor failed over" in refused(link, capsys, "failback")
    assert "There is nothing to fail back" in refused(link, capsys, "failback")
