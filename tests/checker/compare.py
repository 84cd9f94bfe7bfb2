"""Compares a topic with its mirror, record by record, in the order of their offsets."""

from itertools import zip_longest

from tests.checker.reading import read_partition


def count_equal(
    source: str, topic: str, target: str, mirror: str, partitions: int, *, committed: bool = False
) -> int:
    """Return how many records both sides hold; fail at the first that differs.

    The source is read as committed; the mirror at the isolation level that is asked for.
    """
    equal = 0
    for partition in range(partitions):
        theirs = read_partition(source, topic, partition, committed=True)
        ours = read_partition(target, mirror, partition, committed=committed)
        for one, other in zip_longest(theirs, ours):
            assert one is not None, f"partition {partition}: the mirror has more: {other}"
            assert other is not None, f"partition {partition}: the mirror lacks {one}"
            assert one[1] == other[1], f"partition {partition}: source {one}, mirror {other}"
            equal += 1
    return equal
