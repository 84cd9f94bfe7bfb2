"""Books: the ledgers of the partitions under way, written once a second.

Never ahead of the data: a ledger holds only what was acknowledged. The books have a connection
of their own, so that they wait for no data and no data waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial

from heliograph.copy.copying import Copying
from heliograph.copy.opened import Ends
from heliograph.copy.recording import ledger_producer
from heliograph.errors import HeliographError
from heliograph.kafka import clock, crash
from heliograph.kafka.tables import rows_batch
from heliograph.model.topics import Partition

RECORD_EVERY = timedelta(seconds=1)


class Books:
    """Writes ledgers, and tells of each one that was written, and that could not be."""

    def __init__(
        self,
        ends: Ends,
        on_recorded: Callable[[Copying], None],
        on_failure: Callable[[Copying, HeliographError], None],
    ) -> None:
        self._cluster = ends.target
        self._place = Partition(ends.ledger_topic, 0)
        self._producer = ledger_producer(ends.target)
        self._on_recorded = on_recorded
        self._on_failure = on_failure
        self._due_s = clock.now_s() + RECORD_EVERY.total_seconds()
        ends.target.watch([ends.ledger_topic])

    def pump(self) -> None:
        """Send what can be sent now."""
        self._producer.pump()

    @property
    def is_due(self) -> bool:
        """Claim: the last time that all were recorded is a second ago."""
        return clock.now_s() >= self._due_s

    def record_all(self, parts: Iterable[Copying]) -> None:
        """Record all that changed, and be due again in a second."""
        self._due_s = clock.now_s() + RECORD_EVERY.total_seconds()
        self.record(parts)

    def record(self, parts: Iterable[Copying]) -> None:
        """Record some that changed, now; a ledger that is on its way goes again afterwards."""
        topic = self._cluster.view.topics.get(self._place.topic)
        if topic is None:
            self._cluster.look_again()
            return
        now_s = clock.now_s()
        for part in parts:
            writer = part.opened.writer
            if part.is_recorded and not part.is_recording:
                part.recorded_s = now_s
            if part.is_recorded or part.is_recording or writer.spent:
                continue
            part.is_recorded, part.is_recording = True, True
            batch = rows_batch(part.opened.ledger.take_changes(), writer)
            self._producer.send(
                self._place, topic.topic_id, batch, partial(self._recorded, part, now_s)
            )

    def forget(self, producer_id: int) -> None:
        """Drop what an earlier writer of a partition still has on its way."""
        self._producer.forget(self._place, producer_id)

    def _recorded(self, part: Copying, sent_s: float, outcome: int | HeliographError) -> None:
        part.is_recording = False
        if isinstance(outcome, HeliographError):
            part.opened.writer.spent = True
            self._on_failure(part, outcome)
            return
        crash.point("C9")
        part.recorded_s = sent_s
        part.is_barred = part.is_barred and not part.is_recorded
        self._on_recorded(part)
