"""``heliograph dashboard``, as far as it needs no cluster."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.cli.app import run
from heliograph.cli.dashboard import beside
from heliograph.cli.options import Session
from heliograph.config.values import Address
from heliograph.wiring import load_config, setups
from tests.doubles.asking import ask

WITHIN_S = 60


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of loopback where somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def written(folder: Path, port: int, dashboard: str = "") -> Path:
    file = folder / "heliograph.yaml"
    file.write_text(
        f"""
clusters:
  a: {{bootstrap.servers: "127.0.0.1:{port}"}}
  b: {{bootstrap.servers: "127.0.0.1:{port}"}}
links:
  a-b: {{source: a, target: b, topics: [orders]}}
{dashboard}
"""
    )
    return file


@pytest.mark.parametrize(
    ("dashboard", "message"),
    [
        ("dashboard: {listen: 0.0.0.0:8040}", "dashboard.listen (line 7): other machines can"),
        ("dashboard: {listen: '[::]:8040'}", "so that a token is needed"),
        (
            "dashboard: {token: Hunter2}",
            "dashboard.token (line 7): token holds a secret in the open",
        ),
        ("dashboard: {token: '${env:NO_SUCH_TOKEN}'}", "no environment variable NO_SUCH_TOKEN"),
        ("dashboard: {tokn: x}", "Did you mean token?"),
    ],
)
def test_wrong_settings_exit_with_2(
    dashboard: str, message: str, taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dashboard", "-f", str(written(tmp_path, taken, dashboard))]) == 2
    said = capsys.readouterr().err
    assert message in said and "Hunter2" not in said


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("0.0.0.0:0", "a token is needed"),
        ("8040", "--listen 8040 is not host:port"),
        ("192.0.2.1:8040", "a token is needed"),
    ],
)
def test_a_wrong_address_exits_with_2(
    listen: str, message: str, taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["dashboard", "-f", str(written(tmp_path, taken)), "--listen", listen]
    assert run(words) == 2
    assert message in capsys.readouterr().err


def test_a_port_in_use_exits_with_2_and_names_the_setting(
    taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["dashboard", "-f", str(written(tmp_path, taken)), "--listen", f"127.0.0.1:{taken}"]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert f"address-taken: the dashboard cannot listen at 127.0.0.1:{taken}" in said
    assert "dashboard.listen" in said and "Traceback" not in said


def test_a_run_goes_on_where_the_port_is_in_use(
    taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, taken, f"dashboard: {{listen: 127.0.0.1:{taken}}}")
    config = load_config(file)
    with beside(Session(), config, setups(config)):
        pass
    assert "warning: address-taken" in capsys.readouterr().err


def test_a_run_serves_only_where_the_section_is_written(
    taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(written(tmp_path, taken))
    with beside(Session(), config, setups(config)):
        assert capsys.readouterr().err == ""
    config = load_config(written(tmp_path, taken, "dashboard: {listen: 127.0.0.1:0}"))
    with beside(Session(), config, ()):  # no links: nobody goes on looking for their clusters
        port = int(capsys.readouterr().err.partition("127.0.0.1:")[2].partition("/")[0])
        assert ask(Address("127.0.0.1", port), "/health/live").status == 200


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_until_a_signal_though_its_clusters_are_away(
    number: signal.Signals, status: int, taken: int, tmp_path: Path
) -> None:
    words = ["dashboard", "-f", str(written(tmp_path, taken)), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "heliograph.cli.app", *words], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        place = Address("127.0.0.1", int(said.partition("127.0.0.1:")[2].partition("/")[0]))
        assert ask(place, "/health/live").status == 200
        assert ask(place, "/health/ready").status == 503
        os.kill(process.pid, number)
        assert process.wait(WITHIN_S) == status
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


def test_no_other_command_loads_the_web_framework() -> None:
    check = "import sys, heliograph.cli.app; print({'starlette', 'uvicorn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
