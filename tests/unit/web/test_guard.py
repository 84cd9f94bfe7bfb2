"""Who may ask what."""

import pytest

from heliograph.config.settings import DashboardConfig
from heliograph.config.values import Address
from heliograph.errors import ConfigError
from heliograph.web.guard import Caller, Guard, make_guard, mistakes

TOKEN = "a-long-random-token"
LOCAL = "127.0.0.1:8040"


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Guard:
    monkeypatch.setenv("TOKEN", TOKEN)
    return make_guard(DashboardConfig(token="${env:TOKEN}"))


def code(guard: Guard, **head: object) -> str | None:
    caller = Caller(**({"method": "GET", "peer": "127.0.0.1"} | head))  # type: ignore[arg-type]
    refused = guard.refuses(caller)
    return refused.code if refused else None


@pytest.mark.parametrize(
    "host", [LOCAL, "localhost:8040", "LOCALHOST", "[::1]:8040", "127.8.8.8:1", "localhost."]
)
def test_on_loopback_the_names_of_loopback_are_answered(host: str) -> None:
    assert code(make_guard(DashboardConfig()), host=host) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8040", "localhost.evil.example", "127.0.0.1.evil.example",
     "10.0.0.1:8040", "[::2]", "[", "0.0.0.0:8040"],
)  # fmt: skip
def test_a_name_that_was_made_to_point_here_is_refused(host: str) -> None:
    assert code(make_guard(DashboardConfig()), host=host) == "foreign-host"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "http://127.0.0.1:9", "http://[::1", "file://"]
)
def test_a_foreign_page_can_change_nothing(origin: str) -> None:
    guard = make_guard(DashboardConfig())
    assert code(guard, method="POST", host=LOCAL, origin=origin) == "foreign-origin"
    assert code(guard, method="GET", host=LOCAL, origin=origin) is None


def test_programs_and_our_own_page_may_change_something() -> None:
    guard = make_guard(DashboardConfig())
    assert code(guard, method="POST", host=LOCAL) is None
    assert code(guard, method="POST", host=LOCAL, origin=f"http://{LOCAL}") is None


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
     "Bearer \udcff", "Bearer ***"],
)  # fmt: skip
def test_without_the_token_only_health_is_answered(guard: Guard, given: str) -> None:
    given = given.encode("utf-8", "replace").decode("latin-1")
    assert code(guard, authorization=given, host="any.example") == "unauthorized"
    assert code(guard, authorization=given, is_health=True) is None


def test_with_the_token_any_host_is_answered(guard: Guard) -> None:
    for given in (f"Bearer {TOKEN}", f"bearer  {TOKEN}"):
        assert code(guard, authorization=given, host="any.example", method="POST") is None


def test_a_token_that_is_gone_lets_nobody_in(monkeypatch: pytest.MonkeyPatch, guard: Guard) -> None:
    monkeypatch.delenv("TOKEN")
    assert code(guard, authorization=f"Bearer {TOKEN}") == "unauthorized"


def test_who_asks_is_the_token_or_the_peer_and_what_they_call_themselves(guard: Guard) -> None:
    caller = Caller("POST", "127.0.0.1", user="eve\r\nchange {}" + "x" * 200)
    assert guard.who(caller).startswith("token (evechange {}xxx")
    assert len(guard.who(caller)) < 120
    assert make_guard(DashboardConfig()).who(Caller("POST", "::1")) == "::1"


def test_other_machines_need_a_token() -> None:
    exposed = DashboardConfig(listen=Address("0.0.0.0", 8040))
    (wrong,) = mistakes(exposed)
    assert wrong.startswith("listen: other machines can reach 0.0.0.0:8040")
    with pytest.raises(ConfigError, match="a token is needed"):
        make_guard(exposed)


def test_a_token_in_the_open_is_refused_unless_allowed() -> None:
    (wrong,) = mistakes(DashboardConfig(token=TOKEN))
    assert wrong.startswith("token holds a secret in the open") and TOKEN not in wrong
    assert mistakes(DashboardConfig(token=TOKEN, allow_literal_secrets=True)) == []
    assert TOKEN not in repr(DashboardConfig(token=TOKEN))


def test_an_empty_or_missing_token_is_told_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", " ")
    with pytest.raises(ConfigError, match="stands for an empty text"):
        make_guard(DashboardConfig(token="${env:TOKEN}"))
    monkeypatch.delenv("TOKEN")
    with pytest.raises(ConfigError, match="no environment variable TOKEN"):
        make_guard(DashboardConfig(token="${env:TOKEN}"))
