"""What people are told of the settings is what the reader does."""

import re

import pytest

from heliograph.config import settings
from heliograph.config.document import Finding, compose
from heliograph.config.load import load
from heliograph.config.reference import REQUIRED, Row, example, reference


def test_the_printed_file_loads() -> None:
    for minimal in (False, True):
        config = load(example(minimal=minimal))
        assert list(config.clusters) == ["paris", "dublin"]
        assert list(config.links) == ["paris-dublin"]
        assert config.links["paris-dublin"].topics == ("orders", r"payments\..*")


def test_what_is_commented_out_is_the_default() -> None:
    text = re.sub(r"^( *)#(?! )", r"\1", example(), flags=re.MULTILINE)
    assert text.count("#") < example().count("#")
    config, shown = load(text), load(example())
    assert config.links == shown.links
    assert (config.spark, config.dashboard) == (shown.spark, shown.dashboard)


def test_the_printed_file_shows_every_setting() -> None:
    for row in reference():
        last = row.path.rpartition(".")[2]
        assert last == "<property>" or re.search(rf"^ *#?{last}:", example(), re.MULTILINE), row


def test_the_minimal_file_has_only_what_is_required() -> None:
    text = example(minimal=True)
    required = {row.path.rpartition(".")[2] for row in reference() if row.default == REQUIRED}
    given = set(re.findall(r"^ *([a-z_.]+):", text, re.MULTILINE))
    assert given - {"paris", "dublin", "bootstrap.servers"} == required - {"<property>"}


def test_the_printed_file_suits_any_terminal_and_any_editor() -> None:
    assert example().isascii()
    assert max(map(len, example().splitlines())) <= 100
    assert example().endswith("\n") and not example().endswith("\n\n")


def test_every_setting_of_the_interface_is_in_the_reference() -> None:
    paths = {row.path for row in reference()}
    link = "source target topics exclude naming origin start allow_broker_settings delivery groups "
    link += "groups_exclude on_gap on_recreate on_refuse transform allow_same_cluster hooks "
    link += "sync.topics sync.configs sync.acls sync.groups sync.deletes limits.bytes_per_second "
    link += "mirrors.replication_factor mirrors.configs_exclude mirrors.use_defaults_from "
    link += "limits.tasks objectives.rpo objectives.rto"
    assert {f"links.<name>.{key}" for key in link.split()} <= paths
    assert {"clusters.<name>.allow_literal_secrets", "clusters.<name>.<property>"} <= paths
    assert {"spark.master", "spark.conf", "dashboard.listen", "dashboard.token"} <= paths


@pytest.mark.parametrize("row", reference(), ids=lambda row: str(row.path))
def test_a_setting_has_words(row: Row) -> None:
    assert row.type and row.help.endswith(".")
    assert row.allowed or row.type.startswith("group")


@pytest.mark.parametrize(
    "group",
    [
        settings.SyncConfig,
        settings.MirrorsConfig,
        settings.LimitsConfig,
        settings.ObjectivesConfig,
        settings.LinkConfig,
        settings.SparkConfig,
        settings.DashboardConfig,
    ],
)
def test_a_default_that_is_shown_reads_back_the_same(group: type) -> None:
    for key in settings.keys(group):
        if key.kind is None or key.is_required:
            continue
        shown = key.kind.show(key.default)
        text = shown if isinstance(shown, str) else f"[{', '.join(shown)}]"
        place, _ = compose(text)
        findings: list[Finding] = []
        assert place is not None
        assert key.kind.read(place, findings) == key.default
        assert findings == []
