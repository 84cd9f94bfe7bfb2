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
        ({"t/0": {"source_next": 1}}, "cannot be read"),
        ({"t/0": HEAD | {"segments": [0, 3]}}, "cannot be read"),
    ],
)
def test_a_contradiction_is_a_fault(changes: dict[str, object], says: str) -> None:
    (fault,) = reading(changes).faults
    assert says in fault
