"""Heliograph, as a user starts it: a file, a command."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.race.tools import TARGET, Launch, Leg, shown

_COMMAND = Path(sys.executable).parent / "heliograph"
_FILE = """\
clusters:
  {source}:
    bootstrap.servers: {source_bootstrap}
  {target}:
    bootstrap.servers: {target_bootstrap}
links:
  {link}:
    source: {source}
    target: {target}
    topics: [{topic}]
    naming: prefix
spark:
  master: local
"""


@dataclass(frozen=True)
class Heliograph:
    """Heliograph with its defaults; exactly once, as always."""

    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called in the report."""
        return "Heliograph"

    def prepare(self, leg: Leg, folder: Path) -> Launch:
        """Write heliograph.yaml."""
        path = folder / f"{leg.alias}.yaml"
        path.write_text(self.file(leg))
        return Launch(self._command(str(_COMMAND), path, leg), self.environment)

    def file(self, leg: Leg) -> str:
        """Return the whole configuration of a run."""
        return _FILE.format(
            source=leg.alias,
            source_bootstrap=leg.source,
            target=TARGET,
            target_bootstrap=leg.target,
            link=link_of(leg),
            topic=leg.topic,
        )

    @property
    def kind(self) -> str:
        """The language of its settings."""
        return "yaml"

    def settings(self) -> str:
        """Return all its settings, for the report, under the command that takes them."""
        leg = Leg("SOURCE", "TOPIC", "SOURCE:PORT", "TARGET:PORT")
        typed = shown(self._command("heliograph", Path("heliograph.yaml"), leg))
        variables = "".join(f"{key}={value} " for key, value in self.environment.items())
        return f"# {variables}{typed}\n{self.file(leg)}"

    def _command(self, command: str, path: Path, leg: Leg) -> list[str]:
        return [command, "run", "-f", str(path), link_of(leg)]


def is_there() -> bool:
    """Tell whether this checkout has the command that mirrors."""
    asked = subprocess.run([_COMMAND, "run", "--help"], capture_output=True, check=False)
    return asked.returncode == 0


def link_of(leg: Leg) -> str:
    """Return the name of a run's link."""
    return f"{leg.alias}-{TARGET}"
