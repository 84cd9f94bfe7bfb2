"""The checker's own reading of the ledger: tolerant of what is new, never of a contradiction."""

import json

import pytest

from tests.checker.ledger import Gap, Ledger, parse
from tests.checker.pairs import Stretch

HEAD = {
    "format": 1,
    "source_next": 20,
    "target_next": 12,
    "gaps": [{"source_start": 8, "source_end": 10, "why": "retention", "new": 1}],
    "segments": [0, 2],
    "something": {"new": True},
}
ROWS = {"t/0": HEAD, "t/0/0": [[0, 0, 8]], "t/0/1": [[10, 8, 3], [14, 11, 1]], "t/1/0": [[0, 0, 1]]}


def reading(changes: dict[str, object]) -> Ledger:
    rows = ROWS | changes
    return parse({key.encode(): json.dumps(row).encode() for key, row in rows.items()}, "t", 0)


def test_a_ledger_is_read_from_its_rows_whatever_else_they_hold() -> None:
    ledger = reading({})
    assert (ledger.source_next, ledger.target_next, ledger.faults) == (20, 12, [])
    assert list(ledger.runs) == [Stretch(0, 0, 8), Stretch(10, 8, 3), Stretch(14, 11, 1)]
    assert ledger.gaps == [Gap(8, 10, "retention")]
    assert ledger.gap_at(9) == ledger.gaps[0]
    assert ledger.gap_at(7) is None and ledger.gap_at(10) is None


def test_segments_of_older_and_of_newer_versions_are_one_ledger() -> None:
    newer = {"source": 10, "target": 8, "runs": [[0, 0, 2], 1, [2, 3, 4]], "new": True}
    head = HEAD | {"source_next": 30, "target_next": 30}
    ledger = reading({"t/0": head, "t/0/1": newer})
    assert not ledger.faults
    later = [Stretch(10, 8, 2), Stretch(13, 10, 1), Stretch(16, 14, 4)]
    assert list(ledger.runs) == [Stretch(0, 0, 8), *later]


def test_an_absent_ledger_is_not_an_empty_one() -> None:
    assert not parse({}, "t", 0).exists
    assert reading({}).exists


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"t/0/1": [[10, 7, 3]]}, "out of order"),
        ({"t/0/1": [[7, 8, 3]]}, "out of order"),
        ({"t/0/1": [[10, 8, 0]]}, "out of order"),
        ({"t/0/1": [[18, 8, 3]]}, "beyond the ends"),
        ({"t/0/1": [[10, 11, 3]]}, "beyond the ends"),
        ({"t/0/1": [[9, 8, 3]]}, "named twice"),
        ({"t/0/1": [[10, 8]]}, "cannot be read"),
        ({"t/0/1": {"source": 7, "target": 8, "runs": [[0, 0, 3]]}}, "out of order"),
        ({"t/0/1": {"source": 10, "target": 8, "runs": [[0, 0, 3], 0]}}, "out of order"),
        ({"t/0/1": {"source": 10, "target": 8, "runs": [[0, 0, 1], [-1, 0, 1]]}}, "out of order"),
        ({"t/0/1": {"source": 10, "target": 8, "runs": [[0, 0, 3], 9]}}, "beyond the ends"),
        ({"t/0/1": {"source": 10, "target": 8, "runs": [[0, 3]]}}, "cannot be read"),
        ({"t/0/1": {"source": 10, "runs": [[0, 0, 3]]}}, "cannot be read"),
        ({"t/0": {"source_next": 1}}, "cannot be read"),
        ({"t/0": HEAD | {"segments": [0, 3]}}, "cannot be read"),
    ],
)
def test_a_contradiction_is_a_fault(changes: dict[str, object], says: str) -> None:
    (fault,) = reading(changes).faults
    assert says in fault
