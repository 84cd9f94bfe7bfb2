"""The API over a real connection, with operations that need no cluster."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from heliograph.config.settings import DashboardConfig
from heliograph.config.values import Address
from heliograph.errors import (
    AddressTaken,
    ConfigError,
    HeliographError,
    LedgerUnreadable,
    LoginRefused,
    Unreachable,
)
from heliograph.web.server import serving
from heliograph.wiring import validate
from tests.doubles.asking import Reply, ask
from tests.unit.config.sample import BASE
from tests.unit.web.operations import BAD, GOOD, PlayedOperations

ANYWHERE = DashboardConfig(listen=Address("127.0.0.1", 0))
LINK = "/api/v1/links/a-b"
TOKEN = "a-long-random-token"
Serve = Callable[..., Address]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Call it with operations, and settings if need be, for a server that ends with the test."""
    with ExitStack() as stack:

        def start(operations: PlayedOperations, dashboard: DashboardConfig = ANYWHERE) -> Address:
            stack.callback(operations.go.set)
            return stack.enter_context(serving(operations, validate, dashboard))

        yield start


# Reading


def test_links_are_told_as_status_tells_them(serve: Serve) -> None:
    place = serve(PlayedOperations(GOOD, BAD))
    plain = json.loads(json.dumps(GOOD.as_dict()))
    assert [one["link"] for one in ask(place, "/api/v1/links").value] == ["a-b", "bad"]
    assert ask(place, LINK).value == plain
    assert ask(place, f"{LINK}/topics").value == plain["topics"]
    assert ask(place, f"{LINK}/plan").value["steps"] == []


def test_partitions_that_stand_are_told(serve: Serve) -> None:
    place = serve(PlayedOperations())
    (one,) = ask(place, f"{LINK}/noprogress").value["partitions"]
    assert (one["topic"], one["lag_records"], one["standing_seconds"]) == ("orders", 7, 90.0)
    found = ask(place, f"{LINK}/noprogress?seconds=91").value
    assert (found["partitions"], found["watched_seconds"], found["seconds"]) == ([], 300.0, 91.0)


def test_every_answer_forbids_what_no_browser_should_do(serve: Serve) -> None:
    place = serve(PlayedOperations())
    for path in ("/docs", "/api/v1/links", "/nowhere"):
        headers = ask(place, path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers


def test_the_page_and_the_document_need_nothing_from_elsewhere(serve: Serve) -> None:
    place = serve(PlayedOperations())
    for prefix in ("", "/api/v1"):
        shown = ask(place, f"{prefix}/docs").text
        assert "/api/v1/links/{link}/pause" in shown
        assert "<script" not in shown and "src=" not in shown and "@import" not in shown
        assert ask(place, f"{prefix}/openapi.json").value["openapi"] == "3.1.0"


# Changing


def test_a_change_is_asked_for_logged_and_told(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "heliograph.web")
    operations = PlayedOperations()
    place = serve(operations)
    found = ask(place, f"{LINK}/pause", {"topics": "pay.*"}, X_Heliograph_User="eve\tx")
    assert (found.status, found.value["effect"]) == (200, "done")
    assert operations.asked == [
        ("a-b", "pause", {"topics": "pay.*"}, "127.0.0.1 (evex)", False, True)
    ]
    (line,) = [one.getMessage() for one in caplog.records if one.name == "heliograph.web"]
    told = json.loads(line.removeprefix("change "))
    assert told["who"] == "127.0.0.1 (evex)" and told["verb"] == "pause"
    assert told["changed"] == ["state: active -> paused"] and told["effect"] == "done"


def test_nobody_asks_from_an_address_that_they_made_up(serve: Serve) -> None:
    operations = PlayedOperations()
    ask(serve(operations), f"{LINK}/pause", {}, X_Forwarded_For="192.0.2.1")
    assert operations.asked[0][3] == "127.0.0.1"


def test_what_has_not_taken_effect_is_accepted(serve: Serve) -> None:
    operations = PlayedOperations()
    place = serve(operations)
    assert ask(place, f"{LINK}/resume", {"wait": False}).status == 202
    assert ask(place, f"{LINK}/stop", {"dry_run": True}).value["effect"] == "dry_run"
    assert ask(place, f"{LINK}/stop", method="POST").status == 200
    assert [one[1:3] for one in operations.asked] == [
        ("resume", {"topics": None}),
        ("stop", {}),
        ("stop", {}),
    ]


def test_a_change_that_failed_is_logged_too(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "heliograph.web")
    operations = PlayedOperations()
    operations.error = Unreachable("no answer", cluster="b")
    assert ask(serve(operations), f"{LINK}/pause", {}).status == 503
    assert '"error": "unreachable"' in caplog.text


# Problems


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unreachable("no answer", cluster="b"), 503),
        (LoginRefused("not you", cluster="b"), 502),
        (LedgerUnreadable("the row wanted cannot be read"), 409),
        (ConfigError("no such variable"), 500),
    ],
)
def test_an_error_has_a_fitting_status_its_code_and_no_traceback(
    serve: Serve, error: HeliographError, status: int
) -> None:
    operations = PlayedOperations()
    operations.error = error
    found = ask(serve(operations), f"{LINK}/plan")
    assert (found.status, found.code) == (status, error.code)
    assert error.message in found.value["error"]["message"]
    assert "Traceback" not in found.text


