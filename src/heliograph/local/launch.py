"""Start local clusters: folder, formatting, brokers, until they serve."""

import base64
import json
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from heliograph.errors import ConfigError, HeliographError, LocalError
from heliograph.local import credentials, ivy, jars, java, layout
from heliograph.local.brokers import START_WITHIN, Cluster, Plan, PortLost
from heliograph.local.layout import Folder, Ports
from heliograph.local.owner import Owner
from heliograph.local.ports import reserve
from heliograph.local.spec import Spec, User

_ATTEMPTS = 3
_FORMAT_WITHIN = timedelta(seconds=60)


def start(
    *specs: Spec,
    under: Path | None = None,
    within: timedelta = START_WITHIN,
    report: ivy.Report = ivy.silent,
) -> tuple[Cluster, ...]:
    """Start clusters side by side and return them when all serve, in the order asked for.

    All or none: if one fails, the others are stopped. They end with this process unless
    detached. Files go into a new folder under ``under`` (the system's temporary folder unless
    told) that is removed at the end, or into the spec's own ``data``, which is kept.
    """
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"the cluster {name} was asked for twice. Nothing was started.")
    classpath = jars.classpath(jars.ensure(report=report))
    starting = _Starting(under, within, classpath)
    outcomes = starting.all(specs)
    failures = [one.exception() for one in outcomes]
    if any(failures):
        for one in outcomes:
            if one.exception() is None:
                one.result().stop()
        raise next(failure for failure in failures if failure is not None)
    return tuple(one.result() for one in outcomes)


class _Starting:
    """Clusters on their way, each in a thread, so that an interruption can call them back."""

    def __init__(self, under: Path | None, within: timedelta, classpath: str) -> None:
        self._under = under
        self._within = within
        self._classpath = classpath
        self._is_abandoned = threading.Event()
        self._owners: list[Owner] = []

    def all(self, specs: Sequence[Spec]) -> list[Future[Cluster]]:
        """Start all and return how each went. On Ctrl-C nothing of them stays."""
        outcomes: list[Future[Cluster]] = [Future() for _ in specs]
        for spec, outcome in zip(specs, outcomes, strict=True):
            threading.Thread(target=self._one, args=(spec, outcome), daemon=True).start()
        try:
            wait(outcomes)
        except BaseException:
            self._is_abandoned.set()
            for owner in self._owners:
                owner.stop(timedelta())
            # Their threads see that and end; a JVM that formats ends by itself.
            wait(outcomes, timeout=_FORMAT_WITHIN.total_seconds())
            raise
        return outcomes

    def _one(self, spec: Spec, outcome: Future[Cluster]) -> None:
        try:
            outcome.set_result(self._some_attempts(spec))
        except BaseException as failure:
            outcome.set_exception(failure)

    def _some_attempts(self, spec: Spec) -> Cluster:
        for _ in range(_ATTEMPTS - 1):
            with suppress(PortLost):
                return self._attempt(spec)
        try:
            return self._attempt(spec, is_last=True)
        except PortLost as failure:
            failure.message += (
                f"\nOther programs took its ports, {_ATTEMPTS} times in a row, so nothing was "
                "started. Try again."
            )
            raise

    def _attempt(self, spec: Spec, *, is_last: bool = False) -> Cluster:
        folder = _make_folder(spec, self._under)
        remove = [] if spec.data else [folder.root]
        owner = Owner(folder.logs / "keeper.log", remove)
        self._owners.append(owner)
        held: list[socket.socket] = []
        try:
            held = reserve(spec.nodes * 3)
            plan = _plan(spec, folder, [one.getsockname()[1] for one in held], self._classpath)
            _write_files(plan)
            _format(plan, self._classpath)
            _release(held)
            self._check_wanted()
            cluster = Cluster(plan, owner)
            cluster.launch(self._within)
            self._check_wanted()
        except BaseException as failure:
            _release(held)
            # A lost port is tried again, and nobody reads of it; but the last one is told.
            is_told = is_last or not isinstance(failure, PortLost)
            if is_told and isinstance(failure, LocalError) and not self._is_abandoned.is_set():
                _keep_logs(folder, remove, failure)
            owner.stop(timedelta())
            for path in remove:
                # The keeper removed it, but perhaps while a formatter was still writing.
                shutil.rmtree(path, ignore_errors=True)
            raise
        return cluster

    def _check_wanted(self) -> None:
        if self._is_abandoned.is_set():
            raise LocalError("the start was interrupted; nothing of it is left.")


def _release(held: list[socket.socket]) -> None:
    for one in held:
        one.close()


def _make_folder(spec: Spec, under: Path | None) -> Folder:
    if spec.data is None:
        if under is not None:
            under.mkdir(parents=True, exist_ok=True)
        root = Path(tempfile.mkdtemp(prefix=f"heliograph-{spec.name}-", dir=under))
    else:
        root = spec.data.absolute()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Folder(root)
    folder.logs.mkdir(exist_ok=True)
    folder.scratch.mkdir(exist_ok=True)
    return folder


