"""A client of the REST API that is none of ours: the standard library's."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliograph.config.values import Address

WITHIN_S = 60.0


@dataclass(frozen=True)
class Reply:
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def value(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> str:
        """The code of a problem."""
        found = self.value["error"]["code"]
        assert isinstance(found, str)
        return found


def ask(
    place: Address,
    path: str,
    body: bytes | Mapping[str, Any] | None = None,
    *,
    method: str | None = None,
    **headers: str,
) -> Reply:
    """Ask once; names of headers are written with underscores. A body makes it a POST."""
    connection = http.client.HTTPConnection(place.host, place.port, timeout=WITHIN_S)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = body if isinstance(body, bytes) or body is None else json.dumps(dict(body)).encode()
        verb = method or ("GET" if body is None else "POST")
        connection.request(verb, path, sent, named)
        answer = connection.getresponse()
        return Reply(answer.status, answer.read().decode(), dict(answer.getheaders()))
    finally:
        connection.close()
