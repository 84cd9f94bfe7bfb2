"""The checker must not share a mistake with what it checks: it shares no code with it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ALLOWED = sys.stdlib_module_names | {"confluent_kafka"}
OWN = ("tests.checker", "tests.load")
FILES = [
    *sorted((ROOT / "tests" / "checker").rglob("*.py")),
    *sorted((ROOT / "tests" / "load").rglob("*.py")),
    ROOT / "tests" / "doubles" / "outside.py",
]


def foreign(source: str) -> list[str]:
    """Return what a file imports beyond librdkafka, the standard library and the checker."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append("." * node.level + (node.module or ""))
    return [
        name for name in found if name.split(".")[0] not in ALLOWED and not name.startswith(OWN)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_it_imports_librdkafka_and_the_standard_library_alone(path: Path) -> None:
    assert foreign(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import heliograph",
        "from heliograph.model.runs import Run",
        "import kafka",
        "from . import x",
    ],
)
def test_a_foreign_import_is_caught(source: str) -> None:
    assert len(foreign(source)) == 1


def test_running_it_loads_nothing_of_heliograph() -> None:
    program = "import sys, tests.checker.__main__, tests.load.__main__; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in ran.stdout.split()}
    assert "confluent_kafka" in loaded
    assert loaded & {"heliograph", "kafka", "pyspark"} == set()
