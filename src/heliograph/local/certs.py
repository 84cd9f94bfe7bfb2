"""Certificates of local clusters: an authority, servers and clients, as PEM, made on the fly."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from heliograph.local.layout import HOST
from heliograph.local.spec import Certificate

_LIFE = timedelta(days=365)
# Clocks in containers and on hosts differ a little.
_SLACK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A private key (PKCS #8) and the certificate for it, both PEM. The key is a secret."""

    key: bytes
    certificate: bytes

    def __repr__(self) -> str:
        return "Pair(***)"


class Authority:
    """An authority that trusts what it made itself, and lives as long as this object."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _named(f"{name} local authority")
        builder = _dated(self._subject, self._subject, self._key, datetime.now(UTC))
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(usage, True).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), False
        )
        self._own = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate: what the other side must trust."""
        return self._own.public_bytes(serialization.Encoding.PEM)

    def server(self, name: str, kind: Certificate = Certificate.GOOD) -> Pair:
        """Make a broker's pair: for loopback, unless ``kind`` asks for a wrong one."""
        names: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.IPAddress(IPv4Address(HOST)),
        ]
        if kind is Certificate.WRONG_HOST:
            names = [x509.DNSName("elsewhere.invalid")]
        # An expired one was valid until an hour ago.
        ago = _LIFE + _SLACK if kind is Certificate.EXPIRED else timedelta()
        extension = x509.SubjectAlternativeName(names)
        return self._sign(name, ExtendedKeyUsageOID.SERVER_AUTH, extension, ago)

    def client(self, user: str) -> Pair:
        """Make a user's pair; the user's name is its common name."""
        return self._sign(user, ExtendedKeyUsageOID.CLIENT_AUTH, None, timedelta())

    def _sign(
        self,
        name: str,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        ago: timedelta,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _dated(_named(name), self._subject, key, datetime.now(UTC) - ago)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
        )
        if names is not None:
            builder = builder.add_extension(names, False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(_pem(key), signed.public_bytes(serialization.Encoding.PEM))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _dated(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _SLACK)
        .not_valid_after(start + _LIFE)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # PKCS #8 is the only form of a PEM key that Kafka reads.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
