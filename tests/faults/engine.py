"""The command ``heliograph run`` as a process of its own, and ways to hurt it and all it starts.

Everything the command starts stays in its session, so a process that lost its parent is still
found. Temporary files go to a folder of the test. Needs /proc.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.local.processes import Process
from heliograph.model.control import PartReport, part_key, read
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.names import control_topic, ledger_topic, state_topic
from heliograph.model.topics import Partition
from tests.checker.anomalies import Report
from tests.checker.check import Scope, check
from tests.checker.follow import Followers, following
from tests.checker.journal import read_journal
from tests.faults.worker import within
from tests.making import create_topic

ROOT = Path(__file__).parent.parent.parent
COMMAND = str(Path(sys.executable).with_name("heliograph"))
# A start of Spark takes 6 s on a quiet machine, a minute on a busy one.
START_S = 240.0
T = TypeVar("T")


def until(get: Callable[[], T], seconds: float, what: Callable[[], str] | str) -> T:
    """Ask until the answer is truthy, and return it; fail with ``what`` when the time is over."""
    over_s = time.monotonic() + seconds
    while not (found := get()):
        said = what if isinstance(what, str) else what()
        assert time.monotonic() < over_s, f"not within {seconds} s: {said}"
        time.sleep(0.05)
    return found


@dataclass(frozen=True)
class Link:
    """A link of a configuration file, between clusters that stand at these addresses."""

    name: str
    file: Path
    source: str
    target: str

    def rows(self, topic: str) -> Mapping[bytes, bytes]:
        """Return the rows of one of its topics; none of one that its driver has not made yet."""
        with Cluster(parse("target", {"bootstrap.servers": self.target}), "target") as cluster:
            if topic not in cluster.look([topic], within(60)).topics:
                return {}
            return dict(Table(cluster, topic).load(within(60)))

    def put(self, topic: str, rows: Mapping[bytes, bytes | None]) -> None:
        with Cluster(parse("target", {"bootstrap.servers": self.target}), "target") as cluster:
            Table(cluster, topic).put(rows, within(60))

    @property
    def control(self) -> Mapping[bytes, bytes]:
        return self.rows(control_topic(self.name))

    @property
    def state(self) -> Mapping[bytes, bytes]:
        return self.rows(state_topic(self.name))

    def report(self, topic: str, partition: int = 0) -> PartReport | None:
        """Return what is told of a partition."""
        return read(self.state, part_key(Partition(topic, partition)), PartReport)

    def ledger(self, topic: str, partition: int = 0) -> Ledger:
        found = read_ledger(Partition(topic, partition), self.rows(ledger_topic(self.name)))
        assert found is not None, f"{topic}/{partition} has no ledger"
        return found

    def check(self, *topics: str, journal: Path | None = None, gaps_ok: bool = False) -> Report:
        """Let the checker compare the mirrors with their sources; what it finds fails the test."""
        entries = None
        if journal is not None:
            with journal.open() as lines:
                entries = read_journal(lines)
        scope = Scope(
            self.source,
            self.target,
            self.name,
            {topic: topic for topic in topics},
            journal=entries,
            gaps_ok=gaps_ok,
        )
        report = check(scope)
        assert not report.anomalies, str(report)
        return report


def make_link(folder: Path, source: Any, target: Any, topics: str = "", more: str = "") -> Link:
    """Write a configuration of one link, under a name that nobody else has.

    ``topics`` is a pattern: unless told, all whose names begin with the link's, and a hyphen.
    ``more`` are further settings of the link.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"engine-{secrets.token_hex(4)}"
    file = folder / "heliograph.yaml"
    ends = [_properties(end.client_properties()) for end in (source, target)]
    file.write_text(
        f"""\
clusters:
  source: {{{ends[0]}, allow_literal_secrets: true}}
  target: {{{ends[1]}, allow_literal_secrets: true}}
links:
  {name}:
    source: source
    target: target
    topics: ["{topics or name + "-.*"}"]
    sync: {{topics: 1s, configs: 2s}}
{_indented(more)}"""
    )
    return Link(name, file, source.bootstrap, target.bootstrap)


def _properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {json.dumps(value)}" for name, value in properties.items())


def _indented(lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines.splitlines())


