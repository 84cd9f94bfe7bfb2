"""A target whose disk is full: the link says so, waits, and goes on when there is room."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.local.brokers import Cluster
from tests.broker.linked import produce
from tests.faults.engine import make_link, running, synced, until
from tests.making import create_topic


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory that is soon full; only root can mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.timeout(900)
def test_a_full_disk_stops_the_mirror_and_loses_nothing(
    source: Any, small_disk: Path, private_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    small = {"log.segment.bytes": "1048576", "log.index.size.max.bytes": "4096"}
    target = private_cluster(name="full", data=small_disk / "broker", properties=small)
    link = make_link(tmp_path, source, target)
    topic = f"{link.name}-orders"
    create_topic(link.source, topic)
    with running(link, tmp_path / "driver") as driver:
        driver.wait_copying()
        filler = small_disk / "filler"
        with filler.open("wb") as file:
            while True:
                try:
                    file.write(b"x" * 65536)
                    file.flush()
                except OSError:
                    break
        for _ in range(20):
            produce(link.source, topic, [b"%d" % number + b"." * 1000 for number in range(1000)])
        until(lambda: not target.node(1).is_alive(), 60, "the broker does not mind a full disk")
        until(lambda: "cluster target: " in driver.said, 120, lambda: driver.said)
        filler.unlink()
        target.node(1).start()
        until(lambda: link.check(topic).not_copied == 0, 120, lambda: driver.said)
        assert driver.end() == 0, driver.said
    assert synced(link, tmp_path / "last")["records"] == 0
