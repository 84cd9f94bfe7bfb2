import json
import subprocess
import sys
from pathlib import Path

import pytest

from heliograph import __version__
from heliograph.cli.app import run


@pytest.fixture(autouse=True)
def no_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HELIOGRAPH_STATE", str(tmp_path))


def test_version_and_help_are_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    for words in (["--help"], ["clusters", "-h"], ["clusters", "up", "--help"], ["demo", "-h"]):
        assert run(words) == 0
        assert "Usage: heliograph" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "error: usage: No such command 'nonsense'"),
        (["clusters", "up", "--nodes", "4"], "error: usage: Invalid value for '--nodes'"),
        (["clusters", "up", "--sasl", "GSSAPI"], "error: usage: Invalid value for '--sasl'"),
        (["clusters", "up", "a.b"], "error: config: 'a.b' cannot name a cluster"),
        (["clusters", "up", "x", "x"], "error: config: the cluster x was asked for twice"),
        (["clusters", "up", "--acls"], "error: config: ACLs need to know who is who"),
        (["clusters", "up", "--property", "x"], "error: config: 'x' is not a broker property"),
        (["clusters", "up", "--property", "node.id=3"], "error: config: the broker property node"),
        (["clusters", "down"], "error: usage: Name the clusters to stop, or say --all"),
        (["clusters", "down", "x"], "error: config: there is no local cluster x"),
        (["clusters", "down", "x", "--all"], "error: usage: Name the clusters"),
    ],
)
def test_a_wrong_command_exits_with_2_and_says_why_on_stderr(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(message)
    assert "Traceback" not in said.err


def test_bare_words_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Start here" in capsys.readouterr().err


def test_a_failure_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIOGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(["clusters", "fetch"]) == 1
    assert capsys.readouterr().err.startswith("error: local: JAVA_HOME is")


def test_verbose_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clusters", "down", "x", "-v"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_no_clusters_is_an_empty_list_to_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    # The option may stand before the command or after it, or in the environment.
    assert run(["-o", "json", "clusters", "list"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run(["clusters", "list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_options_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIOGRAPH_OUTPUT", "json")
    assert run(["clusters", "list"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    monkeypatch.setenv("HELIOGRAPH_NODES", "9")
    assert run(["clusters", "up"]) == 2
    assert "--nodes" in capsys.readouterr().err


def test_no_clusters_is_a_hint_to_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clusters", "list"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "heliograph clusters up" in said.err


def test_a_command_loads_what_it_needs_and_not_what_others_need() -> None:
    script = "import sys; from heliograph.cli.app import run; run(['--version'])"
    script += "; sys.exit(any(one in sys.modules for one in ('kafka', 'heliograph.wiring')))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
