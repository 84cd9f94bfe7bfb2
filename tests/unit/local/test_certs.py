from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from heliograph.local.certs import Authority, Pair
from heliograph.local.spec import Certificate


def loaded(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def names(certificate: x509.Certificate) -> list[str]:
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(name.value) for name in extension.value]


def test_a_server_is_certified_for_loopback_by_its_authority() -> None:
    authority = Authority("x")
    certificate = loaded(authority.server("node-1"))
    assert names(certificate) == ["localhost", "127.0.0.1"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    assert certificate.not_valid_before_utc < datetime.now(UTC) < certificate.not_valid_after_utc


def test_an_expired_certificate_was_valid_once() -> None:
    certificate = loaded(Authority("x").server("node-1", Certificate.EXPIRED))
    assert certificate.not_valid_before_utc < certificate.not_valid_after_utc < datetime.now(UTC)


def test_a_certificate_for_a_wrong_host_does_not_name_loopback() -> None:
    certificate = loaded(Authority("x").server("node-1", Certificate.WRONG_HOST))
    assert names(certificate) == ["elsewhere.invalid"]
    assert datetime.now(UTC) < certificate.not_valid_after_utc


def test_a_client_is_named_after_its_user_and_has_the_key_to_it() -> None:
    pair = Authority("x").client("alice")
    certificate = loaded(pair)
    (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert common.value == "alice"
    key = load_pem_private_key(pair.key, None)
    assert key.public_key() == certificate.public_key()


def test_a_key_does_not_show() -> None:
    assert repr(Authority("x").client("alice")) == "Pair(***)"
