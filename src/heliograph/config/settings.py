"""Every setting of heliograph.yaml, once: its type, default, help and what it takes.

The reader, the reference and ``heliograph init`` are made from these classes. A field without a
default must be given; one without a ``Setting`` is not written as a key of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from heliograph.config import kinds, values
from heliograph.config.kinds import Kind, Listing, Step, choice, word_or_count

# What MirrorMaker 2 leaves out, too.
TOPICS_LEFT_OUT = (r".*[\-\.]internal", r".*\.replica", r"__.*")
GROUPS_LEFT_OUT = ("console-consumer-.*", "connect-.*", "__.*")
CONFIGS_LEFT_OUT = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)
_SECOND = timedelta(seconds=1)
_LOOPBACK = values.Address("127.0.0.1", 8040)
_MOST_TASKS = 10_000
# Kafka keeps the number of replicas in 16 bits.
_MOST_REPLICAS = 32_767


@dataclass(frozen=True, slots=True)
class Setting:
    """What a person is told of a setting.

    Words (a Literal) and groups of settings (a class, or classes by name) need no kind.
    """

    help: str
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class SyncConfig:
    """How often each thing is brought in step; None is never."""

    topics: Annotated[
        timedelta | None,
        Setting("How often new topics and partitions are looked for.", kinds.SPAN),
    ] = 5 * _SECOND
    configs: Annotated[
        timedelta | None, Setting("How often topic settings are compared.", kinds.SPAN)
    ] = 30 * _SECOND
    acls: Annotated[timedelta | None, Setting("How often ACLs are copied.", kinds.SPAN)] = None
    groups: Annotated[
        timedelta | None,
        Setting("How often offsets of consumer groups are translated.", kinds.SPAN),
    ] = 5 * _SECOND
    group_deletes: Annotated[
        timedelta | None,
        Setting(
            "How often groups deleted on the source are deleted on the target, if nobody has used "
            "them there.",
            kinds.SPAN,
        ),
    ] = None
    deletes: Annotated[
        timedelta | None,
        Setting("How often topics deleted on the source are deleted on the target.", kinds.SPAN),
    ] = None


@dataclass(frozen=True, slots=True)
class MirrorsConfig:
    """How mirrors are created and kept in step."""

    replication_factor: Annotated[
        Literal["target", "source"] | int,
        Setting(
            "Replicas of a new mirror: the target broker's default, as many as the source topic "
            "has, or this many.",
            word_or_count("target", "source", most=_MOST_REPLICAS),
        ),
    ] = "target"
    merge: Annotated[
        bool,
        Setting(
            "Whether others may write to the mirrors too: other links, or applications. Else a "
            "record of somebody else stops a partition.",
            kinds.FLAG,
        ),
    ] = False
    configs_exclude: Annotated[
        tuple[str, ...],
        Setting(
            "Topic settings that are not copied. What you write replaces this list.",
            Listing(kinds.PATTERN),
        ),
    ] = CONFIGS_LEFT_OUT
    use_defaults_from: Annotated[
        Literal["target", "source"],
        Setting("Whose defaults hold for topic settings that nobody set."),
    ] = "target"


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """How much a link may use."""

    bytes_per_second: Annotated[
        int | None, Setting("The most a link copies in a second.", kinds.SIZE)
    ] = None
    tasks: Annotated[
        Literal["auto"] | int,
        Setting("How many Spark tasks copy at a time.", word_or_count("auto", most=_MOST_TASKS)),
    ] = "auto"


@dataclass(frozen=True, slots=True)
class ObjectivesConfig:
    """What is promised to others; status says whether it is kept."""

    rpo: Annotated[
        timedelta | None, Setting("How much may be lost: the greatest lag in time.", kinds.SPAN)
    ] = None
    rto: Annotated[timedelta | None, Setting("How long a failover may take.", kinds.SPAN)] = None


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How to reach a cluster. ``properties`` are as given, unchecked, and may hold a secret."""

    name: str
    properties: Annotated[
        Mapping[str, object],
        Setting("How to connect, under the names of Kafka's Java clients.", kinds.PROPERTY),
    ] = field(repr=False)
    allow_literal_secrets: Annotated[
        bool,
        Setting("Whether passwords may stand in this file, and not only references.", kinds.FLAG),
    ] = False


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """One direction: what is copied from a source cluster to a target cluster, and how.

    ``naming`` is a template with ``{topic}`` and perhaps ``{source}``.
    """

    name: str
    source: Annotated[str, Setting("The cluster to copy from.", kinds.CLUSTER)]
    target: Annotated[str, Setting("The cluster to copy to.", kinds.CLUSTER)]
    topics: Annotated[
        tuple[str, ...],
        Setting("The topics to copy.", Listing(kinds.TOPIC_PATTERN, may_be_empty=False)),
    ]
    exclude: Annotated[
        tuple[str, ...],
        Setting(
            "Topics to leave out; wins over topics. What you write replaces this list.",
            Listing(kinds.TOPIC_PATTERN),
        ),
    ] = TOPICS_LEFT_OUT
    naming: Annotated[str, Setting("How mirrors are named.", kinds.NAMING)] = values.SAME
    origin: Annotated[
        Literal["any", "local"],
        Setting("Copy any record, or only those that no Heliograph link wrote (active-active)."),
    ] = "any"
    start: Annotated[
        Literal["earliest", "latest"] | datetime,
        Setting("Where partitions begin that were not mirrored before.", kinds.START),
    ] = "earliest"
    starts: Annotated[
        Mapping[str, Literal["earliest", "latest"] | datetime],
        Setting("Other starts for some topics; the first that fits counts.", kinds.ByTopic()),
    ] = field(default_factory=dict)
    allow_broker_settings: Annotated[
        bool,
        Setting(
            "Whether the target's producer.id.expiration.ms may be raised while old records are "
            "copied.",
            kinds.FLAG,
        ),
    ] = False
    allow_same_cluster: Annotated[
        bool,
        Setting(
            "Whether source and target may be one cluster. Mirrors then need other names.",
            kinds.FLAG,
        ),
    ] = False
    delivery: Annotated[
        Literal["exactly-once", "at-least-once"],
        Setting("at-least-once is for clusters where transactional ids are not allowed."),
    ] = "exactly-once"
    sync: Annotated[SyncConfig, Setting("How often each thing is brought in step.")] = SyncConfig()
    mirrors: Annotated[MirrorsConfig, Setting("How mirrors are created and kept in step.")] = (
        MirrorsConfig()
    )
    groups: Annotated[
        tuple[str, ...],
        Setting("Consumer groups whose offsets are translated.", Listing(kinds.PATTERN)),
    ] = (".*",)
    groups_exclude: Annotated[
        tuple[str, ...],
        Setting(
            "Groups to leave out; wins over groups. What you write replaces this list.",
            Listing(kinds.PATTERN),
        ),
    ] = GROUPS_LEFT_OUT
    on_gap: Annotated[
        Literal["stop", "skip"],
        Setting(
            "What a partition does when source offsets will never arrive. Always recorded; other "
            "partitions go on."
        ),
    ] = "stop"
    on_recreate: Annotated[
        Literal["stop", "restart"],
        Setting("What a mirror does when its source topic was made anew."),
    ] = "stop"
    on_refuse: Annotated[
        Literal["stop", "quarantine", "skip"],
        Setting("What happens to a record that the target refuses."),
    ] = "quarantine"
    limits: Annotated[LimitsConfig, Setting("How much the link may use.")] = LimitsConfig()
    objectives: Annotated[
        ObjectivesConfig, Setting("What is promised to others; status says whether it is kept.")
    ] = ObjectivesConfig()
    transform: Annotated[
        tuple[Step, ...],
        Setting("Steps that change records on their way.", kinds.Steps()),
    ] = field(default=(), repr=False)
    sets: Annotated[
        Mapping[str, tuple[str, ...]],
        Setting("Topics that belong together, for recovery verbs with --set NAME.", kinds.Sets()),
    ] = field(default_factory=dict)
    hooks: Annotated[
        Mapping[str, tuple[str, ...]],
        Setting("Commands to run before and after recovery verbs.", kinds.Hooks()),
    ] = field(default_factory=dict, repr=False)
    hook_timeout: Annotated[
        timedelta | None, Setting("How long one of these commands may take.", kinds.SPAN)
    ] = 30 * _SECOND


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """Where the links run."""

    master: Annotated[str, Setting("Where Spark runs.", kinds.MASTER)] = "local"
    conf: Annotated[
        Mapping[str, str],
        Setting(
            "Spark's own settings.",
            kinds.TextMap("names and values", "names that begin with 'spark.'", "spark."),
        ),
    ] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class DashboardConfig:
    """Where the REST API is served, and who may use it. ``token`` is as given, unresolved."""

    listen: Annotated[values.Address, Setting("Where the dashboard listens.", kinds.ADDRESS)] = (
        _LOOPBACK
    )
    token: Annotated[
        str | None,
        Setting(
            "What a request must bear. Needed where the dashboard does not listen on loopback.",
            kinds.SECRET,
        ),
    ] = field(default=None, repr=False)
    allow_literal_secrets: Annotated[
        bool,
        Setting("Whether the token may stand in this file, and not only a reference.", kinds.FLAG),
    ] = False


