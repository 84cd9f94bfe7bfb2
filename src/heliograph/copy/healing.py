"""Healing: which faults of a partition are worth another claim, and when. Pure."""

from dataclasses import dataclass

from heliograph.errors import (
    ConfigError,
    CorruptBatch,
    Diverged,
    ForeignRecords,
    GapFound,
    HeliographError,
    LedgerUnfit,
    LedgerUnreadable,
    LogTruncated,
    MirrorClosed,
    MirrorOccupied,
    RecordsRefused,
    Superseded,
    TopicMissing,
    TopicRecreated,
)
from heliograph.model.policies import Policies

# Nothing but a person, or the driver, changes these.
_FOR_OTHERS = (
    ConfigError,
    CorruptBatch,
    Diverged,
    ForeignRecords,
    GapFound,
    LedgerUnfit,
    LedgerUnreadable,
    LogTruncated,
    MirrorClosed,
    MirrorOccupied,
    RecordsRefused,
    Superseded,
)
# A broker knows of a topic only once it has made the partitions of those before it: with thousands
# of new ones, 40 s were seen. One that is still missing after so many tries, a minute, is gone.
_MISSING_TRIES = 6
_FIRST_S, _MOST_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a partition is not copied now. ``again_s`` is None where only others can help."""

    error: HeliographError
    again_s: float | None

    @property
    def told(self) -> tuple[str, str]:
        """What reports and receipts say of it."""
        return self.error.code, self.error.message


def heals(error: HeliographError, policies: Policies, tries: int = 1) -> bool:
    """True when opening the partition again may help without anybody's doing.

    An ACL or a password may come back at any time, so they count; whoever was superseded must not
    claim by itself.
    """
    if isinstance(error, TopicRecreated):
        return policies.on_recreate == "restart"
    if isinstance(error, TopicMissing):
        return tries <= _MISSING_TRIES
    return not isinstance(error, _FOR_OTHERS)


def pause_s(tries: int) -> float:
    """Return how long to wait before the next attempt, after this many in a row.

    >>> [pause_s(tries) for tries in (1, 2, 3, 10)]
    [1.0, 2.0, 4.0, 60.0]
    """
    return min(_FIRST_S * 2.0 ** min(tries - 1, 16), _MOST_S)
