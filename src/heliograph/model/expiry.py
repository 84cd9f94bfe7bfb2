"""Expiry: when the leader of a partition forgets who wrote to it. Pure.

A leader drops a producer's epoch and sequences once the newest timestamp of its last batch is
older than ``producer.id.expiration.ms``. A mirror keeps timestamps, so while it copies old
records neither the fence nor the recognition of repeats can be relied on.
"""

from datetime import timedelta
from math import inf

REQUEST_LIFE = timedelta(seconds=10)
"""How long a process of ours may stand still and go on, and how long the network may hold what it
sends."""
_SHORTEST = 4 * REQUEST_LIFE
CLAIM_WAIT = 2 * REQUEST_LIFE
"""What an earlier writer may still send after a claim: it stood still for nearly as long as it may,
and then the network held its request for as long."""


def old_after_ms(expiration: timedelta) -> float:
    """Return from which age on a leader might have forgotten who wrote a batch, in milliseconds.

    Half the limit counts already: clocks differ, and a batch ages while it is on its way. Records
    without a time (-1) are the oldest of all, and so is what was written at a time not known. Where
    the limit is so short that a batch may outlive it on its way, everything is old.

    >>> old_after_ms(timedelta(days=1)) == 12 * 3_600_000
    True
    >>> old_after_ms(timedelta(seconds=1))
    -inf
    """
    return -inf if expiration < _SHORTEST else expiration.total_seconds() * 500


def is_stall(before_s: float, now_s: float) -> bool:
    """Tell whether a process that looked at its clock at these two moments stood still between.

    >>> is_stall(100.0, 101.0), is_stall(100.0, 111.0)
    (False, True)
    """
    return now_s - before_s > REQUEST_LIFE.total_seconds()
