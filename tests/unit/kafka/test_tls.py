"""TLS against real handshakes: what is accepted, and what a refusal says."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from heliograph.errors import CertificateRefused, ClusterError, ConfigError, Unreachable
from heliograph.kafka import tls
from heliograph.kafka.client_settings import ClientSettings, Endpoint, Tls
from heliograph.kafka.secret import Secret

DAY = timedelta(days=1)
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: bytes | None = None) -> str:
        lock = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock
        ).decode()


def issue(
    name: str,
    by: Issued | None = None,
    *,
    authority: bool = False,
    begin: timedelta = -DAY,
    end: timedelta = DAY,
    names: list[x509.GeneralName] | None = None,
) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begin)
        .not_valid_after(now + end)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Issued(builder.sign(by.key if by else key, hashes.SHA256()), key)


AUTHORITY = issue("authority", authority=True)
LOOPBACK: list[x509.GeneralName] = [x509.IPAddress(IPv4Address(HOST))]
GOOD = issue("broker", AUTHORITY, names=LOOPBACK)
CLIENT = issue("client", AUTHORITY)


@contextmanager
def serve(issued: Issued, folder: Path, *, wants_certificate: bool = False) -> Iterator[Endpoint]:
    """A TLS server that greets everybody whose handshake succeeds, one after the other."""
    chain = folder / "server.pem"
    chain.write_text(issued.pem + issued.key_pem())
    (folder / "authority.pem").write_text(AUTHORITY.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    if wants_certificate:
        context.load_verify_locations(folder / "authority.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server((HOST, 0)) as listener:
        ended = threading.Event()

        def greet() -> None:
            while not ended.is_set():
                plain, _ = listener.accept()
                with plain:
                    try:
                        with context.wrap_socket(plain, server_side=True) as secure:
                            secure.sendall(b"hello")
                    except OSError:
                        # What the client makes of a refused handshake is what the test asks.
                        continue

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        yield Endpoint(HOST, port)
        ended.set()
        socket.create_connection((HOST, port)).close()
        thread.join(10)


def greeting(settings: Tls, endpoint: Endpoint) -> bytes:
    context = tls.context(ClientSettings("paris", (endpoint,), tls=settings))
    with (
        socket.create_connection((endpoint.host, endpoint.port), 10) as plain,
        context.wrap_socket(plain, server_hostname=endpoint.host) as secure,
    ):
        return secure.recv(5)


def refusal(settings: Tls, endpoint: Endpoint) -> ClusterError:
    with pytest.raises(OSError) as failure:
        greeting(settings, endpoint)
    return tls.explain(failure.value, "paris", endpoint)


TRUSTING = Tls(ca_pem=AUTHORITY.pem)


def test_a_trusted_broker_is_talked_to(tmp_path: Path) -> None:
    with serve(GOOD, tmp_path) as endpoint:
        assert greeting(TRUSTING, endpoint) == b"hello"
        assert greeting(Tls(ca_file=tmp_path / "authority.pem"), endpoint) == b"hello"


def test_old_versions_are_never_spoken() -> None:
    context = tls.context(ClientSettings("paris", (), tls=TRUSTING))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_an_expired_certificate_is_named_with_its_date(tmp_path: Path) -> None:
    old = issue("broker", AUTHORITY, begin=-9 * DAY, end=-2 * DAY, names=LOOPBACK)
    with serve(old, tmp_path) as endpoint:
        error = refusal(TRUSTING, endpoint)
    assert isinstance(error, CertificateRefused)
    year = old.certificate.not_valid_after_utc.year
    assert f"{endpoint} expired on " in str(error)
    assert f"{year} GMT" in str(error)


def test_a_certificate_of_the_future_points_at_the_clocks(tmp_path: Path) -> None:
    early = issue("broker", AUTHORITY, begin=2 * DAY, end=9 * DAY, names=LOOPBACK)
    with serve(early, tmp_path) as endpoint:
        assert "not valid yet before " in str(refusal(TRUSTING, endpoint))


def test_another_name_is_told_with_those_the_certificate_holds(tmp_path: Path) -> None:
    other = issue("broker", AUTHORITY, names=[x509.DNSName("a.example"), x509.DNSName("b.example")])
    with serve(other, tmp_path) as endpoint:
        error = refusal(TRUSTING, endpoint)
        assert "not for the name 127.0.0.1, only for a.example, b.example" in str(error)
        lenient = Tls(ca_pem=AUTHORITY.pem, checks_host=False)
        assert greeting(lenient, endpoint) == b"hello"


def test_unknown_authorities_and_self_signed_certificates_differ(tmp_path: Path) -> None:
    stranger = issue("stranger", authority=True)
    with serve(issue("broker", stranger, names=LOOPBACK), tmp_path) as endpoint:
        assert "authority that is not trusted here" in str(refusal(TRUSTING, endpoint))
    with serve(issue("broker", names=LOOPBACK), tmp_path) as endpoint:
        assert "signed by itself" in str(refusal(TRUSTING, endpoint))


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_missing_client_certificate_is_asked_for(tmp_path: Path, newest: ssl.TLSVersion) -> None:
    with serve(GOOD, tmp_path, wants_certificate=True) as endpoint:
        error = refusal(Tls(ca_pem=AUTHORITY.pem, newest=newest), endpoint)
    assert "ssl.certificate.location" in str(error)


def test_a_client_certificate_of_a_stranger_is_told_apart(tmp_path: Path) -> None:
    stranger = issue("client", issue("stranger", authority=True))
    key = Secret.literal("ssl.keystore.key", stranger.key_pem())
    mine = Tls(ca_pem=AUTHORITY.pem, certificate_pem=stranger.pem, key_pem=key)
    with serve(GOOD, tmp_path, wants_certificate=True) as endpoint:
        assert "does not accept our certificate" in str(refusal(mine, endpoint))


def test_client_certificates_are_taken_from_files_and_inline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    certificate.write_text(CLIENT.pem)
    key.write_text(CLIENT.key_pem(b"open sesame"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    from_files = Tls(
        ca_pem=AUTHORITY.pem,
        certificate_file=certificate,
        key_file=key,
        key_password=Secret.literal("ssl.key.password", "open sesame"),
    )
    inline = Tls(
        ca_pem=AUTHORITY.pem,
        certificate_pem=CLIENT.pem,
        key_pem=Secret.literal("ssl.keystore.key", CLIENT.key_pem()),
    )
    with serve(GOOD, tmp_path, wants_certificate=True) as endpoint:
        assert greeting(from_files, endpoint) == b"hello"
        assert greeting(inline, endpoint) == b"hello"
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_key_password_is_a_mistake_and_never_a_prompt(
    tmp_path: Path, password: str | None
) -> None:
    key = tmp_path / "client.key"
    key.write_text(CLIENT.pem + CLIENT.key_pem(b"open sesame"))
    secret = Secret.literal("ssl.key.password", password) if password else None
    bad = Tls(ca_pem=AUTHORITY.pem, certificate_file=key, key_file=key, key_password=secret)
    with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
        tls.context(ClientSettings("paris", (), tls=bad))


def test_a_listener_that_answers_in_plain_text_is_recognised() -> None:
    with socket.create_server((HOST, 0)) as listener:
        endpoint = Endpoint(HOST, listener.getsockname()[1])

        def answer() -> None:
            plain, _ = listener.accept()
            with plain:
                plain.recv(10)
                plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        error = refusal(TRUSTING, endpoint)
        thread.join(10)
    assert isinstance(error, CertificateRefused)
    assert "does not speak TLS" in str(error)


@pytest.mark.parametrize(
    "failure", [ConnectionResetError(104, "reset"), ssl.SSLEOFError(8, "EOF"), TimeoutError()]
)
def test_a_connection_that_ends_in_the_handshake_may_heal_and_names_the_causes(
    failure: OSError,
) -> None:
    error = tls.explain(failure, "paris", Endpoint("a", 9093))
    assert isinstance(error, Unreachable)
    assert error.retriable
    assert "TLS" in str(error)


def test_words_are_complete_when_the_certificate_cannot_be_looked_at() -> None:
    failure = ssl.SSLCertVerificationError(1, "certificate verify failed")
    failure.verify_code, failure.verify_message = 10, "certificate has expired"
    error = tls.explain(failure, "paris", Endpoint("a", 1), look=lambda _: None)
    assert (
        str(error) == "certificate-refused: cluster paris: the certificate of a:1 expired. Renew it"
    )
