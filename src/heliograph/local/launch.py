"""Start local clusters: folder, formatting, brokers, until they serve."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
    with ThreadPoolExecutor(max(1, len(specs))) as pool:
        starting = [pool.submit(_start_one, spec, under, within, classpath) for spec in specs]
    failures = [one.exception() for one in starting]
    if any(failures):
        for one in starting:
            if one.exception() is None:
                one.result().stop()
        raise next(failure for failure in failures if failure is not None)
    return tuple(one.result() for one in starting)


def _start_one(spec: Spec, under: Path | None, within: timedelta, classpath: str) -> Cluster:
    for attempt in range(_ATTEMPTS):
        try:
            return _attempt(spec, under, within, classpath)
        except PortLost:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _attempt(spec: Spec, under: Path | None, within: timedelta, classpath: str) -> Cluster:
    folder = _make_folder(spec, under)
    remove = [] if spec.data else [folder.root]
    owner = Owner(folder.logs / "keeper.log", remove)
    held: list[socket.socket] = []
    try:
        held = reserve(spec.nodes * 3)
        plan = _plan(spec, folder, [one.getsockname()[1] for one in held], classpath)
        _write_files(plan)
        _format(plan, classpath)
        _release(held)
        cluster = Cluster(plan, owner)
        cluster.launch(within)
    except BaseException as failure:
        _release(held)
        if isinstance(failure, HeliographError) and not isinstance(failure, PortLost):
            _keep_logs(folder, remove, failure)
        owner.stop(timedelta())
        raise
    return cluster


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
    return folder


def _plan(spec: Spec, folder: Folder, free: Sequence[int], classpath: str) -> Plan:
    ports: dict[int, Ports] = {}
    for node in range(1, spec.nodes + 1):
        client, controller, internal = free[3 * node - 3 : 3 * node]
        ports[node] = Ports(client, controller, internal if spec.is_secured else client)
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
    }
    arguments = [str(folder.properties(node))]
    return java.long_lived(classpath, "kafka.Kafka", arguments, heap=spec.heap, settings=settings)


def _cluster_id(spec: Spec, folder: Folder) -> str:
    """Return a new id, or that of the records which stand in a kept folder."""
    if not folder.description.exists():
        fresh = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # A leading dash would be taken for an option by the formatter.
        fresh = f"h{fresh[1:]}"
        described = {"cluster_id": fresh, "nodes": spec.nodes}
        folder.description.write_text(json.dumps(described) + "\n")
        return fresh
    described = json.loads(folder.description.read_text())
    if described["nodes"] != spec.nodes:
        raise ConfigError(
            f"{folder.root} holds the records of a cluster with {described['nodes']} nodes, and "
            f"{spec.nodes} were asked for. Nothing was started. Ask for as many nodes, or name "
            "another folder."
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
    arguments += layout.scram_arguments(plan.spec, users)
    return java.short_lived(classpath, "kafka.tools.StorageTool", arguments)


def _keep_logs(folder: Folder, remove: Sequence[Path], failure: HeliographError) -> None:
    """Save the logs of a failed start from the removal of its folder, and say where they are."""
    if not remove or not any(folder.logs.glob("node-*")):
        return
    kept = Path(tempfile.mkdtemp(prefix="heliograph-failed-"))
    shutil.copytree(folder.logs, kept, dirs_exist_ok=True)
    failure.message = failure.message.replace(str(folder.logs), str(kept))
