"""Contents as numbers of 64 bits, to remember many of them."""

from hashlib import blake2b

from tests.checker.reading import Seen

Headers = tuple[tuple[str, bytes | None], ...]


def of_record(seen: Seen) -> int:
    """Return the digest of all that a reader sees of a record."""
    return _digest(repr(tuple(seen)))


def of_payload(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the digest of what a producer decides alone: a timestamp may become the broker's."""
    return _digest(repr((key, value, headers)))


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
