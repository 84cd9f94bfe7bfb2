"""The class data archive: Spark's classes as the JVM wants them in memory, made once.

Half of the time until the first record is the JVM reading, checking and linking the same ten
thousand classes. An archive of a rehearsal halves that (docs/decisions/0007). It belongs to one
Java and one PySpark; without it, or with one that does not fit, everything works as well, later.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from heliograph.spark.home import outdated
from heliograph.spark.mirror import Mirror

_TURNS = 3
_WITHIN_S = 120.0


def make_archive(file: Path) -> None:
    """Rehearse in a JVM of its own and keep its classes; takes some twenty seconds.

    For a process of its own: the JVM writes the archive when it ends, so it is ended here.
    """
    from heliograph.spark.query import Engine

    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}.draft")
    option = f"-XX:ArchiveClassesAtExit={draft}"
    engine = Engine("local", {}, 1, folder=file.parent, java_options=option)
    try:
        _rehearse(engine.session, file.parent)
    finally:
        gateway = engine.session.sparkContext._gateway
        engine.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_WITHIN_S)
    draft.replace(file)  # whole or not at all
    for one in outdated(file):
        one.unlink(missing_ok=True)


def _rehearse(session: Any, folder: Path) -> None:
    session.dataSource.register(Rehearsal)
    name = Rehearsal.name()
    writer = session.readStream.format(name).load().writeStream.format(name)
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        done = Path(checkpoint, "commits", str(_TURNS))
        until_s = time.monotonic() + _WITHIN_S
        while query.isActive and not done.exists() and time.monotonic() < until_s:
            time.sleep(0.1)
        query.stop()


class Rehearsal(Mirror):
    """A data source that takes the steps of the real one and copies nothing."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "heliograph-rehearsal"

    def streamReader(self, schema: Any) -> Any:  # noqa: ARG002
        """Return what plans."""
        return RehearsalReader()

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002
        """Return what writes."""
        return RehearsalWriter()


class RehearsalReader(DataSourceStreamReader):  # type: ignore[misc]
    """A plan after the other, of one lease."""

    def initialOffset(self) -> dict[str, int]:
        """Return the number before the first plan."""
        return {"plan": 0}

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002
        """Return the next plan."""
        return {"plan": start["plan"] + 1}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:  # noqa: ARG002
        """Return its lease."""
        return [InputPartition("lease")]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int]]:
        """Return its only row."""
        yield partition.value, 0


class RehearsalWriter(DataSourceStreamWriter):  # type: ignore[misc]
    """Takes rows and does nothing with them."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Read them all."""
        list(iterator)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:
        """Do nothing."""

    def abort(self, messages: Any, batchId: int) -> None:
        """Do nothing."""


if __name__ == "__main__":
    make_archive(Path(sys.argv[1]))
