"""MirrorMaker 2, in a process of its own ("dedicated"), tuned for what is measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.race.tools import TARGET, Launch, Leg, shown
from heliograph.local import jars, java
from heliograph.local.ivy import Artifact

JARS = jars.Bundle(
    name=f"connect-mirror-{jars.KAFKA}",
    artifacts=(
        Artifact("org.apache.kafka", "connect-mirror", jars.KAFKA),
        # The class that runs connectors; connect-mirror does not name it for run time.
        Artifact("org.apache.kafka", "connect-runtime", jars.KAFKA),
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    expected=("connect-mirror", "connect-runtime", "connect-json", "kafka-clients", "log4j-core"),
)

# As connect-mirror-maker.sh and kafka-run-class.sh of Kafka's distribution start it.
_JVM = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
_LOGGING = """\
<Configuration status="warn">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1}: %m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

# Nothing but copying: no heartbeats, no checkpoints, no offset syncs, no periodic work.
_COPY_ONLY = {
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "sync.group.offsets.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "refresh.groups.enabled": "false",
    "heartbeats.replication.enabled": "false",
}
_ONE_BROKER = {
    "replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
}
# Else it looks through all its jars for plugins, twice, before it starts.
_QUICK_START = {
    "plugin.discovery": "service_load",
    "{target}.plugin.discovery": "service_load",
}
THROUGHPUT = {
    "tasks.max": "2",
    "{source}.consumer.fetch.min.bytes": "1",
    "{source}.consumer.fetch.max.bytes": "52428800",
    "{source}.consumer.max.partition.fetch.bytes": "4194304",
    "{source}.consumer.max.poll.records": "2000",
    "{source}.consumer.receive.buffer.bytes": "1048576",
    "{target}.producer.batch.size": "524288",
    "{target}.producer.linger.ms": "100",
    "{target}.producer.buffer.memory": "134217728",
    "{target}.producer.max.request.size": "8388608",
    "{target}.producer.send.buffer.bytes": "1048576",
    "{target}.producer.max.in.flight.requests.per.connection": "5",
    "{target}.producer.enable.idempotence": "true",  # else five in flight could change places
}
"""The codec is that of the source's batches, so that the mirror is as large with every tool."""
LATENCY = {
    "tasks.max": "4",
    "{source}.consumer.fetch.min.bytes": "1",
    "{source}.consumer.max.poll.records": "10000",
    "{target}.producer.linger.ms": "0",
    "{target}.producer.batch.size": "131072",
    "{target}.producer.compression.type": "none",
    "{target}.producer.max.in.flight.requests.per.connection": "5",
    "{target}.producer.enable.idempotence": "true",  # else five in flight could change places
}
# A transaction is what one poll of one task returned: fewer, larger ones cost less.
EXACTLY_ONCE_THROUGHPUT = THROUGHPUT | {"{source}.consumer.max.poll.records": "10000"}
EXACTLY_ONCE_LATENCY = LATENCY | {"tasks.max": "1"}
_EXACTLY_ONCE = {
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
    "{target}.exactly.once.source.support": "enabled",
    "{source}.consumer.isolation.level": "read_committed",
}


@dataclass(frozen=True)
class MirrorMaker:
    """MirrorMaker 2, plain or exactly-once, with one set of tuned settings."""

    tuned: Mapping[str, str]
    is_exactly_once: bool

    @property
    def name(self) -> str:
        """What it is called in the report."""
        return "MirrorMaker 2 exactly-once" if self.is_exactly_once else "MirrorMaker 2"

    def prepare(self, leg: Leg, folder: Path) -> Launch:
        """Write mm2.properties and its logging."""
        path = folder / f"{leg.alias}.properties"
        lines = self.properties(leg)
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        logging = folder / "mm2-logging.xml"
        logging.write_text(_LOGGING)
        return Launch(self._command(jars.classpath(jars.ensure(JARS)), logging, path, folder))

    def properties(self, leg: Leg) -> dict[str, str]:
        """Return the whole configuration of a run."""
        source, target = leg.alias, TARGET
        flow = f"{source}->{target}"
        lines = {
            "clusters": f"{source}, {target}",
            f"{source}.bootstrap.servers": leg.source,
            f"{target}.bootstrap.servers": leg.target,
            f"{flow}.enabled": "true",
            f"{flow}.topics": leg.topic,
        }
        tuned = {**_QUICK_START, **self.tuned, **(_EXACTLY_ONCE if self.is_exactly_once else {})}
        named = {k.format(source=source, target=target): value for k, value in tuned.items()}
        return lines | _COPY_ONLY | _ONE_BROKER | named

    @property
    def kind(self) -> str:
        """The language of its settings."""
        return "properties"

    def settings(self) -> str:
        """Return all its settings, for the report, under the command that takes them."""
        leg = Leg("SOURCE", "TOPIC", "SOURCE:PORT", "TARGET:PORT")
        command = self._command("JARS/*", Path("LOGGING.xml"), Path("mm2.properties"), Path("TMP"))
        lines = [f"# {shown(['java', *command[1:]])}"]
        lines += [f"{key}={value}" for key, value in self.properties(leg).items()]
        return "\n".join(lines)

    def _command(self, classpath: str, logging: Path, path: Path, scratch: Path) -> list[str]:
        own = [f"-Dlog4j2.configurationFile={logging}", f"-Djava.io.tmpdir={scratch}"]
        own += ["-XX:-UsePerfData", "-cp", classpath]
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        return [java.find_java(), *_JVM, *own, main, str(path)]
