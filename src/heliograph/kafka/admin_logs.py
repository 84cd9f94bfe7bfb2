"""The logs of partitions: where they begin and end, who writes, who leads."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any

from kafka.protocol.admin import ElectionType
from kafka.protocol.consumer import IsolationLevel
from kafka.structs import TopicPartition

from heliograph.kafka.admin_session import Session
from heliograph.kafka.deadline import Deadline
from heliograph.model.producers import ProducerView
from heliograph.model.topics import Partition

_ELECTION_NOT_NEEDED = 84


class At(IntEnum):
    """A place in a log, other than a time."""

    EARLIEST = -2
    LATEST = -1


class Logs:
    """The partitions of one cluster as logs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def offsets(
        self,
        partitions: Collection[Partition],
        at: At | datetime,
        *,
        read_committed: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[Partition, int | None]:
        """Return where each log begins or ends, or the first offset at or after a time.

        None where no record is as late as the time. With ``read_committed`` a log ends before the
        first open transaction.
        """
        place = int(at.timestamp() * 1000) if isinstance(at, datetime) else int(at)
        isolation = (
            IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        )
        wanted = {TopicPartition(*partition): place for partition in partitions}

        def ask(client: Any, timeout_ms: int) -> dict[Partition, int | None]:
            answer = client.list_partition_offsets(wanted, isolation, timeout_ms)
            return {
                Partition(*partition): found.offset if found.offset >= 0 else None
                for partition, found in answer.items()
            }

        return self._session.call("listing offsets", ask, deadline)

    def delete_records(
        self, before: Mapping[Partition, int], deadline: Deadline | None = None
    ) -> dict[Partition, int]:
        """Delete all records below the offsets; return where each log begins now."""
        wanted = {TopicPartition(*partition): offset for partition, offset in before.items()}

        def ask(client: Any, timeout_ms: int) -> dict[Partition, int]:
            answer = client.delete_records(wanted, timeout_ms)
            return {Partition(*at): found["low_watermark"] for at, found in answer.items()}

        return self._session.call("deleting records", ask, deadline)

    def producers(
        self, partitions: Collection[Partition], deadline: Deadline | None = None
    ) -> dict[Partition, tuple[ProducerView, ...]]:
        """Return what each leader remembers of the producers of a partition."""
        wanted = [TopicPartition(*partition) for partition in partitions]

        def ask(client: Any, _: int) -> dict[Partition, tuple[ProducerView, ...]]:
            answer = client.describe_producers(wanted)
            return {
                Partition(*at): tuple(map(_producer, found.active_producers))
                for at, found in answer.items()
            }

        return self._session.call("describing producers", ask, deadline)

    def elect_preferred(
        self, partitions: Collection[Partition], deadline: Deadline | None = None
    ) -> None:
        """Make the first replica of each partition its leader; nothing to do is fine."""
        wanted: dict[str, list[int]] = defaultdict(list)
        for partition in partitions:
            wanted[partition.topic].append(partition.partition)
        doing = "electing leaders"

        def ask(client: Any, timeout_ms: int) -> None:
            answer = client.elect_leaders(
                ElectionType.PREFERRED, dict(wanted), timeout_ms, raise_errors=False
            )
            if answer.error_code:
                raise self._session.refusal(answer.error_code, doing)
            for topic in answer.replica_election_results:
                for row in topic.partition_result:
                    if row.error_code not in (0, _ELECTION_NOT_NEEDED):
                        where = f"{doing} of {Partition(topic.topic, row.partition_id)}"
                        raise self._session.refusal(row.error_code, where, row.error_message)

        self._session.call(doing, ask, deadline)

    def reassign(
        self,
        replicas: Mapping[Partition, Sequence[int] | None],
        deadline: Deadline | None = None,
    ) -> None:
        """Give partitions other replicas, the first the preferred leader; None cancels a move.

        Returns when the controller accepted it; see ``moving``.
        """
        doing = "moving partitions"
        wanted = {
            TopicPartition(*partition): None if brokers is None else list(brokers)
            for partition, brokers in replicas.items()
        }

        def ask(client: Any, timeout_ms: int) -> None:
            answer = client.alter_partition_reassignments(wanted, timeout_ms)
            for partition, error in answer.items():
                if error is not None:
                    where = f"moving {Partition(*partition)}"
                    raise self._session.refusal(error.errno, where)

        self._session.call(doing, ask, deadline)

    def moving(self, deadline: Deadline | None = None) -> set[Partition]:
        """Return the partitions that are still on their way to other brokers."""

        def ask(client: Any, timeout_ms: int) -> set[Partition]:
            answer = client.list_partition_reassignments(timeout_ms=timeout_ms)
            return {Partition(*partition) for partition in answer}

        return self._session.call("listing moves of partitions", ask, deadline)


def _producer(found: Any) -> ProducerView:
    start = found.current_transaction_start_offset
    return ProducerView(
        producer_id=found.producer_id,
        epoch=found.producer_epoch,
        last_sequence=found.last_sequence,
        last_timestamp_ms=found.last_timestamp,
        coordinator_epoch=found.coordinator_epoch,
        transaction_start_offset=start if start >= 0 else None,
    )
