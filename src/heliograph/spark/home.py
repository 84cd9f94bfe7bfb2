"""Where Spark finds itself: its installed package, without the zip of its own Python half.

Spark puts ``python/lib/pyspark.zip`` before everything else on the path of each Python process it
starts. A zip holds no compiled modules, so each of the half a dozen processes of a query would
compile PySpark anew: seconds until the first record (docs/decisions/0007). The installed package is
the same code, compiled.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

LOG = "jvm.log"
_LOG_VARIABLE = "HELIOGRAPH_JVM_LOG"


def prepare(folder: Path, scratch: Path) -> None:
    """Point this process's Spark at a home under ``folder`` and at this interpreter.

    The home is made once and stays: a class data archive knows the jars by their path. What the
    JVM prints goes to a file under ``scratch``. A SPARK_HOME that is set is somebody's choice.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ[_LOG_VARIABLE] = str(scratch / LOG)
    home = home_in(folder)
    if os.environ.get("SPARK_HOME", str(home)) != str(home):
        return
    if not home.exists():
        draft = Path(tempfile.mkdtemp(dir=_made(folder), prefix="draft-"))
        _fill(draft)
        try:
            draft.rename(home)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    os.environ["SPARK_HOME"] = str(home)


def home_in(folder: Path) -> Path:
    """Return where the home of the installed PySpark is kept."""
    return folder / f"home-{version('pyspark')}-{_digest(_installed(), _submit())}"


def _installed() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "PySpark is a dependency"
    return Path(spec.origin).parent


def _jars() -> list[Path]:
    return sorted((_installed() / "jars").glob("*.jar"))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fill(home: Path) -> None:
    installed = _installed()
    home.chmod(0o755)
    (home / "bin").mkdir()
    for part in ("jars", "sbin"):
        (home / part).symlink_to(installed / part)
    for script in (installed / "bin").iterdir():
        (home / "bin" / script.name).symlink_to(script)
    submit = home / "bin" / "spark-submit"
    submit.unlink()
    submit.write_text(_submit())
    submit.chmod(0o755)


def said(scratch: Path) -> str:
    """Return the last lines that the JVM wrote, for the message of an error."""
    log = scratch / LOG
    return log.read_text(errors="replace")[-2000:].strip() if log.exists() else ""


def _submit() -> str:
    """Return the script that starts the JVM.

    What the JVM itself prints goes to a file: it is for those who debug Spark.

    Signals that end a whole group of processes are not for it: the driver calls leases in first,
    and the JVM ends with the driver, when its standard input does.

    It is told of no Python of its own: with one, it would search the installed packages for data
    sources before it asks for ours. Workers run under the interpreter that the driver names.
    """
    return (
        '#!/bin/sh\ntrap "" INT TERM HUP\n'
        f'PYSPARK_DRIVER_PYTHON=none exec "{_installed()}/bin/spark-submit" "$@"'
        f' 2>>"${{{_LOG_VARIABLE}:-/dev/null}}"\n'
    )


def archive_name() -> str:
    """Return the name of the class data archive for this Java and this PySpark.

    The JVM passes over an archive whose jars changed since, without a word: one that was made for
    an earlier installation at the same place is another.
    """
    java = shutil.which("java", path=_path()) or "java"
    binary = Path(java).resolve()
    changed = [path.stat().st_mtime_ns for path in (binary, *_jars()) if path.exists()]
    return f"spark-{_digest(_installed())}-{_digest(_submit(), binary, changed)}.jsa"


def outdated(archive: Path) -> list[Path]:
    """Return the archives that were made for the same place before."""
    place = archive.name.rpartition("-")[0]
    return [one for one in archive.parent.glob(f"{place}-*.jsa") if one != archive]


def _digest(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]


def _path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin" if home else None
