"""Consumer groups: list, describe, read and set their offsets, delete."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import kafka.errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from heliograph.errors import HeliographError, NotAuthorized, RequestRefused
from heliograph.kafka.admin_session import Session
from heliograph.kafka.deadline import Deadline
from heliograph.model.groups import Committed, GroupListing, GroupMember, GroupView
from heliograph.model.topics import Partition

# An answer holds all offsets of these groups.
_READ_TOGETHER = 500


class Groups:
    """The groups of one cluster."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def listing(
        self,
        *,
        states: Collection[str] = (),
        kinds: Collection[str] = (),
        deadline: Deadline | None = None,
    ) -> list[GroupListing]:
        """Return the groups that the user may describe, of these states and kinds, sorted.

        Brokers omit the others without a word: an empty answer does not mean that there are none.
        """

        def ask(client: Any, _: int) -> list[GroupListing]:
            found = client.list_groups(
                states_filter=list(states) or None, types_filter=list(kinds) or None
            )
            return sorted(map(_listing, found))

        return self._session.call("listing groups", ask, deadline)

    def describe(
        self, groups: Collection[str], deadline: Deadline | None = None
    ) -> list[GroupView]:
        """Return classic groups with their members; one that does not exist is ``Dead``.

        Groups of the newer kinds (``consumer``, ``share``, ``streams``) also look ``Dead`` here:
        kafka-python does not speak their requests. Tell them by ``listing``.
        """
        if not groups:
            return []

        def ask(client: Any, _: int) -> list[GroupView]:
            answer = client.describe_groups(sorted(set(groups)))
            return [self._view(name, found) for name, found in sorted(answer.items())]

        return self._session.call("describing groups", ask, deadline)

    def has_members(self, group: str, deadline: Deadline | None = None) -> bool:
        """Tell whether anybody is in a group, of whatever kind: it is not described.

        kafka-python takes the members of every group that it describes for consumers.
        """
        return any(
            one.group == group and not one.is_idle for one in self.listing(deadline=deadline)
        )

    def committed(
        self, groups: Collection[str], deadline: Deadline | None = None
    ) -> dict[str, dict[Partition, Committed]]:
        """Return all offsets that each group has committed; of an unknown group, none."""
        if not groups:
            return {}

        def ask(client: Any, _: int) -> dict[str, dict[Partition, Committed]]:
            answer = client.list_group_offsets(sorted(set(groups)))
            return {group: _committed(offsets) for group, offsets in answer.items()}

        return self._session.call("reading the offsets of groups", ask, deadline)

    def committed_each(
        self, groups: Collection[str], deadline: Deadline | None = None
    ) -> dict[str, dict[Partition, Committed] | HeliographError]:
        """Return the offsets of each group, or why they may not be read.

        One request for many; where it is refused, that is because of some of them.
        """
        limit = self._session.deadline(deadline)
        wanted = sorted(set(groups))
        found: dict[str, dict[Partition, Committed] | HeliographError] = {}
        for at in range(0, len(wanted), _READ_TOGETHER):
            found |= self._committed_each(wanted[at : at + _READ_TOGETHER], limit)
        return found

    def _committed_each(
        self, groups: list[str], deadline: Deadline
    ) -> dict[str, dict[Partition, Committed] | HeliographError]:
        try:
            return dict(self.committed(groups, deadline))
        except (NotAuthorized, RequestRefused) as refused:
            if len(groups) == 1:
                return {groups[0]: refused}
        half = len(groups) // 2
        first = self._committed_each(groups[:half], deadline)
        return first | self._committed_each(groups[half:], deadline)

    def commit_each(
        self,
        wanted: Mapping[str, Mapping[Partition, Committed]],
        deadline: Deadline | None = None,
    ) -> dict[str, HeliographError]:
        """Set the offsets of many groups; return those that failed, and why."""
        limit = self._session.deadline(deadline)
        failed: dict[str, HeliographError] = {}
        # One after the other: a client that is given up while others use it fails them all.
        for group, offsets in wanted.items():
            try:
                if offsets:
                    self.commit(group, offsets, limit)
            except HeliographError as failure:
                failed[group] = failure
        return failed

    def commit(
        self, group: str, offsets: Mapping[Partition, Committed], deadline: Deadline | None = None
    ) -> None:
        """Set a group's offsets from outside; the group must be idle. Creates it if it is new."""
        doing = f"setting offsets of group {group}"
        wanted = {TopicPartition(*partition): _theirs(at) for partition, at in offsets.items()}

        def ask(client: Any, _: int) -> None:
            self._all_well(client.alter_group_offsets(group, wanted), doing)

        self._session.call(doing, ask, deadline)

    def forget(
        self, group: str, partitions: Iterable[Partition], deadline: Deadline | None = None
    ) -> None:
        """Delete a group's offsets of these partitions; nobody in it may be reading them."""
        doing = f"deleting offsets of group {group}"
        wanted = [TopicPartition(*partition) for partition in partitions]

        def ask(client: Any, _: int) -> None:
            self._all_well(client.delete_group_offsets(group, wanted), doing)

        self._session.call(doing, ask, deadline)

    def delete(self, group: str, deadline: Deadline | None = None) -> None:
        """Delete an idle group with all its offsets."""
        doing = f"deleting group {group}"

        def ask(client: Any, _: int) -> None:
            outcome = client.delete_groups([group])[group]
            if outcome != "OK":
                # kafka-python tells only the name of its own class.
                raise getattr(kafka.errors, outcome, kafka.errors.UnknownError)()

        self._session.call(doing, ask, deadline, repeatable=False)

    def _all_well(self, answer: Mapping[Any, Any], doing: str) -> None:
        for partition, error in answer.items():
            if error.errno:
                where = f"{doing} for {Partition(partition.topic, partition.partition)}"
                raise self._session.refusal(error.errno, where)

    def _view(self, group: str, found: Mapping[str, Any]) -> GroupView:
        error = found["error"]
        if error and "GroupIdNotFoundError" not in error:
            code = int(error.removeprefix("[Error ").partition("]")[0])
            raise self._session.refusal(code, f"describing group {group}")
        return GroupView(
            group=group,
            state=found["group_state"],
            protocol=found["protocol_data"],
            members=tuple(_member(member) for member in found["members"]),
        )


