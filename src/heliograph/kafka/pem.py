"""PEM text: what Heliograph takes for certificates and keys.

Java's own stores (JKS, PKCS12) are refused with the command that converts them.
"""

from enum import Enum
from pathlib import Path, PurePath

from heliograph.errors import ConfigError
from heliograph.kafka.secret import read_private

_JKS_MAGICS = (bytes.fromhex("FEEDFEED"), bytes.fromhex("CECECECE"))
_DER_SEQUENCE = b"\x30"
_SUFFIXES = {
    ".jks": "JKS",
    ".jceks": "JKS",
    ".p12": "PKCS12",
    ".pfx": "PKCS12",
    ".pkcs12": "PKCS12",
}


class Holds(Enum):
    """What a PEM file must hold."""

    AUTHORITIES = "a certificate"
    CERTIFICATE = "the client's certificate"
    KEY = "the private key"
    CERTIFICATE_AND_KEY = "the client's certificate and its private key"

    @property
    def has_key(self) -> bool:
        """Tell whether others must not read such a file."""
        return self in (Holds.KEY, Holds.CERTIFICATE_AND_KEY)


def read_file(setting: str, path: Path, holds: Holds, store_type: str | None = None) -> str:
    """Return the PEM text of a file, or raise what is wrong with it."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise ConfigError(f"{setting}: {path} cannot be read ({error.strerror})") from error
    store = store_type or _store_of(path, start)
    if store != "PEM":
        raise ConfigError(
            f"{setting}: {path} is {store}; Heliograph reads PEM. {conversion(path, store, holds)}"
        )
    text = read_private(setting, path) if holds.has_key else path.read_text("ascii", "replace")
    return check_text(f"{setting}: {path}", text, holds)


def check_text(where: str, text: str, holds: Holds) -> str:
    """Return ``text`` when it is PEM and holds what it should."""
    certificate = "-----BEGIN CERTIFICATE-----" in text or "-----BEGIN TRUSTED CERT" in text
    key = "PRIVATE KEY-----" in text
    wanted = (key or not holds.has_key) and (certificate or holds is Holds.KEY)
    if not wanted:
        raise ConfigError(f"{where} does not hold {holds.value} in PEM form (-----BEGIN …-----)")
    return text


def is_encrypted(text: str) -> bool:
    """Tell whether a private key can be read only with a password."""
    return "BEGIN ENCRYPTED PRIVATE KEY" in text or "Proc-Type: 4,ENCRYPTED" in text


def store_by_name(path: PurePath) -> str:
    """Return what kind of store a Java client takes a file for, if nothing else says it.

    >>> store_by_name(PurePath("client.p12")), store_by_name(PurePath("ca.pem"))
    ('PKCS12', 'PEM')
    """
    suffix = path.suffix.lower()
    return "PEM" if suffix in (".pem", ".crt") else _SUFFIXES.get(suffix, "JKS")


def _store_of(path: Path, start: bytes) -> str:
    if start in _JKS_MAGICS:
        return "JKS"
    if start[:1] == _DER_SEQUENCE:
        # A bare DER certificate begins the same way, but is not what .p12 files hold.
        return "DER" if path.suffix.lower() in (".der", ".cer", ".crt") else "PKCS12"
    # Only the name tells: an empty or unreadable store is still a store.
    return "PEM" if start.startswith(b"--") else _SUFFIXES.get(path.suffix.lower(), "PEM")


def conversion(path: PurePath, store: str, holds: Holds) -> str:
    """Return the command that turns a store into PEM, as a sentence."""
    pem = path.with_suffix(".pem")
    if store == "DER":
        return f"Convert it: openssl x509 -inform DER -in {path} -out {pem}"
    if not holds.has_key:
        return f"Convert it: keytool -list -rfc -keystore {path} > {pem}"
    export = "(umask 077; openssl pkcs12 -in {} -nodes -out {})"
    if store == "PKCS12":
        return f"Convert it: {export.format(path, pem)}"
    p12 = path.with_suffix(".p12")
    return (
        f"Convert it: keytool -importkeystore -srckeystore {path} -destkeystore {p12} "
        f"-deststoretype PKCS12 && {export.format(p12, pem)}"
    )
