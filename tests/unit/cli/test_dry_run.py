"""`--dry-run` of `clusters up` and `down`: it tells everything and changes nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.local.processes import Process
from heliograph.local.registry import Record, Registry

GONE = Process(os.getpid(), "started at another time")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing but a Java that leaves a trace when it is run."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/java-was-run\n")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("HELIOGRAPH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HELIOGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def broker() -> Iterator[Process]:
    """A process that stands for a broker."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        yield Process.of(child.pid)
        child.kill()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert run([*words, "--dry-run", "-o", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def enter(machine: Path, **fields: Any) -> Record:
    """Enter a cluster with a folder of its own into the list."""
    registry = Registry(machine / "state" / "clusters")
    folder = registry.folder / "heliograph-x-abc"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record").write_text("r")
    record = replace(Record("x", GONE, (GONE,), str(folder)), **fields)
    registry.enter(record)
    return record


def test_up_tells_everything_and_changes_nothing(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(machine)
    words = ["--nodes", "3", "--racks", "a,b", "--sasl", "PLAIN", "--acls"]
    words += ["--property", "log.retention.ms=5", "--property", "ssl.key.password=hidden"]
    assert run(["clusters", "up", "paris", *words, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert snapshot(machine) == before
    assert "paris  3      a, b, a  SASL_PLAINTEXT PLAIN ACLs" in said.out
    assert str(machine / "state" / "clusters" / "heliograph-paris-XXXXXXXX") in said.out
    for node, rack in (1, "a"), (2, "b"), (3, "a"):
        mine = said.out.partition(f"# paris, node {node}\n")[2].partition("\n\n")[0].splitlines()
        assert {f"node.id={node}", f"broker.rack={rack}", "log.retention.ms=5"} <= set(mine)
    assert "hidden" not in said.out and 'user_heliograph="***"' in said.out
    assert "would be downloaded first" in said.err
    assert "Nothing was started" in said.err


def test_up_is_told_to_a_program_as_well(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = rows(capsys, "clusters", "up", "--data", str(machine / "kept"))
    assert (source["name"], target["name"]) == ("source", "target")
    assert source["data"] == str(machine / "kept" / "source")
    assert source["nodes"] == 1 and source["racks"] == [] and source["security"] == "PLAINTEXT"
    (properties,) = source["broker_properties"]
    assert properties["log.dirs"] == str(machine / "kept" / "source" / "data-1")
    assert source["downloads"].startswith("kafka-") and source["removes"] == []
    assert not (machine / "kept").exists()


def test_up_tells_what_a_dead_cluster_left_and_leaves_it(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = enter(machine)
    before = snapshot(machine)
    (row,) = rows(capsys, "clusters", "up", "x")
    assert row["removes"] == [record.folder]
    assert snapshot(machine) == before


def test_up_goes_on_from_records_or_refuses_them_as_a_real_start_would(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "kept" / "x").mkdir(parents=True)
    described = {"cluster_id": "c", "nodes": 1, "sasl": None}
    (machine / "kept" / "x" / "cluster.json").write_text(json.dumps(described))
    words = ["clusters", "up", "x", "--data", str(machine / "kept")]
    assert rows(capsys, *words)[0]["holds_records"] is True
    assert run([*words, "--nodes", "2", "--dry-run"]) == 2
    assert "holds the records of a cluster with 1 nodes" in capsys.readouterr().err


def test_up_of_a_name_in_use_fails_as_a_real_start_would(
    machine: Path, broker: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    enter(machine, keeper=broker, nodes=(broker,))
    assert run(["clusters", "up", "x", "--dry-run"]) == 1
    assert "already running" in capsys.readouterr().err


def test_down_tells_the_living_processes_and_the_folder_and_touches_neither(
    machine: Path, broker: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    record = enter(machine, keeper=broker, nodes=(broker, GONE))
    before = snapshot(machine)
    assert run(["clusters", "down", "x", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert f"keeper (pid {broker.pid}), node 1 (pid {broker.pid})  {record.folder}" in said.out
    assert "node 2" not in said.out
    assert "Nothing was stopped or removed" in said.err
    (row,) = rows(capsys, "clusters", "down", "--all")
    assert row["stops"] == [f"keeper (pid {broker.pid})", f"node 1 (pid {broker.pid})"]
    assert (row["removes"], row["keeps"]) == (record.folder, "")
    assert snapshot(machine) == before and broker.is_alive()


@pytest.mark.parametrize(("is_kept", "words"), [(True, []), (False, ["--keep-data"])])
def test_down_tells_which_folder_would_stay(
    is_kept: bool, words: list[str], machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = enter(machine, is_kept=is_kept)
    (row,) = rows(capsys, "clusters", "down", "x", *words)
    assert (row["stops"], row["removes"], row["keeps"]) == ([], "", record.folder)


def test_what_down_tells_is_what_down_does(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = enter(machine)
    (row,) = rows(capsys, "clusters", "down", "x")
    assert run(["clusters", "down", "x"]) == 0
    assert row["removes"] == record.folder and not Path(record.folder).exists()


def test_down_of_nothing_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows(capsys, "clusters", "down", "--all") == []
