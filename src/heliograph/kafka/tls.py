"""TLS: the context for a cluster's connections, and handshake failures in plain words."""

import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from heliograph.errors import CertificateRefused, ClusterError, ConfigError, Unreachable
from heliograph.kafka.client_settings import ClientSettings, Endpoint, Tls
from heliograph.kafka.secret import redact

Certificate = Mapping[str, object]

# OpenSSL's X509_V_ERR_* and X509_V_FLAG_NO_CHECK_TIME: Python has no names for them.
_EXPIRED, _NOT_YET_VALID, _REVOKED, _WRONG_PURPOSE = 10, 9, 23, 26
_SELF_SIGNED = (18, 19)
_UNKNOWN_AUTHORITY = (2, 20, 21)
_OTHER_NAME = (62, 64)
_IGNORE_TIME = 0x200000
_LOOK_TIMEOUT_S = 2.0

_PLAIN_LISTENER = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
# Kafka's own answer to no certificate is BAD_CERTIFICATE, with TLS 1.3 only after the handshake.
_WANTS_CERTIFICATE = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_HANDSHAKE_FAILURE",
    "ALERT_NO_CERTIFICATE",
    "CERTIFICATE_REQUIRED",
)
_REFUSES_OURS = ("ALERT_UNKNOWN_CA", "ALERT_CERTIFICATE", "ACCESS_DENIED")
_VERSIONS_APART = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS", "NO_SHARED_CIPHER")


def context(settings: ClientSettings) -> ssl.SSLContext:
    """Return a context for the cluster; secrets are resolved here and not kept."""
    tls = settings.tls
    assert tls is not None, "only asked for where security.protocol has TLS"
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version, made.maximum_version = tls.oldest, tls.newest
    made.check_hostname = tls.checks_host
    try:
        _trust(made, tls)
        _identify(made, tls)
    except OSError as error:
        words = redact(str(error), settings.secrets)
        raise ConfigError(
            f"cluster {settings.cluster}: its certificates or private key cannot be used ({words})."
            " Check that the key belongs to the certificate and that ssl.key.password is right"
        ) from None
    return made


def _trust(made: ssl.SSLContext, tls: Tls) -> None:
    if tls.ca_file or tls.ca_pem:
        made.load_verify_locations(cafile=tls.ca_file, cadata=tls.ca_pem)
    else:
        made.load_default_certs()


def _identify(made: ssl.SSLContext, tls: Tls) -> None:
    # Always given: without a password OpenSSL asks for one on the terminal and waits for ever.
    password = tls.key_password.reveal() if tls.key_password else ""
    if tls.certificate_file and tls.key_file:
        made.load_cert_chain(tls.certificate_file, tls.key_file, password)
    elif tls.certificate_pem and tls.key_pem:
        with _private_file(f"{tls.certificate_pem}\n{tls.key_pem.reveal()}\n") as path:
            made.load_cert_chain(path, password=password)


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[Path]:
    """Lend a file that only we can read; OpenSSL takes chains from nowhere else."""
    descriptor, name = tempfile.mkstemp(prefix="heliograph-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        yield Path(name)
    finally:
        Path(name).unlink()


def present_certificate(endpoint: Endpoint) -> Certificate | None:
    """Return what the endpoint's certificate says, unverified, or None if it does not tell.

    Only for messages. Python decodes a certificate only after verifying it, so a second
    handshake trusts exactly the certificate that the first one saw, whatever its dates.
    """
    address = (endpoint.host, endpoint.port)
    try:
        pem = ssl.get_server_certificate(address, timeout=_LOOK_TIMEOUT_S)
        look = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        look.check_hostname = False
        look.load_verify_locations(cadata=pem)
        look.verify_flags |= ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _IGNORE_TIME)
        with (
            socket.create_connection(address, _LOOK_TIMEOUT_S) as plain,
            look.wrap_socket(plain, server_hostname=endpoint.host) as secure,
        ):
            return secure.getpeercert()
    except (OSError, ValueError):
        # The message that this serves is complete without it.
        return None


