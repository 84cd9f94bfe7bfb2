"""Values that a person writes as text: times, sizes, patterns, templates, addresses.

Each is a pair of functions, from text and back. What cannot be read is a ValueError whose words
continue a sentence that begins with the value: "'5' has no unit".
"""

import re
import string
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Literal

OFF = "off"
_ENDS: dict[str, Literal["earliest", "latest"]] = {"earliest": "earliest", "latest": "latest"}
SAME, PREFIX = "{topic}", "{source}.{topic}"
_TEMPLATES = {"same": SAME, "prefix": PREFIX}

# From the largest down, so that showing takes the first one that fits.
_SPANS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_BYTES = {
    "TiB": 2**40, "TB": 10**12, "GiB": 2**30, "GB": 10**9, "MiB": 2**20, "MB": 10**6,
    "KiB": 2**10, "kB": 10**3, "KB": 10**3, "B": 1,
}  # fmt: skip
_AMOUNT = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)")
_LONGEST_SPAN = timedelta(days=3650)
# Earlier ones would be seconds taken for milliseconds, or a date without its dashes.
_LEAST_EPOCH_MS = 10**11
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# What is done with warnings is done for the whole process: two threads would undo each other's.
_COMPILING = threading.Lock()

_SHORT_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
_MASTER = re.compile(r"(local|yarn|local(-cluster)?\[[^\]]+\]|(spark|k8s)://.+)")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen.

    >>> str(Address("::1", 8040))
    '[::1]:8040'
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_span(text: str) -> timedelta | None:
    """Read a time with its unit; None is ``off``.

    >>> parse_span("500ms")
    datetime.timedelta(microseconds=500000)
    """
    if text == OFF:
        return None
    amount, unit = _amount(text)
    if not unit:
        raise ValueError(f"has no unit. Did you mean {amount}s?")
    if unit not in _SPANS:
        raise ValueError("is not a time")
    if not 0 < amount <= _LONGEST_SPAN // _SPANS[unit]:
        raise ValueError(f"must be more than nothing, and at most {show_span(_LONGEST_SPAN)}")
    return amount * _SPANS[unit]


def show_span(span: timedelta | None) -> str:
    """Write a time so that it reads back the same.

    >>> show_span(timedelta(seconds=120)), show_span(None)
    ('2m', 'off')
    """
    if span is None:
        return OFF
    unit = next(unit for unit, one in _SPANS.items() if not span % one)
    return f"{span // _SPANS[unit]}{unit}"


def parse_size(text: str) -> int | None:
    """Read a number of bytes; None is ``off``.

    >>> parse_size("50MB"), parse_size("1GiB"), parse_size("1024")
    (50000000, 1073741824, 1024)
    """
    if text == OFF:
        return None
    amount, unit = _amount(text)
    if unit and unit not in _BYTES:
        raise ValueError("has no known unit")
    if amount == 0:
        raise ValueError("would let nothing through")
    return amount * _BYTES[unit or "B"]


def parse_limit(text: str) -> int | None:
    """Read a limit as commands take it: 0 is ``off``, and None is what the file says.

    >>> parse_limit("20MB"), parse_limit("off"), parse_limit("file")
    (20000000, 0, None)
    """
    return None if text == "file" else parse_size(text) or 0


def show_size(size: int | None) -> str:
    """Write a number of bytes so that it reads back the same.

    >>> show_size(50_000_000), show_size(1025)
    ('50MB', '1025B')
    """
    if size is None:
        return OFF
    unit = next(unit for unit, one in _BYTES.items() if not size % one)
    return f"{size // _BYTES[unit]}{unit}"


def _amount(text: str) -> tuple[int, str]:
    found = _AMOUNT.fullmatch(text)
    if not found:
        raise ValueError("is not a whole number with a unit")
    return int(found[1]), found[2]


