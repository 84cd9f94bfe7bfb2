"""Which local clusters were started from the shell: one small file each, and what is seen.

The files say what was started. Whether it still runs is asked of the processes, every time.
"""

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from heliograph.errors import ConfigError, LocalError
from heliograph.local.brokers import GRACE, Cluster
from heliograph.local.folders import state_folder
from heliograph.local.layout import Folder
from heliograph.local.processes import Process
from heliograph.model.moments import moment

_MARGIN = timedelta(seconds=10)


class State(StrEnum):
    """What is seen of a cluster's processes."""

    STARTING = "starting"
    RUNNING = "running"
    PARTIAL = "partial"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Record:
    """One cluster as it was started. ``client`` names files of secrets, never holds one.

    ``keeper`` is the process to end: before any broker runs, it is the one that starts them.
    """

    name: str
    keeper: Process
    nodes: tuple[Process, ...] = ()
    folder: str = ""
    is_kept: bool = False
    bootstrap: str = ""
    security: str = ""
    client: dict[str, str] = field(default_factory=dict)
    started_at: str = ""
    internal_bootstrap: str = ""

    @staticmethod
    def of(cluster: Cluster) -> "Record":
        """Describe a running cluster."""
        return Record(
            name=cluster.name,
            keeper=cluster.keeper,
            nodes=tuple(node.process for node in cluster.nodes),
            folder=str(cluster.folder.root),
            is_kept=cluster.is_kept,
            bootstrap=cluster.bootstrap,
            security=cluster.spec.security,
            client=cluster.client_properties(reveal=False),
            started_at=moment(int(time.time() * 1000)),
            internal_bootstrap=cluster.internal_bootstrap,
        )

    @property
    def removable(self) -> str:
        """The folder that goes with the cluster: only one that was made for it, never --data."""
        return "" if self.is_kept else self.folder

    @property
    def logs(self) -> str:
        """The folder of the brokers' logs."""
        return str(Folder(Path(self.folder)).logs) if self.folder else ""

    def state(self) -> State:
        """Look at the processes."""
        if not self.nodes:
            return State.STARTING if self.keeper.is_alive() else State.DEAD
        alive = [node.is_alive() for node in self.nodes]
        if all(alive):
            return State.RUNNING
        return State.PARTIAL if any(alive) else State.DEAD


class Registry:
    """The records of all clusters started from the shell by this user."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or state_folder() / "clusters"

    def all(self) -> list[Record]:
        """Return every record, by name."""
        return [_read(path) for path in sorted(self.folder.glob("*.json"))]

    def find(self, names: Sequence[str]) -> list[Record]:
        """Return the named records. Raises ConfigError if one was never started."""
        known = {record.name: record for record in self.all()}
        for name in names:
            if name not in known:
                others = f"Known: {', '.join(known)}." if known else "None is known."
                raise ConfigError(
                    f"there is no local cluster {name}; nothing was done. {others} "
                    "`heliograph clusters up` starts one."
                )
        return [known[name] for name in names]

    def check_free(self, names: Sequence[str]) -> list[Record]:
        """Return what dead clusters of these names left. Raises LocalError if one is in use."""
        known = {record.name: record for record in self.all()}
        for name in names:
            if name in known and known[name].state() is not State.DEAD:
                raise LocalError(
                    f"the local cluster {name} is already {known[name].state()}; nothing was "
                    f"started. Stop it with `heliograph clusters down {name}`, or choose "
                    "another name."
                )
        return [known[name] for name in names if name in known]

    def book(self, names: Sequence[str]) -> None:
        """Set names aside for clusters that this process is about to start.

        Raises LocalError if one is in use; then none is set aside. What a dead cluster left is
        removed first.
        """
        me = Process.of(os.getpid())
        with self._alone():
            for dead in self.check_free(names):
                _remove_files(dead)
            for name in names:
                self._write(Record(name=name, keeper=me))

    def enter(self, record: Record) -> None:
        """Remember a cluster that now runs, or change what is remembered."""
        self._write(record)

    def strike(self, names: Sequence[str]) -> None:
        """Forget clusters. Their processes must be gone."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _write(self, record: Record) -> None:
        half = self._path(record.name).with_suffix(".half")
        half.write_text(json.dumps(asdict(record), indent=1) + "\n")
        half.rename(self._path(record.name))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def stop(records: Sequence[Record], registry: Registry, *, keep_data: bool = False) -> None:
    """End clusters side by side and forget them; returns when no process of theirs is left.

    Files go too, unless ``keep_data`` or the folder was named by the user. Only processes that
    the records name are signalled, and only if they are still the same.
    """
    for record in records:
        record.keeper.send(signal.SIGTERM)
    for record in records:
        if not record.keeper.wait_gone(GRACE + _MARGIN):
            record.keeper.send(signal.SIGKILL)
        for node in record.nodes:
            # Without its keeper a broker is killed by the kernel; other systems leave it to us.
            if not node.wait_gone(timedelta(seconds=1)):
                node.send(signal.SIGKILL)
                _must_go(record, node)
        if not keep_data:
            _remove_files(record)
        registry.strike([record.name])


def _must_go(record: Record, node: Process) -> None:
    if not node.wait_gone(GRACE):
        raise LocalError(
            f"pid {node.pid} of the local cluster {record.name} does not end, not even by "
            "SIGKILL; the cluster is still listed. It may hang in the kernel: look at its disk."
        )


def _remove_files(record: Record) -> None:
    if record.removable:
        shutil.rmtree(record.removable, ignore_errors=True)


def _read(path: Path) -> Record:
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        fields["keeper"] = Process(**fields["keeper"])
        fields["nodes"] = tuple(Process(**node) for node in fields["nodes"])
        return Record(**fields)
    except (ValueError, KeyError, TypeError) as broken:
        raise LocalError(
            f"{path} does not say what local cluster it is about ({broken}); nothing was done. "
            "If no broker of it runs, remove the file."
        ) from broken
