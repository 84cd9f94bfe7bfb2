"""What a start or a stop would do, told beforehand: nothing is made, fetched or signalled."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from heliograph.local import jars, java
from heliograph.local.credentials import DEFAULT_USER
from heliograph.local.folders import cache_folder
from heliograph.local.launch import kept_cluster_id
from heliograph.local.layout import Folder, Ports, broker_properties
from heliograph.local.registry import Record, Registry, State
from heliograph.local.spec import Spec, User

# What is drawn only at the start, and what is never shown.
DRAWN_PORT = 0
DRAWN_LETTERS = "XXXXXXXX"
_MASK = "***"
_SECRET_KEY = re.compile(r"password|secret|jaas|keystore\.key$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Start:
    """One cluster that would be started."""

    spec: Spec
    folder: Path
    holds_records: bool
    """Whether the cluster goes on from records that are in the folder already."""
    broker_properties: tuple[dict[str, str], ...]
    """One set for each node, secrets masked."""


@dataclass(frozen=True, slots=True)
class Starts:
    """All that one command would do: first download, then remove, then start."""

    downloads: str
    removes: tuple[str, ...]
    clusters: tuple[Start, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """One cluster that would be stopped: its processes by name and pid, and its folder.

    ``removes`` is empty when no file would go; ``keeps`` names a folder that would stay.
    """

    name: str
    state: State
    processes: tuple[tuple[str, int], ...]
    removes: str
    keeps: str


def of_start(specs: Sequence[Spec], registry: Registry) -> Starts:
    """Tell what starting would do. Raises what starting would raise before its first step."""
    java.find_java()
    dead = registry.check_free([spec.name for spec in specs])
    bundle = jars.BROKER
    is_here = jars.is_whole(cache_folder() / bundle.name, bundle)
    return Starts(
        downloads="" if is_here else bundle.name,
        removes=tuple(one.removable for one in dead if _exists(one.removable)),
        clusters=tuple(_start(spec, registry.folder) for spec in specs),
    )


def of_stop(records: Sequence[Record], *, keep_data: bool) -> list[Stop]:
    """Tell what stopping would do: only processes that are still the same are counted."""
    return [_stop(record, keep_data) for record in records]


def _start(spec: Spec, under: Path) -> Start:
    drawn = under / f"heliograph-{spec.name}-{DRAWN_LETTERS}"
    folder = Folder(drawn if spec.data is None else spec.data.absolute())
    holds_records = spec.data is not None and kept_cluster_id(spec, folder) is not None
    nodes = range(1, spec.nodes + 1)
    ports = dict.fromkeys(nodes, Ports(DRAWN_PORT, DRAWN_PORT, DRAWN_PORT))
    names = [user.name for user in spec.users] or [DEFAULT_USER]
    users = tuple(User(name, _MASK) for name in names) if spec.is_secured else ()
    shown = replace(spec, properties=_masked(spec))
    properties = tuple(broker_properties(shown, node, ports, folder, users) for node in nodes)
    return Start(spec, folder.root, holds_records, properties)


def _masked(spec: Spec) -> dict[str, str]:
    return {
        key: _MASK if _SECRET_KEY.search(key) else value for key, value in spec.properties.items()
    }


def _stop(record: Record, keep_data: bool) -> Stop:
    # Before any broker runs, the keeper's place is held by the command that starts them.
    keeper = "keeper" if record.nodes else "clusters up"
    named = [(keeper, record.keeper)]
    named += [(f"node {number}", node) for number, node in enumerate(record.nodes, 1)]
    folder = record.folder if _exists(record.folder) else ""
    goes = bool(record.removable) and not keep_data
    return Stop(
        name=record.name,
        state=record.state(),
        processes=tuple((name, one.pid) for name, one in named if one.is_alive()),
        removes=folder if goes else "",
        keeps="" if goes else folder,
    )


def _exists(folder: str) -> bool:
    return bool(folder) and Path(folder).exists()