def _plan(spec: Spec, folder: Folder, free: Sequence[int], classpath: str) -> Plan:
    ports: dict[int, Ports] = {}
    for node in range(1, spec.nodes + 1):
        client, controller, internal = free[3 * node - 3 : 3 * node]
        ports[node] = Ports(client, controller, internal if spec.has_internal else client)
    commands = {node: _broker_command(spec, folder, node, classpath) for node in ports}
    return Plan(
        spec=spec,
        folder=folder,
        cluster_id=_cluster_id(spec, folder),
        users=credentials.prepare(spec, folder),
        ports=ports,
        commands=commands,
        is_kept=spec.data is not None,
    )


def _broker_command(spec: Spec, folder: Folder, node: int, classpath: str) -> list[str]:
    settings = {
        "log4j2.configurationFile": str(folder.logging),
        "heliograph.log": str(folder.log(node)),
        "heliograph.cluster": spec.name,
        # Compression unpacks its native libraries there, and a killed broker leaves them.
        "java.io.tmpdir": str(folder.scratch),
    }
    arguments = [str(folder.properties(node))]
    return java.long_lived(classpath, "kafka.Kafka", arguments, heap=spec.heap, settings=settings)


def _cluster_id(spec: Spec, folder: Folder) -> str:
    """Return a new id, or that of the records which stand in a kept folder."""
    kept = kept_cluster_id(spec, folder)
    if kept is None:
        fresh = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # A leading dash would be taken for an option by the formatter.
        fresh = f"h{fresh[1:]}"
        described = {"cluster_id": fresh, "nodes": spec.nodes, "sasl": spec.sasl}
        folder.description.write_text(json.dumps(described) + "\n")
        return fresh
    return kept


def kept_cluster_id(spec: Spec, folder: Folder) -> str | None:
    """Return the id of the cluster whose records the folder holds, or None if it holds none.

    Raises ConfigError if the spec cannot go on from them. Changes nothing.
    """
    if not folder.description.exists():
        return None
    described = json.loads(folder.description.read_text())
    if described["nodes"] != spec.nodes:
        raise ConfigError(
            f"{folder.root} holds the records of a cluster with {described['nodes']} nodes, and "
            f"{spec.nodes} were asked for. Nothing was started. Ask for as many nodes, or name "
            "another folder."
        )
    if (spec.sasl or "").startswith("SCRAM") and spec.sasl != described["sasl"]:
        raise ConfigError(
            f"{folder.root} holds the records of a cluster without users of {spec.sasl}: they are "
            "made with its first start. Nothing was started. Name another folder."
        )
    return str(described["cluster_id"])


def _write_files(plan: Plan) -> None:
    folder = plan.folder
    folder.logging.write_text(layout.LOGGING)
    for node in plan.ports:
        text = layout.server_properties(plan.spec, node, plan.ports, folder, plan.users)
        credentials.write_private(folder.properties(node), text.encode())


def _format(plan: Plan, classpath: str) -> None:
    """Make the nodes' empty logs, side by side: each takes a JVM of its own."""
    started = [_format_command(plan, node, plan.users, classpath) for node in plan.ports]
    running = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for command in started
    ]
    try:
        said = [one.communicate(timeout=_FORMAT_WITHIN.total_seconds())[0] for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()
            if one.stdout is not None:
                one.stdout.close()
    for one, text in zip(running, said, strict=True):
        if one.returncode != 0:
            # The stack is Kafka's own business; what it complains of stands above it.
            told = [line for line in text.splitlines() if line and not line.startswith("\tat ")]
            shown = "\n  ".join(told[-6:])
            raise LocalError(
                f"the local cluster {plan.spec.name} was not started: Kafka does not take its "
                f"configuration. Look at the properties that were given. Kafka said:\n  {shown}"
            )


def _format_command(plan: Plan, node: int, users: tuple[User, ...], classpath: str) -> list[str]:
    arguments = ["format", "--cluster-id", plan.cluster_id, "--ignore-formatted"]
    arguments += ["--config", str(plan.folder.properties(node))]
    arguments += layout.scram_arguments(plan.spec, users, secrets.token_bytes(16))
    return java.short_lived(classpath, "kafka.tools.StorageTool", arguments)


def _keep_logs(folder: Folder, remove: Sequence[Path], failure: HeliographError) -> None:
    """Save the logs of a failed start from the removal of its folder, and say where they are."""
    if not remove or not any(folder.logs.glob("node-*")):
        return
    kept = Path(tempfile.mkdtemp(prefix="heliograph-failed-"))
    shutil.copytree(folder.logs, kept, dirs_exist_ok=True)
    failure.message = failure.message.replace(str(folder.logs), str(kept))
