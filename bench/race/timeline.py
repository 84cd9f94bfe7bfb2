"""What was seen of a mirror while it filled, and what follows from it. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Sample(NamedTuple):
    """The stable ends of all partitions of a mirror at one moment."""

    at_s: float
    ends: tuple[int, ...]


class Span(NamedTuple):
    """Where the records of one mirror partition stand: from ``first`` to before ``end``.

    Below and between may be markers: of a claim, of MirrorMaker's transactions.
    """

    first: int
    end: int


@dataclass(frozen=True)
class Window:
    """From the moment the first record could be read to the moment the last could."""

    first_s: float
    last_s: float
    records: int
    """Those that came after the first moment, which may have shown many at once."""

    @property
    def records_per_s(self) -> float:
        """The rate. Infinite if one look saw everything: then there are too few records."""
        took_s = self.last_s - self.first_s
        return self.records / took_s if took_s else float("inf")


def window(samples: Sequence[Sample], spans: Sequence[Span], records: int) -> Window:
    """Return the window in which a mirror of so many records filled.

    ``spans`` are by partition, and were read from the log afterwards: only then is it known
    which offsets are markers.

    >>> seen = [Sample(1.0, (1, 0)), Sample(2.0, (3, 0)), Sample(4.0, (5, 4))]
    >>> window(seen, [Span(1, 5), Span(0, 4)], records=8)
    Window(first_s=2.0, last_s=4.0, records=6)
    """
    first = next(s for s in samples if any(e > p.first for e, p in zip(s.ends, spans, strict=True)))
    last = next(s for s in samples if all(e >= p.end for e, p in zip(s.ends, spans, strict=True)))
    at_once = sum(max(0, e - p.first) for e, p in zip(first.ends, spans, strict=True))
    return Window(first.at_s, last.at_s, max(0, records - at_once))


def value_at(samples: Sequence[tuple[float, float]], at_s: float) -> float:
    """Return a growing quantity at a moment between its samples, or at the nearest of them.

    >>> value_at([(0.0, 10.0), (2.0, 20.0)], 0.5), value_at([(0.0, 10.0)], 7.0)
    (12.5, 10.0)
    """
    place = bisect_left(samples, (at_s,))
    if place == 0:
        return samples[0][1]
    if place == len(samples):
        return samples[-1][1]
    (before_s, before), (after_s, after) = samples[place - 1], samples[place]
    return before + (after - before) * (at_s - before_s) / (after_s - before_s)
