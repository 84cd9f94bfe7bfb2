"""What proves who is who on a secured local cluster: files, and the properties that name them."""

import base64
import json
import os
import secrets
import time
from datetime import timedelta
from pathlib import Path

from heliograph.local.layout import Folder
from heliograph.local.spec import Spec, User

DEFAULT_USER = "heliograph"
_TOKEN_LIFE = timedelta(days=30)


def prepare(spec: Spec, folder: Folder) -> tuple[User, ...]:
    """Write passwords, tokens and certificates; return the users of the cluster.

    A kept folder keeps its passwords. All files are readable by their owner only.
    """
    if not spec.is_secured:
        return ()
    folder.secrets.mkdir(mode=0o700, exist_ok=True)
    users = spec.users or (User(DEFAULT_USER, _kept_password(folder) or secrets.token_urlsafe(18)),)
    for user in users:
        write_private(_password(folder, user.name), user.password.encode())
        if spec.sasl == "OAUTHBEARER":
            write_private(_token(folder, user.name), unsigned_token(user.name).encode())
    if spec.has_tls:
        _certify(spec, folder, users)
    return users


def client_properties(spec: Spec, folder: Folder, user: str, *, reveal: bool) -> dict[str, str]:
    """Return what a client needs to connect as the user, under Java's names for it.

    Unless ``reveal`` is set, a password is given as ``${file:…}``, as a configuration has it.
    """
    properties = {"security.protocol": spec.security_protocol}
    if spec.has_tls:
        properties["ssl.ca.location"] = str(folder.authority)
    if spec.mtls:
        properties["ssl.certificate.location"] = str(_user_file(folder, user, "pem"))
        properties["ssl.key.location"] = str(_user_file(folder, user, "key"))
    if spec.sasl:
        properties["sasl.mechanism"] = spec.sasl
    if spec.sasl == "OAUTHBEARER":
        properties["sasl.oauthbearer.token.endpoint.url"] = _token(folder, user).as_uri()
    elif spec.sasl:
        file = _password(folder, user)
        properties["sasl.username"] = user
        properties["sasl.password"] = file.read_text() if reveal else f"${{file:{file}}}"
    return properties


def unsigned_token(user: str) -> str:
    """Return a bearer token without a signature, as the broker's test validator takes it."""
    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + int(_TOKEN_LIFE.total_seconds())}
    return f"{_segment({'alg': 'none'})}.{_segment(claims)}."


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _certify(spec: Spec, folder: Folder, users: tuple[User, ...]) -> None:
    # Here, not above: it takes longer to import than all the rest, and few clusters need it.
    from heliograph.local.certs import Authority

    authority = Authority(spec.name)
    write_private(folder.authority, authority.certificate)
    for node in range(1, spec.nodes + 1):
        pair = authority.server(f"node-{node}", spec.certificate)
        write_private(folder.keystore(node), pair.key + pair.certificate)
    for user in users if spec.mtls else ():
        pair = authority.client(user.name)
        write_private(_user_file(folder, user.name, "key"), pair.key)
        write_private(_user_file(folder, user.name, "pem"), pair.certificate)


def _kept_password(folder: Folder) -> str | None:
    kept = _password(folder, DEFAULT_USER)
    return kept.read_text() if kept.exists() else None


def _password(folder: Folder, user: str) -> Path:
    return _user_file(folder, user, "password")


def _token(folder: Folder, user: str) -> Path:
    return _user_file(folder, user, "token")


def _user_file(folder: Folder, user: str, kind: str) -> Path:
    return folder.secrets / f"user-{user}.{kind}"


def _segment(claims: dict[str, object]) -> str:
    packed = json.dumps(claims, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")
