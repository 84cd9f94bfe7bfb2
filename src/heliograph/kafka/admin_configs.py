"""Settings of topics and brokers: read with defaults and sources, change one by one."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType

from heliograph.errors import HeliographError
from heliograph.kafka.admin_session import Session
from heliograph.kafka.deadline import Deadline
from heliograph.model.configs import ConfigEntry, ConfigSource

ALL_BROKERS: None = None
"""In place of a broker's number: the setting that every broker takes which has no own."""

_RESULT = re.compile(r"\[Error (-?\d+)\] \w+(?:: (.*))?", re.S)


class Configs:
    """The settings of one cluster's topics and brokers."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of_topics(
        self,
        topics: Collection[str],
        deadline: Deadline | None = None,
        *,
        only: Collection[str] | None = None,
    ) -> dict[str, dict[str, ConfigEntry]]:
        """Return settings of each topic, defaults included; raise if one is missing.

        All settings, unless ``only`` some are named.
        """
        resources = [(ConfigResourceType.TOPIC, topic) for topic in sorted(set(topics))]
        return self._describe(resources, "reading the settings of topics", deadline, only)

    def of_broker(
        self, broker: int | None, deadline: Deadline | None = None
    ) -> dict[str, ConfigEntry]:
        """Return all settings of a broker; of ``ALL_BROKERS`` only what was set for all."""
        name = "" if broker is None else str(broker)
        doing = "reading the settings of all brokers"
        doing = doing if broker is None else f"reading the settings of broker {broker}"
        found = self._describe([(ConfigResourceType.BROKER, name)], doing, deadline)
        return found.get(name, {})

    def change_topic(
        self,
        topic: str,
        *,
        put: Mapping[str, str] | None = None,
        remove: Collection[str] = (),
        validate_only: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        """Set and unset settings of a topic; all others stay as they are."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, _changes(put, remove))
        self._alter(resource, f"changing the settings of topic {topic}", validate_only, deadline)

    def change_broker(
        self,
        broker: int | None,
        *,
        put: Mapping[str, str] | None = None,
        remove: Collection[str] = (),
        validate_only: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        """Set and unset settings of a broker or of ``ALL_BROKERS``."""
        name = "" if broker is None else str(broker)
        resource = ConfigResource(ConfigResourceType.BROKER, name, _changes(put, remove))
        whose = "all brokers" if broker is None else f"broker {broker}"
        self._alter(resource, f"changing the settings of {whose}", validate_only, deadline)

    def _describe(
        self,
        resources: list[tuple[Any, str]],
        doing: str,
        deadline: Deadline | None,
        only: Collection[str] | None = None,
    ) -> dict[str, dict[str, ConfigEntry]]:
        if not resources:
            return {}

        def ask(client: Any, _: int) -> dict[str, dict[str, ConfigEntry]]:
            keys = None if only is None else list(only)
            wanted = [ConfigResource(kind, name, keys) for kind, name in resources]
            # "all": what it returns by itself leaves the defaults out.
            answer = client.describe_configs(wanted, config_filter="all")
            by_name = answer.get(resources[0][0].name.lower(), {})
            return {name: _entries(configs) for name, configs in by_name.items()}

        return self._session.call(doing, ask, deadline)

    def _alter(
        self, resource: Any, doing: str, validate_only: bool, deadline: Deadline | None
    ) -> None:
        if not resource.configs:
            return

        def ask(client: Any, _: int) -> None:
            # Not raise_on_unknown: the broker knows best, and says so with a code.
            answer = client.alter_configs(
                [resource], validate_only=validate_only, raise_on_unknown=False, incremental=True
            )
            for results in answer.values():
                for result in results.values():
                    if result != "OK":
                        raise self._refusal(result, doing)

        self._session.call(doing, ask, deadline)

    def _refusal(self, result: str, doing: str) -> HeliographError:
        # kafka-python has turned the code and the broker's message into this text.
        found = _RESULT.fullmatch(result)
        assert found, "kafka-python writes results in one way"
        return self._session.refusal(int(found[1]), doing, found[2])


def _changes(put: Mapping[str, str] | None, remove: Collection[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {name: ("SET", value) for name, value in (put or {}).items()}
    return changes | dict.fromkeys(remove, ("DELETE", None))


def _entries(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, ConfigEntry]:
    return {name: _entry(name, config) for name, config in sorted(configs.items())}


def _entry(name: str, config: Mapping[str, Any]) -> ConfigEntry:
    source = config["config_source"]
    known = {kind.value for kind in ConfigSource}
    return ConfigEntry(
        name=name,
        value=config["value"],
        source=ConfigSource(source) if source in known else ConfigSource.OTHER,
        read_only=bool(config["read_only"]),
        sensitive=bool(config["is_sensitive"]),
    )
