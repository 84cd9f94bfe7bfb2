"""The routing table: every endpoint once.

The server, the OpenAPI document, the page for people and the reference are made from it. A command
that changes what is wanted of a link is an entry more.
"""

from __future__ import annotations

from typing import Any

from heliograph.config.document import Finding
from heliograph.model.group_reports import GroupStatus
from heliograph.model.status import LinkStatus, TopicStatus
from heliograph.model.watching import Standing
from heliograph.web import acts
from heliograph.web.desk import Desk, Verb
from heliograph.web.fields import Field
from heliograph.web.openapi import document
from heliograph.web.page import page
from heliograph.web.routing import HTML, Answer, Ask, Route


async def _openapi(_: Desk, __: Ask) -> Answer:
    return Answer(document(ROUTES))


async def _docs(_: Desk, __: Ask) -> Answer:
    return Answer(page(ROUTES), media_type=HTML)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_TOPICS = Field(
    "topics",
    "pattern",
    "Only these topics of the source: a name, or a regular expression for whole names.",
)
_WHICH = Field(
    "topics",
    "pattern",
    "Topics of the source: a name, or a regular expression for whole names.",
    is_required=True,
)
_START = Field("start", "start", "Where they begin: earliest, latest or a time; else by the file.")
_LIMIT = Field(
    "bytes_per_second",
    "limit",
    "A size such as 20MB, off for no limit, or file for what the configuration says.",
    is_required=True,
)
_HOW = (
    Field("dry_run", "boolean", "Say what would change, and change nothing.", False),
    Field("wait", "boolean", "Answer when it has taken effect, within ten seconds.", True),
)
_STEERED = _object(
    link=str, wanted=str, paused=list[str], changed=list[str], effect=str, matched=list[str]
)
_STEP = _object(link=str, action=str, topic=str, detail=str)
_STEPS = {"type": "array", "items": _STEP}
_REASONS = {"type": "array", "items": _object(link=str, reason=str)}
_NOT_YET = {202: "Asked; its driver has not followed yet. See its status."}
_NOT_READY = {
    503: "A driver or a source is silent, a partition is faulted, a link cannot be started, or a"
    " target does not answer."
}


def _change(path: str, verb: Verb, words: str, *fields: Field) -> Route:
    """Return the endpoint of a command that changes what is wanted of a link."""
    act, body = acts.change(verb), (*fields, *_HOW)
    return Route("POST", path, act, words, _STEERED, body=body, statuses=_NOT_YET)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/links", acts.links, "The status of every link.", list[LinkStatus]),
    Route("GET", "/links/{link}", acts.link, "The status of a link.", LinkStatus),
    Route(
        "GET",
        "/links/{link}/topics",
        acts.topics,
        "The topics of a link and their partitions.",
        list[TopicStatus],
    ),
    Route(
        "GET",
        "/links/{link}/groups",
        acts.groups,
        "The consumer groups of a link, and their lag on both sides.",
        list[GroupStatus],
    ),
    Route(
        "GET",
        "/links/{link}/plan",
        acts.plan,
        "What `heliograph run` would create and alter on the target. Changes nothing.",
        _object(link=str, steps=_STEPS, errors=list[str], notes=list[str]),
    ),
    Route(
        "GET",
        "/links/{link}/noprogress",
        acts.noprogress,
        "Partitions that have lag and do not move; what is paused is left out. Tells what this"
        " server has seen itself: nothing can stand for longer than `watched_seconds`.",
        _object(
            link=str,
            seconds=float,
            watched_seconds=float,
            errors=list[str],
            partitions=list[Standing],
        ),
        query=(Field("seconds", "seconds", "For how long, at least.", 60.0),),
    ),
    _change(
        "/links/{link}/pause",
        "pause",
        "Stop copying a link, or some of its topics, until it is resumed.",
        _TOPICS,
    ),
    _change(
        "/links/{link}/resume",
        "resume",
        "Go on with what was paused; with topics, only with what was paused by the same text.",
        _TOPICS,
    ),
    _change(
        "/links/{link}/stop", "stop", "End the run of a link, wherever it runs, in good order."
    ),
    _change(
        "/links/{link}/topics/add",
        "add",
        "Copy more topics than the file says; also such as were removed before.",
        _WHICH,
        _START,
    ),
    _change(
        "/links/{link}/topics/remove",
        "remove",
        "Copy topics no more, whatever the file says. Their mirrors stay.",
        _WHICH,
    ),
    _change(
        "/links/{link}/limits",
        "limit",
        "Change how many bytes a link may copy in a second.",
        _LIMIT,
    ),
    Route(
        "POST",
        "/validate",
        acts.validate,
        "The mistakes in a heliograph.yaml, which is the body. Nothing is written, nothing is"
        " connected to, and no file or variable that it names is looked at.",
        _object(valid=bool, findings=list[Finding]),
        body="yaml",
    ),
    Route(
        "GET",
        "/health",
        acts.live,
        "Whether the server is alive: the same as /health/live.",
        _object(live=bool),
        is_health=True,
        is_short=True,
    ),
    Route(
        "GET",
        "/health/live",
        acts.live,
        "Whether the server is alive, whatever its clusters do.",
        _object(live=bool),
        is_health=True,
        is_short=True,
    ),
    Route(
        "GET",
        "/health/ready",
        acts.ready,
        "Whether every link does its work, as it was read last, some seconds ago. Whoever bears"
        " no token where one is needed is told no reasons.",
        _object(ready=bool, reasons=_REASONS),
        statuses=_NOT_READY,
        is_health=True,
        is_short=True,
    ),
    Route("GET", "/openapi.json", _openapi, "This API, as OpenAPI 3.1.", {}, is_short=True),
    Route("GET", "/docs", _docs, "This API, as a page for people.", HTML, is_short=True),
)
