"""A file becomes settings, or one error with every mistake, each with its path and line."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from heliograph.config.kinds import Step
from heliograph.config.load import find, inspect, load, load_file
from heliograph.config.settings import LinkConfig
from heliograph.config.values import Address
from heliograph.errors import ConfigError
from tests.unit.config.sample import BASE, CLUSTERS


def link(added: str) -> LinkConfig:
    return load(BASE + added).links["a"]


def test_the_example_of_the_interface_is_read() -> None:
    config = load(
        r"""
clusters:
  paris:
    bootstrap.servers: paris-1:9092,paris-2:9092
    security.protocol: SASL_SSL
    sasl.mechanism: SCRAM-SHA-512
    sasl.username: mirror
    sasl.password: ${env:PARIS_PASSWORD}
    ssl.ca.location: /etc/kafka/ca.pem
  dublin:
    bootstrap.servers: dublin-1:9092

links:
  paris-dublin:
    source: paris
    target: dublin
    topics: [orders, "payments\\..*"]
    exclude: ["payments\\.tmp"]
    naming: same
    origin: any
    start: earliest
    allow_broker_settings: false
    delivery: exactly-once
    sync:
      topics: 5s
      configs: 30s
      acls: off
      groups: 5s
      deletes: off
    mirrors:
      replication_factor: target
      configs_exclude: [min.insync.replicas, unclean.leader.election.enable]
      use_defaults_from: target
    groups: [".*"]
    groups_exclude: ["console-consumer-.*", "connect-.*", "__.*"]
    on_gap: stop
    on_recreate: stop
    on_refuse: quarantine
    limits: {bytes_per_second: 50MB, tasks: auto}
    objectives: {rpo: 5s, rto: 60s}
    transform: []
    hooks: {before_promote: [./dns off], after_failover: [./dns on, ./tell]}

spark:
  master: local
  conf: {}
dashboard:
  listen: 127.0.0.1:8040
"""
    )
    assert config.clusters["paris"].properties["sasl.password"] == "${env:PARIS_PASSWORD}"
    mirror = config.links["paris-dublin"]
    assert mirror.name == "paris-dublin"
    assert mirror.topics == ("orders", r"payments\..*")
    assert mirror.sync.topics == timedelta(seconds=5) and mirror.sync.acls is None
    assert mirror.limits.bytes_per_second == 50_000_000
    assert mirror.objectives.rto == timedelta(minutes=1)
    assert mirror.hooks == {
        "before_promote": ("./dns off",),
        "after_failover": ("./dns on", "./tell"),
    }
    assert config.dashboard.listen == Address("127.0.0.1", 8040)


@pytest.mark.parametrize(
    ("added", "name", "value"),
    [
        ("start: 2026-01-01T00:00:00Z", "start", datetime(2026, 1, 1, tzinfo=UTC)),
        ("start: 1767225600000", "start", datetime(2026, 1, 1, tzinfo=UTC)),
        ("naming: prefix", "naming", "{source}.{topic}"),
        ("allow_broker_settings: yes", "allow_broker_settings", True),
        ("exclude: []", "exclude", ()),
        ("groups: [on, no, 0123]", "groups", ("on", "no", "0123")),
        ("transform: [{repartition: 8}]", "transform", (Step("repartition", 8),)),
        ("transform: [{where: a > 1}]", "transform", (Step("where", "a > 1"),)),
        (
            "transform: [{mask: {field: a, to: [1, 2.5, ~, yes]}}]",
            "transform",
            (Step("mask", {"field": "a", "to": [1, 2.5, None, True]}),),
        ),
        ("sync:", "sync", LinkConfig("a", "paris", "dublin", ("orders",)).sync),
    ],
)
def test_a_value_is_what_was_meant(added: str, name: str, value: object) -> None:
    assert getattr(link(f"    {added}\n"), name) == value


def test_what_is_not_given_has_its_default() -> None:
    assert link("") == LinkConfig("a", "paris", "dublin", ("orders",))


def test_names_and_properties_are_texts_whatever_yaml_would_make_of_them() -> None:
    text = """
clusters:
  no: {bootstrap.servers: [a:1, b:2], client.id: 0123, client.rack: yes, request.timeout.ms: 30}
  1: {bootstrap.servers: c:1, ssl.endpoint.identification.algorithm: "", sasl.username: }
links: {on: {source: no, target: 1, topics: [2024, off]}}
"""
    config = load(text)
    assert config.clusters["no"].properties == {
        "bootstrap.servers": ["a:1", "b:2"],
        "client.id": "0123",
        "client.rack": "yes",
        "request.timeout.ms": "30",
    }
    assert config.clusters["1"].properties["ssl.endpoint.identification.algorithm"] == ""
    assert config.clusters["1"].properties["sasl.username"] is None
    assert config.links["on"].topics == ("2024", "off")


def test_links_may_share_settings_by_anchors() -> None:
    text = f"""\
{CLUSTERS}
links:
  a: &common {{source: paris, target: dublin, topics: [orders], on_gap: skip}}
  b:
    <<: *common
    topics: [payments]
"""
    b = load(text).links["b"]
    assert (b.on_gap, b.topics) == ("skip", ("payments",))


def test_settings_can_travel() -> None:
    config = load(BASE)
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_file_is_read_and_named_in_the_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BASE, encoding="utf-8-sig")
    assert load_file(file) == load(BASE)
    file.write_text("clusters: 5")
    with pytest.raises(ConfigError, match=r"mine\.yaml cannot be used as written:"):
        load_file(file)


def test_a_missing_file_leads_to_init(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*x\.yaml.*-f.*heliograph init > heliograph"):
        load_file(tmp_path / "x.yaml")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        load_file(tmp_path)
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match="does not hold UTF-8 text"):
        load_file(tmp_path / "latin")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_file(Path("a\0b"))


def test_the_file_typed_wins_then_the_one_here_then_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    variable = {"HELIOGRAPH_CONFIG": "other.yaml"}
    assert find(Path("typed.yaml"), variable) == Path("typed.yaml")
    assert find(None, variable) == Path("other.yaml")
    assert find(None, {}) == Path("heliograph.yaml")
    (tmp_path / "heliograph.yaml").touch()
    assert find(None, variable) == Path("heliograph.yaml")


def test_whether_the_dashboard_was_written_is_known() -> None:
    assert not load(BASE).has_dashboard
    for written in ("dashboard:", "dashboard: {}", "dashboard: {listen: 'localhost:1'}"):
        assert load(f"{BASE}{written}\n").has_dashboard
    assert load(f"{BASE}dashboard: {{token: off}}\n").dashboard.token is None


def test_what_is_wrong_with_the_dashboard_stands_in_its_place() -> None:
    text = f"{BASE}dashboard:\n  listen: 'h:1'\n"
    _, findings = inspect(text, check_dashboard=lambda one: [f"listen: no {one.listen}", "no"])
    assert [str(one) for one in findings] == [
        "dashboard (line 10): no",
        "dashboard.listen (line 11): no h:1",
    ]
