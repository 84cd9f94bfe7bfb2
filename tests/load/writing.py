"""Writes a load and enters what became of each record in a journal.

Survives restarts of brokers: what cannot be known is entered as unknown, never guessed.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.checker.digests import of_payload
from tests.checker.journal import Entry, Outcome
from tests.load.shapes import Written

Enter = Callable[[Entry], None]

_WITHIN_S = 60.0
_MOST_IN_TRANSACTION = 50
# A broker said no, or nothing was sent. After any other error the record may stand in the log.
_REFUSED = frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._PURGE_QUEUE,
    }
)


def outcome_of(error: Any) -> Outcome:
    """Return what a delivery report says about the record."""
    if error is None:
        return Outcome.OK
    return Outcome.FAIL if error.code() in _REFUSED else Outcome.UNKNOWN


@dataclass(frozen=True, slots=True)
class Pace:
    """What is written how fast and for how long, and when the records say they were made."""

    records: Iterator[Written]
    rate: float
    seconds: float
    age_ms: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)
    start_ms: int = field(default_factory=lambda: int(time.time() * 1000))

    def __iter__(self) -> Iterator[Written]:
        """Yield records as they are due, or later where the producer is slower; end when told."""
        started_s = time.monotonic()
        for number, record in enumerate(self.records):
            due_s = number / self.rate
            late_s = time.monotonic() - started_s
            if max(due_s, late_s) >= self.seconds or self.is_over.wait(max(0, due_s - late_s)):
                return
            yield record

    def timestamp_ms(self, record: Written) -> int:
        """Return a record's timestamp: identical records have the same."""
        made_ms = int(time.time() * 1000) if record.is_unique else self.start_ms
        return made_ms - self.age_ms


class Load:
    """Writes records of one topic and enters each outcome once it is known."""

    def __init__(self, settings: dict[str, Any], topic: str, enter: Enter) -> None:
        self._settings = settings
        self._is_transactional = "transactional.id" in settings
        self._producer = Producer(settings)
        self._topic = topic
        self._enter = enter

    def partitions(self) -> int:
        """Return how many partitions the topic has; it must exist."""
        topic = self._producer.list_topics(self._topic, timeout=_WITHIN_S).topics[self._topic]
        if topic.error is not None:
            raise KafkaException(topic.error)
        return len(topic.partitions)

    def write(self, pace: Pace) -> None:
        """Write record by record; return when the fate of all is known."""
        for record in pace:
            self._send(record, pace.timestamp_ms(record), self._enter)
        self._settle()

    def write_transactions(self, pace: Pace, abort_ratio: float, chance: random.Random) -> None:
        """Write in transactions of random sizes, some of which are aborted."""
        _retried(self._producer.init_transactions)
        records = iter(pace)
        while group := list(islice(records, chance.randrange(1, _MOST_IN_TRANSACTION))):
            self._producer.begin_transaction()
            pending: list[Entry] = []
            for record in group:
                self._send(record, pace.timestamp_ms(record), pending.append)
            # Before the end, so that aborted records really stand in the log.
            self._settle()
            outcome = self._end(pending, is_aborted=chance.random() < abort_ratio)
            for entry in pending:
                self._enter(entry if outcome is Outcome.OK else _without_offset(entry, outcome))

    def _end(self, pending: list[Entry], *, is_aborted: bool) -> Outcome:
        """End the transaction; return what became of all its records."""
        outcome = Outcome.FAIL
        try:
            if not is_aborted and all(entry.outcome is Outcome.OK for entry in pending):
                outcome = Outcome.UNKNOWN
                _retried(self._producer.commit_transaction)
                return Outcome.OK
            _retried(self._producer.abort_transaction)
        except KafkaException as failure:
            if failure.args[0].txn_requires_abort():
                _retried(self._producer.abort_transaction)
                return Outcome.FAIL
            # The next producer's first act ends whatever is still open.
            self._producer = Producer(self._settings)
            _retried(self._producer.init_transactions)
        return outcome

    def _send(self, record: Written, timestamp_ms: int, enter: Enter) -> None:
        digest = of_payload(record.key, record.value, record.headers)

        def known(outcome: Outcome, offset: int | None) -> None:
            place = (self._topic, record.partition)
            enter(Entry(*place, outcome, offset, digest, record.is_unique))

        def delivered(error: Any, message: Any) -> None:
            outcome = outcome_of(error)
            known(outcome, message.offset() if outcome is Outcome.OK else None)

        try:
            self._produce(record, timestamp_ms, delivered)
        except KafkaException as refused:
            # It was not sent. After a fatal error this producer sends nothing any more.
            known(Outcome.FAIL, None)
            if refused.args[0].fatal() and not self._is_transactional:
                self._settle()
                self._producer = Producer(self._settings)

    def _produce(self, record: Written, timestamp_ms: int, delivered: Callable[..., None]) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=timestamp_ms,
                    headers=list(record.headers),
                    on_delivery=delivered,
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _settle(self) -> None:
        """Wait until each record was delivered or given up, which takes its own time limit."""
        while self._producer.flush(1.0):
            pass


def _without_offset(entry: Entry, outcome: Outcome) -> Entry:
    return entry._replace(outcome=outcome, offset=None)


def _retried(act: Callable[[float], None]) -> None:
    """Do one step of a transaction again as long as that can help."""
    while True:
        try:
            return act(_WITHIN_S)
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
