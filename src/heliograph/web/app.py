"""The application: the routing table as Starlette serves it, behind the guard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Endpoint
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.errors import HeliographError
from heliograph.web.desk import Desk
from heliograph.web.fields import read_json, read_query
from heliograph.web.guard import Caller, Guard
from heliograph.web.page import POLICY
from heliograph.web.problems import Problem, Refused, bad_input, of_error, problem
from heliograph.web.routes import ROUTES
from heliograph.web.routing import PREFIX, Answer, Ask, Route

_LOG = logging.getLogger("heliograph.web")
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_HEALTH = {prefix + route.path for route in ROUTES if route.is_health for prefix in (PREFIX, "")}


def make_app(desk: Desk, guard: Guard) -> Starlette:
    """Return the application. It watches the links for as long as it is served."""

    @asynccontextmanager
    async def watching(_: Starlette) -> AsyncIterator[None]:
        watch = asyncio.create_task(desk.watch())
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch

    return Starlette(
        routes=[
            Endpoint(prefix + route.path, _endpoint(route, desk, guard), methods=[route.method])
            for route in ROUTES
            for prefix in ((PREFIX, "") if route.is_short else (PREFIX,))
        ],
        middleware=[Middleware(_Guarded, guard=guard)],
        exception_handlers={HTTPException: _of_http},
        lifespan=watching,
    )


class _Guarded:
    """Turns away who may not ask, before anything else; gives every answer its headers."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        caller = _caller(scope)
        refused = self._guard.refuses(caller)
        if refused is None:
            await self._app(scope, receive, send_with_headers)
            return
        _LOG.warning("refused %s from %s: %s", caller.method, caller.peer, refused.code)
        await _told(refused)(scope, receive, send_with_headers)


def _caller(scope: Scope) -> Caller:
    headers, peer = Headers(scope=scope), scope.get("client")
    return Caller(
        scope["method"],
        peer[0] if peer else "",
        host=headers.get("host", ""),
        origin=headers.get("origin"),
        authorization=headers.get("authorization", ""),
        user=headers.get("x-heliograph-user", ""),
        is_health=scope["path"] in _HEALTH,
    )


def _endpoint(route: Route, desk: Desk, guard: Guard) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return _answered(await route.act(desk, await _read(route, request, guard)))
        except Refused as refused:
            return _told(refused.problem)
        except HeliographError as error:
            return _told(of_error(error))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as defect:
            _LOG.error(
                "internal: %s %s: %s: %s",
                route.method,
                route.path,
                type(defect).__name__,
                defect,
                exc_info=_LOG.isEnabledFor(logging.DEBUG),
            )
            return _told(problem("internal", "a defect of Heliograph; its log says more"))

    return endpoint


async def _read(route: Route, request: Request, guard: Guard) -> Ask:
    caller = _caller(request.scope)
    return Ask(
        guard.who(caller),
        guard.knows(caller),
        link=request.path_params.get("link", ""),
        query=read_query(route.query, request.query_params.multi_items()),
        body=await _body(route, request),
    )


async def _body(route: Route, request: Request) -> Any:
    if route.body is None:
        return None
    body = await _limited(request, route.most_bytes)
    if route.body != "yaml":
        return read_json(route.body, body)
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise bad_input("the body is not UTF-8 text") from None


async def _limited(request: Request, most_bytes: int) -> bytes:
    """Return a body; one that is too large is not even read, whatever its head says."""
    found = bytearray()
    said = request.headers.get("content-length", "0")
    if said.isdecimal() and int(said) <= most_bytes:
        async for chunk in request.stream():
            found += chunk
            if len(found) > most_bytes:
                break
        else:
            return bytes(found)
    raise Refused(problem("too-large", f"the body is larger than {most_bytes} bytes"))


def _answered(answer: Answer) -> Response:
    if answer.media_type == "application/json":
        return JSONResponse(answer.value, answer.status)
    return Response(answer.value, answer.status, media_type=answer.media_type)


def _told(what: Problem) -> Response:
    headers = {"connection": "close"} if what.status == 413 else {}
    headers |= {"www-authenticate": "Bearer"} if what.status == 401 else {}
    return JSONResponse(what.as_dict(), what.status, headers)


async def _of_http(_: Request, error: Exception) -> Response:
    """Tell what Starlette itself refused."""
    status = getattr(error, "status_code", 500)
    if status == 405:
        return _told(problem("method-not-allowed", "the endpoint is not for this method"))
    where = f"see {PREFIX}/docs"
    return _told(problem("not-found", "there is no such endpoint", where))
