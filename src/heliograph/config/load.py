"""A file in, settings out; or one error that lists every mistake in it, in the file's order."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heliograph.config.checks import (
    CheckCluster,
    CheckDashboard,
    CheckTopology,
    check_clusters,
    check_links,
    check_serving,
    check_together,
)
from heliograph.config.document import Finding, compose
from heliograph.config.reader import Reading, read_config
from heliograph.config.settings import ClusterConfig, Config, LinkConfig
from heliograph.errors import ConfigError

FILE = Path("heliograph.yaml")
VARIABLE = "HELIOGRAPH_CONFIG"


def find(file: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file to read: the one named, else heliograph.yaml, else $HELIOGRAPH_CONFIG."""
    if file is not None:
        return file
    named = environment.get(VARIABLE)
    return Path(named) if named and not FILE.exists() else FILE


def load_file(
    file: Path,
    check_cluster: CheckCluster | None = None,
    check_topology: CheckTopology | None = None,
    check_dashboard: CheckDashboard | None = None,
) -> Config:
    """Read a file."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {file}. Name one with -f, or make one: "
            f"heliograph init > {FILE}, then put your clusters and links in it"
        ) from None
    except UnicodeDecodeError:
        # "from None": the original error carries the bytes.
        raise ConfigError(f"{file} does not hold UTF-8 text. Save it as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is none"
        raise ConfigError(f"{file} cannot be read: {reason}") from error
    return load(
        text,
        name=str(file),
        check_cluster=check_cluster,
        check_topology=check_topology,
        check_dashboard=check_dashboard,
    )


def load(
    text: str,
    *,
    name: str = str(FILE),
    check_cluster: CheckCluster | None = None,
    check_topology: CheckTopology | None = None,
    check_dashboard: CheckDashboard | None = None,
) -> Config:
    """Read a text; ``name`` is for the message.

    ``check_cluster`` knows what a cluster's properties should be and returns what is wrong with
    them; ``check_topology`` does so for all links together, as pairs of a link and what is wrong,
    and ``check_dashboard`` for the dashboard. Without them all is taken as it is.
    """
    config, findings = inspect(text, check_cluster, check_topology, check_dashboard)
    if config is None:
        mistakes = "".join(f"\n  - {finding}" for finding in findings)
        raise ConfigError(f"{name} cannot be used as written:{mistakes}")
    return config


def inspect(
    text: str,
    check_cluster: CheckCluster | None = None,
    check_topology: CheckTopology | None = None,
    check_dashboard: CheckDashboard | None = None,
) -> tuple[Config | None, list[Finding]]:
    """Return the settings, or None and every mistake."""
    root, findings = compose(text)
    if root is None:
        return None, findings
    reading = read_config(root, findings)
    clusters, links = reading.values.get("clusters"), reading.values.get("links")
    if clusters is not None and links is not None:
        findings += check_links(links, clusters)
    if links is not None and check_topology is not None:
        findings += check_together(links, check_topology)
    if clusters is not None and check_cluster is not None:
        findings += check_clusters(clusters, check_cluster)
    if check_dashboard is not None:
        findings += check_serving(reading, check_dashboard)
    if findings:
        return None, sorted(dict.fromkeys(findings), key=lambda finding: finding.line)
    return _build(reading.values), []


def _build(values: dict[str, Any]) -> Config:
    clusters: dict[str, Reading] = values.pop("clusters")
    links: dict[str, Reading] = values.pop("links")
    return Config(
        clusters={name: ClusterConfig(name, **one.values) for name, one in clusters.items()},
        links={name: LinkConfig(name, **one.values) for name, one in links.items()},
        has_dashboard="dashboard" in values,
        **values,
    )
