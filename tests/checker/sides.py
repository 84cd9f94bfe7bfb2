"""Both isolation levels of one log, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.checker.anomalies import Name
from tests.checker.pairs import Span, one
from tests.checker.reading import Seen
from tests.checker.resolve import Finding
from tests.checker.walk import Sourced

Log = Iterator[tuple[int, Seen]]


def with_uncommitted(
    committed: Log, read_all: Callable[[int], Log], span: Span
) -> Iterator[Sourced]:
    """Yield the source's committed records, and between them those that are not.

    The second reader starts at the first hole: only there can such a record stand.
    """
    expected, end = span
    others: Log | None = None
    for offset, seen in committed:
        if others is None and offset > expected:
            others = read_all(expected)
        for at, other in others or ():
            if at >= offset:
                break
            yield Sourced(at, other, is_committed=False)
        yield Sourced(offset, seen)
        expected = offset + 1
    if others is None and expected < end:
        others = read_all(expected)
    for at, other in others or ():
        yield Sourced(at, other, is_committed=False)


def agreed(everything: Log, committed: Log, findings: list[Finding]) -> Log:
    """Yield what readers of uncommitted records see of a mirror; all others must see the same."""
    other = next(committed, None)
    for offset, seen in everything:
        yield offset, seen
        if other is None or other[0] > offset:
            detail = "readers of committed records do not see this image"
            findings.append(Finding(Name.LOST, detail, None, one(offset)))
            continue
        if other != (offset, seen):
            detail = "the isolation levels see different records"
            findings.append(Finding(Name.MISMATCH, detail, None, one(offset)))
        other = next(committed, None)
