"""Each key of MirrorMaker 2, and what becomes of it."""

import re
from datetime import timedelta

import pytest

from heliograph.config.settings import CONFIGS_LEFT_OUT, GROUPS_LEFT_OUT, LinkConfig
from heliograph.config.values import PREFIX, SAME
from heliograph.model.selection import select
from tests.unit.migrate.imported import (
    BASE,
    CLUSTERS,
    config,
    mm2,
    mm2_link,
    mm2_refused,
)

_CLASSES = "org.apache.kafka.connect.mirror."
IDENTITY = f"replication.policy.class = {_CLASSES}IdentityReplicationPolicy\n"


def chosen(link: LinkConfig, *topics: str) -> list[str]:
    return select(topics, link.topics, link.exclude)


def test_a_bare_file_has_mirrormakers_defaults() -> None:
    link = mm2_link("")
    assert (link.name, link.source, link.target) == ("A-B", "A", "B")
    assert link.topics == (".*",) and link.naming == PREFIX and link.start == "earliest"
    assert link.sync.acls == timedelta(seconds=600) and link.sync.groups is None
    assert link.mirrors.replication_factor == 2
    assert link.mirrors.configs_exclude == CONFIGS_LEFT_OUT
    assert link.mirrors.use_defaults_from == "target"
    assert link.groups == (".*",) and link.groups_exclude == GROUPS_LEFT_OUT
    assert link.limits.tasks == "auto"


def test_clusters_are_reached_as_before() -> None:
    clusters = config(mm2(BASE)).clusters
    assert clusters["A"].properties == {"bootstrap.servers": "a-1:9092,a-2:9092"}
    assert clusters["B"].properties == {"bootstrap.servers": "b-1:9092"}


# Which links


def test_only_enabled_links_are_imported() -> None:
    text = f"{BASE}B->A.enabled = false\nB->A.topics = x\n"
    found = mm2(text)
    assert list(config(found).links) == ["A-B"]
    assert "B->A.topics: B->A is not imported" in found.text


def test_clusters_choose_the_targets() -> None:
    text = f"{BASE}B->A.enabled = true\n"
    assert list(config(mm2(text)).links) == ["A-B", "B-A"]
    assert list(config(mm2(text, ["A"])).links) == ["B-A"]