def _listing(found: Mapping[str, Any]) -> GroupListing:
    return GroupListing(
        group=found["group_id"],
        state=found.get("group_state") or "",
        kind=(found.get("group_type") or "").lower(),
        protocol=found.get("protocol_type") or "",
    )


def _member(found: Mapping[str, Any]) -> GroupMember:
    assignment = found.get("member_assignment")
    # Groups that are not consumers' (Connect) have bytes of their own here.
    rows = assignment.get("assigned_partitions", ()) if isinstance(assignment, Mapping) else ()
    return GroupMember(
        member_id=found["member_id"],
        client_id=found["client_id"],
        host=found["client_host"],
        instance_id=found.get("group_instance_id"),
        assigned=tuple(
            sorted(Partition(row["topic"], number) for row in rows for number in row["partitions"])
        ),
    )


def _committed(offsets: Mapping[Any, Any]) -> dict[Partition, Committed]:
    return {
        Partition(partition.topic, partition.partition): Committed(
            offset=at.offset,
            leader_epoch=at.leader_epoch if (at.leader_epoch or -1) >= 0 else None,
            metadata=at.metadata or "",
        )
        for partition, at in offsets.items()
        # Never committed is -1; but brokers also store what is below zero, if a client commits it.
        if at.offset >= 0
    }


def _theirs(at: Committed) -> Any:
    return OffsetAndMetadata(at.offset, at.metadata, at.leader_epoch)
