"""A class data archive is used where it lies, and only by the Java that it was made with."""

from pathlib import Path

import pytest

from heliograph.local import java


def commands(classpath: str) -> list[list[str]]:
    return [
        java.short_lived(classpath, "Main", []),
        java.long_lived(classpath, "Main", [], heap="1g", settings={}),
    ]


def test_java_is_given_the_archive_beside_the_jars_once_it_is_there(tmp_path: Path) -> None:
    classpath = f"{tmp_path}/*"
    option = f"-XX:SharedArchiveFile={java.class_archive(classpath)}"
    assert not any(option in command for command in commands(classpath))
    java.class_archive(classpath).touch()
    assert all(option in command for command in commands(classpath))


def test_another_java_needs_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = java.class_archive(f"{tmp_path}/*")
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    command.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.class_archive(f"{tmp_path}/*") != before
