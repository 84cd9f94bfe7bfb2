"""A YAML text as places: what was written, under which path, on which line.

Values are never constructed, only composed: a scalar stays the text a person wrote. So ``no`` is
a topic's name, ``0123`` keeps its zero, and ``off`` means what the setting says it means.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

_TAG = "tag:yaml.org,2002:"
_TAGS = {
    _TAG + name
    for name in ("str", "null", "bool", "int", "float", "timestamp", "merge", "value", "map", "seq")
}
_PLAIN_KEY = re.compile(r"[A-Za-z0-9._/-]{1,100}")
_LONGEST_QUOTE = 60
_MOST_VALUES = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in a file. Never holds the value of a secret.

    >>> str(Finding("links.a.on_gap", 14, "'go' is not allowed"))
    "links.a.on_gap (line 14): 'go' is not allowed"
    """

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{self.path} (line {self.line})" if self.path else f"line {self.line}"
        return f"{where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Place:
    """One value in the file: where it stands and how it was written.

    Read it as what it should be; what it is not comes back as None.
    """

    path: str
    line: int
    node: yaml.Node

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written, or null."""
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == _TAG + "null"

    @property
    def what(self) -> str:
        """What was written, in words."""
        if self.is_empty:
            return "nothing"
        if isinstance(self.node, yaml.ScalarNode):
            return "a single value"
        return "a list" if isinstance(self.node, yaml.SequenceNode) else "a group of settings"

    def text(self) -> str | None:
        """Return a single value, to the letter."""
        if isinstance(self.node, yaml.ScalarNode) and not self.is_empty:
            return str(self.node.value)
        return None

    def items(self) -> list["Place"] | None:
        """Return a list's items; they share the list's path and have lines of their own."""
        if not isinstance(self.node, yaml.SequenceNode):
            return None
        return [Place(self.path, _line(item), item) for item in self.node.value]

    def entries(self) -> dict[str, "Place"] | None:
        """Return a group's entries in their order; nothing written is an empty group.

        What ``<<`` merges in comes last, and never instead of an entry of the group's own.
        """
        if self.is_empty:
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            return None
        found: dict[str, Place] = {}
        for key, value in _pairs(self.node, set()):
            if key.value not in found:
                found[key.value] = Place(_join(self.path, key.value), _line(key), value)
        return found

    def plain(self) -> object:
        """Return the value as lists, dicts, texts, numbers, booleans and None.

        A ValueError means that it is too large: aliases can make a small file endless.
        """
        try:
            return _plain(self.node, [_MOST_VALUES])
        except RecursionError:
            raise ValueError("holds itself, or is nested too deeply") from None

    def wrong(self, message: str) -> Finding:
        """Say what is wrong here."""
        return Finding(self.path, self.line, message)


def compose(text: str) -> tuple[Place | None, list[Finding]]:
    """Return the whole document, or None where it cannot be read, and what is wrong with it.

    Finds what no reader of single settings can see: a key that is given twice (of which YAML
    would silently keep the last), keys that are not text, tags.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return None, [Finding("", 1, "the file is empty. `heliograph init` prints one")]
        return Place("", _line(root), root), list(_oddities(root))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return None, [Finding("", mark.line + 1 if mark else 1, _syntax(error))]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, [Finding("", line, "YAML allows no such character here")]
    except RecursionError:
        return None, [Finding("", 1, "it is nested too deeply")]
    except (ValueError, OverflowError):
        # PyYAML lets chr() fail. The error is not chained: it may quote the text.
        return None, [Finding("", 1, "an escape such as \\U00110000 stands for no character")]


def quoted(text: str) -> str:
    """Quote what a person wrote, if it is not the value of a secret; cut short.

    >>> quoted("stopp")
    "'stopp'"
    """
    return repr(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…")


def _syntax(error: yaml.MarkedYAMLError) -> str:
    """Describe a mistake in the YAML. Not by the error's own text, which shows the lines."""
    problem, context = error.problem or "it cannot be read", error.context or ""
    for sign, what in (("*", "an alias"), ("&", "an anchor")):
        if what.split()[1] in f"{problem} {context}":
            return f"a value that begins with {sign} is {what} of YAML. Put it in quotes"
    words = "this is not YAML: " + re.sub(r"'([^']*)'", _harmless, problem)
    if context.startswith("while") and error.context_mark and "'" not in context:
        words += f", {context} that begins in line {error.context_mark.line + 1}"
    return words


def _harmless(quote: re.Match[str]) -> str:
    is_token = re.fullmatch(r"\\?.?|<[a-z ]+>", quote[1])
    return quote[0] if is_token else "'…'"


def _oddities(root: yaml.Node) -> Iterator[Finding]:
    waiting: list[tuple[yaml.Node, str, int]] = [(root, "", _line(root))]
    seen: set[int] = set()
    while waiting:
        node, path, line = waiting.pop()
        # A node may be met again by an alias, even inside itself.
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.tag not in _TAGS:
            yield Finding(path, line, "a value that begins with ! is a tag of YAML; quote it")
        if isinstance(node, yaml.SequenceNode):
            waiting += [(item, path, _line(item)) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            yield from _odd_keys(node, path)
            waiting += [(value, _join(path, key.value), _line(key)) for key, value in node.value]


def _odd_keys(mapping: yaml.MappingNode, path: str) -> Iterator[Finding]:
    lines: dict[str, int] = {}
    for key, value in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            yield Finding(path, _line(key), "the name of a setting must be a single word")
        elif _is_merge(key):
            if not all(isinstance(one, yaml.MappingNode) for one in _merged(value)):
                yield Finding(path, _line(key), "<< takes a group of settings, or a list of them")
        elif key.value in lines:
            yield Finding(
                _join(path, key.value),
                _line(key),
                f"already given in line {lines[key.value]}. Only one can count: remove the other",
            )
        else:
            lines[key.value] = _line(key)


def _pairs(
    mapping: yaml.MappingNode, seen: set[int]
) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    # What was seen adds nothing, as the first entry wins; and it may be merged into itself.
    seen.add(id(mapping))
    merges: list[yaml.Node] = []
    for key, value in mapping.value:
        if isinstance(key, yaml.ScalarNode):
            if _is_merge(key):
                merges += _merged(value)
            else:
                yield key, value
    for merged in merges:
        if isinstance(merged, yaml.MappingNode) and id(merged) not in seen:
            yield from _pairs(merged, seen)


def _is_merge(key: yaml.Node) -> bool:
    return key.tag == _TAG + "merge"


def _merged(value: yaml.Node) -> list[yaml.Node]:
    return list(value.value) if isinstance(value, yaml.SequenceNode) else [value]


def _plain(node: yaml.Node, left: list[int]) -> object:
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("is too large")
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, left) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value, left) for key, value in _pairs(node, set())}
    return _scalar(node.tag.removeprefix(_TAG), str(node.value))


def _scalar(tag: str, text: str) -> object:
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() in ("true", "yes", "on")
    if tag == "int" and re.fullmatch(r"[-+]?[0-9]{1,18}", text):
        return int(text)
    if tag == "float" and re.fullmatch(r"[-+]?[0-9]+\.[0-9]*", text):
        return float(text)
    return text


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _join(path: str, key: object) -> str:
    """Add a step. One that is no name is cut, since a whole line of a property file may be it."""
    text = str(key) if isinstance(key, str) else "…"
    if not _PLAIN_KEY.fullmatch(text):
        text = quoted(re.split(r"[=:\s]", text, maxsplit=1)[0] + "…")
    return f"{path}.{text}" if path else text
