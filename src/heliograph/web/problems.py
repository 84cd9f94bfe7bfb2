"""Problems: why a request was not answered, as a status of HTTP and a stable code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heliograph.errors import (
    ClusterError,
    ConfigError,
    DeadlinePassed,
    HeliographError,
    LinkError,
    NoSuchLink,
    NotReady,
    ProtocolBroken,
    Unreachable,
)

PROBLEMS = {
    "unauthorized": (401, "The token is missing or wrong."),
    "foreign-host": (403, "The Host header is no name of loopback, and there is no token."),
    "foreign-origin": (403, "A page of another site sent the request."),
    "not-found": (404, "There is no such endpoint."),
    "method-not-allowed": (405, "The endpoint is there, but not for this method."),
    "too-large": (413, "The body is larger than the endpoint takes."),
    "bad-input": (422, "The body or the query is not what the endpoint takes."),
    "busy": (503, "Too many requests wait for clusters that are slow or away."),
    "internal": (500, "A defect of Heliograph; its log says more."),
}
"""What is of HTTP alone: status and meaning, by code. All other codes are those of errors."""

# The first that fits counts.
STATUSES: tuple[tuple[type[HeliographError], int], ...] = (
    (NoSuchLink, 404),
    (Unreachable, 503),
    (DeadlinePassed, 503),
    (NotReady, 503),
    (ProtocolBroken, 503),
    (ClusterError, 502),
    (LinkError, 409),
    (ConfigError, 500),
    (HeliographError, 500),
)
_CHECK = "`heliograph check` finds out what is wrong with a cluster"
_LINKS = "GET /api/v1/links names the links"


@dataclass(frozen=True, slots=True)
class Problem:
    """What a caller is told instead of an answer. Never holds a secret or a traceback."""

    status: int
    code: str
    message: str
    remedy: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        told = {"code": self.code, "message": self.message}
        return {"error": told | ({"remedy": self.remedy} if self.remedy else {})}


class Refused(Exception):
    """Raised where a request cannot be answered. Stays within this package."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem


def problem(code: str, message: str, remedy: str | None = None) -> Problem:
    """Return a problem of HTTP's own."""
    return Problem(PROBLEMS[code][0], code, message, remedy)


def bad_input(message: str, remedy: str | None = None) -> Refused:
    """Return the refusal of what a caller sent."""
    return Refused(problem("bad-input", message, remedy))


def of_error(error: HeliographError) -> Problem:
    """Return what a caller is told of an error."""
    status = next(status for kind, status in STATUSES if isinstance(error, kind))
    if isinstance(error, ClusterError):
        return Problem(status, error.code, f"cluster {error.cluster}: {error.message}", _CHECK)
    return Problem(status, error.code, error.message, _LINKS if status == 404 else None)
