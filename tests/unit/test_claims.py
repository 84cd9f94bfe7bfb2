"""The page of what users of MirrorMaker rely on: complete, and every test that it names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "claims.md"
CLAIMS = range(1, 32)

_ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROWS = [(int(number), text, shown) for number, text, shown in _ROW.findall(PAGE.read_text())]


def test_every_claim_has_its_row_and_words() -> None:
    assert [number for number, _, _ in ROWS] == list(CLAIMS)
    assert len({text for _, text, _ in ROWS}) == len(CLAIMS)


@pytest.mark.parametrize("shown", [shown for _, _, shown in ROWS])
def test_a_claim_is_shown_by_tests_that_exist(shown: str) -> None:
    named = _TEST.findall(shown)
    assert shown.count("::") == len(named), f"{shown} names a test in another way"
    for file, test in named:
        assert test in functions_in(ROOT / file), f"{file} has no {test}"
    # The soak is not part of what every change has to pass; what needs no broker shows nothing.
    often = [file for file, _ in named if not file.startswith(("tests/soak/", "tests/unit/"))]
    assert often, f"{shown} is not shown by every run of the tests"


def functions_in(file: Path) -> set[str]:
    if not file.exists():
        return set()
    return {
        one.name for one in ast.parse(file.read_text()).body if isinstance(one, ast.FunctionDef)
    }
