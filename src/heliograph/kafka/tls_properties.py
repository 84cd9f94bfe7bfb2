"""The ``ssl.*`` properties: PEM files, PEM text, and Java's names for both."""

from pathlib import Path
from ssl import TLSVersion

from heliograph.kafka import pem
from heliograph.kafka.client_settings import Tls
from heliograph.kafka.pem import Holds
from heliograph.kafka.property_reader import PropertyReader
from heliograph.kafka.secret import Secret

_VERSIONS = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}
_CERTIFICATES = (
    "ssl.certificate.location",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
)
_AUTHORITIES = ("ssl.ca.location", "ssl.truststore.location", "ssl.truststore.certificates")
_KEYS = ("ssl.key.location", "ssl.keystore.key")


def read_tls(reader: PropertyReader, protocol: str | None, warnings: list[str]) -> Tls | None:
    """Return the TLS settings of a protocol that has TLS; note every contradiction."""
    given = reader.given("ssl.")
    if protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        if given:
            secure = "SSL" if protocol == "PLAINTEXT" else "SASL_SSL"
            reader.wrong(
                f"security.protocol is {protocol}, which does not encrypt, but {', '.join(given)} "
                f"{'is' if len(given) == 1 else 'are'} set. Set security.protocol to {secure}, or "
                "remove them"
            )
        return None
    ca_file, ca_pem = _authorities(reader)
    oldest, newest = _versions(reader)
    certificate_file, certificate_pem, key_file, key_pem, key_password = _identity(reader)
    _refuse_store_passwords(reader)
    return Tls(
        ca_file=ca_file,
        ca_pem=ca_pem,
        certificate_file=certificate_file,
        certificate_pem=certificate_pem,
        key_file=key_file,
        key_pem=key_pem,
        key_password=key_password,
        checks_host=_checks_host(reader, warnings),
        oldest=oldest,
        newest=newest,
    )


def _authorities(reader: PropertyReader) -> tuple[Path | None, str | None]:
    _at_most_one(reader, _AUTHORITIES)
    store = reader.choice("ssl.truststore.type", ("PEM", "JKS", "PKCS12"))
    file = _file(reader, "ssl.ca.location", Holds.AUTHORITIES)
    file = file or _file(reader, "ssl.truststore.location", Holds.AUTHORITIES, store)
    return file, _inline(reader, "ssl.truststore.certificates", Holds.AUTHORITIES)


def _identity(
    reader: PropertyReader,
) -> tuple[Path | None, str | None, Path | None, Secret | None, Secret | None]:
    """Return certificate file and text, key file and text, and the key's password."""
    _at_most_one(reader, _CERTIFICATES)
    _at_most_one(reader, _KEYS)
    store = reader.choice("ssl.keystore.type", ("PEM", "JKS", "PKCS12"))
    password = reader.secret("ssl.key.password")
    certificate = _file(reader, "ssl.certificate.location", Holds.CERTIFICATE)
    both = _file(reader, "ssl.keystore.location", Holds.CERTIFICATE_AND_KEY, store)
    key = _file(reader, "ssl.key.location", Holds.KEY)
    chain = _inline(reader, "ssl.keystore.certificate.chain", Holds.CERTIFICATE)
    inline_key = reader.secret("ssl.keystore.key")
    _pair(reader)
    _need_password(reader, both or key)
    return certificate or both, chain, key or both, inline_key, password


def _pair(reader: PropertyReader) -> None:
    """A key needs its certificate, a certificate its key, and both in the same way."""
    for certificate, key in (
        ("ssl.certificate.location", "ssl.key.location"),
        ("ssl.keystore.certificate.chain", "ssl.keystore.key"),
    ):
        if reader.has(key) and not reader.has(certificate):
            reader.wrong(f"{key} is set without {certificate}: a key is nothing without it")
        if reader.has(certificate) and not reader.has(key):
            reader.wrong(f"{certificate} is set without {key}: a certificate proves nothing alone")
    if reader.has("ssl.key.password") and not reader.given(*_CERTIFICATES, *_KEYS):
        reader.wrong("ssl.key.password is set, but no key is")


def _need_password(reader: PropertyReader, key_file: Path | None) -> None:
    if key_file is None or reader.has("ssl.key.password"):
        return
    if pem.is_encrypted(key_file.read_text("ascii", "replace")):
        reader.wrong(f"ssl.key.password is missing: the private key in {key_file} is encrypted")


def _file(
    reader: PropertyReader, key: str, holds: Holds, store_type: str | None = None
) -> Path | None:
    name = reader.filled(key)
    if name is None or reader.text_only:
        return None
    path = Path(name).expanduser().absolute()
    text = reader.attempt(lambda: pem.read_file(key, path, holds, store_type))
    return None if text is None else path


def _inline(reader: PropertyReader, key: str, holds: Holds) -> str | None:
    text = reader.filled(key)
    return None if text is None else reader.attempt(lambda: pem.check_text(key, text, holds))


def _at_most_one(reader: PropertyReader, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if reader.has(key)]
    if len(given) > 1:
        reader.wrong(f"{' and '.join(given)} say the same thing. Keep one")


def _refuse_store_passwords(reader: PropertyReader) -> None:
    """PEM has no store password. Beside a JKS store, that store is the one mistake to report."""
    for store in ("ssl.truststore", "ssl.keystore"):
        is_pem = not any(mistake.startswith(f"{store}.location") for mistake in reader.mistakes)
        if reader.has(f"{store}.password") and is_pem:
            hint = ". The key's own is ssl.key.password" if store == "ssl.keystore" else ""
            reader.wrong(f"{store}.password must not be set: a PEM file has none{hint}")


def _checks_host(reader: PropertyReader, warnings: list[str]) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    value = reader.text(key)
    if value is not None and value.strip().lower() not in ("", "https"):
        reader.wrong(f'{key}: {value!r} is not supported. Use https, or "" to accept any host name')
    if value is not None and not value.strip():
        warnings.append(
            f"{key} is empty: whoever holds any certificate of a trusted authority can pose as a "
            "broker. Give the brokers certificates with their host names and set it to https"
        )
        return False
    return True


def _versions(reader: PropertyReader) -> tuple[TLSVersion, TLSVersion]:
    """Return the oldest and the newest version; 1.1 and older are never spoken."""
    chosen: list[TLSVersion] = []
    for name in reader.listing("ssl.enabled.protocols") or ():
        if name in _VERSIONS:
            chosen.append(_VERSIONS[name])
        else:
            reader.wrong(f"ssl.enabled.protocols: {name!r} is not TLSv1.2 or TLSv1.3")
    chosen = chosen or list(_VERSIONS.values())
    limit = _VERSIONS.get(reader.choice("ssl.protocol", ("TLSv1.3", "TLSv1.2", "TLS")) or "TLS")
    oldest, newest = min(chosen), max(chosen)
    if limit is not None and limit < oldest:
        reader.wrong("ssl.protocol allows only TLSv1.2, ssl.enabled.protocols only TLSv1.3")
        return oldest, newest
    return oldest, min(newest, limit) if limit is not None else newest
