"""One Spark application, and one streaming query a link."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from heliograph.errors import EngineFailed, HeliographError
from heliograph.model.leases import Job
from heliograph.model.slots import check_slots, full_master, slots_of
from heliograph.model.texts import to_text
from heliograph.spark import home

_LOGGING = Path(__file__).with_name("log4j2.properties")
_DEFAULTS = {
    "spark.app.name": "heliograph",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    # Queries of one row a lease: no code is worth generating or optimising for them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.minBatchesToRetain": "2",
    # A query that ends waits for Python processes of Spark's own, and one of them may hang.
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.redaction.regex": "(?i)secret|password|passwd|token|access[.]?key|sasl|jaas|credential"
    "|private|pem|keystore",
}
_LOCAL_DEFAULTS = {
    # Nothing of a local application is for other machines.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_FIXED = {
    # Two tasks may never copy the same lease at a time.
    "spark.speculation": "false",
    "spark.python.daemon.module": "heliograph.spark.daemon",
}
# The driver's JVM moves no payload: small and quick to start beats fast.
# An archive that does not fit is passed over without a word.
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -Xshare:auto -Xlog:cds=off"
    f" -Xlog:cds+dynamic=off -Dlog4j2.configurationFile=file:{_LOGGING}"
)


class Engine:
    """A Spark application. Making one takes seconds; links are started on it one by one."""

    def __init__(
        self,
        master: str,
        conf: Mapping[str, str],
        wanted_slots: int,
        *,
        folder: Path,
        java_options: str = "",
    ) -> None:
        """Start Spark, or raise SlotsShort where it has fewer slots than are wanted.

        ``folder`` is for what stays from one start to the next.
        """
        self._starts, self._starting = count(), threading.Lock()
        cores = os.cpu_count() or 1
        self.master = full_master(master, wanted_slots, cores)
        self.is_local = self.master.startswith("local[")
        if (slots := slots_of(self.master)) is not None:
            check_slots(slots, wanted_slots)
        self._scratch = Path(tempfile.mkdtemp(prefix="heliograph-spark-"))
        try:
            home.prepare(folder, self._scratch)
            _hush()
            self.session = self._start(conf, java_options)
            self.slots = slots or int(self.session.sparkContext.defaultParallelism)
            check_slots(self.slots, wanted_slots)
        except HeliographError:
            self.stop()
            raise
        except Exception as failure:
            said = home.said(self._scratch)
            self.stop()
            raise EngineFailed(f"Spark did not start: {failure}. {said}") from failure

    def _start(self, conf: Mapping[str, str], java_options: str) -> Any:
        from pyspark.sql import SparkSession

        is_local = self.master.startswith("local")
        wanted = {**_DEFAULTS, **(_LOCAL_DEFAULTS if is_local else {}), **conf, **_FIXED}
        asked = wanted.get("spark.driver.extraJavaOptions", "")
        # Spark leaves folders where Java keeps temporary files: those go with ours.
        java = f"{_JAVA_OPTIONS} -Djava.io.tmpdir={self._scratch} {java_options} {asked}".strip()
        wanted["spark.driver.extraJavaOptions"] = java
        wanted.setdefault("spark.local.dir", str(self._scratch))
        builder = SparkSession.builder.master(self.master)
        for key, value in wanted.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()

    def start(self, job: Job) -> Query:
        """Start the query of a link. Its checkpoint is scratch: nothing is resumed from it."""
        try:
            with self._starting:
                return Query(self._start_query(job))
        except Exception as failure:
            raise EngineFailed(
                f"Spark cannot run link {job.link}: {_first_line(failure)}"
            ) from failure

    def _start_query(self, job: Job) -> Any:
        from heliograph.spark.mirror import FORMAT, JOB, Mirror

        # Spark looks data sources up in the session that is active in the calling thread.
        session_class = self.session._get_j_spark_session_class(self.session._jvm)
        session_class.setActiveSession(self.session._jsparkSession)
        # A registration of its own: queries that begin at the same time would write to one map of
        # environment variables, which Java's HashMap does not bear, and tasks could not be read.
        self.session.dataSource.register(Mirror)
        checkpoint = tempfile.mkdtemp(dir=self._scratch, prefix="checkpoint-")
        option = to_text(job)
        stream = self.session.readStream.format(FORMAT).option(JOB, option).load()
        writer = stream.writeStream.format(FORMAT).option(JOB, option)
        # Two of one name cannot run, and the one before may hang and be there still.
        name = f"{job.link}/{job.lane}/{next(self._starts)}"
        writer = writer.option("checkpointLocation", checkpoint).queryName(name)
        return writer.start()

    def stop(self) -> None:
        """End Spark and remove its files."""
        session, self.session = getattr(self, "session", None), None
        if session is not None:
            with contextlib.suppress(Exception):  # its JVM may be gone
                session.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


class Query:
    """A link's streaming query."""

    def __init__(self, query: Any) -> None:
        self._query = query

    @property
    def failure(self) -> EngineFailed | None:
        """Why it ended, if it ended by itself."""
        try:
            if self._query.isActive:
                return None
            error = self._query.exception()
        except Exception as gone:
            error = gone  # the JVM itself
        said = _first_line(error) if error else "without a reason"
        return EngineFailed(f"the query ended: {said}")

    @property
    def is_idle(self) -> bool:
        """Claim: no task runs; it waits for a plan."""
        try:
            return not self._query.status["isDataAvailable"]
        except Exception:
            return False  # see ``failure``

    def stop(self) -> None:
        """End it now. Tasks may go on for seconds: recall their leases first."""
        with contextlib.suppress(Exception):  # it may be ending by itself
            self._query.stop()


def _hush() -> None:
    """Let Spark's helpers print no traceback when the JVM goes: ``Query.failure`` tells of it."""
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer

    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = lambda *_: None
    # Py4J writes to the root logger, which prints unless it has a handler.
    logging.getLogger().addHandler(logging.NullHandler())


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
