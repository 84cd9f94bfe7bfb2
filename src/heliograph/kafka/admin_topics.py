"""Topics and their partitions: list, describe, create, grow, delete."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from heliograph.errors import HeliographError
from heliograph.kafka.admin_session import Session
from heliograph.kafka.deadline import Deadline
from heliograph.model.configs import NewTopic, fitting
from heliograph.model.topics import PartitionView, TopicView

_UNKNOWN_TOPIC = 3
_INVALID_CONFIG = 40
_NO_ID = UUID(int=0)


class Topics:
    """The topics of one cluster."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def names(self, deadline: Deadline | None = None) -> list[str]:
        """Return the names of all topics that the user may describe, sorted.

        Brokers omit the others without a word: an empty answer does not mean that there are none.
        """
        return sorted(
            self._session.call("listing topics", lambda client, _: client.list_topics(), deadline)
        )

    def describe(
        self, topics: Collection[str], deadline: Deadline | None = None
    ) -> dict[str, TopicView]:
        """Return each of the topics that exists; one that is absent is not in the answer."""
        wanted = sorted(set(topics))
        if not wanted:
            return {}

        def ask(client: Any, _: int) -> dict[str, TopicView]:
            found = {}
            for topic in client.describe_topics(wanted):
                code = topic["error_code"]
                if code == _UNKNOWN_TOPIC:
                    continue
                if code:
                    raise self._session.refusal(code, f"describing topic {topic['name']}")
                found[topic["name"]] = _view(topic)
            return found

        return self._session.call("describing topics", ask, deadline)

    def create(
        self, topic: NewTopic, *, validate_only: bool = False, deadline: Deadline | None = None
    ) -> UUID:
        """Create one topic and return its id (zero if only validated), or raise."""
        outcome = self.create_many([topic], validate_only=validate_only, deadline=deadline)
        result = outcome[topic.topic]
        if isinstance(result, HeliographError):
            raise result
        return result

    def create_many(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        known_only: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[str, UUID | HeliographError]:
        """Create topics in one request; each one's id, or why it was refused.

        Created means accepted: leaders may take a moment more (see ``await_leaders``). Never tried
        again by itself: a lost answer would come back as "exists already". With ``known_only``,
        settings that the cluster does not know are left out, as far as it tells which it knows.
        """
        rows = self._create(topics, validate_only, deadline)
        unfit = [one for one in topics if rows[one.topic]["error_code"] == _INVALID_CONFIG]
        if unfit and known_only:
            bare = replace(unfit[0], configs={})
            # What would be made, validated without settings, has every setting that there is.
            known = self._create([bare], True, deadline)[bare.topic].get("configs") or {}
            fitted = [replace(one, configs=fitting(one.configs, known)) for one in unfit]
            again = [one for one in fitted if known and one not in unfit]
            rows |= self._create(again, validate_only, deadline)
        return {name: self._created(row) for name, row in rows.items()}

    def _create(
        self, topics: Sequence[NewTopic], validate_only: bool, deadline: Deadline | None
    ) -> dict[str, Mapping[str, Any]]:
        """Return what the cluster says of each topic."""
        if not topics:
            return {}
        wanted = {topic.topic: _creation(topic) for topic in topics}

        def ask(client: Any, timeout_ms: int) -> dict[str, Mapping[str, Any]]:
            answer = client.create_topics(
                wanted, timeout_ms=timeout_ms, validate_only=validate_only, raise_errors=False
            )
            return {row["name"]: row for row in answer["topics"]}

        return self._session.call("creating topics", ask, deadline, repeatable=False)

    def await_leaders(self, topics: Collection[str], deadline: Deadline | None = None) -> None:
        """Return when every partition of the topics has a leader."""

        def ask(client: Any, timeout_ms: int) -> None:
            client.wait_for_topics(sorted(topics), timeout_ms=timeout_ms)

        self._session.call("waiting for leaders of new topics", ask, deadline)

    def grow(
        self,
        topic: str,
        partitions: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        """Give a topic this many partitions in all; ``assignments`` are those of the new ones."""
        wanted: object = partitions
        if assignments is not None:
            wanted = {"count": partitions, "assignments": [list(row) for row in assignments]}
        doing = f"giving topic {topic} {partitions} partitions"

        def ask(client: Any, timeout_ms: int) -> None:
            answer = client.create_partitions(
                {topic: wanted},
                timeout_ms=timeout_ms,
                validate_only=validate_only,
                raise_errors=False,
            )
            for row in answer.results:
                if row.error_code:
                    raise self._session.refusal(row.error_code, doing, row.error_message)

        self._session.call(doing, ask, deadline, repeatable=False)

    def delete(self, topic: str | UUID, deadline: Deadline | None = None) -> None:
        """Delete a topic by name or, safer where it may have been made anew, by id."""
        doing = f"deleting topic {topic}"

        def ask(client: Any, timeout_ms: int) -> None:
            answer = client.delete_topics([topic], timeout_ms=timeout_ms, raise_errors=False)
            for row in answer["topics"]:
                if row["error_code"]:
                    raise self._session.refusal(row["error_code"], doing, row.get("error_message"))

        self._session.call(doing, ask, deadline, repeatable=False)

    def _created(self, row: Mapping[str, Any]) -> UUID | HeliographError:
        if row["error_code"]:
            doing = f"creating topic {row['name']}"
            return self._session.refusal(row["error_code"], doing, row.get("error_message"))
        return UUID(row["topic_id"]) if row.get("topic_id") else _NO_ID


def _creation(topic: NewTopic) -> dict[str, object]:
    creation: dict[str, object] = {"configs": dict(topic.configs)}
    if topic.assignments:
        creation["assignments"] = {
            partition: list(replicas) for partition, replicas in topic.assignments.items()
        }
        return creation
    if topic.partitions is not None:
        creation["num_partitions"] = topic.partitions
    if topic.replication_factor is not None:
        creation["replication_factor"] = topic.replication_factor
    return creation


def _view(topic: Mapping[str, Any]) -> TopicView:
    partitions = {
        row["partition_index"]: PartitionView(
            partition=row["partition_index"],
            leader=row["leader_id"] if row["leader_id"] >= 0 else None,
            leader_epoch=row.get("leader_epoch", -1),
            replicas=tuple(row["replica_nodes"]),
            in_sync=tuple(row["isr_nodes"]),
        )
        for row in topic["partitions"]
    }
    return TopicView(
        topic=topic["name"],
        topic_id=UUID(topic["topic_id"]) if topic.get("topic_id") else _NO_ID,
        partitions=MappingProxyType(dict(sorted(partitions.items()))),
        internal=bool(topic.get("is_internal")),
    )
