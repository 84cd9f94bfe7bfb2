"""Property files as Java reads them: keys, values and where they stand."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_ENTRY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TELLING = re.compile(r"[A-Za-z0-9_>-]+(\.[A-Za-z0-9_>-]+)+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a file. Its value may be a secret, and so is in no repr.

    ``label`` is the key as people know it, which differs from ``name`` where a file has another
    form than the one that is read.
    """

    name: str
    value: str = field(repr=False)
    line: int = 0
    label: str = ""

    @property
    def shown(self) -> str:
        """The key as it was written."""
        return self.label or self.name

    @property
    def place(self) -> str:
        """The key and its line, for a person who is to change it."""
        return f"{self.shown} (line {self.line})" if self.line else self.shown

    @property
    def is_telling(self) -> bool:
        """Claim: a key that nobody knows may be shown, for it is no part of a secret.

        A line of a password or of a private key that lost its backslash looks like a key.
        """
        written = self.label.rpartition(": ")[2] or self.name
        return bool(self.value) and _TELLING.fullmatch(written) is not None

    @property
    def guarded(self) -> str:
        """The key where nobody knows it, or only its line."""
        if self.is_telling:
            return self.shown
        origin = self.label.removesuffix(self.name)
        return f"{origin}line {self.line}" if self.line else "a key"


def read_properties(text: str, origin: str = "") -> list[Entry]:
    """Read a property file; ``origin`` stands before each key where there are several files.

    >>> read_properties("a.b = 1\\nc:2")
    [Entry(name='a.b', line=1, label=''), Entry(name='c', line=2, label='')]
    """
    return [_entry(line, number, origin) for number, line in _logical_lines(text)]


def newest(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the entries by name; of a key that is given twice, the last, as in Java."""
    return {entry.name: entry for entry in entries}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, continued ones joined, each with its first line's number."""
    held: list[str] = []
    first = 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        bare = line.lstrip(" \t\f")
        if not held:
            if not bare or bare[0] in "#!":
                continue
            first = number
        slashes = len(bare) - len(bare.rstrip("\\"))
        if slashes % 2:
            held.append(bare[:-1])
        else:
            yield first, "".join([*held, bare])
            held = []
    if held:
        yield first, "".join(held)


def _entry(line: str, number: int, origin: str) -> Entry:
    found = _ENTRY.fullmatch(line)
    assert found, "every part of the pattern may be empty"
    name, value = (_ESCAPE.sub(_unescape, part) for part in found.groups())
    return Entry(name, value.strip(), number, f"{origin}{name}" if origin else "")


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)
