"""The layers of design.md, section 7: imports point down, each outside library has one home."""

import ast
from pathlib import Path

import pytest

import heliograph

ROOT = Path(heliograph.__file__).parent
# A module is a whole idea; beyond this it is several.
MOST_LINES = 800

# From the bottom up. Names in one row do not import each other.
LAYERS = (
    {"errors"},
    {"config", "model"},
    {"kafka"},
    {"copy"},
    {"links"},
    {"control", "recovery", "web", "observe", "spark", "local", "migrate"},
    {"wiring"},
    {"cli"},
)
HEIGHT = {name: height for height, row in enumerate(LAYERS) for name in row}

# What runs on executors reads no settings.
WITHOUT_CONFIG = {"model", "kafka", "copy", "spark"}

HOMES = {
    "click": "cli",
    "cramjam": "kafka",
    "crc32c": "kafka",
    "cryptography": "local",
    "kafka": "kafka",
    "pyarrow": "spark",
    "pyspark": "spark",
    "rich": "cli",
    "starlette": "web",
    "uvicorn": "web",
    "yaml": "config",
}
ONLY_IN_TESTS = {"confluent_kafka", "hypothesis", "pytest"}

FILES = sorted(ROOT.rglob("*.py"))


def violations(source: str, module: str) -> list[str]:
    """Return what a module imports and must not; ``module`` is its dotted name."""
    layer = _layer(module)
    found = []
    for imported in _imports(ast.parse(source), module):
        if imported.split(".")[0] == "heliograph":
            found.append(_crosses(layer, _layer(imported)))
        else:
            found.append(_strays(layer, imported.split(".")[0]))
    return [f"{module}: {what}" for what in found if what]


def _crosses(layer: str, other: str) -> str:
    # The package itself holds only what anybody may read, such as its version.
    if layer in ("", other) or other == "":
        return ""
    if other not in HEIGHT or layer not in HEIGHT:
        return f"{layer} or {other} stands in no layer"
    if layer in WITHOUT_CONFIG and other == "config":
        return f"{layer} runs on executors and imports config"
    if HEIGHT[other] == HEIGHT[layer]:
        return f"{layer} imports its sibling {other}"
    return f"{layer} imports {other}, above it" if HEIGHT[other] > HEIGHT[layer] else ""


def _strays(layer: str, library: str) -> str:
    if library in ONLY_IN_TESTS:
        return f"{library} is for tests only"
    home = HOMES.get(library)
    return f"{library} belongs in {home}" if home not in (None, layer) else ""


def _layer(module: str) -> str:
    """Return the part after ``heliograph.``; empty for the package itself and its names.

    A name such as ``heliograph.__version__`` belongs to no layer.
    """
    parts = module.split(".")
    if len(parts) < 2 or parts[1].startswith("__"):
        return ""
    return parts[1]


def _imports(tree: ast.Module, module: str) -> list[str]:
    """Return every imported name in full, wherever in the file it is imported."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level]
                origin = ".".join([*package, origin] if origin else package)
            found += [f"{origin}.{alias.name}" for alias in node.names]
    return found


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    # A package's own file counts as a module in it, for relative imports.
    return ".".join(parts)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_imports_point_down_and_libraries_stay_at_home(path: Path) -> None:
    assert violations(path.read_text(), _module(path)) == []


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_file_is_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("heliograph.model.runs", "import heliograph.kafka.batch"),
        ("heliograph.model.runs", "from heliograph import config"),
        ("heliograph.config.load", "from heliograph.model.names import short_name"),
        ("heliograph.kafka.fetch", "from heliograph.config.settings import Settings"),
        ("heliograph.copy.claim", "from heliograph.config import settings"),
        ("heliograph.spark.mirror", "from heliograph.config import settings"),
        ("heliograph.local.jars", "from heliograph.spark.query import start"),
        ("heliograph.local.jars", "from ..web import app"),
        ("heliograph.local.jars", "def f():\n    import pyspark"),
        ("heliograph.local.jars", "from heliograph.somewhere import thing"),
        ("heliograph.local.probe", "from kafka.protocol import metadata"),
        ("heliograph.errors", "from heliograph import kafka"),
        ("heliograph.kafka.admin", "from rich.table import Table"),
        ("heliograph.copy.claim", "import crc32c"),
        ("heliograph.cli.app", "import cryptography.x509"),
        ("heliograph.kafka.admin", "import confluent_kafka"),
        ("heliograph.cli.dashboard", "import uvicorn"),
    ],
)
def test_a_forbidden_import_is_caught(module: str, source: str) -> None:
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("heliograph.cli.app", "import click\nfrom heliograph import __version__"),
        ("heliograph.copy.claim", "from heliograph.kafka.fence import fence\nimport asyncio"),
        ("heliograph.kafka.fetch", "from . import batch\nfrom kafka.protocol import fetch"),
        ("heliograph.local.jars", "from heliograph.local import ivy\nimport cryptography"),
        ("heliograph.kafka.__init__", "from .batch import Batch"),
    ],
)
def test_an_allowed_import_is_not(module: str, source: str) -> None:
    assert violations(source, module) == []
