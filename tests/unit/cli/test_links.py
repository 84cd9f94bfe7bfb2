"""The commands about links, as far as they need no cluster."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.cli import render
from heliograph.cli.app import run
from heliograph.cli.check import table
from heliograph.cli.options import Session
from heliograph.cli.status import in_a_line, tables
from heliograph.model.findings import Finding
from heliograph.model.status import link_status, unreadable
from heliograph.model.topics import Partition
from tests.unit.model.books import ABOUT, LINK_REPORT, NOW_MS, PART_REPORT, books, lagging, ledger

SOON = timedelta(seconds=0.5)
ZERO, ONE = Partition("orders", 0), Partition("orders", 1)
GOOD = link_status(
    ABOUT, books(parts={ZERO: lagging(1500), ONE: PART_REPORT}, ledgers=(ledger(ZERO),)), NOW_MS
)
FAULT = replace(PART_REPORT, state="FAULTED", error=("gap-found", "records [7, 9) are gone"))
BAD = replace(link_status(ABOUT, books(parts={ZERO: FAULT}), NOW_MS), link="bad")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port where nothing listens: it is taken, and nobody accepts."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def config(tmp_path: Path, closed_port: int) -> Path:
    file = tmp_path / "heliograph.yaml"
    file.write_text(
        f"""
clusters:
  a: {{bootstrap.servers: "127.0.0.1:{closed_port}", request.timeout.ms: 1000}}
  b: {{bootstrap.servers: "127.0.0.1:{closed_port}", request.timeout.ms: 1000}}
links:
  a-b: {{source: a, target: b, topics: [orders]}}
"""
    )
    return file


@pytest.mark.parametrize(
    "words", [["status"], ["check"], ["pause", "a-b"], ["resume", "a-b"], ["stop", "a-b"]]
)
def test_without_a_configuration_a_command_exits_with_2_and_says_how_to_make_one(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HELIOGRAPH_CONFIG", raising=False)
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.out == "" and "heliograph init" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status", "nope"], "there is no link 'nope'. The configuration has: a-b"),
        (["check", "nope"], "there is no link 'nope'"),
        (["pause", "nope"], "there is no link 'nope'"),
        (["pause"], "Missing argument 'LINK'"),
        (["pause", "a-b", "--topics", "a("], "'a(' is not a regular expression of Python"),
        (["resume", "a-b", "--topics", ""], "'' matches nothing"),
        (["stop", "a-b", "--topics", "a"], "No such option '--topics'"),
    ],
)
def test_a_wrong_command_exits_with_2(
    words: list[str], message: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "-f", str(config)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and message in said.err


def test_a_target_that_does_not_answer_is_a_status_of_its_own(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.cli.status._PATIENCE", SOON)
    assert run(["status", "-f", str(config), "-o", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["state"] is None and found["lag_records"] is None
    assert "unreachable" in found["errors"][0]


def test_check_reports_every_cluster_that_does_not_answer(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.control.checks.LIMIT", SOON)
    assert run(["check", "-f", str(config), "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    places = {one["where"]: one for one in found if one["code"] == "unreachable"}
    assert set(places) == {"cluster a", "cluster b"}
    assert "bootstrap.servers" in places["cluster a"]["remedy"]
    assert all(list(one) == ["severity", "code", "where", "finding", "remedy"] for one in found)


def test_commands_of_findings_stand_whole_below_the_table() -> None:
    command = Finding("error", "acl-missing", "cluster b", "no Read", "kafka-acls.sh --add")
    shown = table([command, replace(command, finding="no Write"), replace(command, remedy="Do x")])
    assert [row["remedy"] for row in shown.rows] == [
        "run command 1 below",
        "run command 1 below",
        "Do x",
    ]
    assert shown.lines == ["", "1. kafka-acls.sh --add"]


def test_people_see_links_topics_and_partitions_and_every_error_in_full(
    capsys: pytest.CaptureFixture[str],
) -> None:
    render.show_parts(Session(), tables([BAD, GOOD], topics=True, partitions=True))
    said = capsys.readouterr().out
    links, topics, parts = said.split("\n\n")[0], said.split("LINK")[2], said.split("LINK")[3]
    assert links.splitlines()[1].split()[:2] == ["bad", "FAULTED"]
    assert "1,500 (5.0 s)" in links
    assert "bad: orders-0: gap-found: records [7, 9) are gone" in said
    assert "a.orders" in topics and "FAULTED" in topics
    assert len(parts.strip().splitlines()) == 4


def test_a_lag_that_nobody_looks_at_is_the_least_it_can_be() -> None:
    paused = link_status(
        ABOUT, books(link=replace(LINK_REPORT, state="PAUSED"), parts={ZERO: lagging(3)}), NOW_MS
    )
    dead = link_status(ABOUT, books(parts={ZERO: lagging(3)}), NOW_MS + 60_000)
    assert tables([paused])[0].rows[0]["lag"] == "≥ 3 (5.0 s)"
    assert tables([dead])[0].rows[0]["lag"].startswith("≥ 3")
    assert tables([GOOD])[0].rows[0]["lag"].startswith("1,500")


def test_off_a_terminal_a_status_is_a_line() -> None:
    now_ms = 1_800_000_000_000
    assert in_a_line(GOOD, now_ms) == (
        "2027-01-15T08:00:00.000Z a-b ACTIVE lag 1,500 (5.0 s), 100/s (4.0 kB/s)"
    )
    assert in_a_line(BAD, now_ms).endswith("1 of 2 partitions faulted, errors: 1")
    assert " UNKNOWN lag -" in in_a_line(unreadable(ABOUT, "x"), now_ms)
