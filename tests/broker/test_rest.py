"""The REST API against the topics of a real target."""

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.cli.app import run
from heliograph.config.values import Address
from heliograph.kafka import clock
from heliograph.model.names import own_topics
from heliograph.model.topics import Partition
from heliograph.wiring import load_config, serve, setups
from tests.broker.links import Link, PlayedDriver, link_report, make_link, part_report
from tests.doubles.asking import ask
from tests.making import create_topic

ORDERS = Partition("orders", 0)
TOKEN = "a-long-random-token"
SERVED = "dashboard: {listen: '127.0.0.1:0'}"
GUARDED = "dashboard: {listen: '127.0.0.1:0', token: '${env:REST_TOKEN}'}"


@pytest.fixture(autouse=True)
def nobody_goes_on() -> Iterator[None]:
    """Wait for readings that a server left behind: other tests must not meet their threads."""
    yield
    for thread in threading.enumerate():
        if thread.name in ("api", "heliograph-connect"):
            thread.join(60)
            assert not thread.is_alive(), f"{thread.name} goes on"


@pytest.fixture
def link(source: Any, target: Any, tmp_path: Path) -> Link:
    return make_link(tmp_path, source.bootstrap, target, more=SERVED)


@pytest.fixture
def place(link: Link) -> Iterator[Address]:
    """Where the API for the link is served."""
    config = load_config(link.file)
    with serve(config, setups(config)) as found:
        yield found


def path(link: Link, *more: str) -> str:
    return "/".join(("/api/v1/links", link.name, *more))


