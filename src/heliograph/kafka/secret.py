"""Secrets: values that no log, no repr and no pickle may hold.

A secret is written as a reference, ``${env:NAME}`` or ``${file:PATH}``. It stays a reference
until the moment it is used, so that settings can travel to a Spark task, be printed and be
compared without the value being anywhere. Every use resolves anew: a rotated file is noticed.
"""

import hmac
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, quote_plus

from heliograph.errors import ConfigError

MASK = "***"

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
_SHORTEST_LINE = 16


class Secret:
    """A value that is shown as ``***`` and revealed only on demand.

    Two secrets are equal when they have the same reference, or are the same literal; comparing
    never resolves. Use ``matches`` to compare the value itself.

    A reference pickles as the reference. A literal pickles with its value only where a person
    allowed literals (``allow_literal_secrets``): they accepted that the value lies in the open in
    the configuration file, and without it such a cluster could not be used from Spark tasks.
    Any other literal refuses to be pickled.
    """

    __slots__ = ("_literal", "_may_travel", "reference", "setting")

    def __init__(
        self, setting: str, *, reference: str | None, literal: str = "", may_travel: bool = True
    ) -> None:
        self.setting = setting
        self.reference = reference
        self._literal = literal
        self._may_travel = may_travel

    @classmethod
    def parse(cls, setting: str, text: str, *, allow_literal: bool = False) -> "Secret":
        """Read what a person wrote for ``setting``; a literal is refused unless allowed."""
        if is_reference(text):
            return cls(setting, reference=_absolute(text))
        if allow_literal:
            return cls(setting, reference=None, literal=text)
        raise ConfigError(
            f"{setting} holds a secret in the open. Write ${{env:NAME}} or ${{file:PATH}} and keep "
            "the value there, or set allow_literal_secrets: true"
        )

    @classmethod
    def literal(cls, setting: str, value: str) -> "Secret":
        """Wrap a value that came from elsewhere than a configuration; it cannot be pickled."""
        return cls(setting, reference=None, literal=value, may_travel=False)

    def reveal(self) -> str:
        """Return the value. Keep it no longer than needed, and never in a message."""
        if self.reference is None:
            return self._literal
        return resolve(self.setting, self.reference, secret=True)

    def matches(self, text: str) -> bool:
        """Compare the value with ``text`` in constant time."""
        return hmac.compare_digest(self.reveal().encode(), text.encode())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret) or type(self) is not type(other):
            return NotImplemented
        same_reference = self.reference == other.reference
        return hmac.compare_digest(self._literal.encode(), other._literal.encode()) & same_reference

    def __hash__(self) -> int:
        # The literal stays out: a hash would tell something about it.
        return hash((type(self), self.reference))

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __reduce__(self) -> tuple[object, ...]:
        if self.reference is None and not self._may_travel:
            raise ConfigError(
                f"{self.setting} was given as a value and may not leave this process. "
                "Write it as ${env:NAME} or ${file:PATH}"
            )
        return (_rebuild, (type(self), self.setting, self.reference, self._literal))


def _rebuild(kind: type[Secret], setting: str, reference: str | None, literal: str) -> Secret:
    return kind(setting, reference=reference, literal=literal)


def is_reference(text: str) -> bool:
    """Tell whether the whole text is one reference.

    >>> is_reference("${env:PARIS_PASSWORD}"), is_reference("pa${env:X}ss")
    (True, False)
    """
    return _REFERENCE.fullmatch(text) is not None


def resolve(setting: str, reference: str, *, secret: bool) -> str:
    """Return what a reference stands for; a trailing line end of a file is not part of it."""
    found = _REFERENCE.fullmatch(reference)
    assert found, "callers ask is_reference first"
    kind, place = found.groups()
    if kind == "file":
        return read_private(setting, Path(place)) if secret else _read(setting, Path(place))
    value = os.environ.get(place)
    if value is None:
        raise ConfigError(
            f"{setting} is {reference}, but this process has no environment variable {place}. "
            f"Export it where Heliograph runs, and for the executors (spark.executorEnv.{place})"
        )
    return value


def read_private(setting: str, path: Path) -> str:
    """Return the text of a file that only its owner and group may read; others are refused."""
    return _read(setting, path, private=True)


def _read(setting: str, path: Path, *, private: bool = False) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            # Asked of the open file, so that it cannot be exchanged in between.
            mode = os.fstat(file.fileno()).st_mode
            if private and mode & (stat.S_IROTH | stat.S_IWOTH):
                raise ConfigError(
                    f"{setting}: every user of this machine can read {path}. It was not used. "
                    f"Run: chmod 600 {path}"
                )
            return file.read().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ConfigError(
            f"{setting}: the file {path} cannot be read ({error.strerror}). It must be readable "
            "wherever Heliograph runs, executors included"
        ) from error
    except UnicodeDecodeError:
        # "from None": the original error carries the bytes.
        raise ConfigError(f"{setting}: the file {path} does not hold UTF-8 text") from None


def _absolute(reference: str) -> str:
    """Anchor a relative file: a Spark task runs in another folder."""
    found = _REFERENCE.fullmatch(reference)
    assert found
    kind, place = found.groups()
    return f"${{file:{Path(place).expanduser().absolute()}}}" if kind == "file" else reference


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Replace every value found in a text that others wrote.

    Also found are the forms in which libraries quote a value: in a URL, escaped in a repr, and
    single lines of a longer one (a private key).
    """
    forms: set[str] = set()
    for secret in secrets:
        try:
            forms |= _forms(secret.reveal())
        except ConfigError:
            # What cannot be resolved was not used, so the text cannot hold it.
            continue
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def _forms(value: str) -> set[str]:
    escaped = value.encode("unicode_escape").decode()
    forms = {value, quote(value, safe=""), quote_plus(value), escaped, repr(value)[1:-1]}
    forms |= {line for line in value.splitlines() if len(line) >= _SHORTEST_LINE}
    return {form for form in forms if form}
