"""The ``ssl.*`` properties: PEM under both families of names, and Java's stores refused."""

import pickle
from pathlib import Path
from ssl import TLSVersion

import pytest

from heliograph.errors import ConfigError
from heliograph.kafka.properties import parse

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
LOCKED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n-----END ENCRYPTED PRIVATE KEY-----\n"
HOST_CHECK = "ssl.endpoint.identification.algorithm"
TLS: dict[str, object] = {"bootstrap.servers": "a:9092", "security.protocol": "SSL"}


def mistakes(properties: dict[str, object]) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse("paris", properties)
    return refused.value.message.split("\n  - ")[1:]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in {
        "ca.pem": CERTIFICATE,
        "client.pem": CERTIFICATE,
        "client.key": KEY,
        "locked.key": LOCKED,
        "both.pem": CERTIFICATE + KEY,
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return tmp_path


def test_pem_files_are_taken_under_both_families_of_names(files: Path) -> None:
    one = parse(
        "paris",
        TLS
        | {
            "ssl.ca.location": str(files / "ca.pem"),
            "ssl.certificate.location": str(files / "client.pem"),
            "ssl.key.location": str(files / "client.key"),
            "ssl.key.password": "${env:X}",
        },
    ).tls
    assert one is not None
    assert one.ca_file == files / "ca.pem"
    assert (one.certificate_file, one.key_file) == (files / "client.pem", files / "client.key")
    two = parse(
        "paris",
        TLS
        | {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files / "ca.pem"),
            "ssl.keystore.location": str(files / "both.pem"),
        },
    ).tls
    assert two is not None
    assert two.ca_file == files / "ca.pem"
    assert two.certificate_file == two.key_file == files / "both.pem"


def test_inline_pem_is_taken_and_its_key_stays_a_reference(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIO_KEY", KEY)
    settings = parse(
        "paris",
        TLS
        | {
            "ssl.truststore.certificates": CERTIFICATE,
            "ssl.keystore.certificate.chain": f"${{file:{files / 'client.pem'}}}",
            "ssl.keystore.key": "${env:HELIO_KEY}",
        },
    )
    assert settings.tls is not None
    assert settings.tls.ca_pem == CERTIFICATE.strip()
    assert settings.tls.key_pem in settings.secrets
    assert b"PRIVATE KEY" not in pickle.dumps(settings)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"ssl.ca.location": "client.key"}, "does not hold a certificate"),
        ({"ssl.key.location": "client.key"}, "is set without ssl.certificate.location"),
        ({"ssl.certificate.location": "client.pem"}, "is set without ssl.key.location"),
        ({"ssl.keystore.location": "client.pem"}, "certificate and its private key"),
        (
            {"ssl.certificate.location": "client.pem", "ssl.key.location": "locked.key"},
            "ssl.key.password is missing",
        ),
        (
            {"ssl.ca.location": "ca.pem", "ssl.truststore.location": "ca.pem"},
            "ssl.ca.location and ssl.truststore.location say the same thing",
        ),
    ],
)
def test_files_that_do_not_fit_are_explained(
    files: Path, properties: dict[str, str], words: str
) -> None:
    absolute = {key: str(files / name) for key, name in properties.items()}
    (mistake,) = mistakes(TLS | absolute)
    assert words in mistake


def test_a_key_that_everybody_can_read_is_refused(files: Path) -> None:
    key = files / "client.key"
    key.chmod(0o644)
    (mistake,) = mistakes(
        TLS | {"ssl.certificate.location": str(files / "client.pem"), "ssl.key.location": str(key)}
    )
    assert f"chmod 600 {key}" in mistake


@pytest.mark.parametrize(
    ("name", "content", "extra", "command"),
    [
        ("s.jks", b"\xfe\xed\xfe\xed\0", {}, "keytool -importkeystore -srckeystore {0}/s.jks"),
        ("s.store", b"\xfe\xed\xfe\xed\0", {}, "keytool -importkeystore -srckeystore {0}/s.store"),
        ("s.p12", b"\x30\x82\x01\x02", {}, "openssl pkcs12 -in {0}/s.p12 -nodes -out {0}/s.pem"),
        ("s.pfx", b"\x30\x82\x01\x02", {}, "openssl pkcs12 -in {0}/s.pfx"),
        ("s.bin", b"\0\0\0\0", {"ssl.keystore.type": "JKS"}, "keytool -importkeystore"),
        ("s.jks", b"", {"ssl.keystore.password": "${env:X}"}, "keytool -importkeystore"),
    ],
)
def test_a_java_keystore_gets_one_mistake_with_the_command_that_converts_it(
    tmp_path: Path, name: str, content: bytes, extra: dict[str, str], command: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (mistake,) = mistakes(TLS | {"ssl.keystore.location": str(tmp_path / name)} | extra)
    assert command.format(tmp_path) in mistake


def test_a_java_truststore_gets_its_own_command(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0")
    (mistake,) = mistakes(TLS | {"ssl.truststore.location": str(store)})
    assert f"keytool -list -rfc -keystore {store} > {tmp_path / 'trust.pem'}" in mistake


def test_switching_off_the_host_check_is_kept_with_a_warning() -> None:
    settings = parse("paris", TLS | {HOST_CHECK: ""})
    assert settings.tls is not None
    assert not settings.tls.checks_host
    assert len(settings.warnings) == 1
    assert parse("paris", TLS | {HOST_CHECK: "https"}).warnings == ()


@pytest.mark.parametrize(
    ("properties", "oldest", "newest"),
    [
        ({}, "TLSv1_2", "TLSv1_3"),
        ({"ssl.protocol": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "TLSv1_3", "TLSv1_3"),
        ({"ssl.enabled.protocols": ["TLSv1.2", "TLSv1.3"]}, "TLSv1_2", "TLSv1_3"),
    ],
)
def test_tls_versions_are_bounded(properties: dict[str, object], oldest: str, newest: str) -> None:
    tls = parse("paris", TLS | properties).tls
    assert tls is not None
    assert (tls.oldest, tls.newest) == (TLSVersion[oldest], TLSVersion[newest])
