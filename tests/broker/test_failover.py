"""`failover`, `promote` and `timeline`: mirrors become their applications' own, for good."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from heliograph.cli.app import run
from heliograph.copy.opening import open_all
from heliograph.errors import MirrorClosed, Superseded
from heliograph.kafka import clock
from heliograph.model.control import Heard, heard_key, row
from heliograph.model.ledger import read_ledger
from heliograph.model.names import ledger_topic, state_topic
from heliograph.model.recovery import read_events
from heliograph.model.topics import Partition
from heliograph.recovery.journal import Journal
from tests.broker.groups import commit, consume, joined, offset
from tests.broker.linked import opened_one, produce, step_until, streaming, within
from tests.broker.links import link_report, part_report
from tests.broker.recovering import (
    Make,
    checkpoint,
    die_at,
    lose_source,
    numbers,
    recover,
    refused,
    stages,
    tell,
)
from tests.making import delete_topic

STEPS = {
    "failover": ("before", "close", "groups", "mark", "after"),
    "promote": ("before", "drain", "groups", "mark", "after"),
}


def test_a_group_goes_on_where_it_was_although_the_source_is_gone(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    commit(link.source, topic_name, {here: 7})
    link.copy(here)
    tell(link, here)
    assert not link.sync().errors
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes")
    assert found["state"] == "FAILED_OVER" and found["groups"][0]["source_offset"] == 7
    assert consume(link.target, topic_name, topic_name, 13) == numbers(7, 20)
    # The mirror is its applications' now.
    assert stages(link) == {topic_name: "FAILED_OVER"}
    outcome = open_all(link.ends, {here: here}, within(30))[here]
    assert isinstance(outcome, MirrorClosed)
    produce(link.target.bootstrap, topic_name, [b"of an application"])
    # Said again, it changes nothing.
    again = recover(link, capsys, "failover", "--yes")
    assert "already" in again["notes"][0] and again["recovery"] is None
    assert "is FAILED_OVER since" in refused(link, capsys, "promote")


def test_what_is_missing_is_measured_by_what_the_source_was_known_to_hold(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 1s, rto: 60s}")
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 100))
    link.copy(here)
    tell(link, here, lag=40)
    lose_source(link)
    foreseen = recover(link, capsys, "failover", "--dry-run")
    assert foreseen["missing_records"] == 40 and foreseen["dry_run"]
    assert stages(link) == {}
    assert "40 records" in refused(link, capsys, "failover")  # nobody is there to be asked
    found = recover(link, capsys, "failover", "--yes")
    assert found["missing_records"] == 40 and 2.5 < found["rpo_seconds"] < 10
    assert found["rpo_ok"] is False and found["rto_ok"] is True
    assert not found["dry_run"] and found["heard_seconds"] < 60


def test_what_nobody_knows_of_a_partition_is_not_called_arrived(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 60s}")
    here, other = link.make(topic_name, 2), Partition(topic_name, 1)
    produce(link.source.bootstrap, topic_name, numbers(0, 100))
    link.copy(here)
    tell(link, here)
    lost = replace(part_report(), state="FAULTED", source_end=-1, source_next=-1, newest_ms=-1)
    link.link.report(link_report(topics={topic_name: topic_name}), {other: lost})
    lose_source(link)
    assert "at least 0 records" in refused(link, capsys, "failover")
    assert run(link.link.words("failover", "--dry-run")) == 0
    told = capsys.readouterr().out
    assert "Of 1 partitions nobody knows what it held." in told and "Everything" not in told
    found = recover(link, capsys, "failover", "--yes")
    assert found["missing_records"] == 0 and found["unknown_partitions"] == 1
    assert found["topics"][0]["unknown_partitions"] == 1 and found["rpo_ok"] is None


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_group_reads_what_applications_wrote_before_the_mirror_was_closed(
    is_opened_again: bool, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    commit(link.source, topic_name, {here: 10})
    link.copy(here)
    produce(link.target.bootstrap, topic_name, [b"early", b"birds"])
    if is_opened_again:
        opened_one(link.ends, here)  # its marker stands behind them, and so does the group
    tell(link, here)
    assert not link.sync().errors
    recover(link, capsys, "failover", "--yes")
    assert consume(link.target, topic_name, topic_name, 2) == [b"early", b"birds"]


def test_what_was_not_on_record_when_the_writer_died_has_arrived(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 100))
    stream = streaming(link.ends, opened_one(link.ends, here))
    step_until(stream, lambda: stream.parts[here].position >= 100)
    tell(link, here)
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes")
    assert found["missing_records"] == 0
    stream.close()


def test_a_group_in_what_was_not_on_record_reads_that_again_and_misses_nothing(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    link.copy(here)
    produce(link.source.bootstrap, topic_name, numbers(20, 100))
    commit(link.source, topic_name, {here: 50})
    stream = streaming(link.ends, opened_one(link.ends, here))
    step_until(stream, lambda: stream.parts[here].position >= 100)
    stream.close()  # without a word: nobody can tell any more which records these are
    tell(link, here)
    assert not link.sync().errors
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes")
    if found["topics"][0]["unmatched_records"]:  # else the last second was just over
        assert consume(link.target, topic_name, topic_name, 80) == numbers(20, 100)


def test_a_source_that_answers_is_matched_to_the_last_record(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 100))
    stream = streaming(link.ends, opened_one(link.ends, here))
    step_until(stream, lambda: stream.parts[here].position >= 100)
    stream.close()
    tell(link, here)
    found = recover(link, capsys, "failover", "--yes")
    assert found["topics"][0]["unmatched_records"] == 0 and found["missing_records"] == 0


def test_a_promotion_waits_for_nothing_to_be_missing_and_refuses_else(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    link.copy(here)
    produce(link.source.bootstrap, topic_name, numbers(20, 25))
    commit(link.source, topic_name, {here: 22})
    tell(link, here)
    told = refused(link, capsys, "promote", "--timeout", "1s")
    assert "up to 5 records have not arrived" in told and "goes on as before" in told
    assert stages(link) == {}
    link.copy(here)  # it may go on copying
    found = recover(link, capsys, "promote")
    assert found["state"] == "PROMOTED" and found["missing_records"] == 0
    assert consume(link.target, topic_name, topic_name, 3) == numbers(22, 25)
    assert isinstance(open_all(link.ends, {here: here}, within(30))[here], MirrorClosed)
    assert "is PROMOTED since" in refused(link, capsys, "failover", "--yes")


def test_an_active_group_on_the_target_is_left_alone_and_told(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    commit(link.source, topic_name, {here: 7})
    link.copy(here)
    tell(link, here)
    commit(link.target, topic_name, {here: 2})
    with joined(link.target, topic_name, topic_name):
        found = recover(link, capsys, "promote")
        assert found["groups"][0]["why"] == "the group is active on the target"
    assert offset(link.target, topic_name, here) == 2


def test_hooks_are_run_and_told_and_one_that_fails_stops_it(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    hooks = f"""    hooks:
      before_failover: ["test -e {gate} || (echo no gate; exit 1)"]
      after_failover: ["echo $HELIOGRAPH_HOOK_TARGET serves $HELIOGRAPH_HOOK_TOPICS"]
