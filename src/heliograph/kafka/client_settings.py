"""How to reach one cluster, as frozen values.

They are pickled with Spark tasks: secrets are in them as references, files as absolute paths.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from ssl import TLSVersion

from heliograph.kafka.secret import Secret


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """Where one broker listens.

    >>> str(Endpoint("::1", 9092))
    '[::1]:9092'
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are. PLAIN and SCRAM have a user and a password; OAUTHBEARER has a token's origin.

    ``token_url`` is ``http(s)://`` for the client credentials grant (then the client's id and
    secret are present) or ``file://`` for a file that holds the token.
    """

    mechanism: str
    username: str | None = None
    password: Secret | None = None
    token_url: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom we trust and how we show who we are. No authority at all means the system's.

    A file and its inline twin are never both present. The certificate's file may hold the key too.
    """

    ca_file: Path | None = None
    ca_pem: str | None = None
    certificate_file: Path | None = None
    certificate_pem: str | None = None
    key_file: Path | None = None
    key_pem: Secret | None = None
    key_password: Secret | None = None
    checks_host: bool = True
    oldest: TLSVersion = TLSVersion.TLSv1_2
    newest: TLSVersion = TLSVersion.TLSv1_3


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Everything needed to connect to one cluster.

    ``warnings`` are for people: what was accepted, but should not stay.
    """

    cluster: str
    bootstrap: tuple[Endpoint, ...]
    login: Login | None = None
    tls: Tls | None = None
    client_id: str = "heliograph"
    client_rack: str | None = None
    request_timeout: timedelta = timedelta(seconds=30)
    connect_timeout: timedelta = timedelta(seconds=10)
    metadata_max_age: timedelta = timedelta(minutes=5)
    connections_max_idle: timedelta = timedelta(minutes=9)
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def security_protocol(self) -> str:
        """Kafka's name for the combination of login and encryption."""
        if self.login:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.tls is not None

    @property
    def uses_sasl(self) -> bool:
        """Whether connections begin with a login."""
        return self.login is not None

    @property
    def sasl_mechanism(self) -> str | None:
        """The login's mechanism, if there is a login."""
        return self.login.mechanism if self.login else None

    @property
    def sasl_username(self) -> str | None:
        """The user of PLAIN and SCRAM."""
        return self.login.username if self.login else None

    @property
    def sasl_password(self) -> Secret | None:
        """The password of PLAIN and SCRAM."""
        return self.login.password if self.login else None

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret in here, for ``redact``."""
        login, tls = self.login, self.tls
        found = [login.password, login.client_secret] if login else []
        found += [tls.key_pem, tls.key_password] if tls else []
        return tuple(secret for secret in found if secret is not None)
