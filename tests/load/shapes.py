"""What a load writes: records of every shape, each with an id of its own unless told otherwise.

Pure: a seed in, records out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.checker.digests import Headers

ALIKE = (b"alike", b"alike", (("alike", b"alike"),))
"""What identical records hold."""

_WORDS = ("", "é", "日本", "🛰", "ascii", "a" * 100)


class Written(NamedTuple):
    """One record to write. Without ``is_unique`` others hold the same."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    is_unique: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What the records of a load are like.

    With ``compact_keys`` each has one of so many keys, and a key stays in its partition.
    """

    partitions: int
    seed: int
    identical_ratio: float = 0.0
    compact_keys: int = 0
    most_bytes: int = 400


def records(shape: Shape) -> Iterator[Written]:
    """Yield records without end; the same for the same shape.

    The id is in the value, or in a header where the value is null or empty.
    """
    chance = random.Random(shape.seed)
    number = 0
    while True:
        number += 1
        if chance.random() < shape.identical_ratio:
            yield Written(chance.randrange(shape.partitions), *ALIKE, is_unique=False)
            continue
        identity = f"{shape.seed}-{number}".encode()
        place, key = _place(shape, chance)
        value = chance.choice([None, b"", _value(chance, shape.most_bytes), _value(chance, 40)])
        headers = _headers(chance)
        if value:
            value = identity + b" " + value
        else:
            headers = (*headers, ("id", identity))
        yield Written(place, key, value, headers, is_unique=True)


def _place(shape: Shape, chance: random.Random) -> tuple[int, bytes | None]:
    if shape.compact_keys:
        number = chance.randrange(shape.compact_keys)
        return number % shape.partitions, f"key-{number}".encode()
    key = chance.choice([None, b"", chance.randbytes(8), chance.choice(_WORDS).encode()])
    return chance.randrange(shape.partitions), key


def _value(chance: random.Random, most_bytes: int) -> bytes:
    if chance.random() < 0.3:
        return chance.choice(_WORDS).encode() * chance.randrange(1, 5)
    # Half of it repeats itself, so that codecs have something to do.
    size = chance.randrange(1, most_bytes // 2)
    return chance.randbytes(size) + b"." * size


def _headers(chance: random.Random) -> Headers:
    names = chance.choice([(), (), ("h",), ("h", "h"), ("b", "a", "b"), ("", "é")])
    return tuple((name, chance.choice([None, b"", b"1", chance.randbytes(5)])) for name in names)
