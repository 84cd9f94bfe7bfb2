"""Cycles in a file are refused before anything starts; among live topics they are findings."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cli.app import run
from heliograph.config.load import load
from heliograph.config.settings import LinkConfig
from heliograph.control.cycles import check_cycles, cycles_in_file
from heliograph.control.visits import Visit

FILE = """\
clusters:
  paris: {bootstrap.servers: "127.0.0.1:1"}
  dublin: {bootstrap.servers: "127.0.0.1:1"}
links:
  there: {source: paris, target: dublin, topics: [orders]}
  back: {source: dublin, target: paris, topics: [orders]}
"""


def visit(cluster_id: str, *topics: str) -> Visit:
    return cast(Visit, SimpleNamespace(cluster_id=cluster_id, topics=dict.fromkeys(topics)))


def link(name: str, source: str, target: str, *topics: str, **more: Any) -> LinkConfig:
    return LinkConfig(name, source, target, topics, **more)


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_cycle_that_the_file_shows_ends_a_command_with_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "heliograph.yaml"
    file.write_text(FILE)
    assert run([command, "-f", str(file)]) == 2
    said = capsys.readouterr().err
    assert "links.back.topics (line 6): the way is a cycle, paris → dublin → paris" in said
    assert "records of orders" in said and "origin: local" in said


def test_links_that_are_local_both_ways_are_no_cycle() -> None:
    text = FILE.replace("[orders]", "[orders], origin: local")
    assert list(load(text, check_topology=cycles_in_file).links) == ["there", "back"]


def test_a_mistake_elsewhere_does_not_hide_a_cycle_and_a_wrong_link_is_passed_over() -> None:
    links = [link("there", "a", "b", "x"), link("back", "b", "a", "x"), link("on", "b", "c", "x")]
    assert [name for name, _ in cycles_in_file(links)] == ["back"]
    assert cycles_in_file(links[1:]) == []


def test_a_link_to_itself_under_the_same_names_is_told_once() -> None:
    assert cycles_in_file([link("a", "a", "a", "x")]) == []


def test_existing_topics_are_followed_along_all_links() -> None:
    links = [link("there", "a", "b", "[xy]+"), link("back", "b", "a", "[xz]+")]
    visits = {"a": visit("A", "x", "y"), "b": visit("B", "z")}
    assert cycles_in_file(links) == []
    (found,) = check_cycles(links, ["there"], visits)
    assert (found.severity, found.code) == ("error", "cycle")
    assert "a → b → a: records of x come back" in found.finding
    assert list(check_cycles(links, ["another"], visits)) == []


def test_one_cluster_under_two_names_is_one() -> None:
    links = [link("there", "a", "b", "x"), link("back", "b", "other", "x")]
    visits = {"a": visit("A", "x"), "b": visit("B"), "other": visit("A", "x")}
    assert [one.code for one in check_cycles(links, ["there"], visits)] == ["cycle"]
    visits["other"] = visit("C")
    assert list(check_cycles(links, ["there"], visits)) == []


def test_mirrors_are_named_by_the_name_that_their_link_knows() -> None:
    prefix = "{source}.{topic}"
    links = [
        link("there", "a", "b", "[ax.]+", naming=prefix),
        link("back", "b", "other", "[abx.]+", naming=prefix),
    ]
    visits = {"a": visit("A", "x"), "b": visit("B"), "other": visit("A", "x")}
    (found,) = check_cycles(links, ["there"], visits)
    assert found.code == "mirror-returns" and "b.a.x" in found.finding
