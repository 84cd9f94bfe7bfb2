"""Consumer groups as a cluster shows them."""

from dataclasses import dataclass

from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True, order=True)
class GroupListing:
    """One line of a list of groups.

    ``state`` and ``kind`` are Kafka's words (Empty, Stable, …; classic, consumer, share, streams);
    empty where an old broker does not tell.
    """

    group: str
    state: str = ""
    kind: str = ""
    protocol: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether nobody is in the group, so that its offsets may be set from outside."""
        return self.state in ("Empty", "Dead")

    @property
    def is_active(self) -> bool:
        """Whether somebody is in the group, as far as the broker tells."""
        return self.state not in ("", "Empty", "Dead")


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a classic group and what it reads."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    assigned: tuple[Partition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupView:
    """A classic group with its members."""

    group: str
    state: str
    protocol: str
    members: tuple[GroupMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a group will go on reading."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
