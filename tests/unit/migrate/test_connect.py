"""A connector's JSON says what an mm2.properties says."""

import json

import pytest

from heliograph.config.load import load
from heliograph.errors import ConfigError
from heliograph.migrate.connect import is_json, read_connector
from heliograph.migrate.draft import Imported
from heliograph.migrate.mm2 import import_mm2

CONNECTOR: dict[str, object] = {
    "name": "mirror",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "target.cluster.security.protocol": "SSL",
    "source.consumer.auto.offset.reset": "earliest",
    "producer.override.linger.ms": 5,
    "topics": "orders,payments",
    "sync.topic.acls.enabled": False,
    "tasks.max": "4",
}


def connector(text: str) -> Imported:
    return import_mm2(read_connector(text, "mirror.json"), name="mirror.json")


@pytest.mark.parametrize("written", [CONNECTOR, {"name": "mirror", "config": CONNECTOR}])
def test_a_connector_becomes_a_link(written: dict[str, object]) -> None:
    text = json.dumps(written)
    assert is_json(text)
    found = connector(text)
    config = load(found.text)
    link = config.links["A-B"]
    assert link.topics == ("orders", "payments") and link.sync.acls is None
    assert config.clusters["B"].properties["security.protocol"] == "SSL"
    for key in CONNECTOR:
        assert f" {key}" in found.text, key
    assert "A->B" not in found.text.replace("source is A", "")


def test_refusals_name_the_keys_of_the_connector() -> None:
    with pytest.raises(ConfigError) as refused:
        connector(json.dumps(CONNECTOR | {"transforms": "x"}))
    assert "\n  - transforms: Java classes cannot be used" in refused.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"connector.class": "MirrorCheckpointConnector"}', "not a MirrorSourceConnector"),
        ("{}", "not a MirrorSourceConnector"),
        ('{"connector.class": "MirrorSourceConnector"}', "source.cluster.alias and target"),
    ],
)
def test_what_is_no_connector_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        connector(text)
    assert refused.value.__cause__ is None
