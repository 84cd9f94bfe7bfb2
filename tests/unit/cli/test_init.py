"""``heliograph init`` prints a configuration that can be used as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from heliograph.cli.app import run
from heliograph.config.load import load, load_file
from heliograph.config.settings import ClusterConfig
from heliograph.errors import ConfigError
from heliograph.kafka.properties import parse


def properties_wrong(cluster: ClusterConfig) -> list[str]:
    try:
        parse(cluster.name, cluster.properties, cluster.allow_literal_secrets)
    except ConfigError as error:
        return error.message.split("\n  - ")[1:]
    return []


@pytest.mark.parametrize("words", [["init"], ["init", "--minimal"], ["-o", "json", "init"]])
def test_what_init_prints_can_be_loaded(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    config = load(said.out, check_cluster=properties_wrong)
    assert list(config.links) == ["paris-dublin"]


def test_minimal_has_no_settings_in_comments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--minimal"]) == 0
    short = capsys.readouterr().out
    assert "on_gap" not in short
    assert run(["init"]) == 0
    assert "#on_gap: stop" in capsys.readouterr().out


def test_init_can_be_sent_to_the_file_it_is_for(tmp_path: Path) -> None:
    file = tmp_path / "heliograph.yaml"
    with file.open("w") as output:
        command = [sys.executable, "-m", "heliograph.cli.app", "init"]
        subprocess.run(command, stdout=output, check=True, cwd=tmp_path)
    assert load_file(file, properties_wrong).links["paris-dublin"].source == "paris"


def test_findings_of_real_properties_stand_in_their_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["init", "--minimal"]) == 0
    text = capsys.readouterr().out.replace(":9092\n", "\n    sasl.password: hunter2\n", 1)
    with pytest.raises(ConfigError) as refused:
        load(text, check_cluster=properties_wrong)
    said = refused.value.message
    assert "\n  - clusters.paris.bootstrap.servers (line 5): 'paris-2' has no port" in said
    assert "sasl.password is set" in said
    assert "hunter2" not in said
