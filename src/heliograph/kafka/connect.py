"""Set-up of a connection: TCP, TLS, versions, login. Ends with a channel or one clear error.

Blocking, and meant to run in a thread of its own where other connections must not wait.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from heliograph import __version__
from heliograph.errors import (
    ClusterError,
    DeadlinePassed,
    HeliographError,
    LoginRefused,
    ProtocolBroken,
    Unreachable,
)
from heliograph.kafka import clock, tls
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for
from heliograph.kafka.messages import decode, encode, version_for
from heliograph.kafka.oauth import TokenProvider
from heliograph.kafka.properties import ClientSettings, Endpoint
from heliograph.kafka.secret import redact
from heliograph.kafka.transport import Channel, Loop, Reply
from heliograph.model.expiry import REQUEST_LIFE

_UNSUPPORTED_VERSION = 35
_UNSUPPORTED_MECHANISM = 33


def connect(
    settings: ClientSettings, cluster: str, endpoint: Endpoint, deadline: Deadline
) -> Channel:
    """Return a channel that is logged in and knows the broker's versions."""
    deadline = deadline.within(settings.connect_timeout)
    sock = _open(settings, cluster, endpoint, deadline)
    channel = Channel(
        sock, cluster=cluster, address=str(endpoint), client_id=settings.client_id, versions={}
    )
    try:
        loop = Loop()
    except OSError as failure:  # no descriptors left
        channel.close()
        message = f"cannot connect to {endpoint}: {_reason(failure)}"
        raise Unreachable(message, cluster=cluster) from failure
    try:
        loop.add(channel)
        _ask_versions(channel, loop, deadline)
        if settings.uses_sasl:
            _log_in(settings, channel, endpoint, loop, deadline)
        loop.remove(channel)
    except HeliographError as failure:
        channel.close(failure)
        explained = _explained(failure, settings, endpoint)
        if explained is failure:
            raise
        raise explained from failure
    finally:
        loop.close()
    return channel


def _explained(
    failure: HeliographError, settings: ClientSettings, endpoint: Endpoint
) -> HeliographError:
    """Say what a failed set-up means; a broker that is silent now may answer later."""
    if isinstance(failure, DeadlinePassed):
        message = f"{endpoint} accepted the connection but did not answer in time"
        return Unreachable(message, cluster=failure.cluster)
    broken = failure.__cause__
    if isinstance(failure, Unreachable) and isinstance(broken, OSError) and settings.uses_tls:
        # With TLS 1.3 a broker looks at our certificate only after our side of the handshake.
        return tls.explain(broken, failure.cluster, endpoint)
    return failure


def connect_any(settings: ClientSettings, cluster: str, deadline: Deadline) -> Channel:
    """Connect to the first bootstrap server that answers.

    A refused login or certificate ends the search at once: the other servers would refuse too,
    and a wrong password must not lock an account by being tried everywhere.
    """
    problems: list[str] = []
    servers = random.sample(settings.bootstrap, len(settings.bootstrap))
    for tried, endpoint in enumerate(servers):
        share = timedelta(seconds=deadline.left_s / (len(servers) - tried))
        try:
            return connect(settings, cluster, endpoint, deadline.within(share))
        except ClusterError as problem:
            if not (problem.retriable or isinstance(problem, DeadlinePassed)):
                raise
            problems.append(problem.message)
    raise Unreachable(
        f"none of its bootstrap servers could be used: {'; '.join(problems)}."
        " Check bootstrap.servers, the network and that the brokers run",
        cluster=cluster,
    )


def dial(
    settings: ClientSettings, cluster: str, endpoint: Endpoint | None, deadline: Deadline
) -> Channel:
    """Connect to one broker, or without an endpoint to any bootstrap server."""
    if endpoint is None:
        return connect_any(settings, cluster, deadline)
    return connect(settings, cluster, endpoint, deadline)


def probe(settings: ClientSettings, cluster: str, deadline: Deadline) -> None:
    """Connect once and hang up: raises what stands in the way of every other connection."""
    connect_any(settings, cluster, deadline).close()


def ask(
    channel: Channel,
    loop: Loop,
    request: Any,
    response: type[Any],
    version: int,
    deadline: Deadline,
) -> Any:
    """Send one request, wait for its reply, and return it decoded."""
    replies: list[Reply] = []
    channel.send(encode(request, version), replies.append, deadline)
    what = f"{request.name} to {channel.address}"
    loop.wait(lambda: bool(replies), deadline, what, channel.cluster)
    if isinstance(replies[0], HeliographError):
        raise replies[0]
    try:
        return decode(response, version, replies[0], channel)
    except ProtocolBroken as nonsense:
        channel.close(nonsense)
        raise


