"""The guard: who may ask what. Decided from a request's head alone, before anything else is done.

Without a token the API listens on loopback only, where every user of the machine may use it. A
browser there is a user too, led by whatever page it shows: a foreign page must neither read by a
name that it made point here (DNS rebinding), nor send a change.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from heliograph.config.settings import DashboardConfig
from heliograph.config.values import is_loopback
from heliograph.errors import ConfigError
from heliograph.kafka.secret import Secret
from heliograph.web.problems import Problem, problem

_LOG = logging.getLogger("heliograph.web")
_BEARER = "bearer "
_READS = ("GET", "HEAD")
_MOST_USER = 100


@dataclass(frozen=True, slots=True)
class Caller:
    """What the head of a request says. ``peer`` is an address, ``user`` an unchecked claim."""

    method: str
    peer: str
    host: str = ""
    origin: str | None = None
    authorization: str = ""
    user: str = ""
    is_health: bool = False


class Guard:
    """Keeps the door of one server."""

    def __init__(self, token: Secret | None) -> None:
        self._token = token

    def refuses(self, caller: Caller) -> Problem | None:
        """Return why a request is not answered; None for one that is."""
        if self._token is not None:
            if caller.is_health or self.knows(caller):
                return None
            return problem(
                "unauthorized",
                "the token is missing or wrong",
                "Send the header: Authorization: Bearer TOKEN",
            )
        if not is_loopback(_host_name(caller.host)):
            return problem(
                "foreign-host",
                "without a token the API answers only to the names of this machine's loopback",
                "Ask for http://127.0.0.1, or set dashboard.token",
            )
        if caller.method not in _READS and _is_foreign(caller):
            return problem("foreign-origin", "the request was sent by a page of another site")
        return None

    def knows(self, caller: Caller) -> bool:
        """Claim: the caller bears the token, or none is needed."""
        if self._token is None:
            return True
        kind, given = caller.authorization[: len(_BEARER)], caller.authorization[len(_BEARER) :]
        try:
            return kind.lower() == _BEARER and self._token.matches(given.strip())
        except ConfigError as gone:
            # A file that was removed, say. Who is not known learns nothing of it.
            _LOG.error("no request can be let in: %s", gone)
            return False

    def who(self, caller: Caller) -> str:
        """Say who asks, for the log and for the control topic."""
        base = caller.peer if self._token is None else "token"
        user = "".join(one for one in caller.user[:_MOST_USER] if one.isprintable()).strip()
        return f"{base} ({user})" if user else base


def mistakes(dashboard: DashboardConfig) -> Sequence[str]:
    """Return what is wrong with the settings; each begins with the name of its setting."""
    found = []
    if dashboard.token is None and not is_loopback(dashboard.listen.host):
        found.append(
            f"listen: other machines can reach {dashboard.listen}, so that a token is needed. Set"
            " token: ${env:NAME} beside it, or listen at 127.0.0.1"
        )
    try:
        _secret(dashboard, "token")
    except ConfigError as refused:
        found.append(refused.message)
    return found


def make_guard(dashboard: DashboardConfig) -> Guard:
    """Return the guard that the settings ask for; raise where nobody could be let in."""
    wrong = mistakes(dashboard)
    if wrong:
        raise ConfigError("; ".join(f"dashboard.{one}" for one in wrong))
    token = _secret(dashboard, "dashboard.token")
    if token is not None and not token.reveal().strip():
        raise ConfigError("dashboard.token stands for an empty text. Put a long random one there")
    return Guard(token)


def _secret(dashboard: DashboardConfig, setting: str) -> Secret | None:
    if dashboard.token is None:
        return None
    return Secret.parse(setting, dashboard.token, allow_literal=dashboard.allow_literal_secrets)


def _host_name(header: str) -> str:
    """Return a Host header without its port.

    >>> _host_name("[::1]:8040"), _host_name("localhost:8040"), _host_name("")
    ('::1', 'localhost', '')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _is_foreign(caller: Caller) -> bool:
    """Claim: a page sent this, and none of ours. Programs send no Origin."""
    if caller.origin is None:
        return False
    try:
        return urlsplit(caller.origin).netloc.lower() != caller.host.lower()
    except ValueError:
        return True
