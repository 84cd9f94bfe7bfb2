import json
import multiprocessing
import os
import zipfile
from pathlib import Path

import pytest

from heliograph.errors import LocalError
from heliograph.local import ivy, java
from heliograph.local.ivy import Artifact, Report
from heliograph.local.jars import Bundle, ensure, is_whole

BUNDLE = Bundle("thing-1", (Artifact("org.example", "thing", "1"),), ("thing", "thing-part"))


def zip_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("A.class", "x" * 1000)


class Registry:
    """A resolver without a network: its jars are given, and it counts how often it is asked."""

    def __init__(self, *names: str) -> None:
        self.names = names or ("thing-1.jar", "thing-part-1.jar")
        self.asked = 0

    def __call__(self, _: tuple[Artifact, ...], folder: Path, __: Path, report: Report) -> None:
        self.asked += 1
        for done, name in enumerate(self.names, start=1):
            zip_file(folder / name)
            report(ivy.Progress(found=len(self.names), arrived=done))


def test_jars_are_fetched_once_and_then_found(tmp_path: Path) -> None:
    registry = Registry()
    seen: list[ivy.Progress] = []
    folder = ensure(BUNDLE, cache=tmp_path, resolver=registry, report=seen.append)
    assert folder == tmp_path / "thing-1"
    assert seen[-1] == ivy.Progress(found=2, arrived=2)
    assert ensure(BUNDLE, cache=tmp_path, resolver=registry, verify=True) == folder
    assert registry.asked == 1


def test_only_the_jars_and_a_lock_are_left(tmp_path: Path) -> None:
    ensure(BUNDLE, cache=tmp_path, resolver=Registry())
    assert {path.name for path in tmp_path.iterdir()} == {"thing-1", ".thing-1.lock"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "thing-1.jar").unlink(),
        lambda folder: (folder / "thing-1.jar").write_bytes(b"short"),
        lambda folder: zip_file(folder / "more-1.jar"),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text('{"jars": 3'),
        lambda folder: (folder / "manifest.json").write_text("[]"),
    ],
    ids=["jar missing", "jar cut", "jar too many", "no manifest", "half manifest", "no jars"],
)
def test_damage_is_seen_at_every_use_and_repaired(tmp_path: Path, damage: object) -> None:
    registry = Registry()
    folder = ensure(BUNDLE, cache=tmp_path, resolver=registry)
    assert callable(damage)
    damage(folder)
    assert not is_whole(folder, BUNDLE)
    ensure(BUNDLE, cache=tmp_path, resolver=registry)
    assert is_whole(folder, BUNDLE, verify=True)
    assert registry.asked == 2


def test_a_changed_byte_is_seen_by_verify(tmp_path: Path) -> None:
    folder = ensure(BUNDLE, cache=tmp_path, resolver=Registry())
    jar = folder / "thing-1.jar"
    content = bytearray(jar.read_bytes())
    content[50] ^= 1
    jar.write_bytes(content)
    assert is_whole(folder, BUNDLE)
    assert not is_whole(folder, BUNDLE, verify=True)


def test_jars_of_other_revisions_do_not_count(tmp_path: Path) -> None:
    ensure(BUNDLE, cache=tmp_path, resolver=Registry())
    newer = Bundle("thing-1", (Artifact("org.example", "thing", "2"),), ("thing",))
    assert not is_whole(tmp_path / "thing-1", newer)


def test_a_fetch_without_an_expected_jar_keeps_nothing(tmp_path: Path) -> None:
    # thing-part must not pass for thing.
    with pytest.raises(LocalError, match="thing is not among"):
        ensure(BUNDLE, cache=tmp_path, resolver=Registry("thing-part-1.jar"))
    assert [path.name for path in tmp_path.iterdir()] == [".thing-1.lock"]


def test_a_jar_that_is_no_zip_keeps_nothing(tmp_path: Path) -> None:
    def resolver(_: tuple[Artifact, ...], folder: Path, __: Path, ___: Report) -> None:
        zip_file(folder / "thing-1.jar")
        (folder / "thing-part-1.jar").write_bytes(b"<html>Please log in</html>")

    with pytest.raises(LocalError, match=r"thing-part-1\.jar arrived damaged"):
        ensure(BUNDLE, cache=tmp_path, resolver=resolver)
    assert not (tmp_path / "thing-1").exists()


def test_a_killed_fetch_is_swept_up(tmp_path: Path) -> None:
    leftover = tmp_path / ".fetching-thing-1-abc"
    leftover.mkdir()
    ensure(BUNDLE, cache=tmp_path, resolver=Registry())
    assert not leftover.exists()


class SharedRegistry(Registry):
    """Notes every request in a file, so that processes can be counted together."""

    def __init__(self, note: Path) -> None:
        super().__init__()
        self.note = note

    def __call__(self, _: tuple[Artifact, ...], folder: Path, __: Path, report: Report) -> None:
        with self.note.open("a") as note:
            note.write(f"{os.getpid()}\n")
        super().__call__(_, folder, __, report)


def fetch_when_told(cache: Path, note: Path, gate: object) -> None:
    gate.wait()  # type: ignore[attr-defined]
    ensure(BUNDLE, cache=cache, resolver=SharedRegistry(note))


def test_processes_that_fetch_at_once_fetch_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    cache, note, gate = tmp_path / "cache", tmp_path / "note", context.Barrier(4)
    processes = [
        context.Process(target=fetch_when_told, args=(cache, note, gate)) for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert len(note.read_text().splitlines()) == 1
    manifest = json.loads((cache / "thing-1" / "manifest.json").read_text())
    assert sorted(manifest["jars"]) == ["thing-1.jar", "thing-part-1.jar"]


def test_no_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match="Install Java 17"):
        java.find_java()


def test_a_wrong_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalError, match="JAVA_HOME"):
        java.find_java()


def test_a_failed_download_says_why_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The discard port of loopback: nothing listens, nothing leaves the machine.
    dead = "-DsocksProxyHost=127.0.0.1 -DsocksProxyPort=9"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", dead)
    with pytest.raises(LocalError, match=r"could not be downloaded; nothing was kept"):
        ensure(BUNDLE, cache=tmp_path)
    assert not (tmp_path / "thing-1").exists()
