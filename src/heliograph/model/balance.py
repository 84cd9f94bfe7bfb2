"""Balance: even leases from measured bytes per second. Pure.

A partition never moves without reason: each move costs a claim's worth of quiet.
"""

from collections.abc import Collection, Mapping

from heliograph.model.topics import Partition

# Leases may differ by this part of the mean before anything moves.
_SLACK = 0.25
# A partition that is idle counts a little, so that idle ones are spread as well.
_IDLE_BYTES = 1_000.0


def assign(
    partitions: Collection[Partition],
    leases: int,
    bytes_per_second: Mapping[Partition, float],
    before: Mapping[Partition, int],
) -> dict[Partition, int]:
    """Return the lease of each partition, by number from 0.

    Partitions stay where they were ``before``; new ones go where least is done, the busiest first;
    then single partitions move from the busiest lease to the idlest while that evens them out.

    >>> a, b, c = (Partition("t", n) for n in range(3))
    >>> assign([a, b, c], 2, {a: 9e6, b: 1e6, c: 1e6}, {})
    {Partition(topic='t', partition=0): 0, Partition(topic='t', partition=1): 1, \
Partition(topic='t', partition=2): 1}
    """
    loads = {one: bytes_per_second.get(one, 0.0) + _IDLE_BYTES for one in sorted(partitions)}
    chosen = {one: before[one] for one in loads if before.get(one, leases) < leases}
    totals = [sum(loads[p] for p, n in chosen.items() if n == lease) for lease in range(leases)]
    for one in sorted(loads.keys() - chosen.keys(), key=lambda p: (-loads[p], p)):
        least = totals.index(min(totals))
        chosen[one] = least
        totals[least] += loads[one]
    _even_out(chosen, totals, loads)
    return {one: chosen[one] for one in loads}


def _even_out(
    chosen: dict[Partition, int], totals: list[float], loads: Mapping[Partition, float]
) -> None:
    mean = sum(totals) / len(totals)
    while True:
        busiest, idlest = totals.index(max(totals)), totals.index(min(totals))
        excess = totals[busiest] - totals[idlest]
        movable = [p for p, n in chosen.items() if n == busiest and loads[p] < excess]
        if excess <= mean * _SLACK or not movable:
            return
        best = min(movable, key=lambda p: (abs(excess - 2 * loads[p]), p))
        chosen[best] = idlest
        totals[busiest] -= loads[best]
        totals[idlest] += loads[best]
