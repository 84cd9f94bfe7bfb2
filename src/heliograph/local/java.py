"""Java: where it is, and the command lines that local clusters need."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from heliograph.errors import LocalError

_MISSING = (
    "Java was not found, and local clusters are real Kafka brokers, which run on it. Nothing was "
    "started. Install Java 17 or newer (on Debian or Ubuntu: apt-get install "
    "default-jre-headless), or set JAVA_HOME to one."
)

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_ASK_S = 10.0

# More options for the JVM of each broker.
BROKER_OPTIONS = "HELIOGRAPH_BROKER_OPTIONS"

# Else every JVM keeps a file of its counters in the system's temporary folder.
_NO_TRACE = "-XX:-UsePerfData"


def find_java() -> str:
    """Return the java command: that of JAVA_HOME, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home, "bin", "java")
        if not os.access(command, os.X_OK):
            raise LocalError(
                f"JAVA_HOME is {home}, which has no bin/java. Nothing was started. Set JAVA_HOME "
                "to a Java 17 or newer, or unset it to use the java on PATH."
            )
        return str(command)
    found = shutil.which("java")
    if found is None:
        raise LocalError(_MISSING)
    return found


def java_version(command: str) -> int | None:
    """Ask a java command for its major version; None if it does not tell.

    >>> _major('openjdk version "17.0.9" 2023-10-17'), _major('java version "1.8.0_392"')
    (17, 8)
    """
    try:
        said = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _major(said.stderr + said.stdout)


def _major(said: str) -> int | None:
    found = _VERSION.search(said)
    # Until Java 8 the major version was the second number.
    return int(found[2] if found[1] == "1" and found[2] else found[1]) if found else None


def short_lived(classpath: str, main: str, arguments: Sequence[str]) -> list[str]:
    """Return the command for a tool that ends within seconds: quick start before speed."""
    # The optimising compiler never pays in a JVM that lives for a second.
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _NO_TRACE]
    return [find_java(), *flags, *_shared(classpath), "-cp", classpath, main, *arguments]


def long_lived(
    classpath: str, main: str, arguments: Sequence[str], *, heap: str, settings: dict[str, str]
) -> list[str]:
    """Return the command for a broker. ``settings`` become Java system properties."""
    # The serial collector starts fastest and needs the least memory; a broker keeps little on
    # its heap. The optimising compiler stays on: benchmarks run against these brokers. It takes
    # 1.3 s of CPU while a broker starts, so tests turn it off by the variable.
    flags = [f"-Xmx{heap}", "-Xms64m", "-XX:+UseSerialGC", *_shared(classpath)]
    flags += ["-Djava.awt.headless=true", "-XX:+ExitOnOutOfMemoryError", _NO_TRACE]
    flags += os.environ.get(BROKER_OPTIONS, "").split()
    flags += [f"-D{key}={value}" for key, value in settings.items()]
    return [find_java(), *flags, "-cp", classpath, main, *arguments]


def class_archive(classpath: str) -> Path:
    """Return where the class data archive of a folder of jars is kept, for this Java."""
    binary = Path(find_java()).resolve()
    mark = hashlib.sha256(f"{binary} {binary.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return Path(classpath).with_name(f"classes-{mark}.jsa")


def _shared(classpath: str) -> list[str]:
    file = class_archive(classpath)
    # One that does not fit after all is passed over, without a word.
    own = [f"-XX:SharedArchiveFile={file}", "-Xlog:cds*=off"] if file.exists() else []
    return ["-Xshare:auto", *own]
