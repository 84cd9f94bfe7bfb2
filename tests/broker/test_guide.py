"""The examples of the guide that are marked to be run, run in order on real brokers."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_EXAMPLE = re.compile(r"^```(sh|python) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [page for page in _PAGES if _EXAMPLE.search(page.read_text())]
WITHIN_S = 120


@pytest.fixture
def environment(clusters_folder: Path) -> Iterator[dict[str, str]]:
    """A user's shell with no clusters yet; the cache of jars is the machine's own."""
    state = clusters_folder / "guide"
    commands = str(Path(sys.executable).parent)
    kept = {
        name: value
        for name, value in os.environ.items()
        # An option set outside would change what the examples do.
        if not name.startswith(("HELIOGRAPH_", "PYTEST_")) or name == "HELIOGRAPH_CACHE"
    }
    shell = kept | {
        "HELIOGRAPH_STATE": str(state),
        "TMPDIR": str(clusters_folder),
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
    }
    yield shell
    subprocess.run(
        ["heliograph", "clusters", "down", "--all"], env=shell, check=True, timeout=WITHIN_S
    )
    # A page that starts no cluster leaves nothing to remove.
    (state / "clusters" / ".lock").unlink(missing_ok=True)
    for folder in (state / "clusters", state):
        if folder.exists():
            folder.rmdir()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_the_examples_of_a_page_work(page: Path, environment: dict[str, str]) -> None:
    for language, example in _EXAMPLE.findall(page.read_text()):
        command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, example],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
        assert done.returncode == 0, f"{example}\n{done.stdout}\n{done.stderr}"


def test_the_guide_has_examples_that_run() -> None:
    assert [page.name for page in PAGES] != []
