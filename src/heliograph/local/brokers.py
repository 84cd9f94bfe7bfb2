"""A running local cluster and its nodes: kill, pause, start again, stop."""

import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

from heliograph.errors import LocalError
from heliograph.local import credentials, probe
from heliograph.local.layout import HOST, Folder, Ports
from heliograph.local.owner import Owner
from heliograph.local.processes import Process
from heliograph.local.spec import Spec, User

GRACE = timedelta(seconds=10)
START_WITHIN = timedelta(seconds=90)
_ASK_S = 2.0
_POLL_S = 0.05
_SHOWN_LINES = 12
_ERROR = re.compile(r"^\S+ (ERROR|FATAL) ")


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything decided about a cluster before its first broker starts."""

    spec: Spec
    folder: Folder
    cluster_id: str
    users: tuple[User, ...]
    ports: Mapping[int, Ports]
    commands: Mapping[int, list[str]]
    is_kept: bool


class PortLost(LocalError):
    """Somebody took a chosen port before the broker did; other ports will do."""


class Node:
    """One broker of a local cluster. Its ports and records outlive its processes."""

    def __init__(self, number: int, plan: Plan, owner: Owner) -> None:
        self.number = number
        self.process = Process(0, "")
        self._plan = plan
        self._owner = owner

    @property
    def ports(self) -> Ports:
        """Where it listens, whenever it runs."""
        return self._plan.ports[self.number]

    def is_alive(self) -> bool:
        """Tell whether its process runs; a paused one does."""
        return self.process.is_alive()

    def launch(self) -> None:
        """Start its process and do not wait for it to serve."""
        if not self.is_alive():
            output = self._plan.folder.output(self.number)
            command = self._plan.commands[self.number]
            self.process = self._owner.start(self.number, command, output)

    def start(self, within: timedelta = START_WITHIN) -> None:
        """Start it, on the ports and records it had, and wait until it serves."""
        self.launch()
        self.wait_serving(frozenset({self.number}), time.monotonic() + within.total_seconds())

    def kill(self) -> None:
        """End its process at once (SIGKILL), as a power cut would. Returns when it is gone."""
        self.process.send(signal.SIGKILL)
        self._must_go(GRACE)

    def stop(self, within: timedelta = timedelta(seconds=30)) -> None:
        """End its process in good order: it hands its leaderships over first."""
        self.process.send(signal.SIGTERM)
        self._must_go(within)

    def pause(self) -> None:
        """Stop its process where it stands (SIGSTOP): connections stay open and silent."""
        self.process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self.process.send(signal.SIGCONT)

    def wait_serving(self, nodes: frozenset[int], deadline: float) -> None:
        """Return when it answers, knows a controller and knows all of ``nodes`` as alive.

        ``deadline`` is on the monotonic clock. Raises at once when its process ends.
        """
        while True:
            if self._serves(nodes) and self.is_alive():
                # Asked last: somebody else's broker on a lost port would answer as well.
                return
            if not self.is_alive():
                raise self._failure("ended before it served")
            if time.monotonic() >= deadline:
                raise self._failure("did not serve in the time allowed")
            time.sleep(_POLL_S)

    def _serves(self, nodes: frozenset[int]) -> bool:
        seen = probe.nodes_seen(HOST, self.ports.internal, _ASK_S)
        return seen is not None and seen >= nodes and probe.accepts(HOST, self.ports.client, _ASK_S)

    def _must_go(self, within: timedelta) -> None:
        if not self.process.wait_gone(within):
            raise LocalError(
                f"node {self.number} of {self._plan.spec.name} (pid {self.process.pid}) did not "
                f"end within {within.total_seconds():.0f} s. See {self._plan.folder.logs}."
            )

    def _failure(self, what: str) -> LocalError:
        folder = self._plan.folder
        said = telling_lines(folder, self.number)
        kind = PortLost if "Address already in use" in said else LocalError
        return kind(
            f"node {self.number} of the local cluster {self._plan.spec.name} {what}. From "
            f"its log, {folder.log(self.number)}:\n{said}"
        )


class Cluster:
    """A running local cluster. As a context manager, it is stopped at the end."""

    def __init__(self, plan: Plan, owner: Owner) -> None:
        self._plan = plan
        self._owner = owner
        self.nodes = tuple(Node(number, plan, owner) for number in sorted(plan.ports))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def spec(self) -> Spec:
        """What was asked for."""
        return self._plan.spec

    @property
    def name(self) -> str:
        """Its name."""
        return self._plan.spec.name

    @property
    def cluster_id(self) -> str:
        """The id that Kafka knows it by."""
        return self._plan.cluster_id

    @property
    def folder(self) -> Folder:
        """Where its files are."""
        return self._plan.folder

    @property
    def is_kept(self) -> bool:
        """Whether its files outlive it."""
        return self._plan.is_kept

    @property
    def keeper(self) -> Process:
        """The process that keeps its brokers."""
        return self._owner.process

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(f"{HOST}:{node.ports.client}" for node in self.nodes)

    @property
    def internal_bootstrap(self) -> str:
        """Where no login is asked for, and with ACLs everything is allowed."""
        return ",".join(f"{HOST}:{node.ports.internal}" for node in self.nodes)

    def node(self, number: int) -> Node:
        """Return a node by its number, from 1."""
        return self.nodes[number - 1]

    def client_properties(self, user: str | None = None, *, reveal: bool = True) -> dict[str, str]:
        """Return what a client needs, under Java's names; as the first user unless told.

        Without ``reveal``, a password is given as the ``${file:…}`` of a configuration.
        """
        users = [known.name for known in self._plan.users]
        name = user or (users[0] if users else "")
        if self.spec.is_secured and name not in users:
            raise LocalError(f"{self.name} has no user {name!r}; it has {', '.join(users)}.")
        security = credentials.client_properties(self.spec, self.folder, name, reveal=reveal)
        return {"bootstrap.servers": self.bootstrap} | security

    def launch(self, within: timedelta = START_WITHIN) -> None:
        """Start all nodes, and wait until each serves and knows all the others."""
        deadline = time.monotonic() + within.total_seconds()
        for node in self.nodes:
            node.launch()
        everyone = frozenset(node.number for node in self.nodes)
        for node in self.nodes:
            node.wait_serving(everyone, deadline)

    def detach(self) -> None:
        """Let the cluster go on after this process. From here on it is only looked at."""
        self._owner.detach()

    def stop(self, grace: timedelta | None = None) -> None:
        """End all brokers; then no process, no port and, unless kept, no file is left.

        Brokers get ``grace`` to end in good order. Those whose records are about to be removed
        get none unless told. Safe to repeat.
        """
        self._owner.stop((GRACE if self.is_kept else timedelta()) if grace is None else grace)


def telling_lines(folder: Folder, node: int) -> str:
    """Return what a broker said of its end: what it printed, and its log from the first error on.

    Without an error, the end of its log. Stacks are left out.
    """
    said: list[str] = []
    for path in (folder.output(node), folder.log(node)):
        if path.exists():
            lines = path.read_text(errors="replace").splitlines()
            told = [line for line in lines if not line.startswith("\tat ")]
            errors = [at for at, line in enumerate(told) if _ERROR.search(line)]
            # Shutting down after an error is told at length, and tells nothing.
            said += told[errors[0] :][:_SHOWN_LINES] if errors else told[-_SHOWN_LINES:]
    return "\n".join(f"  {line}" for line in said) or "  (nothing)"
