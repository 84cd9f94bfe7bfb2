"""Settings of topics and brokers, with where each value comes from."""

from collections.abc import Mapping
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
