"""What a local cluster should be: a pure value, checked when it is made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from heliograph.errors import ConfigError
from heliograph.model.names import short_name

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MOST_NODES = 3

# Heliograph writes these itself, from the other options; a second value would only break them.
_OURS = frozenset(
    {
        "advertised.listeners",
        "broker.rack",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)
_USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEAP = re.compile(r"[1-9][0-9]*[mg]")


class Certificate(StrEnum):
    """What is right or wrong about the server's certificate. All but ``good`` are for tests."""

    GOOD = "good"
    EXPIRED = "expired"
    WRONG_HOST = "wrong-host"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may log in. The password never shows in a ``repr``."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One local cluster, as asked for. Raises ConfigError when it contradicts itself.

    Without users, a secured cluster gets one, "heliograph", with a random password. Without
    ``data``, the cluster's files go when it is stopped. ``racks`` are dealt out in turn.
    """

    name: str
    nodes: int = 1
    racks: tuple[str, ...] = ()
    tls: bool = False
    mtls: bool = False
    sasl: str | None = None
    acls: bool = False
    users: tuple[User, ...] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    certificate: Certificate = Certificate.GOOD
    data: Path | None = None
    heap: str = "512m"
    advertised_port: int | None = None
    """Where clients are told to connect on loopback, for tests with a proxy before one node."""

    def __post_init__(self) -> None:
        _check_names(self)
        if not 1 <= self.nodes <= MOST_NODES:
            raise ConfigError(
                f"a local cluster has 1 to {MOST_NODES} nodes, and {self.nodes} were asked for "
                f"({self.name}). Nothing was started."
            )
        if self.sasl is not None and self.sasl not in MECHANISMS:
            raise ConfigError(
                f"the SASL mechanism {self.sasl} is not known. Nothing was started. Choose one "
                f"of {', '.join(MECHANISMS)}."
            )
        if self.acls and not (self.sasl or self.mtls):
            raise ConfigError(
                "ACLs need to know who is who, and nobody logs in to this cluster. Nothing was "
                "started. Add --sasl MECHANISM or --mtls."
            )
        if self.advertised_port is not None and self.nodes > 1:
            raise ConfigError(
                f"an advertised port is for a cluster of one node, not {self.nodes}. Nothing was "
                "started."
            )
        for key in sorted(_OURS & self.properties.keys()):
            raise ConfigError(
                f"the broker property {key} is set by Heliograph itself. Nothing was started. "
                "Leave it out; see the other options for nodes, racks and security."
            )

    @property
    def has_internal(self) -> bool:
        """Whether brokers have a listener of their own, which no login or proxy is before."""
        return self.is_secured or self.advertised_port is not None

    @property
    def is_secured(self) -> bool:
        """Whether clients must show who they are, or are spoken to by TLS."""
        return self.security_protocol != "PLAINTEXT"

    @property
    def has_tls(self) -> bool:
        """Whether clients connect by TLS; asking for client certificates implies it."""
        return self.tls or self.mtls

    @property
    def security_protocol(self) -> str:
        """What Kafka calls the clients' way in."""
        if self.sasl:
            return "SASL_SSL" if self.has_tls else "SASL_PLAINTEXT"
        return "SSL" if self.has_tls else "PLAINTEXT"

    @property
    def security(self) -> str:
        """The clients' way in, in words for a table."""
        parts = [self.security_protocol, self.sasl or "", "mTLS" if self.mtls else ""]
        return " ".join(part for part in [*parts, "ACLs" if self.acls else ""] if part)

    def rack(self, node: int) -> str | None:
        """Return the node's rack: racks are dealt out in turn.

        >>> [Spec(name="x", nodes=3, racks=("a", "b")).rack(node) for node in (1, 2, 3)]
        ['a', 'b', 'a']
        """
        return self.racks[(node - 1) % len(self.racks)] if self.racks else None


def _check_names(spec: Spec) -> None:
    short_name(spec.name, "cluster")
    for user in spec.users:
        # These stand unquoted in file names, ACLs and certificates.
        if not _USER.fullmatch(user.name):
            raise ConfigError(
                f"{user.name!r} is not a name for a user of a local cluster. Nothing was "
                "started. Use letters, digits, dots, - and _."
            )
    if not _HEAP.fullmatch(spec.heap):
        raise ConfigError(f"a heap is given like 512m or 2g, not {spec.heap!r}.")
