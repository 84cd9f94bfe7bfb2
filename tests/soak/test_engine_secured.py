"""A link between secured clusters, with each security protocol: every record once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heliograph.local.brokers import Cluster
from tests.broker.linked import produce
from tests.checker.reading import read_partition
from tests.faults.engine import make_link, synced
from tests.making import create_topic

VALUES = [b"%d" % number for number in range(500)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "secured",
    [{"tls": True}, {"sasl": "SCRAM-SHA-512"}, {"tls": True, "sasl": "PLAIN"}],
    ids=["SSL", "SASL_PLAINTEXT", "SASL_SSL"],
)
def test_a_link_between_secured_clusters(
    private_cluster: Callable[..., Cluster], tmp_path: Path, secured: dict[str, Any]
) -> None:
    source, target = (private_cluster(name=name, **secured) for name in ("here", "there"))
    link = make_link(tmp_path, source, target)
    topic = f"{link.name}-orders"
    create_topic(source.internal_bootstrap, topic)
    produce(source.internal_bootstrap, topic, VALUES)
    for number in range(2):
        assert synced(link, tmp_path / f"run-{number}")["records"] == (0 if number else 500)
    rows = read_partition(target.internal_bootstrap, topic, 0, committed=True)
    assert [seen.value for _, seen in rows] == VALUES
    secret = source.client_properties().get("sasl.password")
    for file in tmp_path.rglob("std*"):
        assert not secret or secret not in file.read_text(), "a password was told"
