"""What programs read: JSON and YAML say the same, and stdout holds nothing else."""

import json
from typing import Any

import pytest
import yaml

from heliograph.cli import render
from heliograph.cli.options import Session

ROWS: list[dict[str, Any]] = [
    {"name": "paris", "nodes": 3, "racks": ["a", "b"], "data": None, "odd": "no: [#é"},
    {"name": "0123", "nodes": 1, "racks": [], "data": "x", "odd": "off"},
]


@pytest.mark.parametrize("rows", [ROWS, []], ids=["rows", "none"])
def test_json_and_yaml_hold_the_same_rows_and_nothing_else(
    rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    render.show(Session(output="json"), rows, ["name"], "nothing")
    said = capsys.readouterr()
    assert json.loads(said.out) == rows and said.err == ""
    render.show(Session(output="yaml"), rows, ["name"], "nothing")
    said = capsys.readouterr()
    assert yaml.safe_load(said.out) == rows and said.err == ""


def test_a_table_shows_chosen_columns_a_dash_for_what_is_not_known_and_says_if_it_is_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    render.show(Session(), ROWS, ["name", "nodes"], "nothing")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["NAME", "NODES"], ["paris", "3"], ["0123", "1"]]
    render.show(Session(), ROWS, ["name", "data"], "nothing")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:]] == [["paris", "-"], ["0123", "x"]]
    render.show(Session(), [], ["name"], "nothing is here")
    said = capsys.readouterr()
    assert said.out == "" and "nothing is here" in said.err
