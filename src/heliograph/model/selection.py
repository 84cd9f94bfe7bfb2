"""Selection: which topics a link copies, and what their mirrors are called. Pure."""

import re
from collections.abc import Collection, Iterable

from heliograph.errors import ConfigError
from heliograph.model.control import Wanted

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MOST_NAME = 249
# Begins a template that is read backwards; no name of a topic holds it, so nobody else writes it.
_BACK = "<"


def is_topic_name(text: str) -> bool:
    """Tell whether a pattern is a topic's name, and so means that topic only."""
    return _NAME.fullmatch(text) is not None


def matches(patterns: Collection[str], topic: str) -> bool:
    """Tell whether a topic is meant by any of the patterns.

    What could be a topic's name is one: its dots are dots. Anything else is a regular expression
    for the whole name.

    >>> matches(["orders", "pay.*"], "payments"), matches(["a.b"], "axb")
    (True, False)
    """
    return any(
        topic == pattern if is_topic_name(pattern) else re.fullmatch(pattern, topic) is not None
        for pattern in patterns
    )


def one_pattern(patterns: Collection[str]) -> str:
    """Return one pattern that means what any of these mean.

    >>> matches([one_pattern(["a.b", "pay.*"])], "a.b"), matches([one_pattern(["a.b"])], "axb")
    (True, False)
    """
    parts = [re.escape(one) if is_topic_name(one) else f"(?:{one})" for one in patterns]
    return "|".join(parts)


def select(topics: Iterable[str], include: Collection[str], exclude: Collection[str]) -> list[str]:
    """Return the topics to copy, sorted; exclude wins. Our own topics are never copied.

    >>> select(["a", "b", "__heliograph.x.ledger"], [".*"], ["b"])
    ['a']
    """
    return sorted(
        topic
        for topic in topics
        if matches(include, topic)
        and not matches(exclude, topic)
        and not topic.startswith("__heliograph.")
    )


def selection(
    wanted: Wanted, include: Collection[str], exclude: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what to include and exclude: what the file says, and what commands say since.

    >>> selection(Wanted(removed=("b",)), ["a", "b"], ["c"])
    (('a', 'b'), ('c', 'b'))
    """
    added = (one.pattern for one in wanted.added)
    return (*include, *added), (*exclude, *wanted.removed)


def reverse_naming(template: str, source: str) -> str:
    """Return the naming of the opposite direction: what was a mirror's name becomes its topic's.

    >>> reverse_naming("{topic}", "paris")
    '{topic}'
    """
    return template if template == "{topic}" else _BACK + template.replace("{source}", source)


def mirror_name(template: str, source: str, topic: str) -> str:
    """Return the mirror's name; ``source`` is the source cluster's.

    >>> mirror_name("{source}.{topic}", "paris", "orders")
    'paris.orders'
    >>> mirror_name(reverse_naming("{source}.{topic}", "paris"), "dublin", "paris.orders")
    'orders'
    """
    if template.startswith(_BACK):
        before, _, after = template.removeprefix(_BACK).partition("{topic}")
        name = topic.removeprefix(before).removesuffix(after)
    else:
        name = template.replace("{source}", source).replace("{topic}", topic)
    if not _NAME.fullmatch(name) or name in (".", "..") or len(name) > _MOST_NAME:
        raise ConfigError(
            f"topic {topic} would be mirrored as {name!r}, which cannot name a topic (at most"
            f" {_MOST_NAME} letters, digits, '.', '_' and '-'). Change naming, or exclude it"
        )
    return name