@pytest.mark.parametrize(
    ("text", "targets", "message"),
    [
        ("topics = x", (), "clusters: it is missing"),
        (CLUSTERS, (), "no link is enabled. Set A->B.enabled = true"),
        (f"{CLUSTERS}enabled = true", (), "no link is enabled"),
        (BASE, ("A",), "no link to A is enabled"),
        (BASE, ("C",), "--clusters C: no such cluster. The file has: A, B"),
    ],
)
def test_a_file_without_links_is_refused(text: str, targets: tuple[str, ...], message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        mm2(text, targets)


def test_a_cluster_that_no_link_uses_is_left_out() -> None:
    found = mm2(BASE.replace("A, B", "A, B, C") + "C.bootstrap.servers = c:9092\n")
    assert list(config(found).clusters) == ["A", "B"]
    assert "C.bootstrap.servers: no link uses C" in found.text


def test_a_blank_list_of_topics_matches_nothing() -> None:
    found = mm2(f"{BASE}A->B.topics =\nB->A.enabled = true\n")
    assert list(config(found).links) == ["B-A"]
    assert "A->B.topics: it is blank" in found.text
    (refused,) = mm2_refused(f"{BASE}topics =\n")
    assert "no link copies anything" in refused


# Names


def test_odd_aliases_become_legal_names_and_mirrors_keep_theirs() -> None:
    found = mm2(BASE.replace("A", "us.west").replace("B", "eu/1"))
    (link,) = config(found).links.values()
    assert (link.name, link.source, link.target) == ("us-west-eu-1", "us-west", "eu-1")
    assert link.naming == "us.west.{topic}"
    assert "changed: us.west cannot be a name here" in found.text


def test_aliases_that_look_alike_stay_apart() -> None:
    text = "clusters = a.b, a-b\na.b.bootstrap.servers = x:1\na-b.bootstrap.servers = y:1\n"
    clusters = config(mm2(f"{text}a.b->a-b.enabled = true\n")).clusters
    assert [one.properties["bootstrap.servers"] for one in clusters.values()] == ["x:1", "y:1"]


@pytest.mark.parametrize(
    ("added", "naming"),
    [
        ("", PREFIX),
        (f"replication.policy.class = {_CLASSES}DefaultReplicationPolicy", PREFIX),
        ("replication.policy.separator = _", "{source}_{topic}"),
        (IDENTITY, SAME),
        (f"{IDENTITY}replication.policy.separator = _", SAME),
    ],
)
def test_mirrors_are_named_as_the_policy_says(added: str, naming: str) -> None:
    assert mm2_link(added).naming == naming


# Topics


def test_a_key_for_the_link_beats_the_one_for_all() -> None:
    added = "topics = x\nA->B.topics = orders, payments.*\n"
    assert mm2_link(added).topics == ("orders", "payments.*")
    assert "not needed: topics: a key for a narrower case wins" in mm2(BASE + added).text


def test_a_key_that_only_mentions_a_cluster_is_not_the_links() -> None:
    found = mm2(f"{BASE}A.topics = x\n")
    assert config(found).links["A-B"].topics == (".*",)
    assert "not needed: A.topics: MirrorMaker reads it only alone or with A->B." in found.text


def test_what_mirrormaker_leaves_out_by_default_and_always_is_left_out() -> None:
    link = mm2_link("")
    out = ("x.internal", "x-internal", "x.replica", "__x", ".x", "heartbeats", "C.heartbeats")
    assert chosen(link, "orders", "B.orders", "C.B.orders", "Bx", "C.orders", *out) == [
        "Bx",
        "C.orders",
        "orders",
    ]


@pytest.mark.parametrize("key", ["topics.exclude", "topics.blacklist"])
def test_a_list_of_ones_own_replaces_only_the_default(key: str) -> None:
    link = mm2_link(f"{key} = tmp.*\n")
    assert chosen(link, "x.replica", "tmp1", "x.internal", "__x", ".x") == ["x.replica"]
    blank = mm2_link(f"{key} =\n")
    assert chosen(blank, "x.replica", "tmp1", "x.internal") == ["tmp1", "x.replica"]


def test_the_newer_name_of_a_list_wins() -> None:
    link = mm2_link("topics.exclude = a\nA->B.topics.blacklist = b\n")
    assert chosen(link, "a", "b") == ["b"]


def test_loops_are_by_name_only_where_names_tell() -> None:
    assert chosen(mm2_link(IDENTITY), "B.orders", "heartbeats") == ["B.orders"]
    own = mm2_link("replication.policy.separator = _\n")
    assert chosen(own, "B_orders", "C_B_orders", "B.orders", "C_heartbeats") == ["B.orders"]


def test_a_dot_in_a_name_is_a_dot_and_that_is_told() -> None:
    found = mm2(f"{BASE}topics = a.b\n")
    assert "changed: topics: a dot is a dot in the name a.b" in found.text


# Groups, mirrors, intervals


@pytest.mark.parametrize(
    ("added", "groups", "excluded"),
    [
        ("groups = a, b.*", ("a", "b.*"), GROUPS_LEFT_OUT),
        ("groups.exclude = x", (".*",), ("x",)),
        ("groups.blacklist = x", (".*",), ("x",)),
        ("groups =", (), GROUPS_LEFT_OUT),
    ],
)
def test_groups(added: str, groups: tuple[str, ...], excluded: tuple[str, ...]) -> None:
    link = mm2_link(added)
    assert (link.groups, link.groups_exclude) == (groups, excluded)


@pytest.mark.parametrize("key", ["config.properties.exclude", "config.properties.blacklist"])
def test_settings_of_topics_that_are_left_alone(key: str) -> None:
    link = mm2_link(rf"{key} = retention\\.ms, segment\\..*")
    assert link.mirrors.configs_exclude == (r"retention\.ms", r"segment\..*")


def test_defaults_are_taken_from_where_the_link_says() -> None:
    assert mm2_link("A->B.use.defaults.from = source").mirrors.use_defaults_from == "source"
    found = mm2(f"{BASE}use.defaults.from = source\n")
    assert config(found).links["A-B"].mirrors.use_defaults_from == "target"
    assert "use.defaults.from: MirrorMaker reads it only with A->B." in found.text


@pytest.mark.parametrize(("value", "factor"), [("3", 3), ("-1", "target")])
def test_replicas(value: str, factor: object) -> None:
    assert mm2_link(f"replication.factor = {value}").mirrors.replication_factor == factor


@pytest.mark.parametrize(
    ("key", "setting"),
    [
        ("refresh.topics", "topics"),
        ("sync.topic.configs", "configs"),
        ("sync.topic.acls", "acls"),
        ("sync.group.offsets", "groups"),
    ],
)
def test_intervals(key: str, setting: str) -> None:
    def interval(added: str) -> object:
        return getattr(mm2_link(added).sync, setting)

    assert interval(f"{key}.enabled = false\n{key}.interval.seconds = 7") is None
    given = f"{key}.enabled = true\n{key}.interval.seconds = 90"
    assert interval(given) == timedelta(seconds=90)
    assert interval(f"{key}.enabled = true") is not None
    assert interval(f"{key}.enabled = true\n{key}.interval.seconds = -1") is None
    alone = interval(f"{key}.interval.seconds = 90")
    assert alone == (None if setting == "groups" else timedelta(seconds=90))


@pytest.mark.parametrize(("value", "wanted"), [("none", "stop"), ("all", "quarantine")])
def test_what_becomes_of_refused_records(value: str, wanted: str) -> None:
    assert mm2_link(f"errors.tolerance = {value}").on_refuse == wanted


@pytest.mark.parametrize("key", ["A->B.consumer", "A.consumer"])
def test_a_start(key: str) -> None:
    assert mm2_link(f"{key}.auto.offset.reset = earliest").start == "earliest"
    assert mm2_link(f"{key}.auto.offset.reset = latest").start == "latest"


def test_a_rack_is_the_sources() -> None:
    clusters = config(mm2(f"{BASE}A.consumer.client.rack = r1\n")).clusters
    assert clusters["A"].properties["client.rack"] == "r1"
    assert "client.rack" not in clusters["B"].properties


# Not needed, refused

NOT_NEEDED = """\
tasks.max = 10
exactly.once.source.support = enabled
refresh.groups.enabled = true
refresh.groups.interval.seconds = 60
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 60
emit.heartbeats.enabled = true
emit.heartbeats.interval.seconds = 1
heartbeats.replication.enabled = true
offset-syncs.topic.location = source
emit.offset-syncs.enabled = true
offset.lag.max = 100
offset-syncs.topic.replication.factor = 3
checkpoints.topic.replication.factor = 3
heartbeats.topic.replication.factor = 3
offset.storage.replication.factor = 3
status.storage.topic = x
config.storage.topic = x
admin.timeout.ms = 1000
consumer.poll.timeout.ms = 1000
offset.flush.interval.ms = 1000
dedicated.mode.enable.internal.rest = true
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
topic.filter.class = org.apache.kafka.connect.mirror.DefaultTopicFilter
A.consumer.fetch.min.bytes = 1
A->B.consumer.max.poll.records = 1
B.producer.linger.ms = 5
A->B.producer.override.linger.ms = 5
A.admin.retries = 5
A.request.timeout.ms = 7
B.offset.storage.replication.factor = 3
consumer.fetch.max.bytes = 1
no.such.key = 1
"""


def test_what_is_not_needed_is_told_of_each_key() -> None:
    found = mm2(BASE + NOT_NEEDED)
    assert config(found) == config(mm2(BASE))
    for line in NOT_NEEDED.splitlines():
        key = line.partition(" =")[0]
        assert f"# not needed: {key}: " in found.text, key


REFUSED = {
    "topic.filter.class = my.Filter": "Java classes cannot be used",
    "A->B.group.filter.class = my.Filter": "Java classes cannot be used",
    "config.property.filter.class = my.Filter": "Java classes cannot be used",
    "forwarding.admin.class = my.Admin": "Java classes cannot be used",
    "transforms = rename": "cannot change records",
    "transforms.rename.type = my.Transform": "cannot change records",
    "value.converter = org.apache.kafka.connect.json.JsonConverter": "ByteArrayConverter",
    "replication.policy.class = my.Policy": "IdentityReplicationPolicy",
    "topics = \\\\p{Lower}": "[A-Za-z]",
    "groups = [a&&b]": "&&",
    "replication.factor = 0": "a number from 1",
    "errors.tolerance = some": "none or all",
    "A->B.use.defaults.from = me": "target or source",
    "sync.topic.acls.enabled = maybe": "neither true nor false",
    "refresh.topics.interval.seconds = 0": "1 or more",
    "A.consumer.auto.offset.reset = none": "earliest or latest",
    "replication.policy.separator = /": "which Kafka refuses",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_kept_to_is_refused_with_a_remedy(line: str) -> None:
    (refused,) = mm2_refused(f"{BASE}{line}\n")
    assert refused.startswith(f"{line.partition(' =')[0]} (line 5): ")
    assert REFUSED[line] in refused


def test_all_refusals_are_told_at_once() -> None:
    lines = [line for line in REFUSED if not line.startswith("replication.policy.separator")]
    assert len(mm2_refused(BASE + "\n".join(lines))) == len(lines)


def test_every_key_is_in_a_comment() -> None:
    text = f"{BASE}topics = a\nA->B.topics = b\nA.security.protocol = PLAINTEXT\n{NOT_NEEDED}"
    said = mm2(text).text
    comments = " ".join(line.strip().lstrip("# ") for line in said.splitlines() if "#" in line)
    for line in text.splitlines():
        key = line.partition(" =")[0]
        assert re.search(rf"(?<![\w.>-]){re.escape(key)}(?![\w.-])", comments), key


def test_a_key_that_is_given_twice_is_told() -> None:
    found = mm2(f"{BASE}topics = a\ntopics = b\n")
    assert config(found).links["A-B"].topics == ("b",)
    assert "topics (line 5): the key is given again below" in found.text


def test_links_that_would_copy_to_and_fro_are_a_warning() -> None:
    both = f"{BASE}B->A.enabled = true\n"
    assert mm2(both).warnings == ()
    (warning,) = mm2(both + IDENTITY).warnings
    assert warning.startswith("A->B and back keep the names of topics")