def parse_start(text: str) -> Literal["earliest", "latest"] | datetime:
    """Read ``earliest``, ``latest`` or a time; one without a zone is UTC.

    >>> parse_start("1767225600000")
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if text in _ENDS:
        return _ENDS[text]
    if re.fullmatch(r"[0-9]+", text):
        if len(text) > 15 or int(text) < _LEAST_EPOCH_MS:
            raise ValueError("is no time in milliseconds since 1970 (seconds need 000 more)")
        return _in_utc(lambda: _EPOCH + timedelta(milliseconds=int(text)))
    return _in_utc(lambda: datetime.fromisoformat(text))


def _in_utc(read: Callable[[], datetime]) -> datetime:
    try:
        moment = read()
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a time") from None


def show_start(start: str | datetime) -> str:
    """Write a start so that it reads back the same."""
    return start if isinstance(start, str) else start.isoformat().replace("+00:00", "Z")


def parse_flag(text: str) -> bool:
    """Read true or false, in all the words that YAML has for them."""
    for words, value in ((("true", "yes", "on"), True), (("false", "no", "off"), False)):
        if text.lower() in words:
            return value
    raise ValueError("is neither true nor false")


def show_flag(flag: bool) -> str:
    """Write true or false."""
    return "true" if flag else "false"


def parse_word(text: str, allowed: tuple[str, ...]) -> str:
    """Read one of a few words."""
    if text not in allowed:
        raise ValueError(f"is not allowed{near(text, allowed)}")
    return text


def parse_word_or_count(text: str, allowed: tuple[str, ...], most: int) -> str | int:
    """Read one of a few words, or a number from 1."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        return parse_word(text, allowed)
    if not 1 <= int(text) <= most:
        raise ValueError(f"is not between 1 and {most}")
    return int(text)


def near(text: str, known: Iterable[str]) -> str:
    """Return a guess at what was meant, as a sentence to append; empty without a good one."""
    found = get_close_matches(text, list(known), n=1)
    return f". Did you mean {found[0]}?" if found else ""


def parse_pattern(text: str) -> str:
    """Read a name, or a regular expression of Python that would match whole names."""
    if not text:
        raise ValueError("matches nothing")
    try:
        # Python warns of what other dialects take for set operations: [a-z&&[^b]], [[:alpha:]].
        with _COMPILING, warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression of Python: {error}") from None
    except Warning as warning:
        raise ValueError(f"means something else in Python: {warning}") from None
    except (OverflowError, RecursionError):
        raise ValueError("is too large a regular expression") from None
    return text


def parse_topic_pattern(text: str) -> str:
    """Read a name of a topic, or a regular expression for some."""
    if re.search(r"[,;\s]", re.sub(r"\{[^}]*\}", "", text)):
        raise ValueError("can match no topic: write a list, with an item for each")
    return parse_pattern(text)


def is_topic_name(text: str) -> bool:
    """Tell whether Kafka would take it; such a text is a name, not a regular expression.

    >>> is_topic_name("orders.eu"), is_topic_name("orders.*"), is_topic_name("..")
    (True, False, False)
    """
    return _TOPIC_NAME.fullmatch(text) is not None


def parse_naming(text: str) -> str:
    """Read how mirrors are named; return the template.

    >>> parse_naming("prefix")
    '{source}.{topic}'
    """
    if text in _TEMPLATES:
        return _TEMPLATES[text]
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        raise ValueError("has a brace without its partner") from None
    names = [name for _, name, _, _ in parts if name is not None]
    for _, name, form, conversion in parts:
        if form or conversion or name not in (None, "source", "topic"):
            raise ValueError("has a placeholder other than {source} and {topic}")
    if "topic" not in names:
        raise ValueError(f"lacks {{topic}}, so all mirrors would be one{near(text, _TEMPLATES)}")
    sample = text.format(source="paris", topic="orders")
    if not is_topic_name(sample):
        raise ValueError(f"would name a mirror {sample!r}, which Kafka refuses")
    return text


def show_naming(template: str) -> str:
    """Write a template, by its name if it has one."""
    return next((name for name, one in _TEMPLATES.items() if one == template), template)


def parse_name(text: str) -> str:
    """Read the short name of a cluster or a link."""
    if not _SHORT_NAME.fullmatch(text):
        raise ValueError("is not such a name")
    return text


def parse_master(text: str) -> str:
    """Read where Spark runs."""
    if not _MASTER.fullmatch(text):
        raise ValueError("is no Spark master")
    return text


def parse_address(text: str) -> Address:
    """Read ``host:port``, an IPv6 address in brackets."""
    found = _ADDRESS.fullmatch(text)
    if not found:
        raise ValueError("is not host:port")
    if int(found[3]) > 65535:
        raise ValueError("has a port above 65535")
    return Address(found[1] or found[2], int(found[3]))


def parse_text(text: str) -> str:
    """Read any text but an empty one."""
    if not text.strip():
        raise ValueError("is empty")
    return text


def parse_secret(text: str) -> str | None:
    """Read what stands for a secret, as it is; None is ``off``. No message of ours quotes it."""
    return None if text == OFF else parse_text(text)


def show_secret(text: str | None) -> str:
    """Write that there is none: a secret is never shown."""
    return OFF if text is None else "***"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host. A name that might be anywhere is not.

    >>> is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("localhost")
    (True, True, True)
    >>> is_loopback("0.0.0.0"), is_loopback("paris-1")
    (False, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
