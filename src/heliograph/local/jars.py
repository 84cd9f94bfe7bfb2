"""Kafka's jars: resolved once, kept in the user's cache, checked at every use."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from heliograph.errors import LocalError
from heliograph.local import ivy
from heliograph.local.folders import cache_folder
from heliograph.local.ivy import Artifact, Report

_MANIFEST = "manifest.json"
# Leading dot: never mistaken for a bundle. Removed by the next fetch if its process was killed.
_HALF_DONE = ".fetching-"

Resolver = Callable[[tuple[Artifact, ...], Path, Path, Report], None]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts that are fetched and kept together, and the jars that must be among them."""

    name: str
    artifacts: tuple[Artifact, ...]
    expected: tuple[str, ...]


KAFKA = "4.3.0"
BROKER = Bundle(
    name=f"kafka-{KAFKA}",
    artifacts=(
        Artifact("org.apache.kafka", "kafka_2.13", KAFKA),
        # Kafka asks for no binding of its logging interface, and without one it logs nothing.
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    expected=("kafka_2.13", "kafka-clients", "kafka-server", "log4j-core", "log4j-slf4j-impl"),
)


def ensure(
    bundle: Bundle = BROKER,
    *,
    cache: Path | None = None,
    verify: bool = False,
    report: Report = ivy.silent,
    resolver: Resolver = ivy.resolve,
) -> Path:
    """Return the folder of the bundle's jars, fetching them if they are absent or damaged.

    Any number of processes may call this at once: one fetches, the others wait for it. Names
    and sizes are checked at every call, contents only when ``verify`` is set.
    """
    cache = cache or cache_folder()
    folder = cache / bundle.name
    if is_whole(folder, bundle, verify=verify):
        return folder
    with _only_one(cache, bundle):
        # Another process may have fetched while this one waited.
        if not is_whole(folder, bundle, verify=verify):
            _fetch(bundle, cache, report, resolver)
    return folder


def is_whole(folder: Path, bundle: Bundle, *, verify: bool = False) -> bool:
    """Tell whether the folder holds what the manifest of its fetch says, and for this bundle."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        found = {path.name: path.stat().st_size for path in folder.glob("*.jar")}
        sizes = {name: entry["bytes"] for name, entry in manifest["jars"].items()}
        if manifest["artifacts"] != [str(a) for a in bundle.artifacts] or found != sizes:
            return False
        digests = {name: entry["sha256"] for name, entry in manifest["jars"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A manifest that cannot be read is one more kind of damage; fetching anew repairs it.
        return False
    return not verify or all(_digest(folder / name) == digests[name] for name in digests)


def classpath(folder: Path) -> str:
    """Return the Java class path of a bundle's folder."""
    return f"{folder}/*"


def _fetch(bundle: Bundle, cache: Path, report: Report, resolver: Resolver) -> None:
    for leftover in cache.glob(f"{_HALF_DONE}{bundle.name}-*"):
        shutil.rmtree(leftover)
    work = Path(tempfile.mkdtemp(prefix=f"{_HALF_DONE}{bundle.name}-", dir=cache))
    try:
        jars = work / "jars"
        jars.mkdir()
        resolver(bundle.artifacts, jars, work / "scratch", report)
        _check(jars, bundle)
        _write_manifest(jars, bundle)
        # mkdtemp's 0700 is on `work` alone; what is kept has the user's own umask.
        old = cache / bundle.name
        if old.exists():
            old.rename(work / "damaged")
        jars.rename(old)
    finally:
        shutil.rmtree(work)


def _check(jars: Path, bundle: Bundle) -> None:
    names = sorted(path.name for path in jars.glob("*.jar"))
    for wanted in bundle.expected:
        # "kafka-server" must not be met by kafka-server-common: a revision starts with a digit.
        if not any(
            name.startswith(f"{wanted}-") and name[len(wanted) + 1].isdigit() for name in names
        ):
            raise LocalError(
                f"{wanted} is not among the {len(names)} jars that were downloaded for "
                f"{bundle.name}. Nothing was kept. Run `heliograph clusters fetch` again."
            )
    for name in names:
        try:
            with zipfile.ZipFile(jars / name) as jar:
                broken = jar.testzip()
        except zipfile.BadZipFile:
            broken = name
        if broken is not None:
            raise LocalError(
                f"{name} arrived damaged, so nothing was kept of {bundle.name}. "
                "Run `heliograph clusters fetch` again."
            )


def _write_manifest(jars: Path, bundle: Bundle) -> None:
    entries = {
        path.name: {"bytes": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(jars.glob("*.jar"))
    }
    manifest = {"artifacts": [str(a) for a in bundle.artifacts], "jars": entries}
    (jars / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _only_one(cache: Path, bundle: Bundle) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    # The lock goes with the process: one that is killed leaves a file, never a lock.
    handle = os.open(cache / f".{bundle.name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