def test_a_status_is_what_the_command_shows(
    link: Link, place: Address, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(place, path(link)).value["state"] == "CREATED"
    link.make_topics()
    link.report(link_report(), {ORDERS: part_report(lag=7)})
    assert run(link.words("status", "-o", "json")) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    found = ask(place, path(link)).value
    assert list(found) == list(shown)
    assert (found["state"], found["lag_records"]) == ("ACTIVE", 7)
    assert [one["link"] for one in ask(place, "/api/v1/links").value] == [link.name]
    (topic, _) = ask(place, path(link, "topics")).value
    assert topic["partitions"][0]["lag_records"] == 7


def test_a_link_is_paused_and_resumed_and_who_did_is_known(
    link: Link, place: Address, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "heliograph.web")
    with PlayedDriver(link):
        found = ask(place, path(link, "pause"), {}, X_Heliograph_User="eve")
        assert (found.status, found.value["effect"]) == (200, "done")
        assert found.value["changed"] == ["state: active -> paused"]
        status = ask(place, path(link)).value
        assert (status["state"], status["asked_by"]) == ("PAUSED", "127.0.0.1 (eve)")
        assert ask(place, path(link, "resume"), {}).value["effect"] == "done"
        found = ask(place, path(link, "pause"), {"topics": "pay.*"})
        assert (found.value["paused"], found.value["matched"]) == (["pay.*"], ["payments"])
        assert ask(place, path(link, "resume"), {"topics": "pay.*"}).value["effect"] == "done"
        assert ask(place, path(link, "stop"), {"dry_run": True}).value["effect"] == "dry_run"
        assert ask(place, path(link)).value["state"] == "ACTIVE"
        assert ask(place, path(link, "stop"), {}).value["effect"] == "done"
    lines = [one.getMessage() for one in caplog.records if one.name == "heliograph.web"]
    assert [json.loads(line.partition(" ")[2])["verb"] for line in lines] == [
        "pause",
        "resume",
        "pause",
        "resume",
        "stop",
        "stop",
    ]


def test_topics_and_limits_are_changed_over_the_api(link: Link, place: Address) -> None:
    later = {"wait": False}
    found = ask(place, path(link, "limits"), {"bytes_per_second": "20MB", **later})
    assert found.value["changed"] == ["bytes per second: as configured -> 20000000"]
    found = ask(place, path(link, "topics/add"), {"topics": "audit", "start": "latest", **later})
    assert found.value["added"] == ["audit"], found
    found = ask(place, path(link, "topics/remove"), {"topics": "audit", **later})
    assert (found.value["added"], found.value["removed"]) == ([], ["audit"])
    for body in ({}, {"topics": "a("}, {"topics": "a", "start": "soon"}):
        assert ask(place, path(link, "topics/add"), body).code == "bad-input"
    for limit in (True, "-1", None):
        assert ask(place, path(link, "limits"), {"bytes_per_second": limit}).code == "bad-input"


def test_a_command_of_the_command_line_says_who_asked(link: Link, place: Address) -> None:
    assert run(link.words("pause")) == 0
    status = ask(place, path(link)).value
    assert "@" in status["asked_by"] and status["asked_at"].endswith("Z")


def test_bad_input_changes_nothing(link: Link, place: Address) -> None:
    link.make_topics()
    for body in (b"{", b'{"topics": "a("}', b'{"topics": null}', b'{"x": 1}', b" " * 20_000):
        assert ask(place, path(link, "pause"), body).status in (413, 422)
    assert ask(place, path(link, "pause"), {}, Host="evil.example").status == 403
    assert ask(place, path(link, "pause"), {}, Origin="https://evil.example").status == 403
    assert ask(place, "/api/v1/links/no-such-link/pause", {}).code == "no-such-link"
    assert link.wanted() is None


def test_a_token_is_needed_where_there_is_one(
    source: Any, target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = make_link(tmp_path, source.bootstrap, target, more=GUARDED)
    monkeypatch.setenv("REST_TOKEN", TOKEN)
    config = load_config(link.file)
    with serve(config, setups(config)) as place:
        assert ask(place, path(link, "pause"), {}).status == 401
        assert ask(place, path(link, "pause"), {}, Authorization="Bearer x").status == 401
        assert link_is_untouched(link)
        bears = {"Authorization": f"Bearer {TOKEN}"}
        assert ask(place, path(link, "pause"), {}, **bears).value["effect"] == "noted"
        wanted = link.wanted()
        assert wanted is not None and wanted.asked_by == "token"
        assert ask(place, "/health/live").status == 200


def link_is_untouched(link: Link) -> bool:
    with link.open_target() as target:
        return not target.look(own_topics(link.name), within(20)).topics


def test_a_plan_is_told_and_nothing_is_made(
    source: Any, target: Any, tmp_path: Path, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name, 3)
    link = make_link(tmp_path, source.bootstrap, target, more=SERVED, topics=topic_name)
    config = load_config(link.file)
    with serve(config, setups(config)) as place:
        for _ in range(2):
            (step,) = ask(place, path(link, "plan")).value["steps"]
            assert (step["action"], step["topic"]) == ("create", topic_name)


def test_partitions_that_stand_are_found(link: Link, place: Address) -> None:
    link.make_topics()
    link.report(link_report(), {ORDERS: part_report(lag=7)})
    ask(place, path(link))
    deadline_s = time.monotonic() + 30
    while not (found := ask(place, path(link, "noprogress?seconds=0.2")).value)["partitions"]:
        assert time.monotonic() < deadline_s
    (one,) = found["partitions"]
    assert (one["topic"], one["partition"], one["lag_records"]) == ("orders", 0, 7)
    assert found["watched_seconds"] >= 0.2
    link.report(link_report(), {ORDERS: part_report()})
    assert ask(place, path(link, "noprogress?seconds=0")).value["partitions"] == []


def test_ready_follows_the_drivers(link: Link, place: Address) -> None:
    assert ask(place, "/health/ready").status == 200
    link.make_topics()
    link.report(link_report(at_ms=clock.wall_ms() - 3_600_000), {ORDERS: part_report()})
    ask(place, path(link))
    found = ask(place, "/health/ready")
    assert found.status == 503
    assert "no driver has reported for 36" in found.value["reasons"][0]["reason"]


def test_a_dead_cluster_is_told_and_holds_up_no_health(
    target: Any, source: Any, tmp_path: Path
) -> None:
    link = make_link(tmp_path, source.bootstrap, target, more=SERVED)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        text = link.file.read_text()
        dead = text.replace(target.bootstrap, f"127.0.0.1:{closed.getsockname()[1]}")
        link.file.write_text(dead)
        config = load_config(link.file)
        with serve(config, setups(config)) as place:
            began_s = time.monotonic()
            assert ask(place, "/health/live").status == 200
            assert ask(place, "/health/ready").status == 503
            assert time.monotonic() - began_s < 5
            found = ask(place, path(link)).value
            assert found["state"] is None and "unreachable" in found["errors"][0]
            refused = ask(place, path(link, "pause"), {})
            assert refused.status == 503 and refused.code in ("unreachable", "deadline-passed")
            assert "unreachable" in ask(place, "/health/ready").value["reasons"][0]["reason"]
