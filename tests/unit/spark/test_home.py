"""The class data archive fits one Java and one installation of Spark, and no other."""

import os
from pathlib import Path
from typing import Any

import pytest

from heliograph.spark import home


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: Any) -> Path:
    folder = tmp_path / "pyspark"
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / "spark-core.jar").write_bytes(b"")
    monkeypatch.setattr(home, "_installed", lambda: folder)
    return folder


def test_jars_that_were_installed_anew_need_another_archive(installed: Path) -> None:
    before = home.archive_name()
    assert home.archive_name() == before
    os.utime(installed / "jars" / "spark-core.jar", ns=(1, 1))
    assert home.archive_name() != before


def test_only_archives_of_the_same_place_are_outdated(installed: Path, tmp_path: Path) -> None:
    before = tmp_path / home.archive_name()
    other = tmp_path / "spark-0123456789ab-0123456789ab.jsa"
    os.utime(installed / "jars" / "spark-core.jar", ns=(1, 1))
    now = tmp_path / home.archive_name()
    for one in (before, other, now):
        one.write_bytes(b"")
    assert home.outdated(now) == [before]
