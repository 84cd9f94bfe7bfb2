"""Both isolation levels side by side, of the source and of a mirror."""

from tests.checker.resolve import Finding
from tests.checker.sides import Log, agreed, with_uncommitted
from tests.unit.checker.worlds import seen


def log(*offsets: int) -> Log:
    return iter([(offset, seen(b"%d" % offset)) for offset in offsets])


def told(committed: list[int], everything: list[int], end: int) -> list[tuple[int, bool]]:
    """Return what is told of a source; fails when more is read than needed."""

    def read_all(start: int) -> Log:
        return log(*(offset for offset in everything if offset >= start))

    found = list(with_uncommitted(log(*committed), read_all, (0, end)))
    assert [record.seen for record in found] == [seen(b"%d" % at) for at, *_ in found]
    return [(record.offset, record.is_committed) for record in found]


def test_uncommitted_records_are_told_in_their_places() -> None:
    assert told([0, 1, 4, 7], [0, 1, 2, 4, 6, 7, 8], 10) == [
        (0, True),
        (1, True),
        (2, False),
        (4, True),
        (6, False),
        (7, True),
        (8, False),
    ]


def test_records_before_and_after_the_committed_ones_are_told() -> None:
    assert told([2], [0, 2, 3], 4) == [(0, False), (2, True), (3, False)]
    assert told([], [0, 1], 2) == [(0, False), (1, False)]


def test_a_source_without_holes_is_read_once() -> None:
    def never(start: int) -> Log:
        raise AssertionError(start)

    found = with_uncommitted(log(0, 1, 2), never, (0, 3))
    assert [record.offset for record in found] == [0, 1, 2]


def test_readers_who_see_different_images_are_told() -> None:
    findings: list[Finding] = []
    everything = list(agreed(log(0, 1, 2, 3), iter([*log(0), (2, seen(b"other"))]), findings))
    assert [offset for offset, _ in everything] == [0, 1, 2, 3]
    names = [(str(finding.name), finding.target) for finding in findings]
    assert names == [("lost", (1, 2)), ("mismatch", (2, 3)), ("lost", (3, 4))]
