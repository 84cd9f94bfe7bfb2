"""The settings of heliograph.yaml: what there is, and how a file becomes it."""

from heliograph.config.checks import CheckCluster
from heliograph.config.document import Finding
from heliograph.config.kinds import Step
from heliograph.config.load import find, inspect, load, load_file
from heliograph.config.reference import Row, example, reference
from heliograph.config.settings import (
    ClusterConfig,
    Config,
    DashboardConfig,
    LimitsConfig,
    LinkConfig,
    MirrorsConfig,
    ObjectivesConfig,
    SparkConfig,
    SyncConfig,
)
from heliograph.config.values import Address

__all__ = [
    "Address",
    "CheckCluster",
    "ClusterConfig",
    "Config",
    "DashboardConfig",
    "Finding",
    "LimitsConfig",
    "LinkConfig",
    "MirrorsConfig",
    "ObjectivesConfig",
    "Row",
    "SparkConfig",
    "Step",
    "SyncConfig",
    "example",
    "find",
    "inspect",
    "load",
    "load_file",
    "reference",
]