def test_a_defect_tells_nothing_of_itself(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    operations = PlayedOperations()
    operations.error = ValueError("hunter2")
    place = serve(operations)
    for path in (f"{LINK}/plan", LINK):
        found = ask(place, path)
        assert (found.status, found.code) == (500, "internal") and "hunter2" not in found.text
    assert "ValueError: hunter2" in caplog.text
    operations.error = None
    assert ask(place, LINK).status == 200


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        ("/api/v1/links/a-c", "GET", 404, "no-such-link"),
        ("/api/v1/links/a-c/pause", "POST", 404, "no-such-link"),
        ("/api/v1/links/..%2Fa-b", "GET", 404, "not-found"),
        ("/api/v1/nowhere", "GET", 404, "not-found"),
        ("/", "GET", 404, "not-found"),
        (LINK, "DELETE", 405, "method-not-allowed"),
        (f"{LINK}/pause", "GET", 405, "method-not-allowed"),
        (f"{LINK}/noprogress?seconds=x", "GET", 422, "bad-input"),
        (f"{LINK}/noprogress?second=1", "GET", 422, "bad-input"),
        (f"{LINK}?x=1", "GET", 422, "bad-input"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    serve: Serve, path: str, method: str, status: int, code: str
) -> None:
    found = ask(serve(PlayedOperations()), path, method=method)
    assert (found.status, found.code) == (status, code)


def test_an_unknown_link_is_told_with_the_nearest(serve: Serve) -> None:
    found = ask(serve(PlayedOperations()), "/api/v1/links/a-bb")
    assert "Did you mean a-b?" in found.value["error"]["message"]
    assert found.value["error"]["remedy"] == "GET /api/v1/links names the links"


def test_a_body_that_is_wrong_or_too_large_changes_nothing(serve: Serve) -> None:
    operations = PlayedOperations()
    place = serve(operations)
    assert ask(place, f"{LINK}/stop", {"topics": "a"}).code == "bad-input"
    assert ask(place, f"{LINK}/pause", b"{").code == "bad-input"
    assert ask(place, f"{LINK}/pause", b" " * 20_000).code == "too-large"
    assert ask(place, f"{LINK}/pause", b"{}", Content_Length="99999999999").code == "too-large"
    assert operations.asked == []


def test_a_body_without_a_length_is_cut_off(serve: Serve) -> None:
    place = serve(PlayedOperations())
    with socket.create_connection((place.host, place.port), timeout=20) as connection:
        head = (
            f"POST {LINK}/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head.encode() + b"4000\r\n" + b" " * 0x4000 + b"\r\n1\r\n \r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


# Validation


def validated(place: Address, text: str) -> Reply:
    return ask(place, "/api/v1/validate", text.encode())


def test_a_configuration_is_judged_and_its_mistakes_are_placed(serve: Serve) -> None:
    place = serve(PlayedOperations())
    assert validated(place, BASE).value == {"valid": True, "findings": []}
    found = validated(place, BASE + "    on_gap: go\n").value
    assert found["valid"] is False
    (one,) = found["findings"]
    assert (one["path"], one["line"]) == ("links.a.on_gap", 10)
    assert validated(place, "").value["valid"] is False
    assert ask(place, "/api/v1/validate", b"\xff").code == "bad-input"
    assert validated(place, "#" * 300_000).code == "too-large"


@pytest.mark.parametrize(
    "written",
    [
        "sasl.password: {secret}",
        "security.protocol: ${{env:SECRET}}",
        "client.id: ${{env:SECRET}}, x: 1",
        "security.protocol: ${{file:{file}}}",
        "security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.jaas.config: '${{file:{file}}}'",
        "security.protocol: SSL, ssl.ca.location: {file}",
        "security.protocol: SSL, ssl.ca.location: /no/such/file",
    ],
)
def test_a_configuration_that_was_sent_learns_nothing_of_this_machine(
    serve: Serve, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, file = "Hunter2Hunter2", tmp_path / "secret"
    monkeypatch.setenv("SECRET", secret)
    file.write_text(f"{secret} required;")
    text = BASE.replace(
        "{bootstrap", "{" + written.format(secret=secret, file=file) + ", bootstrap"
    )
    found = validated(serve(PlayedOperations()), text)
    assert found.status == 200 and secret not in found.text
    assert "cannot be read" not in found.text and "PEM form" not in found.text


# Who may ask


def test_loopback_without_a_token_answers_only_to_its_own_names(serve: Serve) -> None:
    operations = PlayedOperations()
    place = serve(operations)
    assert ask(place, LINK, Host="evil.example").code == "foreign-host"
    found = ask(place, f"{LINK}/pause", {}, Origin="https://evil.example")
    assert (found.status, found.code, operations.asked) == (403, "foreign-origin", [])
    assert ask(place, f"{LINK}/pause", {}, Origin=f"http://{place}").status == 200


def test_with_a_token_only_health_is_open(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    operations = PlayedOperations(BAD)
    place = serve(operations, DashboardConfig(listen=ANYWHERE.listen, token="${env:TOKEN}"))
    for path in ("/api/v1/links", "/docs", "/openapi.json", "/nowhere", "/api/v1/health/live/x"):
        found = ask(place, path)
        assert (found.status, found.code) == (401, "unauthorized")
        assert found.headers["www-authenticate"] == "Bearer"
    assert ask(place, "/health/live").value == {"live": True}
    # Who bears no token is not told why.
    assert ask(place, "/health/ready").value == {"ready": False}
    bears = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(place, "/health/ready", None, **bears).value["reasons"][0]["link"] == "bad"
    assert ask(place, "/api/v1/links/bad/pause", {}, **bears, Host="any.example").status == 200
    assert operations.asked[0][3] == "token"


# Health


def test_health_tells_reasons(serve: Serve) -> None:
    assert ask(serve(PlayedOperations()), "/api/v1/health/ready").value == {
        "ready": True,
        "reasons": [],
    }
    found = ask(serve(PlayedOperations(GOOD, BAD)), "/api/v1/health/ready")
    assert found.status == 503
    assert found.value["reasons"] == [
        {"link": "bad", "reason": "1 of 2 partitions are faulted"},
    ]


def test_a_target_that_is_away_holds_up_nobody_else(serve: Serve) -> None:
    operations = PlayedOperations(GOOD, BAD)
    operations.stuck = {"c", "bad"}
    place = serve(operations)
    waiting = [
        threading.Thread(target=ask, args=(place, f"/api/v1/links/bad{tail}"), daemon=True)
        for tail in ("", "", "", "/plan", "/plan")
    ]
    for one in waiting:
        one.start()
    began_s = time.monotonic()
    assert ask(place, "/health/live").status == 200
    assert ask(place, LINK).status == 200
    assert ask(place, f"{LINK}/pause", {}).status == 200
    ready = ask(place, "/health/ready")
    assert ready.status == 503
    assert ready.value["reasons"] == [{"link": "bad", "reason": "its target has not answered yet"}]
    assert time.monotonic() - began_s < 10
    operations.go.set()
    for one in waiting:
        one.join(20)


def test_too_many_who_wait_are_refused_and_told(serve: Serve) -> None:
    operations = PlayedOperations()
    operations.stuck = {"a-b"}
    place = serve(operations)
    found: list[int] = []
    asking = [
        threading.Thread(target=lambda: found.append(ask(place, f"{LINK}/plan").status))
        for _ in range(50)
    ]
    for one in asking:
        one.start()
    deadline_s = time.monotonic() + 20
    while len(found) < 10 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert found == [503] * 10
    assert ask(place, "/health/live").status == 200
    operations.go.set()
    for one in asking:
        one.join(20)
    assert sorted(found) == [200] * 40 + [503] * 10


# The address


def test_an_address_that_is_taken_is_told(serve: Serve) -> None:
    place = serve(PlayedOperations())
    with pytest.raises(AddressTaken, match=f"cannot listen at {place}: .*in use"):
        serve(PlayedOperations(), DashboardConfig(listen=place))


def test_a_server_that_ended_can_be_started_again_at_once() -> None:
    with serving(PlayedOperations(), validate, ANYWHERE) as place:
        assert ask(place, "/health").status == 200
    with serving(PlayedOperations(), validate, DashboardConfig(listen=place)) as again:
        assert again == place and ask(again, "/health").status == 200
