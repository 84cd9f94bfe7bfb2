"""One line of JAAS: the way Java clients write a user and a password.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";

The whole line counts as a secret. It may be a reference, or its password may be one.
"""

import re
from dataclasses import dataclass, field

from heliograph.errors import ConfigError
from heliograph.kafka.secret import Secret

SETTING = "sasl.jaas.config"

_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_LINE = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\s*(.*?);\s*", re.S)
_OPTION = re.compile(
    r"""\s*([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)\s*""", re.S
)


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """What the line says. The password is not in the repr."""

    mechanisms: tuple[str, ...]
    username: str
    password: str = field(repr=False)


class JaasPassword(Secret):
    """The password inside a referenced JAAS line."""

    __slots__ = ()

    def reveal(self) -> str:
        """Return the password alone."""
        return parse(super().reveal()).password


def read(text: str, *, allow_literal: bool) -> tuple[JaasLogin, Secret]:
    """Return what a setting's text says, and its password as a secret that can travel."""
    line = Secret.parse(SETTING, text, allow_literal=True)
    login = parse(line.reveal())
    if line.reference is not None:
        return login, JaasPassword(SETTING, reference=line.reference)
    return login, Secret.parse(SETTING, login.password, allow_literal=allow_literal)


def parse(line: str) -> JaasLogin:
    """Read one line; no message ever quotes it."""
    found = _LINE.fullmatch(line)
    if not found:
        raise ConfigError(
            f"{SETTING} is not one JAAS entry. It should read: "
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="…" password="…";'
        )
    module, _, rest = found.groups()
    if module not in _MODULES:
        raise ConfigError(
            f"{SETTING}: the login module {module} is not supported, only PlainLoginModule and "
            "ScramLoginModule. For OAUTHBEARER set sasl.oauthbearer.token.endpoint.url and "
            "sasl.oauthbearer.client.credentials.client.id and .client.secret"
        )
    options = _options(rest)
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise ConfigError(f"{SETTING} has no {' and no '.join(missing)}")
    return JaasLogin(_MODULES[module], options["username"], options["password"])


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _OPTION.match(text, position)
        if not found:
            raise ConfigError(f'{SETTING}: what follows "required" is not a list of name="value"')
        name, value = found.groups()
        quoted = value[0] in "\"'"
        options[name] = re.sub(r"\\(.)", r"\1", value[1:-1]) if quoted else value
        position = found.end()
    return options
