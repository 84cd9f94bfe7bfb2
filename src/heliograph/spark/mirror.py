"""The data source ``heliograph``: its reader plans leases, its writer copies them.

Spark calls the reader in a process of its own beside the driver, ``write`` in a worker of an
executor, and ``commit`` in yet another process. What they share is the link's control topic:
the driver puts a plan there, the reader hands its leases out, the tasks keep to them. Payload
never enters the JVM: the only rows are leases.

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

from heliograph.model.leases import Job, Lease
from heliograph.model.texts import from_text, to_text

# What connects to Kafka is imported where it is used: Spark loads this module in six kinds of
# processes, one after the other, and four of them only build the objects below.
if TYPE_CHECKING:
    from heliograph.copy.plans import PlanWatch

FORMAT = "heliograph"
JOB = "job"
"""The only option: a Job as text."""
_SCHEMA = "lease string, control_offset long"


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
        """Return what plans."""
        return LeaseReader(from_text(Job, self.options[JOB]))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002
        """Return what copies."""
        return LeaseWriter(from_text(Job, self.options[JOB]))


@dataclass(frozen=True)
class LeasePartition(InputPartition):  # type: ignore[misc]
    """One lease, on its way to its task."""

    lease: str
    control_offset: int


class LeaseReader(DataSourceStreamReader):  # type: ignore[misc]
    """Hands out the leases of the newest plan, each plan once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._watch: PlanWatch | None = None
        self._handed_out: tuple[int, list[LeasePartition]] = (0, [])

    def initialOffset(self) -> dict[str, int]:
        """Return the number before the first plan."""
        return {"plan": 0}

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002
        """Return the newest plan's number; wait a moment for one that is newer."""
        if self._watch is None:
            from heliograph.copy.plans import PlanWatch

            self._watch = PlanWatch(self._job)
        return {"plan": max(start["plan"], self._watch.newest())}

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[LeasePartition]:
        """Return the leases of the plan ``end``, none if a newer one has taken its place.

        Spark may ask twice. Leases that were handed out are never handed out under another number:
        what they hand over may be used once (invariant G).
        """
        number = end["plan"]
        if number == start["plan"]:
            return []
        if number != self._handed_out[0]:
            assert self._watch is not None, "Spark asks for the latest offset first"
            leases, offset = self._watch.leases(number)
            parts = [LeasePartition(to_text(lease), offset) for lease in leases]
            self._handed_out = (number, parts)
        return self._handed_out[1]

    def read(self, partition: LeasePartition) -> Iterator[tuple[str, int]]:
        """Pass the lease on, on an executor: it is the only row."""
        yield partition.lease, partition.control_offset


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
        """Work on the lease that comes as a row. Errors of partitions are in the receipt.

        What Spark carries back is empty: the receipt stands in the state topic by then.
        """
        from heliograph.copy.lease import work

        _calm_collector()
        attempt = TaskContext.get().attemptNumber()
        for row in iterator:
            lease = from_text(Lease, row.lease)
            work(self._job, lease, attempt=attempt, control_offset=row.control_offset)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:
        """Do nothing: every task has put its receipt where the driver reads it (decision 6)."""

    def abort(self, messages: Any, batchId: int) -> None:
        """Do nothing: tasks may still be copying, and whoever comes next claims."""
