import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.race.helio import Heliograph
from bench.race.mirrormaker import LATENCY, THROUGHPUT, MirrorMaker
from bench.race.scenarios import Options
from bench.race.sections import EXACTLY_ONCE, PLAIN
from bench.race.tools import Died, Launch, Leg, Running
from bench.race.tree import Stat, Tree, belonging, parse_stat
from heliograph.config.load import load
from heliograph.kafka.compress import Codec
from heliograph.local.processes import Process

LEG = Leg("race001", "orders", "127.0.0.1:1", "127.0.0.1:2")


@dataclass(frozen=True)
class Script:
    """A tool that is a few lines of Python."""

    lines: str
    name: str = "script"
    kind: str = "python"

    def prepare(self, _: Leg, __: Path) -> Launch:
        return Launch([sys.executable, "-c", self.lines])

    def settings(self) -> str:
        return self.lines


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def wait_for_pids(tree: Tree, count: int) -> set[int]:
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        tree.look()
        if len(tree.pids) >= count:
            return set(tree.pids)
    raise AssertionError(f"{count} processes did not come, only {tree.pids}")


def test_a_command_name_with_brackets_and_spaces_is_skipped() -> None:
    line = "7 (a) b (c) S 3 9 4 0 -1 0 0 0 0 0 100 50 25 25 20 0 1 0 0"

    assert parse_stat(line) == Stat(parent=3, session=4, cpu_s=2.0)


def test_workers_belong_by_session_or_by_descent_and_others_do_not() -> None:
    stats = {
        10: Stat(1, 10, 0.0),
        11: Stat(10, 10, 0.0),
        12: Stat(1, 10, 0.0),  # orphaned, same session
        13: Stat(11, 13, 0.0),  # a session of its own, but a child
        20: Stat(1, 20, 0.0),
    }

    assert belonging(10, stats) == {10, 11, 12, 13}


def test_stopping_a_tool_ends_its_workers_and_nobody_else(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    worker = "import time; time.sleep(600)"
    script = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {worker!r}])\n"
        "time.sleep(600)\n"
    )
    with Running(Script(script), LEG, tmp_path) as running:
        processes = [Process.of(pid) for pid in wait_for_pids(running.tree, 2)]

    for process in processes:
        assert not process.is_alive()
    assert bystander.poll() is None


def test_cpu_time_and_memory_of_a_worker_count(tmp_path: Path) -> None:
    worker = "while True: pass"
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {worker!r}])"
    with Running(Script(script), LEG, tmp_path) as running:
        wait_for_pids(running.tree, 2)
        before_s, until_s = running.tree.cpu_s(), time.monotonic() + 20
        while running.tree.cpu_s() < before_s + 0.2 and time.monotonic() < until_s:
            pass
        assert running.tree.cpu_s() >= before_s + 0.2
        assert running.tree.pss_bytes() > 2 * 2**20


def test_a_tool_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with Running(Script("import sys; sys.exit('no such cluster')"), LEG, tmp_path) as running:
        running._process.wait(20)
        with pytest.raises(Died, match="no such cluster"):
            running.check()


def test_a_tool_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.race.tools._GRACE_S", 0.2)
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    with Running(Script(script), LEG, tmp_path) as running:
        until_s = time.monotonic() + 20
        while not (tmp_path / "race001.log").read_text() and time.monotonic() < until_s:
            pass
    assert running._process.returncode == -signal.SIGKILL


def test_the_file_for_heliograph_is_one_that_it_takes() -> None:
    link = load(Heliograph().file(LEG)).links["race001-target"]

    assert (link.source, link.target) == ("race001", "target")
    assert link.naming.format(source="race001", topic="orders") == LEG.mirror


@pytest.mark.parametrize("tuned", [THROUGHPUT, LATENCY])
def test_both_kinds_of_mirrormaker_differ_in_exactly_once_alone(tuned: dict[str, str]) -> None:
    plain = MirrorMaker(tuned, is_exactly_once=False).properties(LEG)
    exactly_once = MirrorMaker(tuned, is_exactly_once=True).properties(LEG)

    assert dict(exactly_once.items() - plain.items()) == {
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        "target.exactly.once.source.support": "enabled",
        "race001.consumer.isolation.level": "read_committed",
    }
    assert not plain.keys() - exactly_once.keys()


@pytest.mark.parametrize(("codec", "name"), [(Codec.LZ4, "lz4"), (Codec.NONE, "none")])
@pytest.mark.parametrize("entrant", [PLAIN, EXACTLY_ONCE])
def test_mirrormaker_writes_batches_as_compressed_as_it_reads_them(
    entrant: str, codec: Codec, name: str
) -> None:
    tool = Options(1, 1, 1.0, 40, (entrant,)).copier(entrant, codec)

    assert f"target.producer.compression.type={name}" in tool.settings().splitlines()


def test_a_setting_to_try_wins_over_ours() -> None:
    options = Options(1, 1, 1.0, 40, (PLAIN,), {"tasks.max": "7"})

    for tool in (options.copier(PLAIN, Codec.LZ4), options.live(PLAIN)):
        assert "tasks.max=7" in tool.settings().splitlines()


def test_every_placeholder_of_the_settings_is_filled() -> None:
    properties = MirrorMaker(THROUGHPUT, is_exactly_once=True).properties(LEG)

    assert not [key for key in properties if "{" in key]
