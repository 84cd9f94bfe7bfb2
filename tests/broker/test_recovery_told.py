"""What recovery verbs say to people: what to do next, what can be undone, and nothing untrue."""

from __future__ import annotations

import re

import pytest

from heliograph.cli.app import run
from heliograph.model.names import state_topic
from heliograph.model.recovery import read_events
from tests.broker.groups import commit, consume, offset
from tests.broker.linked import produce
from tests.broker.links import link_report, part_report
from tests.broker.recovering import (
    Make,
    checkpoint,
    lose_source,
    lose_target,
    mirrored,
    numbers,
    opposite_of,
    recover,
    refused,
    stages,
)


def test_when_hooks_alone_fail_it_is_said_that_applications_may_start(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make('    hooks: {after_failover: ["exit 1"]}')
    mirrored(link, topic_name, 5)
    told = refused(link, capsys, "failover", "--yes", code=1)
    assert "The mirrors are open for applications already. Only hooks are left" in told
    assert stages(link) == {topic_name: "FAILED_OVER"}
    assert recover(link, capsys, "failover", "--yes", "--no-hooks")["state"] == "FAILED_OVER"


def test_planned_verbs_whose_source_is_lost_say_who_takes_over(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    mirrored(link, topic_name, 5)
    lose_source(link)
    told = refused(link, capsys, "switch", "--fence", "none", code=1)
    assert f"Nothing was turned round. If it is lost: heliograph failover {link.name}" in told
    takes_over = f"If source is lost: heliograph failover {link.name}"
    assert takes_over in refused(link, capsys, "promote", code=1)
    assert recover(link, capsys, "failover", "--yes")["state"] == "FAILED_OVER"
    told = refused(link, capsys, "failback", code=1)
    assert "target stays primary, and nothing is lost by waiting" in told


def test_what_a_verb_did_to_groups_can_be_undone_by_the_command_that_it_names(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, 20)
    commit(link.target, topic_name, {here: 2})
    link.link.put(state_topic(link.name), checkpoint(topic_name, {here: 7}))
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    assert consume(link.target, topic_name, topic_name, 1) == numbers(7, 8)
    said = [line for one in read_events(link.state()) for line in one.lines]
    (undo,) = [line for line in said if line.startswith("to undo this: heliograph ")]
    words = undo.removeprefix("to undo this: heliograph ").split()
    assert words[:3] == ["groups", "rollback", link.name] and "1 group: 1 offset set" in said
    assert run([*words, "-f", str(link.link.file)]) == 0
    assert offset(link.target, topic_name, here) == 2


def test_a_failback_says_what_diverged_and_not_that_everything_arrived(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 60s, rto: 60s}")
    mirrored(link, topic_name, 10)
    recover(link, capsys, "failover", "--yes")
    produce(link.source.bootstrap, topic_name, numbers(10, 12))
    for more, kept in ((["--dry-run"], "to be kept"), ([], "kept")):
        capsys.readouterr()
        assert run(link.link.words("failback", *more)) == 0
        told = capsys.readouterr().out
        assert f"2 records diverged: {kept} in the topics named below" in told
        assert not {"Everything", "MISSING", "RPO"} & set(re.findall("[A-Za-z]+", told)), told
    again = recover(link, capsys, "failback")
    assert (again["rpo_ok"], again["rto_ok"]) == (None, None)
    capsys.readouterr()
    assert run(link.link.words("failback")) == 0
    told = capsys.readouterr().out
    assert "REVERSING already" in told and " diverged" not in told and "RTO" not in told


def test_a_switch_back_that_nobody_drives_names_the_command_that_does(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, 5)
    recover(link, capsys, "switch", "--fence", "none")
    produce(link.target.bootstrap, topic_name, numbers(5, 8))
    back = opposite_of(link)
    stopped = link_report(state="STOPPED", topics={topic_name: topic_name})
    back.link.report(stopped, {here: part_report()})
    told = refused(link, capsys, "switch", "--back", "--fence", "none")
    assert f"{back.name} goes on as before" in told
    assert f"start heliograph run {link.name}\n" in told
    lose_target(link)
    told = refused(back, capsys, "promote", code=1)
    assert f"If target is lost: heliograph failover {back.name}" in told
