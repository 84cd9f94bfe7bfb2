"""Ivy, the resolver that ships inside PySpark: from names of artifacts to a folder of jars."""

import html
import importlib.util
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from heliograph.errors import LocalError
from heliograph.local.java import find_java


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact of the public Java registry; what it needs comes with it."""

    organisation: str
    name: str
    revision: str

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a resolution is: jars known to be needed, and jars that have arrived."""

    found: int = 0
    arrived: int = 0


# The few lines of Ivy's long lament that say why.
_TELLING = re.compile(r"Host .* not found|[Cc]onnect|timed out|ERROR|Exception|invalid sha1|FAILED")

Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Report nothing."""


def resolve(artifacts: tuple[Artifact, ...], folder: Path, scratch: Path, report: Report) -> None:
    """Put the artifacts and all they need into ``folder``; ``scratch`` is Ivy's own cache.

    Ivy checks the registry's checksum of every file. Raises LocalError when anything is
    missing at the end; the folder may then hold a part.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    wanted = scratch / "wanted.xml"
    wanted.write_text(_module(artifacts))
    command = [
        find_java(),
        "-Xmx256m",
        "-XX:-UsePerfData",
        "-jar",
        str(_jar()),
        "-cache",
        str(scratch / "cache"),
    ]
    # For those behind a registry of their own.
    if os.environ.get("HELIOGRAPH_IVY_SETTINGS"):
        command += ["-settings", os.environ["HELIOGRAPH_IVY_SETTINGS"]]
    command += ["-ivy", str(wanted), "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    # On stdin there is nothing to ask; output is for the progress and for a failure's message.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as ivy:
        try:
            said = _follow(ivy, report)
        except BaseException:
            ivy.kill()
            raise
    if ivy.returncode != 0:
        raise LocalError(_failure(artifacts, said))


def _module(artifacts: tuple[Artifact, ...]) -> str:
    lines = [
        f'<dependency org="{html.escape(a.organisation)}" name="{html.escape(a.name)}"'
        f' rev="{html.escape(a.revision)}" conf="default->default"/>'
        for a in artifacts
    ]
    return (
        '<ivy-module version="2.0"><info organisation="heliograph" module="wanted"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>\n"
    )


def _jar() -> Path:
    # Found, not imported: importing pyspark takes a second and belongs to heliograph.spark.
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise LocalError(
        "PySpark's copy of Ivy was not found, and it is what downloads Kafka's jars. Nothing was "
        "downloaded. Install Heliograph again, or the package pyspark by itself."
    )


def _follow(ivy: subprocess.Popen[str], report: Report) -> list[str]:
    assert ivy.stdout is not None
    last: deque[str] = deque(maxlen=400)
    found = arrived = 0
    for line in ivy.stdout:
        last.append(line.rstrip())
        found += line.startswith("\tfound ")
        arrived += "[SUCCESSFUL ]" in line
        report(Progress(found, arrived))
    return list(last)


def _failure(artifacts: tuple[Artifact, ...], said: list[str]) -> str:
    what = " and ".join(map(str, artifacts))
    telling = [line.strip() for line in said if _TELLING.search(line)]
    shown = "\n  ".join(list(dict.fromkeys(telling or said[-6:]))[:6])
    return (
        f"{what} could not be downloaded; nothing was kept. Most often the machine is offline, or "
        "the registry is behind a proxy (give Java its address in JAVA_TOOL_OPTIONS) or is one "
        "of your own (name an Ivy settings file in HELIOGRAPH_IVY_SETTINGS). Then run "
        f"`heliograph clusters fetch`. Ivy said:\n  {shown}"
    )
