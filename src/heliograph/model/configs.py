"""Settings of topics and brokers, with where each value comes from."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class ConfigSource(StrEnum):
    """Where a value comes from; the first that is set wins."""

    TOPIC = "DYNAMIC_TOPIC_CONFIG"
    BROKER = "DYNAMIC_BROKER_CONFIG"
    ALL_BROKERS = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    FILE = "STATIC_BROKER_CONFIG"
    DEFAULT = "DEFAULT_CONFIG"
    OTHER = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. The value of a sensitive one is not told by brokers: None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        """Whether nobody set it anywhere: the value is Kafka's own."""
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. What is None is the cluster's default.

    With ``assignments`` (replicas by partition, the first is the preferred leader) the count and
    the factor follow from them.
    """

    topic: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))


TIME_BEFORE = "message.timestamp.before.max.ms"
OLD_TIME_LIMIT = "message.timestamp.difference.max.ms"
"""How far records may be from the clock, before Kafka 3.6 told the past and the future apart."""


def fitting(configs: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Return those of a topic's settings that a cluster knows, by the names that it knows.

    >>> fitting({"a": "1", TIME_BEFORE: "9"}, ["a", OLD_TIME_LIMIT])
    {'a': '1', 'message.timestamp.difference.max.ms': '9'}
    """
    fit = {name: value for name, value in configs.items() if name in known}
    if TIME_BEFORE in configs and TIME_BEFORE not in known and OLD_TIME_LIMIT in known:
        fit[OLD_TIME_LIMIT] = configs[TIME_BEFORE]
    return fit
