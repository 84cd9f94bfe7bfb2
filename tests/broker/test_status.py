"""`status`, `pause`, `resume` and `stop` against the topics of a real target."""

import json
import socket
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.control.statuses import Statuses
from heliograph.kafka import clock
from heliograph.model.control import WANTED, Wanted, row
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.names import control_topic, ledger_topic
from heliograph.model.runs import Run
from heliograph.model.topics import Partition
from heliograph.wiring import load_config, setups
from tests.broker.links import Link, PlayedDriver, link_report, make_link, part_report
from tests.making import create_topic

ORDERS, PAYMENTS = Partition("orders", 0), Partition("payments", 0)
PATIENCE = timedelta(seconds=30)


@pytest.fixture
def link(target: Any, tmp_path: Path) -> Link:
    """A link whose source is down: nothing here may need it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return make_link(tmp_path, f"127.0.0.1:{port}", target)


def status(link: Link, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert run(link.words("status", "-o", "json")) == code
    (found,) = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def steer(link: Link, capsys: pytest.CaptureFixture[str], verb: str, *more: str) -> dict[str, Any]:
    assert run(link.words(verb, *more, "-o", "json")) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_a_link_without_topics_on_the_target_is_created(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(link, capsys)["state"] == "CREATED"


def test_a_live_link_is_seen_with_its_source_down(
    link: Link, target: Any, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(target.bootstrap, topic_name)
    link.make_topics()
    report = link_report(topics={"orders": topic_name}, partitions=1)
    link.report(report, {ORDERS: part_report(lag=7)})
    ledger = Ledger(ORDERS, Origin("S", "t", "T", "m"))
    ledger.add(Run(0, 0, 100))
    link.put(ledger_topic(link.name), ledger.take_changes())
    found = status(link, capsys)
    assert (found["state"], found["lag_records"], found["records_total"]) == ("ACTIVE", 7, 100)
    (topic,) = found["topics"]
    assert topic["mirror"] == topic_name
    assert topic["partitions"][0]["leader"] == 1
    assert topic["partitions"][0]["runs"] == 1


def test_a_silent_driver_is_told_and_exits_with_1(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    link.make_topics()
    link.report(link_report(at_ms=clock.wall_ms() - 3_600_000), {ORDERS: part_report()})
    assert run(link.words("status")) == 1
    said = capsys.readouterr().out
    assert "no driver has reported for 36" in said and f"heliograph run {link.name}" in said


def test_statuses_follow_what_is_put_and_links_that_begin(link: Link) -> None:
    chosen = setups(load_config(link.file))
    with Statuses(chosen) as statuses:
        assert statuses.read(PATIENCE)[0].state == "CREATED"
        link.make_topics()
        link.report(link_report(), {ORDERS: part_report(lag=1)})
        assert statuses.read(PATIENCE)[0].lag_records == 1
        link.report(link_report(), {ORDERS: part_report(lag=5), PAYMENTS: part_report(lag=1)})
        assert statuses.read(PATIENCE)[0].lag_records == 6


def test_a_command_without_a_driver_is_noted_even_before_the_first_run(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    found = steer(link, capsys, "pause")
    assert (found["wanted"], found["effect"]) == ("paused", "noted")
    assert found["changed"] == ["state: active -> paused"]
    wanted = link.wanted()
    assert wanted is not None and wanted.state == "paused" and wanted.asked_ms > 0
    again = steer(link, capsys, "pause")
    assert (again["changed"], link.wanted()) == ([], wanted)
    assert run(link.words("resume")) == 0
    assert f"next heliograph run {link.name}" in capsys.readouterr().out


def test_a_dry_run_changes_nothing(link: Link, capsys: pytest.CaptureFixture[str]) -> None:
    link.make_topics()
    found = steer(link, capsys, "pause", "--topics", "orders", "--dry-run")
    assert found["changed"] == ["paused topics: + orders"] and found["effect"] == "dry_run"
    assert link.wanted() is None


def test_topics_that_the_link_does_not_have_are_warned_of(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    link.make_topics()
    link.report(link_report(), {ORDERS: part_report(), PAYMENTS: part_report()})
    assert run(link.words("pause", "--topics", "order", "--no-wait")) == 0
    said = capsys.readouterr().err
    assert "'order' matches no topic" in said and "orders, payments" in said


def test_commands_wait_until_a_driver_has_followed(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    with PlayedDriver(link):
        for verb, more, state in (
            ("pause", (), "PAUSED"),
            ("resume", (), "ACTIVE"),
            ("pause", ("--topics", "pay.*"), "ACTIVE"),
            ("resume", ("--topics", "pay.*"), "ACTIVE"),
            ("stop", (), "STOPPED"),
        ):
            assert steer(link, capsys, verb, *more)["effect"] == "done"
            assert status(link, capsys)["state"] == state


def test_a_driver_that_does_not_follow_is_told_and_exits_with_1(
    link: Link, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.cli.steer.WAIT", timedelta(seconds=0.5))
    link.make_topics()
    link.report(link_report(), {ORDERS: part_report()})
    assert run(link.words("pause")) == 1
    assert "did not follow" in capsys.readouterr().out


def test_watching_goes_on_until_it_is_interrupted(
    link: Link, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = threading.Semaphore(3)

    def interrupted(_: float) -> None:
        if not seen.acquire(blocking=False):
            raise KeyboardInterrupt

    monkeypatch.setattr("heliograph.cli.status.time.sleep", interrupted)
    assert run(link.words("status", "--watch")) == 130
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(f" {link.name} CREATED " in line for line in lines)


def test_a_row_that_cannot_be_read_is_told_not_hidden(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    link.make_topics()
    link.put(control_topic(link.name), {WANTED: b'{"state": "asleep"}'})
    found = status(link, capsys, code=1)
    assert found["state"] is None and "the row wanted cannot be read" in found["errors"][0]
    link.put(control_topic(link.name), {WANTED: row(Wanted())})
    assert status(link, capsys)["state"] == "CREATED"
