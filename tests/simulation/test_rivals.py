"""Two copiers that open the same partition, stopped and resumed at every step of it."""

from __future__ import annotations

from itertools import product

import pytest

from tests.simulation.defects import no_identity
from tests.simulation.link import ADD, END, FETCH, INIT, PRODUCE, Link

_CLAIMING = (INIT, ADD, END)
_AFTERWARDS = (FETCH, PRODUCE)  # of the ledger, of the mirror, of the source; to both


def race(schedule: tuple[int, ...]) -> None:
    """Let two copiers run in turn, each until it has sent the next request named; judge both."""
    link = Link()
    try:
        link.append(batches=2, records=1)
        link.start_rivals(list(schedule))
        for copier in link.copiers:
            link.append(batches=1, records=1)
            copier.run(100)
            link.journal.judge()
    finally:
        link.teardown()


def test_rivals_leave_one_writer_wherever_they_overtake_each_other() -> None:
    for schedule in product(_CLAIMING, _CLAIMING, *[_AFTERWARDS] * 4):
        race(schedule)


def test_rivals_both_write_where_the_second_init_carries_no_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The races can be lost: without ``(P, e)`` two claimers believe that they won."""
    no_identity(monkeypatch)
    with pytest.raises(AssertionError, match="the mirror has"):
        test_rivals_leave_one_writer_wherever_they_overtake_each_other()