@dataclass
class Driver:
    """One ``heliograph run``, from its start to its end."""

    process: subprocess.Popen[bytes]
    folder: Path
    source_ports: frozenset[int]
    _seen: set[Process] = field(default_factory=set)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def scratch(self) -> list[Path]:
        """What it keeps under the folder for temporary files."""
        return sorted((self.folder / "tmp").iterdir())

    @property
    def said(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def printed(self) -> str:
        return (self.folder / "stdout").read_text(errors="replace")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    # Processes

    def processes(self) -> list[Process]:
        """Return all processes of its session that run now, itself included."""
        found = [Process.of(pid) for pid in _session(self.pid)]
        alive = [one for one in found if one.is_alive()]
        self._seen.update(alive)
        return alive

    def jvm(self) -> Process:
        """Return the JVM of the driver: the only java that is its child."""
        return until(lambda: self._java(lambda pid: _parent(pid) == self.pid), START_S, "no JVM")[0]

    def executors(self) -> list[Process]:
        """Return the JVMs of executors, where the master has any."""
        return self._java(lambda pid: b"CoarseGrainedExecutorBackend" in _command(pid))

    def copying_executors(self) -> list[Process]:
        """Return those of them whose workers copy."""
        above = {pid for one in self.copiers() for pid in _ancestors(one.pid)}
        return [one for one in self.executors() if one.pid in above]

    def below(self, top: Process) -> list[Process]:
        """Return a process and all that it started, and what they did."""
        return [top, *(one for one in self.processes() if top.pid in _ancestors(one.pid))]

    def _java(self, wanted: Callable[[int], bool]) -> list[Process]:
        found = self.processes()
        return [one for one in found if _name(one.pid) == "java" and wanted(one.pid)]

    def daemons(self) -> list[Process]:
        """Return the processes from which Spark forks the workers of tasks."""
        return self._python(is_daemon=True)

    def workers(self) -> list[Process]:
        """Return the Python workers of tasks, idle ones too."""
        return self._python(is_daemon=False)

    def helpers(self) -> list[Process]:
        """Return the processes, not of tasks, in which Spark asks the data source."""
        found = [one for one in self.processes() if b"pyspark" in _command(one.pid)]
        tasks = {one.pid for one in [*self.daemons(), *self.workers()]}
        return [one for one in found if _name(one.pid) != "java" and one.pid not in tasks]

    def _python(self, *, is_daemon: bool) -> list[Process]:
        found = [one for one in self.processes() if b"pyspark.worker" in _command(one.pid)]
        # A worker that lost its daemon has another parent, and no java among its ancestors.
        return [one for one in found if (_name(_parent(one.pid)) == "java") is is_daemon]

    def copiers(self) -> list[Process]:
        """Return the Python workers that are copying: those that talk to the source."""
        return [one for one in self.workers() if _connected(one.pid) & self.source_ports]

    def wait_copying(self, seconds: float = START_S) -> list[Process]:
        """Wait until at least one worker copies; return all that do."""

        def copying() -> list[Process]:
            assert self.is_alive, f"it ended: {self.said}"
            return self.copiers()

        return until(copying, seconds, lambda: f"nobody copies: {self.said}")

    def freeze(self) -> None:
        """Stop every process where it stands, as a machine that hangs."""
        for one in self.processes():
            one.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let every process go on, as if nothing had been."""
        for one in self.processes():
            one.send(signal.SIGCONT)

    # Ends

    def wait(self, seconds: float = 90) -> int:
        """Wait for its end; return its exit status. One that does not end tells what it does."""
        try:
            until(lambda: not self.is_alive, seconds, "")
        except AssertionError:
            raise AssertionError(f"still running after {seconds} s: {self._stacks()}") from None
        return self.process.wait()

    def _stacks(self) -> str:
        """Let Java and Python say where their threads are, which ends the driver."""
        for java in self._java(lambda pid: _parent(pid) == self.pid):
            java.send(signal.SIGQUIT)
        time.sleep(2)
        self.process.send_signal(signal.SIGABRT)
        self.process.wait()
        return f"{self.said}\n{self.printed}"

    def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 90) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(number)
        return self.wait(seconds)

    def kill(self) -> None:
        """End the driver as a power cut would; what it started must notice and end, too."""
        self.process.kill()
        self.process.wait()
        self.wait_gone()

    def wait_gone(self, seconds: float = 60) -> None:
        """Wait until no process of its session is left."""
        until(
            lambda: not self.processes(),
            seconds,
            lambda: f"left behind: {[_command(one.pid) for one in self.processes()]}",
        )

    def destroy(self) -> None:
        """End whatever is left of it, for the clean-up of tests."""
        for one in [*self.processes(), *self._seen]:
            one.send(signal.SIGKILL)
        self.process.wait()
        for one in self._seen:
            one.wait_gone(timedelta(seconds=10))


@contextmanager
def running(
    link: Link,
    folder: Path,
    *options: str,
    lease_s: float = 3,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Driver]:
    """Run the command on a link, with ``folder`` as its working folder; nothing outlives this."""
    (folder / "tmp").mkdir(parents=True)
    command = [COMMAND, "run", "-f", str(link.file), "--lease-seconds", str(lease_s), *options]
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ
            | {"TMPDIR": str(folder / "tmp"), "PYTHONFAULTHANDLER": "1"}
            | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    ports = frozenset(int(one.rpartition(":")[2]) for one in link.source.split(","))
    driver = Driver(process, folder, ports)
    try:
        yield driver
    finally:
        driver.destroy()


def synced(link: Link, folder: Path, *options: str) -> dict[str, Any]:
    """Copy what is there, by a run that must end well; return its summary."""
    with running(link, folder, "--until-synced", "-o", "json", *options) as driver:
        assert driver.wait(START_S) == 0, driver.said
        (summary,) = json.loads(driver.printed)
    assert isinstance(summary, dict)
    return summary


@contextmanager
def loading(
    bootstrap: str, topic: str, journal: Path, *options: str, rate: float = 300
) -> Iterator[None]:
    """Write a load to a topic until the block ends; then the fate of each record is known."""
    place = ["--bootstrap", bootstrap, "--topic", topic, "--journal", str(journal)]
    command = [sys.executable, "-m", "tests.load", *place, "--rate", str(rate), *options]
    log = journal.with_suffix(".log")
    with log.open("ab") as out:
        load = subprocess.Popen(
            [*command, "--seconds", "3600"],
            cwd=ROOT,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
        )
    try:
        until(lambda: journal.exists() and journal.stat().st_size, 60, "the load does not begin")
        yield
        assert load.poll() is None, f"the load ended by itself: {log.read_text()}"
        load.send_signal(signal.SIGTERM)
        assert load.wait(120) == 0, log.read_text()
    finally:
        load.kill()
        load.wait()


@contextmanager
def mirroring(
    link: Link, folder: Path, *options: str, lease_s: float = 3
) -> Iterator[tuple[Driver, Followers]]:
    """Run a link under load; the block hurts it.

    Then the load ends, the driver is asked to end, and every record must be on the mirror once.
    """
    topic, journal = f"{link.name}-orders", folder / "journal"
    create_topic(link.source, topic, 3)
    with (
        following(link.source, link.target, {topic: topic}) as followers,
        running(link, folder / "driver", *options, lease_s=lease_s) as driver,
    ):
        with loading(link.source, topic, journal):
            yield driver, followers
        followers.healed()
        followers.catch_up(within_s=90)
        assert driver.end() == 0, driver.said
        driver.wait_gone()
    assert followers.anomalies == []
    link.check(topic, journal=journal)


def see_more(followers: Followers, images: int, seconds: float = 90) -> None:
    """Wait until readers of the mirror have seen so many records more."""
    first = followers.each[0]
    wanted = first.images + images
    until(
        lambda: first.images >= wanted or followers.anomalies,
        seconds,
        lambda: f"the mirror stands still at {first.images} of {wanted} records",
    )


# Processes, as /proc tells


def _session(leader: int) -> list[int]:
    return [pid for pid in _pids() if _stat(pid)[3:4] == [str(leader)]]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; nothing if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat[stat.rindex(")") + 2 :].split()


def _parent(pid: int) -> int:
    return int((_stat(pid)[1:2] or ["0"])[0])


def _ancestors(pid: int) -> Iterator[int]:
    while (pid := _parent(pid)) > 1:
        yield pid


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _connected(pid: int) -> set[int]:
    """Return the ports that a process has connections to."""
    inodes = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            name = str(entry.readlink())
            if name.startswith("socket:["):
                inodes.add(name[8:-1])
    except OSError:
        return set()
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return {int(row[2].rpartition(":")[2], 16) for row in rows if row[9] in inodes}
