"""Java's regular expressions, as MirrorMaker lists them, for Python."""

import re
import warnings
from collections.abc import Iterable, Sequence

from heliograph.config.values import is_topic_name, parse_pattern

_HINTS = {
    r"\\[pP]\{": r"\p{…} is Java's. Write the letters, as in [A-Za-z]",
    r"\\[QE]": r"\Q…\E is Java's. Put a backslash before each sign instead",
    r"\[[^\]]*&&": "&& inside [ ] is Java's. Write the letters that are left",
    r"(?<!\\)\[(?:[^\]\[\\]|\\.)+\[": "[ ] inside [ ] is Java's. Write one list of letters",
    r"\(\?<[A-Za-z]": "a named group is Java's. Leave the name out",
    r"\(\?[a-zA-Z-]+\)": "flags in the middle are Java's. Write (?i:…) around what they are for",
}
# What a comma leaves of {1,3}, which Java then refuses to compile.
_CUT_COUNT = re.compile(r"(?<!\\)\{[0-9]*\Z")


def split_list(text: str) -> list[str]:
    """Split at commas, also inside braces, as MirrorMaker does; nothing is an empty list.

    >>> split_list("orders, payments.*"), split_list("  ")
    (['orders', 'payments.*'], [])
    """
    return [item.strip() for item in text.split(",") if item.strip()]


def read_patterns(items: Sequence[str]) -> tuple[str, ...]:
    """Return what matches the same whole names, or raise a ValueError with the remedy.

    MirrorMaker joins the items with bars, so one may close what another opened: (a,b) means (a|b).
    """
    for item in items:
        if _CUT_COUNT.search(item):
            raise ValueError(
                "MirrorMaker splits at every comma, also inside {1,3}. Write the count without one"
            )
        for sign, hint in _HINTS.items():
            if re.search(sign, item):
                raise ValueError(f"{item!r}: {hint}")
    # Nothing but dots is no name, though it could be one here.
    items = [f"({item})" if re.fullmatch(r"\.+", item) else item for item in items]
    are_whole = all(_compiles(item) for item in items)
    found = items if are_whole else ["|".join(items)]
    return tuple(dict.fromkeys(map(_checked, found)))


def dotted_names(patterns: Iterable[str]) -> list[str]:
    """Return those that Heliograph takes for names, though a dot meant any sign to MirrorMaker."""
    return [one for one in patterns if is_topic_name(one) and "." in one]


def literally(text: str) -> str:
    """Return an expression that matches the text itself.

    >>> literally("us.west-1")
    'us\\\\.west-1'
    """
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def _compiles(item: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(item)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _checked(pattern: str) -> str:
    try:
        return parse_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"{pattern!r} {error}") from None
