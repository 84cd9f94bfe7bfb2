"""Tokens: asked for once, kept while they are good, never shown."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from heliograph.errors import ConfigError, LoginRefused, Unreachable
from heliograph.kafka import oauth
from heliograph.kafka.client_settings import ClientSettings, Login
from heliograph.kafka.secret import Secret


def jwt(expires_in_s: float, name: str = "mirror") -> str:
    claims = json.dumps({"sub": name, "exp": time.time() + expires_in_s}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


class Endpoint:
    """A token endpoint that gives prepared answers and remembers what it was asked."""

    def __init__(self, *answers: tuple[int, object]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    @contextmanager
    def run(self) -> Iterator[ClientSettings]:
        endpoint = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append({"who": self.headers["Authorization"]} | parse_qs(form))
                status, body = endpoint.answers.pop(0)
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        with HTTPServer(("127.0.0.1", 0), Answer) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield settings(f"http://127.0.0.1:{server.server_port}/token")
            server.shutdown()
            thread.join(10)


def settings(url: str) -> ClientSettings:
    login = Login(
        "OAUTHBEARER",
        token_url=url,
        client_id="me",
        client_secret=Secret.literal("client.secret", "hunter2"),
        scope="kafka",
    )
    return ClientSettings("paris", (), login=login)


def test_a_token_is_asked_for_once_and_kept() -> None:
    good = jwt(3600)
    endpoint = Endpoint((200, {"access_token": good}))
    with endpoint.run() as asking:
        assert oauth.token(asking) == oauth.TokenProvider(asking).token() == good
    (asked,) = endpoint.asked
    assert asked["grant_type"] == ["client_credentials"]
    assert asked["scope"] == ["kafka"]
    assert base64.b64decode(asked["who"].removeprefix("Basic ")) == b"me:hunter2"


@pytest.mark.parametrize(
    "first",
    [{"access_token": jwt(5)}, {"access_token": "opaque"}, {"access_token": "o", "expires_in": 9}],
    ids=["jwt", "opaque", "expires-in"],
)
def test_a_token_about_to_expire_is_asked_for_again(first: dict[str, object]) -> None:
    endpoint = Endpoint((200, first), (200, {"access_token": "next", "expires_in": 3600}))
    with endpoint.run() as asking:
        assert oauth.token(asking) == first["access_token"]
        assert oauth.token(asking) == "next"
        assert oauth.token(asking) == "next"


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, {"error": "bad secret hunter2"}, LoginRefused, r"401 .*bad secret \*\*\*"),
        (503, b"later", Unreachable, "503"),
        (302, b"", LoginRefused, "302"),
        (200, b"<html>", LoginRefused, "JSON"),
        (200, {"token": "x"}, LoginRefused, "without an access_token"),
        (200, {"access_token": "two\nlines"}, ConfigError, "not one line of token"),
    ],
)
def test_a_refusal_is_explained_without_the_secret(
    status: int, body: object, kind: type[Exception], words: str
) -> None:
    with (
        Endpoint((status, body)).run() as asking,
        pytest.raises(kind, match=words) as refused,
    ):
        oauth.token(asking)
    assert "hunter2" not in str(refused.value)


def test_an_endpoint_that_is_down_may_heal() -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        oauth.token(settings("http://127.0.0.1:1/token"))


def test_a_token_file_is_read_at_every_login(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text("one\n")
    file.chmod(0o600)
    reading = ClientSettings("paris", (), login=Login("OAUTHBEARER", token_url=file.as_uri()))
    assert oauth.token(reading) == "one"
    file.write_text("two\n")
    assert oauth.token(reading) == "two"
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        oauth.token(reading)