@dataclass(frozen=True, slots=True)
class Config:
    """A whole heliograph.yaml. Clusters and links are by name, in the order of the file.

    ``has_dashboard`` says that somebody wrote that section.
    """

    clusters: Annotated[
        Mapping[str, ClusterConfig], Setting("The Kafka clusters, each under a short name.")
    ]
    links: Annotated[
        Mapping[str, LinkConfig],
        Setting("What is mirrored, each direction under a short name."),
    ]
    spark: Annotated[SparkConfig, Setting("Where the links run.")] = SparkConfig()
    dashboard: Annotated[
        DashboardConfig,
        Setting("The REST API. `heliograph run` serves it too where this section is given."),
    ] = DashboardConfig()
    has_dashboard: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a group: a setting with its name and default.

    ``group`` is the class of the settings below; ``is_named`` says that there are any number of
    such groups, each under a name.
    """

    name: str
    help: str
    kind: Kind | None
    group: type | None
    is_named: bool
    is_required: bool
    default: Any


def keys(group: type) -> Iterator[Key]:
    """Yield every key that a class of settings has, in the order of the file."""
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        annotated = get_args(hints[one.name])
        if not annotated or not isinstance(annotated[-1], Setting):
            continue
        type_, setting = annotated[0], annotated[-1]
        kind, below = setting.kind, None
        if get_origin(type_) is Literal:
            kind = choice(*get_args(type_))
        elif kind is None:
            below = get_args(type_)[1] if get_args(type_) else type_
        default = one.default if one.default_factory is MISSING else one.default_factory()
        yield Key(
            name=one.name,
            help=setting.help,
            kind=kind,
            group=below,
            is_named=below not in (None, type_),
            is_required=default is MISSING,
            default=None if default is MISSING else default,
        )
