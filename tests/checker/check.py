"""Checks mirrors on two clusters: reads, walks, resolves, reports. Changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.checker.anomalies import Anomaly, Report, merge
from tests.checker.journal import Account
from tests.checker.judge import Case, judge
from tests.checker.ledger import parse, read_rows
from tests.checker.pairs import Span
from tests.checker.reading import Reader, Settings, client_settings
from tests.checker.resolve import Finding
from tests.checker.sides import Log, with_uncommitted
from tests.checker.walk import Bounds, Sourced, Walked

Journal = Mapping[tuple[str, int], Account]


class Unsupported(Exception):
    """The checker cannot judge this; it does not pretend to."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What to check. ``ledger`` is its topic, where it is not the link's own.

    With ``journal`` the load must be over and the mirror must have caught up. ``gaps_ok``: what a
    gap names may be missing, even where the source still has it or the journal knows better.
    """

    source: Settings
    target: Settings
    link: str
    topics: Mapping[str, str]
    ledger: str = ""
    journal: Journal | None = None
    gaps_ok: bool = False

    @property
    def ledger_topic(self) -> str:
        return self.ledger or f"__heliograph.{self.link}.ledger"


@dataclass(frozen=True, slots=True)
class Place:
    """A partition on both sides, and what stands there."""

    topic: str
    mirror: str
    partition: int
    bounds: Bounds


def check(scope: Scope) -> Report:
    """Compare every partition of every topic; raise where nothing can be said."""
    report = Report()
    with Checker(scope) as checker:
        for topic, mirror in scope.topics.items():
            report.add(checker.check_topic(topic, mirror))
    return report


@dataclass(slots=True)
class Checker:
    """The four readers of a check and what is read once for all partitions.

    The ledger is read first and the source last. Between them a mirror may go on: what it copies
    in that time is not yet in the ledger, and is in the source.
    """

    scope: Scope
    _stack: ExitStack = field(default_factory=ExitStack)
    _rows: dict[bytes, bytes] = field(default_factory=dict)
    _readers: dict[tuple[str, bool], Reader] = field(default_factory=dict)

    def __enter__(self) -> Self:
        for end, cluster in (("source", self.scope.source), ("target", self.scope.target)):
            for committed in (False, True):
                reader = Reader(cluster, committed=committed)
                self._readers[end, committed] = self._stack.enter_context(reader)
        self._rows = read_rows(self._readers["target", False], self.scope.ledger_topic)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stack.close()

    def check_topic(self, topic: str, mirror: str) -> Report:
        if "compact" in _policy(self.scope.target, mirror):
            raise Unsupported(
                f"the mirror {mirror} is compacted: which images are missing and which were"
                " compacted away cannot be told. Check it with cleanup.policy=delete"
            )
        is_compacted = "compact" in _policy(self.scope.source, topic)
        quarantine = self._quarantine(topic, mirror)
        report = Report()
        there = self._readers["source", False].partitions(topic)
        here = self._readers["target", False].partitions(mirror)
        if not there or not here:
            raise Unsupported(f"{topic} or {mirror} has no partitions that the client knows of")
        for partition in range(max(there, here)):
            target = self._span("target", mirror, partition, here)
            source = self._span("source", topic, partition, there)
            place = Place(topic, mirror, partition, Bounds(source, target, is_compacted))
            report.add(self._check(place, quarantine[partition]))
        return report

    def _check(self, place: Place, quarantined: set[int]) -> Report:
        scope, here = self.scope, (place.topic, place.partition)
        case = Case(
            parse(self._rows, *here),
            place.bounds,
            partial(self._source, place),
            partial(self._mirror, place),
            (scope.journal or {}).get(here, Account()),
            quarantined,
            is_complete=scope.journal is not None,
            gaps_ok=scope.gaps_ok,
        )
        return _report(place, *judge(case))

    def _span(self, end: str, topic: str, partition: int, partitions: int) -> Span:
        if partition >= partitions:
            return 0, 0
        return self._readers[end, False].bounds(topic, partition)

    def _read(self, end: str, topic: str, partition: int, span: Span, *, committed: bool) -> Log:
        if span[0] == span[1]:
            return iter(())
        return self._readers[end, committed].read(topic, partition, *span)

    def _source(self, place: Place) -> Iterator[Sourced]:
        span = place.bounds.source
        read = partial(self._read, "source", place.topic, place.partition)
        return with_uncommitted(
            read(span, committed=True), lambda start: read((start, span[1]), committed=False), span
        )

    def _mirror(self, place: Place, committed: bool) -> Log:
        span = place.bounds.target
        return self._read("target", place.mirror, place.partition, span, committed=committed)

    def _quarantine(self, topic: str, mirror: str) -> dict[int, set[int]]:
        """Return the source offsets that are quarantined, by partition."""
        offsets: dict[int, set[int]] = defaultdict(set)
        for key in read_rows(self._readers["target", False], f"{mirror}.quarantine"):
            named, _, place = key.decode().partition("/")
            if named == topic:
                partition, _, offset = place.partition("/")
                offsets[int(partition)].add(int(offset))
        return offsets


def _report(place: Place, walked: Walked, findings: list[Finding]) -> Report:
    anomalies = merge(
        Anomaly(name, place.topic, place.partition, detail, source, target)
        for name, detail, source, target in findings
    )
    report = Report(anomalies, walked.equal, walked.unverified, walked.not_copied)
    if walked.stopped_at is not None:
        where = f"{place.topic}/{place.partition}"
        report.notes.append(f"{where}: too much is wrong; stopped at source {walked.stopped_at}")
    return report


def _policy(cluster: Settings, topic: str) -> str:
    """Return the cleanup policy of a topic, which must exist."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    # Warnings and worse: it has something to say about every end.
    admin = AdminClient(client_settings(cluster) | {"log_level": 4})
    (answer,) = admin.describe_configs([resource]).values()
    try:
        return str(answer.result(20)["cleanup.policy"].value)
    except KafkaException as refused:
        raise Unsupported(f"the topic {topic} cannot be described: {refused}") from refused
