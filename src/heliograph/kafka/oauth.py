"""Tokens for OAUTHBEARER: from a file, or by the client credentials grant.

A token is asked for once and kept, in this process only, until shortly before it expires.
"""

import base64
import binascii
import json
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

from kafka.net.sasl.oauth import AbstractTokenProvider

from heliograph.errors import ConfigError, HeliographError, LoginRefused, Unreachable
from heliograph.kafka.client_settings import ClientSettings, Login
from heliograph.kafka.secret import read_private, redact

URL_SETTING = "sasl.oauthbearer.token.endpoint.url"

_TIMEOUT = timedelta(seconds=10)
# A token must outlive the login it is used for, and clocks differ.
_MARGIN_S = 30.0
_LARGEST_ANSWER_BYTES = 1 << 20
_REASONS_KEPT_CHARS = 200


@dataclass(frozen=True, slots=True)
class _Kept:
    token: str
    until_s: float  # wall clock, as ``exp`` is


_kept: dict[Login, _Kept] = {}
_lock = threading.Lock()


def token(settings: ClientSettings, timeout: timedelta = _TIMEOUT) -> str:
    """Return a token that is valid for a while; may wait for the endpoint up to ``timeout``.

    Never put the answer in a message.
    """
    login = settings.login
    assert login and login.token_url, "only asked for with OAUTHBEARER"
    url = urlsplit(login.token_url)
    if url.scheme == "file":
        # Read every time: whoever writes the file renews it there.
        return _plausible(settings, read_private(URL_SETTING, Path(unquote(url.path))).strip())
    with _lock:
        kept = _kept.get(login)
        if kept is None or kept.until_s - _MARGIN_S < time.time():
            kept = _kept[login] = _grant(settings, login, timeout)
    return kept.token


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Hands tokens to kafka-python, which asks at every login."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__()
        self._settings = settings

    def token(self) -> str:
        """Return a valid token."""
        return token(self._settings)


def expiry_s(jwt: str) -> float | None:
    """Return the ``exp`` of a token, or None when it is no JWT or does not say.

    >>> body = base64.urlsafe_b64encode(b'{"exp": 1700000000}').decode().rstrip("=")
    >>> expiry_s(f"head.{body}.signature"), expiry_s("opaque")
    (1700000000.0, None)
    """
    parts = jwt.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return None
    exp = claims.get("exp") if isinstance(claims, dict) else None
    return float(exp) if isinstance(exp, int | float) else None


def _grant(settings: ClientSettings, login: Login, timeout: timedelta) -> _Kept:
    asked_s = time.time()
    answer = _ask(settings, login, timeout)
    text = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise LoginRefused(
            f"{login.token_url} answered without an access_token. Check {URL_SETTING}",
            cluster=settings.cluster,
        )
    lifetime = answer.get("expires_in")
    until = expiry_s(text)
    if until is None:
        until = asked_s + (float(lifetime) if isinstance(lifetime, int | float) else 0.0)
    return _Kept(_plausible(settings, text), until)


def _ask(settings: ClientSettings, login: Login, timeout: timedelta) -> dict[str, object]:
    assert login.token_url and login.client_id and login.client_secret
    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    who = f"{login.client_id}:{login.client_secret.reveal()}".encode()
    request = urllib.request.Request(
        login.token_url,
        data=urlencode(form).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(who).decode()}",
        },
    )
    try:
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=timeout.total_seconds()) as answer:
            found: object = json.loads(answer.read(_LARGEST_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        raise _refusal(settings, login, error) from None
    except OSError as error:
        reason = redact(str(getattr(error, "reason", error)), settings.secrets)
        raise Unreachable(
            f"no token: {login.token_url} cannot be reached ({reason})", cluster=settings.cluster
        ) from None
    except ValueError:
        raise LoginRefused(
            f"no token: {login.token_url} did not answer with JSON. Check {URL_SETTING}",
            cluster=settings.cluster,
        ) from None
    return found if isinstance(found, dict) else {}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the client's secret to a place nobody configured."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _refusal(
    settings: ClientSettings, login: Login, error: urllib.error.HTTPError
) -> HeliographError:
    with error:
        said = redact(error.read(_REASONS_KEPT_CHARS).decode(errors="replace"), settings.secrets)
    if error.code >= 500:
        return Unreachable(
            f"no token: {login.token_url} answered {error.code} ({said})", cluster=settings.cluster
        )
    return LoginRefused(
        f"no token: {login.token_url} answered {error.code} ({said}). Check the client's id, its "
        "secret and the scope",
        cluster=settings.cluster,
    )


def _plausible(settings: ClientSettings, text: str) -> str:
    """A token goes into a line of the login; anything else would corrupt it."""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(
            f"cluster {settings.cluster}: what {URL_SETTING} gave is not one line of token"
        )
    return text