def _open(
    settings: ClientSettings, cluster: str, endpoint: Endpoint, deadline: Deadline
) -> socket.socket:
    try:
        sock = socket.create_connection((endpoint.host, endpoint.port), max(deadline.left_s, 0.001))
    except (OSError, UnicodeError) as failure:  # the latter for a name that cannot be one
        reason = "no answer" if isinstance(failure, TimeoutError) else _reason(failure)
        raise Unreachable(f"cannot connect to {endpoint}: {reason}", cluster=cluster) from failure
    try:
        _tune(sock, settings)
        if settings.uses_tls:
            sock = _wrap(sock, settings, cluster, endpoint, deadline)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _reason(failure: Exception) -> str:
    return getattr(failure, "strerror", None) or str(failure)


def _tune(sock: socket.socket, settings: ClientSettings) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # A dead peer is noticed by the kernel within this time, also while bytes wait to be sent:
        # it bounds the life of a request in our own send buffer.
        timeout_ms = int(REQUEST_LIFE.total_seconds() * 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
    # Without these the kernel sizes the buffers itself, which suits long round trips best.
    if settings.receive_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
    if settings.send_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)


def _wrap(
    sock: socket.socket,
    settings: ClientSettings,
    cluster: str,
    endpoint: Endpoint,
    deadline: Deadline,
) -> socket.socket:
    sock.settimeout(max(deadline.left_s, 0.001))
    try:
        return tls.context(settings).wrap_socket(sock, server_hostname=endpoint.host)
    except OSError as failure:
        raise tls.explain(failure, cluster, endpoint) from failure


def _ask_versions(channel: Channel, loop: Loop, deadline: Deadline) -> None:
    for version in (3, 0):
        request = ApiVersionsRequest(
            client_software_name="heliograph", client_software_version=__version__
        )
        answer = ask(channel, loop, request, ApiVersionsResponse, version, deadline)
        if answer.error_code != _UNSUPPORTED_VERSION:
            break
    if answer.error_code:
        raise error_for(answer.error_code, cluster=channel.cluster, doing="asking for versions")
    channel.versions = {
        api.api_key: (int(api.min_version), int(api.max_version)) for api in answer.api_keys
    }


def _log_in(
    settings: ClientSettings, channel: Channel, endpoint: Endpoint, loop: Loop, deadline: Deadline
) -> None:
    def exchange(request: Any, response: type[Any], most: int) -> Any:
        version = version_for(channel, type(request), most=most, least=most and 1)
        return ask(channel, loop, request, response, version, deadline)

    _agree_on_mechanism(settings, channel, exchange)
    try:
        answer = _exchange_tokens(settings, endpoint, exchange)
    except (ValueError, KeyError) as nonsense:
        # A SCRAM server that cannot prove that it knows the password, or no SCRAM server at all.
        raise _refused(settings, channel, f"the exchange failed: {nonsense}") from nonsense
    if answer.error_code:
        raise _refused(settings, channel, answer.error_message or "no reason given")
    lifetime_s = (answer.session_lifetime_ms or 0) / 1000
    if lifetime_s > 0:
        channel.retire_at(clock.now_s() + lifetime_s * random.uniform(0.85, 0.95))


def _agree_on_mechanism(
    settings: ClientSettings, channel: Channel, exchange: Callable[..., Any]
) -> None:
    mechanism = settings.sasl_mechanism
    answer = exchange(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, 1)
    if answer.error_code == _UNSUPPORTED_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginRefused(
            f"{channel.address} does not offer sasl.mechanism {mechanism}; it offers {offered}",
            cluster=channel.cluster,
        )
    if answer.error_code:
        raise error_for(answer.error_code, cluster=channel.cluster, doing="agreeing on a login")


def _exchange_tokens(
    settings: ClientSettings, endpoint: Endpoint, exchange: Callable[..., Any]
) -> Any:
    """Run the mechanism to its end, or to the first answer that carries an error."""
    mechanism = get_sasl_mechanism(settings.sasl_mechanism)(
        host=endpoint.host,
        sasl_mechanism=settings.sasl_mechanism,
        sasl_plain_username=settings.sasl_username or "",
        sasl_plain_password=settings.sasl_password.reveal() if settings.sasl_password else "",
        sasl_oauth_token_provider=TokenProvider(settings),
    )
    answer: Any = None
    while not mechanism.is_done():
        request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
        answer = exchange(request, SaslAuthenticateResponse, 2)
        if answer.error_code:
            break
        mechanism.receive(answer.auth_bytes)
    return answer


def _refused(settings: ClientSettings, channel: Channel, reason: str) -> LoginRefused:
    who = f" as {settings.sasl_username}" if settings.sasl_username else ""
    return LoginRefused(
        f"{channel.address} refused the login{who} by {settings.sasl_mechanism}:"
        f" {redact(reason, settings.secrets)}. Check the user and its secret",
        cluster=channel.cluster,
    )
