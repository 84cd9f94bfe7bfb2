"""Acts: what each endpoint does with the desk."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from heliograph.errors import HeliographError
from heliograph.model.watching import unready
from heliograph.web.desk import Desk, Verb
from heliograph.web.routing import Act, Answer, Ask

_LOG = logging.getLogger("heliograph.web")
_READY_WITHIN_S = 2.0
_AT_ONCE = ("done", "noted", "dry_run")
_HOW = ("dry_run", "wait")


async def links(desk: Desk, _: Ask) -> Answer:
    """Tell the status of every link."""
    return Answer([one.as_dict() for one in await desk.statuses()])


async def link(desk: Desk, ask: Ask) -> Answer:
    """Tell the status of a link."""
    return Answer((await desk.status(ask.link)).as_dict())


async def topics(desk: Desk, ask: Ask) -> Answer:
    """Tell the topics of a link."""
    return Answer((await desk.status(ask.link)).as_dict()["topics"])


async def groups(desk: Desk, ask: Ask) -> Answer:
    """Tell the consumer groups of a link."""
    return Answer((await desk.status(ask.link)).as_dict()["groups"])


async def plan(desk: Desk, ask: Ask) -> Answer:
    """Tell what ``run`` would change."""
    return Answer(await desk.in_thread(partial(desk.operations.plan, ask.link)))


async def noprogress(desk: Desk, ask: Ask) -> Answer:
    """Tell which partitions stand still."""
    status = await desk.status(ask.link)
    least_s = ask.query["seconds"]
    watched_s, standing = desk.operations.standing(status, timedelta(seconds=least_s))
    told = {
        "link": ask.link,
        "seconds": least_s,
        "watched_seconds": watched_s,
        "errors": list(status.errors),
        "partitions": [asdict(one) for one in standing],
    }
    return Answer(told)


async def live(_: Desk, __: Ask) -> Answer:
    """Tell that the server is alive."""
    return Answer({"live": True})


async def ready(desk: Desk, ask: Ask) -> Answer:
    """Tell whether every link does its work."""
    known, unknown = await desk.last_statuses(_READY_WITHIN_S)
    reasons = unready(known)
    reasons += [{"link": name, "reason": "its target has not answered yet"} for name in unknown]
    # Reasons name machines and topics: not for whoever bears no token.
    told = {"reasons": reasons} if ask.is_known else {}
    return Answer({"ready": not reasons} | told, 503 if reasons else 200)


async def validate(desk: Desk, ask: Ask) -> Answer:
    """Tell the mistakes in a configuration."""
    findings = await desk.in_thread(partial(desk.validate, ask.body))
    return Answer({"valid": not findings, "findings": [asdict(one) for one in findings]})


def change(verb: Verb) -> Act:
    """Make the act of a command that changes what is wanted of a link; each is logged, with who."""

    async def act(desk: Desk, ask: Ask) -> Answer:
        how = {name: ask.body[name] for name in _HOW}
        words = {name: value for name, value in ask.body.items() if name not in how}
        shown = {name: value and str(value) for name, value in words.items()}
        told = {"who": ask.who, "link": ask.link, "verb": verb, **shown, **how}
        steer = partial(desk.operations.steer, ask.link, verb, words, ask.who)
        try:
            found = await desk.in_thread(partial(steer, **how))
        except HeliographError as error:
            _note({**told, "error": error.code})
            raise
        _note({**told, "changed": found["changed"], "effect": found["effect"]})
        return Answer(found, 200 if found["effect"] in _AT_ONCE else 202)

    return act


def _note(told: Mapping[str, Any]) -> None:
    """Log a change as one line that programs can read; nothing a caller wrote can break it."""
    _LOG.info("change %s", json.dumps(told))
