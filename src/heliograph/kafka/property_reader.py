"""Reads single properties by type and gathers every mistake, so that a person sees all at once."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import TypeVar

from heliograph.errors import ConfigError
from heliograph.kafka.secret import Secret, is_reference, resolve

T = TypeVar("T")


class PropertyReader:
    """One cluster's properties, and what is wrong with them so far.

    A reading method returns None both for an absent property and for a wrong one; a wrong one is
    among the ``mistakes``. No mistake ever quotes the value of a secret.
    With ``text_only`` nothing that a property refers to is looked at: no variable, no file.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        allow_literal_secrets: bool,
        text_only: bool = False,
    ) -> None:
        self._properties = properties
        self.text_only = text_only
        self.allow_literal_secrets = allow_literal_secrets
        self.mistakes: list[str] = []
        self._unknown: set[str] = set()

    def wrong(self, mistake: str) -> None:
        """Note one mistake; it begins with the property's name."""
        self.mistakes.append(mistake)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """Return what ``read`` returns, or note its error."""
        try:
            return read()
        except ConfigError as error:
            self.wrong(error.message)
            return None

    def has(self, key: str) -> bool:
        """Tell whether the property is given at all."""
        return key in self._properties

    def given(self, *prefixes: str) -> list[str]:
        """Return the given properties that begin with one of the prefixes, unknown ones not."""
        return [
            key for key in self._properties if key.startswith(prefixes) and key not in self._unknown
        ]

    def refuse_unknown(self, known: Sequence[str], reasons: Mapping[str, str]) -> None:
        """Note every property that is not known; ``reasons`` explains some, by prefix."""
        for key in self._properties:
            if key not in known:
                self._unknown.add(key)
                self.wrong(f"{key}: {_why_unknown(key, known, reasons)}")

    def text(self, key: str) -> str | None:
        """Return a text, a reference in it resolved; an empty one counts as given."""
        value = self._typed_text(key)
        if value is None or not is_reference(value):
            return value
        if self.text_only:
            return None
        return self.attempt(lambda: resolve(key, value, secret=False))

    def filled(self, key: str) -> str | None:
        """Return a text that may not be empty."""
        value = self.text(key)
        if value is not None and not value.strip():
            self.wrong(f"{key} is empty. Give it a value, or remove it")
            return None
        return value.strip() if value else None

    def concealed(self, key: str) -> str | None:
        """Return the text written for a secret: a reference, or (never to be shown) a literal."""
        value = self._typed_text(key)
        if value == "":
            self.wrong(f"{key} is empty. Write ${{env:NAME}} or ${{file:PATH}}, or remove it")
        return value or None

    def secret(self, key: str) -> Secret | None:
        """Return a secret, unresolved."""
        value = self.concealed(key)
        if value is None:
            return None
        allow = self.allow_literal_secrets
        return self.attempt(lambda: Secret.parse(key, value, allow_literal=allow))

    def choice(self, key: str, allowed: Sequence[str]) -> str | None:
        """Return one of the allowed values, in any case of letters."""
        value = self.filled(key)
        if value is None:
            return None
        for one in allowed:
            if one.lower() == value.lower():
                return one
        self.wrong(f"{key}: {value!r} is not supported. Use one of {', '.join(allowed)}")
        return None

    def listing(self, key: str) -> list[str] | None:
        """Return a list, written as a list or separated by commas."""
        value = self._properties.get(key)
        if isinstance(value, list | tuple):
            if all(isinstance(item, str) for item in value):
                return [item.strip() for item in value]
            self.wrong(f"{key}: every item of the list must be text")
            return None
        text = self.filled(key)
        return None if text is None else [item.strip() for item in text.split(",")]

    def number(self, key: str, *, least: int = 0) -> int | None:
        """Return a whole number, also where a property file wrote it as text."""
        if key not in self._properties:
            return None
        value = self._properties[key]
        number = int(value) if isinstance(value, str) and _is_whole(value) else value
        if isinstance(number, bool) or not isinstance(number, int):
            self.wrong(f"{key} must be a whole number, not {value!r}")
            return None
        if number < least:
            self.wrong(f"{key} is {number}; the least it can be is {least}")
            return None
        return number

    def milliseconds(self, key: str, default: timedelta) -> timedelta:
        """Return a time given in milliseconds."""
        number = self.number(key, least=1)
        return default if number is None else timedelta(milliseconds=number)

    def _typed_text(self, key: str) -> str | None:
        if key not in self._properties:
            return None
        value = self._properties[key]
        if isinstance(value, str):
            return value
        if value is None:
            self.wrong(f'{key} has no value. Write "" if it should be empty, or remove it')
        else:
            self.wrong(f"{key} must be text, not {_kind(value)}: put it in quotes")
        return None


def _is_whole(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()


def _kind(value: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "a group of settings")


def _why_unknown(key: str, known: Sequence[str], reasons: Mapping[str, str]) -> str:
    for prefix, reason in reasons.items():
        if key.startswith(prefix):
            return reason
    near = get_close_matches(key, known, n=1)
    if near:
        return f"no such property. Did you mean {near[0]}?"
    return "no such property. Here belongs what is needed to connect; not consumers' or producers'"
