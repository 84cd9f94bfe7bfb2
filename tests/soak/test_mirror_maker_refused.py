"""``heliograph mirror-maker`` with a login and a record that the target refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.making import create_topic
from tests.spark.test_mirror_maker import called, group, values, write_call

__all__ = ["group"]  # the fixture


@pytest.mark.timeout(900)
def test_a_refused_record_ends_it_where_that_was_asked_for_and_no_password_is_told(
    private_cluster: Callable[..., Any], target: Any, tmp_path: Path, group: str
) -> None:
    secured = private_cluster(name="secured", sasl="SCRAM-SHA-512")
    topic = f"{group}-orders"
    create_topic(secured.internal_bootstrap, topic)
    # Such a topic takes no record without a key.
    create_topic(target.bootstrap, topic, config={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": secured.internal_bootstrap})
    producer.produce(topic, b"refused")
    assert producer.flush(20) == 0
    command = write_call(tmp_path, secured, target, group)
    properties = secured.client_properties()
    lines = [f"{name}={value}\n" for name, value in properties.items()]
    with (tmp_path / "consumer.properties").open("a") as file:
        file.writelines(lines)
    ended = called([*command, "--abort.on.send.failure=true"], tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "error: run-failed: a partition stopped by records-refused" in ended.stderr
    assert "note: consumer.config: sasl." in ended.stderr
    assert properties["sasl.password"] not in ended.stderr + ended.stdout
    assert b"refused" not in values(target.bootstrap, topic)
