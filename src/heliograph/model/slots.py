"""Slots: how many tasks a Spark application can run at a time. Pure.

A task holds its slot for its whole lease, so an application with fewer slots than tasks would let
some leases wait for ever.
"""

import re

from heliograph.errors import SlotsShort

# Copy tasks wait on the network: a machine runs many more of them than it has cores.
_LOCAL_SLOTS = 32
# How often Spark starts a task anew before it gives the whole query up.
TASK_ATTEMPTS = 20
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*(\d+))?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]")


def full_master(master: str, wanted: int, cores: int) -> str:
    """Return the master as Spark takes it; a bare ``local`` gets as many slots as are wanted.

    Local masters get room for tasks that fail: Spark's default there is not a single retry.

    >>> full_master("local", 2, cores=2), full_master("local[4]", 2, cores=2)
    ('local[32,20]', 'local[4,20]')
    >>> full_master("spark://host:7077", 2, cores=2)
    'spark://host:7077'
    """
    found = _LOCAL.fullmatch(master)
    if not found:
        return master
    count, attempts = found.groups()
    slots = {None: max(_LOCAL_SLOTS, wanted), "*": cores}.get(count) or int(str(count))
    return f"local[{slots},{attempts or TASK_ATTEMPTS}]"


def slots_of(master: str) -> int | None:
    """Return how many slots a master has, None if only Spark knows.

    >>> slots_of("local[32,20]"), slots_of("local-cluster[2,1,1024]"), slots_of("yarn")
    (32, 2, None)
    """
    if found := _LOCAL_CLUSTER.fullmatch(master):
        return int(found[1]) * int(found[2])
    found = _LOCAL.fullmatch(master)
    return int(found[1]) if found and found[1] not in (None, "*") else None


def check_slots(slots: int, wanted: int) -> None:
    """Raise SlotsShort where tasks would wait for ever."""
    if slots < wanted:
        raise SlotsShort(
            f"the links of this application need {wanted} slots and it has {slots}. No link was"
            " started, because a lease without a slot waits for ever. Give Spark"
            f" {wanted - slots} more slots (local[{wanted}] on one machine), set limits.tasks"
            " lower, or run fewer links here"
        )


def tasks_for(wanted: int | None, partitions: int, slots: int, links: int, cores: int) -> int:
    """Return how many tasks copy a link: what is wanted, or a fair share of the slots.

    Not more than one for two cores: a task saturates brokers before it saturates a core, and fewer
    tasks make larger requests (docs/decisions/0008).

    >>> tasks_for(None, partitions=8, slots=32, links=1, cores=8)
    4
    >>> tasks_for(5, partitions=3, slots=32, links=1, cores=2)
    3
    """
    share = wanted or max(1, min(slots // max(links, 1), cores // 2))
    return max(1, min(share, partitions))
