"""Java client properties in, settings out.

The names are those of Kafka's own clients, so that a ``client.properties`` can be pasted into a
cluster's section. Whatever is wrong with a cluster is reported at once, in one error.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from urllib.parse import urlsplit

from heliograph.errors import ConfigError
from heliograph.kafka import jaas
from heliograph.kafka.client_settings import ClientSettings, Endpoint, Login, Tls
from heliograph.kafka.property_reader import PropertyReader
from heliograph.kafka.secret import is_reference
from heliograph.kafka.tls_properties import read_tls
from heliograph.model.leases import Access

__all__ = ["PROPERTIES", "ClientSettings", "Endpoint", "Login", "Tls", "parse", "settings_of"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "bootstrap.servers": "brokers to ask first: host:port, separated by commas",
        "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        "sasl.username": "user for PLAIN and SCRAM",
        "sasl.password": "password for PLAIN and SCRAM; a secret",
        "sasl.jaas.config": "user and password as Java clients write them; a secret",
        "sasl.oauthbearer.token.endpoint.url": "https:// gives tokens; file:// is a token",
        "sasl.oauthbearer.client.credentials.client.id": "who asks for a token",
        "sasl.oauthbearer.client.credentials.client.secret": "proves who asks; a secret",
        "sasl.oauthbearer.scope": "what the token is asked for",
        "ssl.ca.location": "PEM file of the authorities to trust; the system's by default",
        "ssl.certificate.location": "PEM file of the client's certificate",
        "ssl.key.location": "PEM file of the client's private key",
        "ssl.key.password": "password of the private key; a secret",
        "ssl.truststore.location": "the same as ssl.ca.location",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "the authorities themselves, as PEM text",
        "ssl.truststore.password": "only for JKS, which is refused",
        "ssl.keystore.location": "PEM file with the client's certificate and private key",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "the client's certificate itself, as PEM text",
        "ssl.keystore.key": "the client's private key itself, as PEM text; a secret",
        "ssl.keystore.password": "only for JKS, which is refused",
        "ssl.endpoint.identification.algorithm": 'https, or "" to accept any host name',
        "ssl.protocol": "the newest TLS version: TLSv1.3 or TLSv1.2",
        "ssl.enabled.protocols": "TLS versions to accept: TLSv1.2, TLSv1.3",
        "client.id": "how brokers name us in their logs and quotas",
        "client.rack": "where we stand, to read from a near replica",
        "request.timeout.ms": "how long one request may take",
        "socket.connection.setup.timeout.ms": "how long one connection may take to come about",
        "metadata.max.age.ms": "how old the view of a cluster may grow",
        "connections.max.idle.ms": "when an idle connection is closed",
        "send.buffer.bytes": "the socket's send buffer; -1 leaves it to the system",
        "receive.buffer.bytes": "the socket's receive buffer; -1 leaves it to the system",
    }
)

_NOT_HERE = {
    "sasl.kerberos.": "Kerberos is not supported. Use " + ", ".join(MECHANISMS),
    "sasl.login.callback.": "Java classes cannot be used. Remove it: tokens are fetched without",
    "sasl.client.callback.": "Java classes cannot be used. Remove it",
    "ssl.engine.factory": "Java classes cannot be used. Remove it",
}
_HOST = re.compile(r"[A-Za-z0-9._-]+")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[\w.-]+)?")


def parse(
    cluster_name: str,
    properties: Mapping[str, object],
    allow_literal_secrets: bool = False,
    *,
    text_only: bool = False,
) -> ClientSettings:
    """Read one cluster's properties, or raise one error that lists every mistake in them.

    Files are looked at and certificates recognised, but secrets stay unresolved. With ``text_only``
    nothing of this machine is looked at, and what is returned is of no use: for a text that
    somebody else sent, whose mistakes must not tell what files and variables hold.
    """
    reader = PropertyReader(
        properties, allow_literal_secrets=allow_literal_secrets, text_only=text_only
    )
    reader.refuse_unknown(tuple(PROPERTIES), _NOT_HERE)
    protocol = reader.choice("security.protocol", PROTOCOLS) or _protocol_by_default(reader)
    settings = _read(cluster_name, reader, protocol)
    if reader.mistakes:
        mistakes = "".join(f"\n  - {mistake}" for mistake in reader.mistakes)
        raise ConfigError(f"cluster {cluster_name} cannot be used as configured:{mistakes}")
    return settings


def _protocol_by_default(reader: PropertyReader) -> str | None:
    """None where the property is given but wrong: what depends on it cannot be judged."""
    return None if reader.has("security.protocol") else "PLAINTEXT"


def _read(cluster: str, reader: PropertyReader, protocol: str | None) -> ClientSettings:
    warnings: list[str] = []
    defaults = ClientSettings(cluster, ())

    def span(key: str, default: timedelta) -> timedelta:
        return reader.milliseconds(key, default)

    return ClientSettings(
        cluster=cluster,
        bootstrap=_bootstrap(reader),
        login=_login(reader, protocol),
        tls=read_tls(reader, protocol, warnings),
        client_id=reader.filled("client.id") or defaults.client_id,
        client_rack=reader.filled("client.rack"),
        request_timeout=span("request.timeout.ms", defaults.request_timeout),
        connect_timeout=span("socket.connection.setup.timeout.ms", defaults.connect_timeout),
        metadata_max_age=span("metadata.max.age.ms", defaults.metadata_max_age),
        connections_max_idle=span("connections.max.idle.ms", defaults.connections_max_idle),
        send_buffer_bytes=_buffer(reader, "send.buffer.bytes"),
        receive_buffer_bytes=_buffer(reader, "receive.buffer.bytes"),
        warnings=tuple(warnings),
    )


def _buffer(reader: PropertyReader, key: str) -> int | None:
    size = reader.number(key, least=-1)
    return None if size == -1 else size


def _bootstrap(reader: PropertyReader) -> tuple[Endpoint, ...]:
    key = "bootstrap.servers"
    if not reader.has(key):
        reader.wrong(f"{key} is missing. Name at least one broker as host:port")
    endpoints: list[Endpoint] = []
    for text in reader.listing(key) or ():
        endpoint = reader.attempt(partial(parse_endpoint, key, text))
        if endpoint in endpoints:
            reader.wrong(f"{key}: {text} is listed twice")
        elif endpoint:
            endpoints.append(endpoint)
    return tuple(endpoints)


def parse_endpoint(key: str, text: str) -> Endpoint:
    """Read ``host:port``, an IPv6 address in brackets.

    >>> parse_endpoint("bootstrap.servers", "[fe80::1]:9093")
    Endpoint(host='fe80::1', port=9093)
    """
    host, colon, port = text.rpartition(":")
    if "://" in text:
        raise ConfigError(f"{key}: {text!r}: leave {text.split('://')[0]}:// out, only host:port")
    if text.count(":") > 1 and not host.startswith("["):
        raise ConfigError(f"{key}: {text!r}: an IPv6 address stands in brackets, as in [::1]:9092")
    if not colon or text.endswith("]"):
        raise ConfigError(
            f"{key}: {text!r} has no port. Write host:port, as in {text or 'host'}:9092"
        )
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ConfigError(f"{key}: {text!r}: the port must be a number from 1 to 65535")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not (_IPV6 if bracketed else _HOST).fullmatch(host):
        raise ConfigError(f"{key}: {text!r}: that is not a host name")
    return Endpoint(host, int(port))


def _login(reader: PropertyReader, protocol: str | None) -> Login | None:
    given = reader.given("sasl.")
    if protocol in ("PLAINTEXT", "SSL"):
        if given:
            wanted = "SASL_SSL" if protocol == "SSL" else "SASL_SSL (or SASL_PLAINTEXT)"
            reader.wrong(
                f"security.protocol is {protocol}, which has no login, but {', '.join(given)} "
                f"{'is' if len(given) == 1 else 'are'} set. Set security.protocol to {wanted}, or "
                "remove them"
            )
        return None
    mechanism = reader.choice("sasl.mechanism", MECHANISMS)
    if mechanism is None:
        if protocol and not reader.has("sasl.mechanism"):
            reader.wrong(f"sasl.mechanism is missing. Use one of {', '.join(MECHANISMS)}")
        return None
    return (
        _token_login(reader) if mechanism == "OAUTHBEARER" else _password_login(reader, mechanism)
    )


def _password_login(reader: PropertyReader, mechanism: str) -> Login | None:
    _refuse(reader, reader.given("sasl.oauthbearer."), f"sasl.mechanism is {mechanism}")
    if reader.has(jaas.SETTING):
        return _jaas_login(reader, mechanism)
    username, password = reader.filled("sasl.username"), reader.secret("sasl.password")
    for key in ("sasl.username", "sasl.password"):
        if not reader.has(key):
            reader.wrong(f"{key} is missing: {mechanism} needs a user and a password")
    return Login(mechanism, username=username, password=password)


def _jaas_login(reader: PropertyReader, mechanism: str) -> Login | None:
    _refuse(reader, reader.given("sasl.username", "sasl.password"), f"{jaas.SETTING} has them")
    line = reader.concealed(jaas.SETTING)
    if line is None or (reader.text_only and is_reference(line)):
        return None
    allow = reader.allow_literal_secrets
    found = reader.attempt(lambda: jaas.read(line, allow_literal=allow))
    if found is None:
        return None
    entry, password = found
    if mechanism not in entry.mechanisms:
        reader.wrong(
            f"{jaas.SETTING}: its login module is for {' and '.join(entry.mechanisms)}, but "
            f"sasl.mechanism is {mechanism}"
        )
    return Login(mechanism, username=entry.username, password=password)


def _token_login(reader: PropertyReader) -> Login | None:
    extra = reader.given("sasl.username", "sasl.password", jaas.SETTING)
    _refuse(reader, extra, "OAUTHBEARER logs in with a token")
    prefix, key = "sasl.oauthbearer.client.credentials.", "sasl.oauthbearer.token.endpoint.url"
    url = reader.filled(key)
    client_id, secret = reader.filled(f"{prefix}client.id"), reader.secret(f"{prefix}client.secret")
    if url is None:
        if not reader.has(key):
            reader.wrong(f"{key} is missing. OAUTHBEARER needs https://… or file://…")
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "file") or not (parts.netloc or parts.path):
        reader.wrong(f"{key}: it must begin with https://, http:// or file://")
    if parts.username or parts.password:
        reader.wrong(f"{key}: it must not hold a user or a password")
    if parts.scheme == "file":
        _refuse(reader, reader.given(prefix), f"{key} is a file that holds the token")
    else:
        for name in (f"{prefix}client.id", f"{prefix}client.secret"):
            if not reader.has(name):
                reader.wrong(f"{name} is missing: {key} is asked for a token with it")
    scope = reader.filled("sasl.oauthbearer.scope")
    return Login(
        "OAUTHBEARER", token_url=url, client_id=client_id, client_secret=secret, scope=scope
    )


def _refuse(reader: PropertyReader, keys: list[str], because: str) -> None:
    for key in keys:
        reader.wrong(f"{key} must not be set: {because}")


def settings_of(access: Access) -> ClientSettings:
    """Return how a task connects; secrets are resolved when they are used."""
    return parse(access.name, access.properties, access.allow_literal_secrets)