def explain(
    error: OSError,
    cluster: str,
    endpoint: Endpoint,
    look: Callable[[Endpoint], Certificate | None] = present_certificate,
) -> ClusterError:
    """Turn a failed handshake into our error: CertificateRefused, or Unreachable if it may heal.

    May connect once more, for some seconds at most, to quote dates and names of the certificate.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        words = _explain_verification(error, endpoint, look)
        return CertificateRefused(words, cluster=cluster)
    # Absent from plain OSErrors, and from SSL errors that Python makes itself.
    reason = getattr(error, "reason", None) or ""
    alert = _explain_alert(reason, endpoint)
    if alert:
        return CertificateRefused(alert, cluster=cluster)
    if any(part in reason for part in _PLAIN_LISTENER):
        return CertificateRefused(
            f"{endpoint} does not speak TLS. Either the port is that of a plain listener, or "
            "security.protocol should be PLAINTEXT or SASL_PLAINTEXT",
            cluster=cluster,
        )
    return Unreachable(_explain_silence(error, endpoint), cluster=cluster)


def _explain_verification(
    error: ssl.SSLCertVerificationError,
    endpoint: Endpoint,
    look: Callable[[Endpoint], Certificate | None],
) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return f"the certificate of {endpoint} expired{_date(look(endpoint), 'notAfter')}. Renew it"
    if code == _NOT_YET_VALID:
        start = _date(look(endpoint), "notBefore")
        return f"the certificate of {endpoint} is not valid yet{start}. Check the clocks"
    if code in _OTHER_NAME:
        return (
            f"the certificate of {endpoint} is not for the name {endpoint.host}"
            f"{_names(look(endpoint))}. Use a name that it holds in bootstrap.servers and in the "
            "broker's advertised.listeners, or give the broker a certificate with this name"
        )
    if code in _SELF_SIGNED:
        return (
            f"the certificate of {endpoint} is signed by itself, or by an authority that is not "
            "trusted here. Put the authority's certificate into the file of ssl.ca.location"
        )
    if code in _UNKNOWN_AUTHORITY:
        return (
            f"the certificate of {endpoint} was issued by an authority that is not trusted here, "
            "or the broker does not send the certificates in between. Put the authority's "
            "certificate into the file of ssl.ca.location"
        )
    if code == _REVOKED:
        return f"the certificate of {endpoint} was revoked. Renew it"
    if code == _WRONG_PURPOSE:
        return f"the certificate of {endpoint} is not meant for servers. Issue another"
    return f"the certificate of {endpoint} was not accepted: {error.verify_message}"


def _explain_alert(reason: str, endpoint: Endpoint) -> str | None:
    if any(part in reason for part in _WANTS_CERTIFICATE):
        return (
            f"{endpoint} ended the handshake: it wants a client certificate that it accepts. Set "
            "ssl.certificate.location and ssl.key.location, or if they are set, let the broker "
            "trust the certificate's issuer"
        )
    if any(part in reason for part in _REFUSES_OURS):
        return (
            f"{endpoint} does not accept our certificate ({reason}). Check that "
            "ssl.certificate.location has not expired and that the broker trusts its issuer"
        )
    if any(part in reason for part in _VERSIONS_APART):
        return (
            f"{endpoint} and Heliograph have no TLS version or cipher in common; Heliograph speaks "
            "TLS 1.2 and 1.3. Check ssl.enabled.protocols on both sides"
        )
    return None


def _explain_silence(error: OSError, endpoint: Endpoint) -> str:
    if isinstance(error, TimeoutError):
        return (
            f"{endpoint} accepted the connection but did not answer the TLS handshake in time. Is "
            "it a listener without TLS, or the port of something else?"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError):
        return (
            f"{endpoint} closed the connection during the TLS handshake. Either its listener has "
            "no TLS (then security.protocol should be PLAINTEXT or SASL_PLAINTEXT), or it wants a "
            "client certificate (ssl.certificate.location, ssl.key.location), or it is stopping"
        )
    return f"the TLS handshake with {endpoint} failed: {error}"


def _date(certificate: Certificate | None, field: str) -> str:
    if certificate is None or field not in certificate:
        return ""
    word = "on" if field == "notAfter" else "before"
    return f" {word} {certificate[field]}"


def _names(certificate: Certificate | None) -> str:
    names = certificate.get("subjectAltName") if certificate else None
    if not isinstance(names, tuple):
        return "" if certificate is None else "; it holds no host name at all"
    return f", only for {', '.join(name for _, name in names)}"
