"""The data source ``heliograph``: its reader seats tasks, its writer copies.

Spark calls the reader in a process of its own beside the driver, ``write`` in a worker of an
executor, and ``commit`` in yet another process. What they share is the link's control topic:
the driver puts seats there, then a plan with a lease for each; the reader lets Spark start a task
for each seat, and the task reads its lease. Payload never enters the JVM: the only rows are seats.

The offset of the stream is the number of a plan. It says nothing about what was copied, so a
lost, old or damaged checkpoint does no harm.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from heliograph.model.control import Seats
from heliograph.model.leases import Job, Seat
from heliograph.model.texts import from_text, to_text

# What connects to Kafka is imported where it is used: Spark loads this module in six kinds of
# processes, one after the other, and four of them only build the objects below.
if TYPE_CHECKING:
    from heliograph.copy.seats import SeatsWatch

FORMAT = "heliograph"
JOB = "job"
"""The only option: a Job as text."""
_SCHEMA = "seat string, control_offset long"


class Mirror(DataSource):  # type: ignore[misc]  # PySpark is not typed
    """A link as a data source: a streaming query from it into itself copies the link."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of the only rows there are."""
        return _SCHEMA

    def streamReader(self, schema: Any) -> Any:  # noqa: ARG002 - Spark's signature
        """Return what seats tasks."""
        return SeatReader(from_text(Job, self.options[JOB]))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002
        """Return what copies."""
        return LeaseWriter(from_text(Job, self.options[JOB]))


@dataclass(frozen=True)
class SeatPartition(InputPartition):  # type: ignore[misc]
    """One seat, on its way to its task."""

    seat: str
    control_offset: int


class SeatReader(DataSourceStreamReader):  # type: ignore[misc]
    """Hands out seats, each once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._watch: SeatsWatch | None = None
        self._seats: Seats | None = None

    def initialOffset(self) -> dict[str, int]:
        """Return the number before the first plan."""
        return {"plan": 0}

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002
        """Return the number of the newest seats; wait a moment for some that are newer."""
        if self._watch is None:
            from heliograph.copy.seats import SeatsWatch

            self._watch = SeatsWatch(self._job)
        self._seats = self._watch.newest(start["plan"]) or self._seats
        return {"plan": max(start["plan"], self._seats.number if self._seats else 0)}

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[SeatPartition]:
        """Return the seats of the number ``end``, none if newer ones have taken their place.

        Spark may ask twice. A seat is never handed out under another number: what its lease hands
        over may be used once (invariant G).
        """
        seats, watch = self._seats, self._watch
        if end["plan"] == start["plan"] or seats is None or seats.number != end["plan"]:
            return []
        assert watch is not None, "Spark asks for the latest offset first"
        each = [
            Seat(seats.generation, seats.number, index, seats.most_s)
            for index in range(seats.count)
        ]
        return [SeatPartition(to_text(seat), watch.offset) for seat in each]

    def read(self, partition: SeatPartition) -> Iterator[tuple[str, int]]:
        """Pass the seat on, on an executor: it is the only row."""
        yield partition.seat, partition.control_offset

    def stop(self) -> None:
        """Close what was opened."""
        if self._watch is not None:
            self._watch.close()


def _calm_collector() -> None:
    """Let Python look for garbage cycles less often: batches make none.

    A fifth of the work on small batches otherwise. The process is a Spark worker and ours alone.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


class LeaseWriter(DataSourceStreamWriter):  # type: ignore[misc]
    """Copies: the body of a Spark task."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Work on the lease of the seat that comes as a row. Errors are in the receipt.

        What Spark carries back is empty: the receipt stands in the state topic by then.
        """
        from heliograph.copy.lease import work

        _calm_collector()
        attempt = TaskContext.get().attemptNumber()
        for row in iterator:
            seat = from_text(Seat, row.seat)
            work(self._job, seat, attempt=attempt, control_offset=row.control_offset)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:
        """Do nothing: every task has put its receipt where the driver reads it (decision 6)."""

    def abort(self, messages: Any, batchId: int) -> None:
        """Do nothing: tasks may still be copying, and whoever comes next claims."""
