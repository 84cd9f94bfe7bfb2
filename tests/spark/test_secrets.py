"""A password in the file of a running link: it is told to nobody, and written down nowhere."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from heliograph.cli.app import run
from heliograph.local.brokers import Cluster
from heliograph.local.spec import User
from heliograph.model.names import control_topic, ledger_topic, state_topic
from tests.broker.linked import produce
from tests.checker.compare import count_equal
from tests.checker.reading import read_partition
from tests.faults.engine import Driver, make_link, running, until
from tests.making import create_topic

WITHIN = "naming: prefix\nallow_same_cluster: true"


@pytest.mark.timeout(600)
def test_a_password_is_in_no_plan_log_file_or_state(
    private_cluster: Callable[..., Cluster], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = f"correct-horse-{secrets.token_hex(8)}"
    cluster = private_cluster(sasl="SCRAM-SHA-512", users=(User("mirror", password),))
    link = make_link(tmp_path, cluster, cluster, more=WITHIN)
    topic, bootstrap = f"{link.name}-orders", cluster.internal_bootstrap
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"%d" % number for number in range(100)])
    assert password in link.file.read_text()
    file = ["-f", str(link.file), "-v"]
    assert run(["check", *file]) == run(["plan", *file]) == 0
    with running(link, tmp_path / "run", "-v") as driver:
        driver.wait_copying()
        mirrored = f"source.{topic}"
        until(lambda: count(bootstrap, mirrored) == 100, 60, lambda: driver.said)
        assert run(["status", "--partitions", *file, "-o", "json"]) == 0
        assert not any(password.encode() in text for text in traces(driver))
        assert driver.end() == 0, driver.said
    assert count_equal(bootstrap, topic, bootstrap, mirrored, 1) == 100
    told = "".join(capsys.readouterr())
    assert "source." in told and password not in told + driver.said + driver.printed
    for own in (control_topic(link.name), state_topic(link.name), ledger_topic(link.name)):
        rows = [seen for _, seen in read_partition(bootstrap, own, 0, committed=False)]
        assert rows and not any(password in str(one) for one in rows), own


def count(bootstrap: str, topic: str) -> int:
    return sum(1 for _ in read_partition(bootstrap, topic, 0, committed=True))


def traces(driver: Driver) -> Iterator[bytes]:
    """Yield what others on the machine may see: command lines, and files for a while."""
    files = [one for one in driver.folder.rglob("*") if one.is_file()]
    assert any("checkpoint" in str(one) for one in files), files
    for one in [*files, *(Path(f"/proc/{one.pid}/cmdline") for one in driver.processes())]:
        with suppress(OSError):  # it is gone by now
            yield one.read_bytes()
