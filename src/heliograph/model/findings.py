"""Findings: what `check` sees that would go wrong, each with its remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Literal

from heliograph.errors import MirrorAppendTime, SlotsShort
from heliograph.model.acls import Operation, Pattern, Resource
from heliograph.model.configs import ConfigEntry
from heliograph.model.mirrors import TIMESTAMP_TYPE, replaces_times
from heliograph.model.slots import check_slots, full_master, slots_of
from heliograph.model.topics import TopicView

Severity = Literal["error", "warning", "note"]
Settings = Mapping[str, ConfigEntry]

EXPIRATION = "producer.id.expiration.ms"
# Kafka keeps the limit in 32 bits of milliseconds: 24.8 days.
LONGEST_EXPIRATION_MS = (1 << 31) - 1
_NAMED = 10
_WORST_FIRST = ("error", "warning", "note")
_LEAST_JAVA = 17


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or may become so. An error keeps a link from working right.

    A note is on something that is well and could be better.
    """

    severity: Severity
    code: str
    where: str
    finding: str
    remedy: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Side:
    """One end of a link, for messages: the cluster, an address of it, and who we are there."""

    cluster: str
    bootstrap: str
    principal: str


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings once each, errors before warnings, else in the order they were made."""
    return sorted(dict.fromkeys(findings), key=lambda one: _WORST_FIRST.index(one.severity))


def some(names: Iterable[str]) -> str:
    """Return names as a text; of many, the first few.

    >>> some(["a", "b"]), some(str(n) for n in range(12))
    ('a, b', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    known = list(names)
    more = len(known) - _NAMED
    return ", ".join(known[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def counted(count: int, noun: str) -> str:
    """Return a number of things as a text.

    >>> counted(1, "partition"), counted(0, "partition")
    ('1 partition', '0 partitions')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def missing_acl(
    severity: Severity,
    side: Side,
    operations: Sequence[Operation],
    resource: Resource,
    names: Sequence[str],
    why: str,
    *,
    pattern: Pattern = Pattern.LITERAL,
) -> Finding:
    """Return the finding that an ACL is missing; its remedy is the command that grants it."""
    verbs = ", ".join(map(acl_word, operations))
    prefix = "prefix " if pattern is Pattern.PREFIXED else ""
    what = f"{acl_word(resource)} {prefix}{some(names)}"
    return Finding(
        severity,
        "acl-missing",
        f"cluster {side.cluster}",
        f"{side.principal} lacks {verbs} on {what} (for: {why})",
        grant_command(side, operations, resource, names, pattern),
    )


def acl_word(value: Operation | Resource) -> str:
    """Return an operation or a type of resource as Kafka's documentation writes it.

    >>> acl_word(Operation.DESCRIBE_CONFIGS), acl_word(Resource.TRANSACTIONAL_ID)
    ('DescribeConfigs', 'TransactionalId')
    """
    return "".join(part.capitalize() for part in value.value.split("_"))


def grant_command(
    side: Side,
    operations: Sequence[Operation],
    resource: Resource,
    names: Sequence[str],
    pattern: Pattern = Pattern.LITERAL,
) -> str:
    """Return the command line that grants an ACL."""
    words = ["kafka-acls.sh", "--bootstrap-server", side.bootstrap]
    words += ["--command-config", "admin.properties", "--add"]
    words += ["--allow-principal", quoted(side.principal)]
    words += [word for one in operations for word in ("--operation", acl_word(one))]
    if resource is Resource.CLUSTER:
        return " ".join([*words, "--cluster"])
    option = "--" + resource.value.lower().replace("_", "-")
    words += [word for name in names for word in (option, quoted(name))]
    if pattern is Pattern.PREFIXED:
        words += ["--resource-pattern-type", "prefixed"]
    return " ".join(words)


def quoted(text: str) -> str:
    """Return a word for a shell: what people could misread or a shell would, in quotes."""
    plain = all(one.isalnum() or one in "._:/@=,-" for one in text)
    return text if plain and text else "'" + text.replace("'", "'\\''") + "'"


def near(name: str, known: Iterable[str]) -> str:
    """Return the names that look most like one, as a sentence to append."""
    found = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f" The nearest: {', '.join(found)}." if found else ""


def same_cluster(
    link: str, source: str, target: str, cluster_id: str, *, is_allowed: bool, renames: bool
) -> Iterator[Finding]:
    """Find a link that would copy its own mirrors."""
    if is_allowed and renames:
        return
    remedy = "Name another cluster. Or, to copy within one, set naming: prefix"
    remedy += "" if is_allowed else " and allow_same_cluster: true"
    finding = f"{source} and {target} are the same cluster (id {cluster_id}): the mirror would"
    finding += " copy itself without end"
    yield Finding("error", "same-cluster", f"link {link}", finding, remedy)


def mirror_unfit(
    where: str, mirror: str, bootstrap: str, source: Settings, target: Settings
) -> Iterator[Finding]:
    """Find settings of an existing mirror under which it cannot hold what the source holds."""
    change = f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --topic {quoted(mirror)}"
    if replaces_times(target):
        yield Finding(
            "error",
            MirrorAppendTime.code,
            where,
            f"the mirror {mirror} has {TIMESTAMP_TYPE}=LogAppendTime, which replaces the time of"
            " every record: `run` changes that where it made the mirror or may follow this setting,"
            " and else copies nothing there",
            f"{change} --add-config {TIMESTAMP_TYPE}=CreateTime",
        )
    if "compact" in _value(target, "cleanup.policy") and "compact" not in _value(
        source, "cleanup.policy"
    ):
        yield Finding(
            "error",
            "mirror-compacted",
            where,
            f"the mirror {mirror} is compacted and its source is not: records would vanish, and"
            " those without a key are refused",
            f"{change} --add-config cleanup.policy={_value(source, 'cleanup.policy') or 'delete'}",
        )
    most, room = _value(source, "max.message.bytes"), _value(target, "max.message.bytes")
    if most and room and int(most) > int(room):
        yield Finding(
            "warning",
            "mirror-too-small",
            where,
            f"the mirror {mirror} takes batches of at most {room} bytes, the source {most}: larger"
            " ones are split, and single records that are too large follow on_refuse",
            f"{change} --add-config max.message.bytes={most}",
        )


def source_unfit(where: str, topic: str, bootstrap: str, settings: Settings) -> Iterator[Finding]:
    """Find settings of a source topic under which nothing can be copied back to it."""
    if replaces_times(settings):
        change = f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --topic {quoted(topic)}"
        yield Finding(
            "warning",
            "source-append-time",
            where,
            f"{topic} has {TIMESTAMP_TYPE}=LogAppendTime on the source. The link copies it as it"
            " is. After a switch or a failback, this would replace the time of every record that is"
            " copied back: `run` changes it where it may follow this setting, and else copies"
            " nothing there",
            f"Before a switch or a failback: {change} --add-config {TIMESTAMP_TYPE}=CreateTime",
        )


def _value(settings: Settings, name: str) -> str:
    entry = settings.get(name)
    return (entry.value if entry else None) or ""


def old_records(
    where: str, bootstrap: str, oldest: timedelta, limit: timedelta, partitions: Sequence[str]
) -> Finding:
    """Return the finding that records are older than the target remembers who wrote them.

    ``oldest`` is an age that some of the records surely have.
    """
    needed_ms = min(int(oldest.total_seconds() * 4000), LONGEST_EXPIRATION_MS)
    enough = "" if needed_ms < LONGEST_EXPIRATION_MS else " (the most that Kafka takes)"
    return Finding(
        "warning",
        "records-older-than-expiration",
        where,
        f"records that are still to be copied are more than {age(oldest)} old"
        f" ({some(partitions)}), and the target forgets who wrote them after {age(limit)}"
        f" ({EXPIRATION}). Until such a backlog is copied, one batch at a time is in flight, and"
        " exactly-once does not hold against a request that the network itself held back",
        f"Set allow_broker_settings: true for the time of the backlog, or raise it yourself"
        f"{enough}: kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type brokers"
        f" --entity-default --add-config {EXPIRATION}={needed_ms}",
    )


def age(span: timedelta) -> str:
    """Return a length of time for people.

    >>> age(timedelta(hours=12)), age(timedelta(days=3)), age(timedelta(minutes=1))
    ('12 hours', '3 days', '60 s')
    """
    hours = span.total_seconds() / 3600
    if hours < 1:
        return f"{span.total_seconds():.0f} s"
    return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"


def replication(
    where: str, wanted: int, brokers: int, what: str = "mirrors.replication_factor"
) -> Iterator[Finding]:
    """Find a factor that the target has too few brokers for."""
    if wanted > brokers:
        finding = f"{what} asks for {wanted} replicas, and the target has {brokers} brokers:"
        finding += " mirrors cannot be created"
        remedy = f"Set mirrors.replication_factor to at most {brokers}, or to target"
        yield Finding("error", "replication-factor", where, finding, remedy)


def one_replica(
    where: str, own: Iterable[str], topics: Mapping[str, TopicView], brokers: int
) -> Iterator[Finding]:
    """Find own topics that one broker holds, of several: while it is away, nothing is recorded."""
    alone = [
        name
        for name in own
        if name in topics
        and any(len(one.replicas) == 1 for one in topics[name].partitions.values())
    ]
    if alone and brokers > 1:
        yield Finding(
            "warning",
            "one-replica",
            where,
            f"{some(alone)} on the target have one replica, and it has {brokers} brokers. While the"
            " broker with the replica is away, nothing is copied; if it is lost, so is what the"
            " ledger knows",
            "Give them as many replicas as the mirrors have (kafka-reassign-partitions.sh)",
        )


def slots(master: str, tasks: Sequence[int], cores: int) -> Iterator[Finding]:
    """Find an application with fewer slots than its links have tasks."""
    there = slots_of(full_master(master, sum(tasks), cores))
    try:
        check_slots(sum(tasks) if there is None else there, sum(tasks))
    except SlotsShort as short:
        finding, _, remedy = short.message.partition(". Give")
        finding = finding.replace("No link was started", "No link will start")
        yield Finding("error", short.code, f"spark.master {master}", finding, f"Give{remedy}")


def java(version: int | None, command: str) -> Iterator[Finding]:
    """Find a Java that Spark does not run on."""
    remedy = f"Install Java {_LEAST_JAVA} or newer, or set JAVA_HOME to one"
    if version is None:
        text = f"{command} does not tell its version"
        yield Finding("warning", "java-unknown", "this machine", text, remedy)
    elif version < _LEAST_JAVA:
        text = f"{command} is Java {version}, and Spark needs {_LEAST_JAVA} or newer"
        yield Finding("error", "java-too-old", "this machine", text, remedy)


@dataclass(frozen=True, slots=True)
class Need:
    """A request in a version that Heliograph makes use of, and what it goes without it.

    ``since`` is the first Kafka that speaks it.
    """

    request: str
    api_key: int
    version: int
    since: str
    severity: Severity
    without: str


_UNCLAIMED = "mirror partitions cannot be claimed, so nothing is written"
_BY_NAME = (
    "this request names topics instead of giving their ids: a mirror that is deleted and re-created"
    " is noticed at the next acknowledgement, and records may be written to the new one until then"
)
NEEDS_OF_SOURCE = (
    Need(
        "Metadata",
        3,
        10,
        "2.8",
        "warning",
        "topics have no ids: one that is re-created looks the same",
    ),
    Need("OffsetFetch", 9, 8, "3.0", "note", "offsets are read one group at a time"),
    Need(
        "Fetch",
        1,
        13,
        "3.1",
        "note",
        "after each fetch, the broker is asked whether the topics are still the same",
    ),
)
NEEDS_OF_TARGET = (
    Need("Produce", 0, 9, "2.8", "error", "nothing can be written"),
    Need("InitProducerId", 22, 4, "2.7", "error", _UNCLAIMED),
    Need("AddPartitionsToTxn", 24, 3, "2.8", "error", _UNCLAIMED),
    Need("EndTxn", 26, 3, "2.8", "error", _UNCLAIMED),
    Need(
        "DescribeTransactions",
        65,
        0,
        "3.0",
        "note",
        "two drivers of a link that start at the same instant may both lose their claims; they are"
        " claimed again a minute later",
    ),
    Need("Produce", 0, 13, "4.0", "note", _BY_NAME),
)


def too_old(cluster: str, newest: Mapping[int, int], needs: Iterable[Need]) -> Iterator[Finding]:
    """Find what the brokers of a cluster do not speak; ``newest`` are versions by request."""
    for need in needs:
        if newest.get(need.api_key, -1) < need.version:
            yield Finding(
                need.severity,
                "kafka-too-old",
                f"cluster {cluster}",
                f"not all brokers speak {need.request} version {need.version} (Kafka {need.since}):"
                f" {need.without}",
                f"Upgrade the cluster to Kafka {need.since} or newer"
                + ("" if need.severity == "error" else "; or leave it so"),
            )
