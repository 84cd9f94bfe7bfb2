"""From a spec to files: what the brokers of a local cluster read. Pure text, no I/O."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import pbkdf2_hmac
from pathlib import Path

from heliograph.local.spec import Spec, User

HOST = "127.0.0.1"
# The fewest that Kafka takes.
_SCRAM_ROUNDS = 4096

# The pattern keeps a stack trace's lines together; `monitorInterval` is off to save a thread.
LOGGING = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = ${sys:heliograph.log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p [%t] %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one node. Without security, ``internal`` is the clients' port too."""

    client: int
    controller: int
    internal: int


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the parts of one cluster's folder are."""

    root: Path

    @property
    def logging(self) -> Path:
        """The brokers' logging configuration."""
        return self.root / "log4j2.properties"

    @property
    def logs(self) -> Path:
        """What the brokers say."""
        return self.root / "logs"

    @property
    def scratch(self) -> Path:
        """The JVMs' temporary files."""
        return self.root / "tmp"

    @property
    def secrets(self) -> Path:
        """Passwords, tokens, keys and certificates."""
        return self.root / "secrets"

    @property
    def description(self) -> Path:
        """What a cluster on a kept folder must agree with when it starts again."""
        return self.root / "cluster.json"

    @property
    def authority(self) -> Path:
        """The certificate of the cluster's own authority."""
        return self.secrets / "ca.pem"

    def properties(self, node: int) -> Path:
        """The broker's configuration."""
        return self.root / f"node-{node}.properties"

    def data(self, node: int) -> Path:
        """The broker's log folder in Kafka's sense: the records."""
        return self.root / f"data-{node}"

    def log(self, node: int) -> Path:
        """The broker's own log."""
        return self.logs / f"node-{node}.log"

    def output(self, node: int) -> Path:
        """What the broker's JVM prints: empty unless something is wrong with Java itself."""
        return self.logs / f"node-{node}.out"

    def keystore(self, node: int) -> Path:
        """The broker's private key and certificate."""
        return self.secrets / f"node-{node}.pem"


def server_properties(
    spec: Spec, node: int, ports: Mapping[int, Ports], folder: Folder, users: tuple[User, ...]
) -> str:
    """Return the text of one node's configuration."""
    lines = broker_properties(spec, node, ports, folder, users)
    return "".join(f"{key}={_escape(value)}\n" for key, value in lines.items())


def broker_properties(
    spec: Spec, node: int, ports: Mapping[int, Ports], folder: Folder, users: tuple[User, ...]
) -> dict[str, str]:
    """Return one node's configuration.

    The user's own properties come last and win. Everything listens on loopback only.
    """
    lines = _identity(spec, node, ports, folder) | _small_cluster(spec)
    if spec.is_secured:
        lines |= _secured_listener(spec, node, folder, users)
    if spec.acls:
        lines |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # Brokers and controllers speak over listeners without a login. The clients'
            # listener has one, so no client of it is ever ANONYMOUS.
            "super.users": "User:ANONYMOUS",
        }
    return lines | dict(spec.properties)


def _identity(spec: Spec, node: int, ports: Mapping[int, Ports], folder: Folder) -> dict[str, str]:
    mine = ports[node]
    listeners = {"CLIENT": mine.client}
    protocols = {"CLIENT": spec.security_protocol, "CONTROLLER": "PLAINTEXT"}
    if spec.has_internal:
        listeners["INTERNAL"] = mine.internal
        protocols["INTERNAL"] = "PLAINTEXT"
    told = listeners | {"CLIENT": spec.advertised_port or mine.client}
    lines = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(
            f"{other}@{HOST}:{ports[other].controller}" for other in sorted(ports)
        ),
        "listeners": _addresses(listeners | {"CONTROLLER": mine.controller}),
        "advertised.listeners": _addresses(told),
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "inter.broker.listener.name": "INTERNAL" if spec.has_internal else "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder.data(node)),
    }
    rack = spec.rack(node)
    return lines if rack is None else lines | {"broker.rack": rack}


def _addresses(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())


def _small_cluster(spec: Spec) -> dict[str, str]:
    """Defaults for a cluster that is small, young and soon gone."""
    copies = str(spec.nodes)
    return {
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "default.replication.factor": copies,
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "controlled.shutdown.enable": "true",
    }


def _secured_listener(
    spec: Spec, node: int, folder: Folder, users: tuple[User, ...]
) -> dict[str, str]:
    lines: dict[str, str] = {}
    if spec.has_tls:
        lines |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder.keystore(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder.authority),
            "ssl.client.auth": "required" if spec.mtls else "none",
            # CN=alice becomes User:alice, as with every other way to log in.
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }
    if spec.sasl:
        lines["sasl.enabled.mechanisms"] = spec.sasl
        lines |= {
            f"{spec.sasl.lower()}.{key}": value for key, value in _mechanism(spec.sasl, users)
        }
    # ssl.principal.mapping.rules is read per listener too; the prefix must be in lower case.
    return {f"listener.name.client.{key}": value for key, value in lines.items()}


def _mechanism(sasl: str, users: tuple[User, ...]) -> list[tuple[str, str]]:
    security = "org.apache.kafka.common.security"
    if sasl == "PLAIN":
        # user_<name> lists who may log in. The broker itself never does: it has no need to.
        known = "".join(f" user_{user.name}={jaas_quote(user.password)}" for user in users)
        module = f"{security}.plain.PlainLoginModule required{known};"
        return [("sasl.jaas.config", module)]
    if sasl == "OAUTHBEARER":
        handler = (
            f"{security}.oauthbearer.internals.unsecured."
            "OAuthBearerUnsecuredValidatorCallbackHandler"
        )
        module = f"{security}.oauthbearer.OAuthBearerLoginModule required;"
        return [("sasl.jaas.config", module), ("sasl.server.callback.handler.class", handler)]
    # The users of SCRAM are records in the cluster's metadata, made when it is formatted.
    return [("sasl.jaas.config", f"{security}.scram.ScramLoginModule required;")]


def scram_arguments(spec: Spec, users: tuple[User, ...], salt: bytes) -> list[str]:
    """Return the formatter's arguments that make the users of SCRAM; none for other ways.

    They hold salted passwords: the formatter would take plain ones, but not every character in
    them, and a command line can be read by everybody on the machine.
    """
    if not (spec.sasl or "").startswith("SCRAM"):
        return []
    digest = "sha256" if spec.sasl == "SCRAM-SHA-256" else "sha512"
    arguments = []
    for user in users:
        salted = pbkdf2_hmac(digest, user.password.encode(), salt, _SCRAM_ROUNDS)
        credential = (
            f"name={user.name},iterations={_SCRAM_ROUNDS},"
            f'salt="{b64encode(salt).decode()}",saltedpassword="{b64encode(salted).decode()}"'
        )
        arguments += ["--add-scram", f"{spec.sasl}=[{credential}]"]
    return arguments


def jaas_quote(text: str) -> str:
    r"""Return the text as a quoted string of a JAAS line.

    >>> print(jaas_quote('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(value: str) -> str:
    """Escape a value for a Java properties file, which is read as Latin-1."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    text = "".join(c if ord(c) < 127 else _unicode_escape(c) for c in text)
    return f"\\{text}" if text.startswith((" ", "\t")) else text


def _unicode_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
