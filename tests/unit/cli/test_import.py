"""``heliograph import``: what it prints can be used, and holds no secret."""

import json
from pathlib import Path

import pytest

from heliograph.cli.app import run
from heliograph.config.load import load, load_file

SECRET = "Hunter2Hunter2"
MM2 = f"""\
clusters = paris, dublin
paris.bootstrap.servers = paris-1:9092
dublin.bootstrap.servers = dublin-1:9092
dublin.security.protocol = SASL_SSL
dublin.sasl.mechanism = SCRAM-SHA-512
dublin.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="mirror" password="{SECRET}";
paris->dublin.enabled = true
paris->dublin.topics = orders, payments.*
dublin->paris.enabled = true
"""


@pytest.fixture
def mm2(tmp_path: Path) -> Path:
    file = tmp_path / "mm2.properties"
    file.write_text(MM2)
    return file


@pytest.fixture
def mm1(tmp_path: Path) -> list[str]:
    consumer, producer = tmp_path / "c.properties", tmp_path / "p.properties"
    consumer.write_text("bootstrap.servers=a:9092\ngroup.id=mirror\nauto.offset.reset=earliest\n")
    producer.write_text("bootstrap.servers=b:9092\n")
    return ["--consumer.config", str(consumer), f"--producer.config={producer}"]


def test_what_is_printed_can_be_loaded_and_holds_no_secret(
    mm2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", "mm2", str(mm2)]) == 0
    said = capsys.readouterr()
    assert list(load(said.out).links) == ["paris-dublin", "dublin-paris"]
    assert "DUBLIN_PASSWORD" in said.err
    assert SECRET not in said.out + said.err
    assert str(mm2.parent) not in said.out


@pytest.mark.parametrize(
    "words", [["--clusters", "dublin"], ["--clusters=dublin"], ["--clusters", "dublin,dublin"]]
)
def test_targets_are_chosen(
    words: list[str], mm2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", "mm2", str(mm2), *words]) == 0
    assert list(load(capsys.readouterr().out).links) == ["paris-dublin"]


def test_several_targets_follow_each_other(mm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "mm2", str(mm2), "--clusters", "dublin", "paris"]) == 0
    assert len(load(capsys.readouterr().out).links) == 2
    assert run(["import", "mm2", str(mm2), "paris"]) == 2
    assert "unexpected extra argument" in capsys.readouterr().err


def test_it_can_be_written_to_a_new_file(
    mm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "heliograph.yaml"
    assert run(["import", "mm2", str(mm2), "-O", str(new)]) == 0
    assert capsys.readouterr().out == ""
    assert list(load_file(new).links) == ["paris-dublin", "dublin-paris"]
    assert run(["import", "mm2", str(mm2), "-O", str(new)]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["-v"]])
def test_every_refusal_is_told_at_once_with_no_secret(
    more: list[str], mm2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mm2.write_text(f"{MM2}transforms = x\ntopic.filter.class = my.Filter\n")
    assert run(["import", "mm2", str(mm2), *more]) == 2
    said = capsys.readouterr()
    assert said.out == "" and SECRET not in said.err
    assert "mm2.properties cannot be imported as it is:" in said.err
    assert "transforms (line 11)" in said.err and "topic.filter.class (line 12)" in said.err


def test_a_connector_can_be_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mirror.json"
    connector = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
    }
    file.write_text(json.dumps({"name": "mirror", "config": connector}))
    assert run(["import", "mm2", str(file)]) == 0
    assert list(load(capsys.readouterr().out).links) == ["a-b"]


def test_a_file_that_is_not_there_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "mm2", "no-such-file"]) == 2
    assert "no-such-file cannot be read" in capsys.readouterr().err


def test_a_call_of_mirrormaker_1_can_be_imported(
    mm1: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    apart, joined = "--include orders --num.streams 2", "--include=orders --num.streams=2"
    for words in (apart.split(), joined.split()):
        assert run(["import", "mm1", *mm1, *words]) == 0
        link = load(capsys.readouterr().out).links["mirror"]
        assert link.topics == ("orders",) and link.limits.tasks == 2


@pytest.mark.parametrize("command", [["import", "mm1"], ["mirror-maker"]])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--include", "a", "--message.handler", "my.Handler"], "--message.handler: Java classes"),
        ([], "--include: it is missing"),
        (["--include", "a", "--abort.on.send.failure", "maybe"], "--abort.on.send.failure"),
        (["--include", "a", "--no.such.flag"], "--no.such.flag"),
        (["--include", "a", "--consumer.config", "again"], "a link has one source"),
    ],
)
def test_what_cannot_be_kept_to_exits_with_2(
    command: list[str],
    words: list[str],
    message: str,
    mm1: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*command, *mm1, *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and message in said.err


def test_mirror_maker_has_help_and_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mirror-maker", "--help"]) == 0
    assert "--consumer.config" in capsys.readouterr().out
    assert run(["mirror-maker", "--version"]) == 0
    assert "heliograph mirror-maker" in capsys.readouterr().out


def test_mirror_maker_tells_what_it_ignores_before_it_asks_any_cluster(
    mm1: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The second broker's address cannot be one, so nothing is ever asked.
    (tmp_path / "p.properties").write_text("bootstrap.servers=b:9092\nssl.x=1\nacks=1\n")
    (tmp_path / "c.properties").write_text(
        "bootstrap.servers=a:9092\ngroup.id=m\nsecurity.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'missing.pem'}\n"
    )
    assert run(["mirror-maker", *mm1, "--include", "a", "--new.consumer"]) == 2
    said = capsys.readouterr().err
    assert "note: --new.consumer: " in said and "note: producer.config: acks: " in said
    assert "missing.pem cannot be read" in said
