"""A connector of Kafka Connect as JSON: read as the mm2.properties that says the same."""

import json
from collections.abc import Mapping

from heliograph.errors import ConfigError
from heliograph.migrate.entries import Entry

_SOURCE_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
_ALIASES = ("source.cluster.alias", "target.cluster.alias")
# What stands before a key here, and what it is of in an mm2.properties.
_PLACES = {
    "source.cluster.": "{source}.",
    "source.consumer.": "{source}.consumer.",
    "source.producer.": "{source}.producer.",
    "source.admin.": "{source}.admin.",
    "target.cluster.": "{target}.",
    "target.consumer.": "{target}.consumer.",
    "target.producer.": "{target}.producer.",
    "target.admin.": "{target}.admin.",
    "config.providers": "config.providers",
}


def is_json(text: str) -> bool:
    """Tell whether a file is JSON and no property file."""
    return text.lstrip().startswith("{")


def read_connector(text: str, name: str) -> list[Entry]:
    """Read a MirrorSourceConnector; ``name`` is the file's, for messages."""
    config = _config(text, name)
    kind = str(config.get("connector.class", ""))
    if kind not in (_SOURCE_CONNECTOR, "MirrorSourceConnector", "MirrorSource"):
        raise ConfigError(
            f"{name} is not a MirrorSourceConnector's configuration: connector.class says "
            f"otherwise, or is missing. Give that of {_SOURCE_CONNECTOR}"
        )
    missing = [key for key in _ALIASES if not str(config.get(key, "")).strip()]
    if missing:
        raise ConfigError(f"{name}: {' and '.join(missing)} is missing. Name both clusters")
    source, target = (str(config[key]).strip() for key in _ALIASES)
    link = f"{source}->{target}."
    entries = [
        Entry("clusters", f"{source},{target}", label=" and ".join(_ALIASES)),
        Entry(f"{link}enabled", "true", label="connector.class"),
    ]
    for key, value in config.items():
        if key not in (*_ALIASES, "connector.class"):
            place = _place(key, source, target) or f"{link}{key}"
            entries.append(Entry(place, _as_text(value), label=key))
    return entries


def _config(text: str, name: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        # Not chained: the error may carry the text.
        raise ConfigError(f"{name} is not JSON, though it begins like it") from None
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        found = found["config"]
    if not isinstance(found, dict):
        raise ConfigError(f"{name} must hold one connector, as GET /connectors/NAME shows it")
    return found


def _place(key: str, source: str, target: str) -> str | None:
    for prefix, place in _PLACES.items():
        if key.startswith(prefix):
            return place.format(source=source, target=target) + key.removeprefix(prefix)
    return None


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value).strip()
