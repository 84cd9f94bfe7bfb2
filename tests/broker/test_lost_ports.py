"""A cluster whose ports are taken, every time, between their choice and its start."""

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.errors import LocalError
from heliograph.local.launch import start
from heliograph.local.spec import Spec


class Thief(threading.Thread):
    """Takes the clients' port of every cluster under a folder, as soon as it is let go of."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._is_over = threading.Event()
        self.taken: dict[int, socket.socket] = {}

    def run(self) -> None:
        # A JVM takes a while to reach its port: to look often is to be first.
        while not self._is_over.wait(0.005):
            for path in self._folder.glob("heliograph-*/node-1.properties"):
                self._take(path)

    def _take(self, path: Path) -> None:
        try:
            found = re.search(r"CLIENT://127\.0\.0\.1:(\d+)", path.read_text())
        except FileNotFoundError:
            return
        if found is None or int(found[1]) in self.taken:
            return
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", int(found[1])))
            one.listen()
        except OSError:
            # Still held by the cluster's owner.
            one.close()
        else:
            self.taken[int(found[1])] = one

    def stop(self) -> None:
        self._is_over.set()
        self.join()
        for one in self.taken.values():
            one.close()


@pytest.fixture
def thief(clusters_folder: Path) -> Iterator[Thief]:
    folder = clusters_folder / "robbed"
    folder.mkdir()
    thief = Thief(folder)
    thief.start()
    yield thief
    thief.stop()
    folder.rmdir()


def test_ports_lost_every_time_are_told_with_logs_that_still_exist(
    thief: Thief, clusters_folder: Path
) -> None:
    with pytest.raises(LocalError, match="3 times in a row") as failure:
        start(Spec(name="robbed"), under=clusters_folder / "robbed")
    assert len(thief.taken) == 3
    named = re.search(r"its log, (\S+):\n", failure.value.message)
    assert named is not None
    log = Path(named[1])
    try:
        assert "Address already in use" in log.read_text()
    finally:
        shutil.rmtree(log.parent)