"""
    link = make(hooks)
    here = link.make(topic_name)
    link.copy(here)
    tell(link, here)
    told = refused(link, capsys, "failover", "--yes", code=1)
    assert "before_failover 1 ended with exit code 1. It said: no gate" in told
    assert "Steps done: none" in told and stages(link) == {}
    assert "The mirrors are not open for applications yet" in told
    gate.touch()
    recover(link, capsys, "failover", "--yes")
    assert run(link.link.words("timeline", "-o", "json")) == 0
    events = json.loads(capsys.readouterr().out)
    assert [one["step"] for one in events] == ["before", *STEPS["failover"]]
    assert [one["outcome"] for one in events] == ["failed"] + ["done"] * 5
    assert f"after_failover 1: target serves {topic_name}" in events[-1]["lines"]


@pytest.mark.parametrize("verb", STEPS)
def test_killed_at_any_step_the_same_command_goes_on(
    verb: str, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    commit(link.source, topic_name, {here: 7})
    link.copy(here)
    tell(link, here)
    assert not link.sync().errors
    words = link.link.words(verb, *(["--yes"] if verb == "failover" else []))
    for step in STEPS[verb]:
        for moment in ("done", "recorded"):
            assert die_at(f"R-{step}-{moment}", words) == -signal.SIGKILL, (step, moment)
    found = recover(link, capsys, *words[:1], *words[4:])
    state = {"failover": "FAILED_OVER", "promote": "PROMOTED"}[verb]
    assert found["state"] == state and stages(link) == {topic_name: state}
    events = read_events(link.state())
    done = [one.step for one in events if one.outcome == "done"]
    assert done == list(STEPS[verb]) and len({one.recovery for one in events}) == 1
    assert consume(link.target, topic_name, topic_name, 13) == numbers(7, 20)


def test_of_two_commands_at_the_same_time_one_goes_on(make: Make, topic_name: str) -> None:
    link = make()
    link.make(topic_name)
    first, second = Journal(link.ends.target, link.name), Journal(link.ends.target, link.name)
    first.open(within(20))
    first.begin("failover", [topic_name], "somebody")
    second.open(within(20))
    assert second.begin("failover", [topic_name], "somebody else").by == "somebody"
    with pytest.raises(Superseded, match="another recovery command took link"):
        first.set_stages({topic_name: None})
    second.end()


def test_other_topics_of_the_link_are_not_touched(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, other = link.make(topic_name), link.make(f"{topic_name}.other")
    for one in (here, other):
        produce(link.source.bootstrap, one.topic, numbers(0, 5))
        link.copy(one)
    topics = {one.topic: one.topic for one in (here, other)}
    report = part_report()
    link.link.report(link_report(topics=topics), {here: report, other: replace(report)})
    found = recover(link, capsys, "promote", "--topics", topic_name)
    assert [one["topic"] for one in found["topics"]] == [topic_name]
    assert stages(link) == {topic_name: "PROMOTED"}
    link.copy(other)
    assert run(link.link.words("status", "-o", "json")) in (0, 1)
    (status,) = json.loads(capsys.readouterr().out)
    states = {one["topic"]: one["state"] for one in status["topics"]}
    assert states == {topic_name: "PROMOTED", other.topic: "ACTIVE"}
    assert status["state"] == "ACTIVE"


def test_a_topic_that_was_deleted_on_the_source_fails_over_with_the_others(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, gone = link.make(topic_name), link.make(f"{topic_name}.gone")
    for one in (here, gone):
        produce(link.source.bootstrap, one.topic, numbers(0, 20))
        link.copy(one)
    link.link.put(state_topic(link.name), checkpoint(topic_name, {here: 7, gone: 7}))
    delete_topic(link.source.bootstrap, gone.topic)
    tell(link, here)  # as a driver does that was started since
    recover(link, capsys, "failover", "--yes")
    assert stages(link) == dict.fromkeys((here.topic, gone.topic), "FAILED_OVER")
    assert consume(link.target, topic_name, gone.topic, 13) == numbers(7, 20)


def test_a_topic_whose_mirror_is_gone_has_lost_all_that_its_source_held(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 60s}")
    here, lost = link.make(topic_name), link.make(f"{topic_name}.lost")
    for one in (here, lost):
        produce(link.source.bootstrap, one.topic, numbers(0, 20))
        link.copy(one)
    tell(link, here, lost)
    link.link.report(
        link_report(topics={one.topic: one.topic for one in (here, lost)}),
        {one: part_report(source_start=5, source_end=20, source_next=20) for one in (here, lost)},
    )
    delete_topic(link.target.bootstrap, lost.topic)
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes")
    missing = {one["topic"]: one["missing_records"] for one in found["topics"]}
    assert missing == {here.topic: 0, lost.topic: 15} and found["missing_records"] == 15
    assert (found["rpo_seconds"], found["rpo_ok"]) == (0.0, None)  # as far as it is known
    assert any("its mirror is not there" in one for one in found["notes"])


def test_a_partition_that_the_driver_made_in_between_is_closed_as_well(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    grow = tmp_path / "grow.py"
    link = make(f'    hooks: {{before_failover: ["{sys.executable} {grow}"]}}')
    grow.write_text(
        "from confluent_kafka.admin import AdminClient, NewPartitions\n"
        f"admin = AdminClient({{'bootstrap.servers': {link.target.bootstrap!r}}})\n"
        f"admin.create_partitions([NewPartitions({topic_name!r}, 2)])[{topic_name!r}].result(20)\n"
    )
    here, grown = link.make(topic_name), Partition(topic_name, 1)
    link.copy(here)
    tell(link, here)
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    ledger = read_ledger(grown, link.link.rows(ledger_topic(link.name)))
    assert ledger is not None and ledger.closing is not None


def test_topics_fail_over_one_after_the_other_with_the_groups_of_each(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, other = link.make(topic_name), link.make(f"{topic_name}.other")
    for one in (here, other):
        produce(link.source.bootstrap, one.topic, numbers(0, 20))
        link.copy(one)
    tell(link, here, other)
    lose_source(link)
    link.link.put(state_topic(link.name), checkpoint(topic_name, {here: 7, other: 7}))
    for one in (here, other):
        recover(link, capsys, "failover", "--yes", "--topics", one.topic)
        assert consume(link.target, topic_name, one.topic, 13) == numbers(7, 20)


def test_related_topics_are_cut_at_the_time_that_all_have_reached(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make(f'    sets: {{billing: ["{topic_name}", "{topic_name}[.]other"]}}')
    here, other = link.make(topic_name), link.make(f"{topic_name}.other")
    now_ms = clock.wall_ms()
    for one in (here, other):
        producer = Producer({"bootstrap.servers": link.source.bootstrap})
        for second in range(10):
            at_ms = now_ms - 60_000 + 1000 * second
            producer.produce(one.topic, b"%d" % second, partition=0, timestamp=at_ms)
        assert producer.flush(20) == 0
        link.copy(one)
        commit(link.source, topic_name, {one: 9})
    assert not link.sync().errors
    # The other one has arrived up to its fifth record, as far as its tasks could tell.
    late = part_report(lag=3, newest_ms=now_ms - 60_000 + 4000)
    late = replace(late, source_end=13, source_next=10)
    whole = replace(part_report(), source_end=10, source_next=10)
    topics = {one.topic: one.topic for one in (here, other)}
    link.link.report(link_report(topics=topics), {here: whole, other: late})
    told = refused(link, capsys, "failover", "--yes", "--set", "billing", "--consistent")
    assert "there is no consistent time" in told and stages(link) == {}  # nobody was heard
    link.link.put(state_topic(link.name), {heard_key(0): row(Heard(1, 1, now_ms))})
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes", "--set", "billing", "--consistent")
    assert "every partition has reached" in found["notes"][0]
    assert consume(link.target, topic_name, topic_name, 5) == [b"%d" % n for n in range(5, 10)]
    assert consume(link.target, topic_name, other.topic, 5) == [b"%d" % n for n in range(5, 10)]
    assert "has no set 'other'" in refused(link, capsys, "promote", "--set", "other", code=2)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["promote", "--topics", "nothing-like-it"], 2, "matches no topic of link"),
        (["failover", "--topics", "("], 2, "is not a regular expression"),
        (["promote", "--timeout", "soon"], 2, "soon"),
    ],
)
def test_bad_input_is_told(
    words: list[str],
    code: int,
    told: str,
    make: Make,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = make()
    here = link.make(topic_name)
    tell(link, here)
    assert told in refused(link, capsys, *words, code=code)


def test_a_link_that_never_ran_has_nothing_to_recover(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "has never run" in refused(make(), capsys, "failover", "--yes")
