"""Every mistake of a file is reported, each with its path and line, in the order of the file."""

import pytest

from heliograph.config.load import load
from heliograph.config.settings import ClusterConfig
from heliograph.errors import ConfigError
from tests.unit.config.sample import BASE, CLUSTERS

WITHOUT_TOPICS = BASE.replace("    topics: [orders]\n", "")


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(text)
    head, *lines = refused.value.message.split("\n  - ")
    assert head == "heliograph.yaml cannot be used as written:"
    return lines


WRONG = [
    ("on_gap: stopp", "on_gap", "'stopp' is not allowed. Did you mean stop? Allowed: stop or skip"),
    ("on_gap:", "on_gap", "has no value. Allowed: stop or skip"),
    ("on_gap: [stop]", "on_gap", "must be one value, not a list. Allowed"),
    ("origin: Local", "origin", "'Local' is not allowed. Did you mean local?"),
    ("on-gap: stop", "on-gap", "no such setting. Did you mean on_gap?"),
    ("zzz: 1", "zzz", "no such setting. Known: source, target, topics"),
    ("tasks: 3", "tasks", "no such setting here. It belongs in limits"),
    ("sync: {topic: 5s}", "sync.topic", "no such setting. Did you mean topics?"),
    ("sync: {topics: 5}", "sync.topics", "'5' has no unit. Did you mean 5s? Allowed: a time"),
    ("sync: 5s", "sync", "must be a group of settings, not a single value"),
    ("limits: {tasks: 0}", "limits.tasks", "'0' is not between 1 and 10000"),
    ("limits: {tasks: some}", "limits.tasks", "'some' is not allowed. Allowed: auto or a number"),
    ("limits: {bytes_per_second: 0}", "limits.bytes_per_second", "'0' would let nothing through"),
    ("objectives: {rpo: soon}", "objectives.rpo", "'soon' is not a whole number with a unit"),
    ("naming: '{source}'", "naming", "'{source}' lacks {topic}"),
    ("start: newest", "start", "'newest' is not a time. Allowed: earliest, latest, or a time"),
    ("exclude: tmp", "exclude", "must be a list, not a single value. Write a list"),
    ("exclude: ['(']", "exclude", "'(' is not a regular expression of Python: missing )"),
    ("groups: ['a', '[']", "groups", "'[' is not a regular expression of Python"),
    ("groups: [a, b, a]", "groups", "'a' is listed twice"),
    ("groups: [[a]]", "groups", "must be one value, not a list"),
    ("groups_exclude: {a: b}", "groups_exclude", "must be a list, not a group of settings"),
    ("mirrors: {configs_exclude: ['*']}", "mirrors.configs_exclude", "'*' is not a regular"),
    ("mirrors: {replication_factor: -1}", "mirrors.replication_factor", "'-1' is not allowed"),
    ("allow_broker_settings: maybe", "allow_broker_settings", "'maybe' is neither true nor false"),
    ("transform: [{wear: x}]", "transform.wear", "step 1: 'wear' is not allowed. Did you mean w"),
    ("transform: [{where: x}, where]", "transform", "step 2 must have one verb"),
    ("transform: [{where: x, sql: y}]", "transform", "step 1 must have one verb"),
    ("transform: [{sql: }]", "transform.sql", "step 1: 'sql' has no value"),
    ("transform: none", "transform", "must be a list of steps, not a single value"),
    ("hooks: {before_failver: [x]}", "hooks.before_failver", "no such moment. Did you mean before"),
    ("hooks: {before_promote: x}", "hooks.before_promote", "must be a list of commands"),
    ("hooks: {before_promote: [[x]]}", "hooks.before_promote", "must be a list of commands"),
    ("hooks: [x]", "hooks", "must be moments and commands, not a list"),
    ("source: paris", "source", "already given in line 7. Only one can count: remove the other"),
    ("? [x, y]\n    : 1", "", "the name of a setting must be a single word"),
    ("<<: 5", "", "<< takes a group of settings, or a list of them"),
    ("origin: !any any", "origin", "a value that begins with ! is a tag of YAML; quote it"),
]


@pytest.mark.parametrize(("added", "path", "words"), WRONG, ids=[wrong[0] for wrong in WRONG])
def test_a_mistake_is_reported_with_its_path_and_line(added: str, path: str, words: str) -> None:
    (found,) = mistakes(f"{BASE}    {added}\n")
    assert found.startswith(f"links.a.{path}".rstrip(".") + f" (line 10): {words}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: the file is empty. `heliograph init` prints one"),
        ("# only this\n", "line 1: the file is empty"),
        ("[a, b]", "line 1: the file must hold clusters, links, spark, dashboard, not a list"),
        ("a: [\n", "line 2: this is not YAML: "),
        ("a: b: c\n", "line 1: this is not YAML: mapping values are not allowed here"),
        ("a:\n\tb: 1\n", "line 2: this is not YAML: found character '\\t' that cannot start"),
        ("a: 1\n---\nb: 2\n", "line 2: this is not YAML: but found another document"),
        ("a: *b\n", "line 1: a value that begins with * is an alias of YAML. Put it in quotes"),
        ("a: &\n", "line 1: a value that begins with & is an anchor"),
        ("a: 1\nb: \x07\n", "line 2: YAML allows no such character here"),
        ('a: "\\UFFFFFFFF"\n', "line 1: an escape such as"),
        ("[" * 3000, "line 1: it is nested too deeply"),
    ],
)
def test_what_is_no_configuration_at_all_is_told_with_its_line(text: str, expected: str) -> None:
    assert mistakes(text)[0].startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{BASE}link: 1\n", "link (line 10): no such setting. Did you mean links?"),
        (f"{BASE}spark: {{masters: local}}\n", "spark.masters (line 10): no such setting. Did"),
        (f"{BASE}spark: {{master: yarm}}\n", "spark.master (line 10): 'yarm' is no Spark master"),
        (
            f"{BASE}spark: {{conf: {{a.b: 1}}}}\n",
            "spark.conf.a.b (line 10): must begin with spark.",
        ),
        (f"{BASE}spark: {{conf: {{spark.a: [1]}}}}\n", "spark.conf.spark.a (line 10): must be one"),
        (f"{BASE}spark: {{conf: 5}}\n", "spark.conf (line 10): must be names and values, not a si"),
        (
            f"{BASE}dashboard: {{listen: 8040}}\n",
            "dashboard.listen (line 10): '8040' is not host:p",
        ),
        (CLUSTERS, "links (line 1): is missing. What is mirrored"),
        (f"{CLUSTERS}links:\n", "links (line 4): names none. What is mirrored"),
        (f"{CLUSTERS}links: [a]\n", "links (line 4): must be groups by name, not a list"),
        (f"{CLUSTERS}links: {{a: b}}\n", "links.a (line 4): must be a group of settings, not a si"),
        (
            BASE.replace("  a:", "  a.b:"),
            "links.a.b (line 6): cannot be a name here. Allowed: 1 to",
        ),
        (BASE.replace("  a:", "  a b:"), "links.'a…' (line 6): cannot be a name here"),
        (
            BASE.replace("target: dublin", "target: dubln"),
            "links.a.target (line 8): there is no cl",
        ),
        (WITHOUT_TOPICS, "links.a.topics (line 6): is missing. The topics to copy. Allowed: a nam"),
        (f"{WITHOUT_TOPICS}    topics: []\n", "links.a.topics (line 9): is empty. Allowed"),
        (
            f"{WITHOUT_TOPICS}    topics: ['orders, payments']\n",
            "links.a.topics (line 9): 'orders, payments' can match no topic: write a list",
        ),
        (
            f"{BASE}  a: {{source: paris, target: dublin, topics: [x]}}\n",
            "links.a (line 10): already given in line 6. Only one can count: remove the other",
        ),
        (
            BASE.replace("  dublin:", "  paris: {bootstrap.servers: x:1}\n  dublin:"),
            "clusters.paris (line 3): already given in line 2",
        ),
        (
            BASE.replace('"paris-1:9092"}', "x:1, allow_literal_secrets: 5}"),
            "clusters.paris.allow_literal_secrets (line 2): '5' is neither true nor false",
        ),
        (
            BASE.replace('{bootstrap.servers: "paris-1:9092"}', "paris-1:9092"),
            "clusters.paris (line 2): must be a group of properties, as in {bootstrap.servers",
        ),
    ],
)
def test_a_mistake_elsewhere_is_reported_too(text: str, expected: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(expected)


def test_an_unknown_cluster_is_told_with_the_known_ones() -> None:
    (found,) = mistakes(BASE.replace("source: paris", "source: pari"))
    assert found.endswith("no cluster 'pari'. Did you mean paris? Known: paris, dublin")


SAME_CLUSTER = BASE.replace("target: dublin", "target: paris")


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ("", "the mirror would copy itself without end"),
        ("    allow_same_cluster: false\n", "is the source too, and allow_same_cluster is false"),
        ("    allow_same_cluster: true\n", "mirrors need other names: set naming to prefix"),
    ],
)
def test_a_link_from_a_cluster_to_itself_is_refused(added: str, words: str) -> None:
    (found,) = mistakes(SAME_CLUSTER + added)
    assert found.startswith("links.a.target (line 8): ") and words in found


def test_a_link_from_a_cluster_to_itself_may_be_allowed_under_other_names() -> None:
    added = "    allow_same_cluster: true\n    naming: copy-{topic}\n"
    assert load(SAME_CLUSTER + added).links["a"].naming == "copy-{topic}"


@pytest.mark.parametrize(
    ("topics", "both"),
    [
        ("[orders]", "orders"),
        ("[x, orders]", "orders"),
        ("['ord.*']", "orders"),
        ("['.*'], exclude: [payments]", "orders"),
        ("[payments]", ""),
        ("['.*'], exclude: ['o.*']", ""),
        ("[orders], naming: prefix", ""),
        ("[order.]", ""),
    ],
)
def test_two_links_that_would_write_one_mirror_are_refused(topics: str, both: str) -> None:
    text = f"{BASE}  b: {{source: paris, target: dublin, topics: {topics}}}\n"
    if not both:
        assert list(load(text).links) == ["a", "b"]
        return
    (found,) = mistakes(text)
    assert found.startswith(f"links.b.topics (line 10): {both}: the link a copies this too")


@pytest.mark.parametrize(
    ("first", "second", "is_fine"),
    [
        ("", "", False),
        (", mirrors: {merge: true}", "", False),
        (", mirrors: {merge: true}", ", mirrors: {merge: true}", True),
        (", origin: local", ", origin: local", True),
        ("", ", naming: prefix", True),
        (", naming: 'from-{topic}'", ", naming: 'from-{topic}'", False),
    ],
)
def test_two_clusters_share_a_mirror_only_where_both_links_say_so(
    first: str, second: str, is_fine: bool
) -> None:
    clusters = "".join(f"  {one}: {{bootstrap.servers: a:1}}\n" for one in ("a", "b", "hub"))
    links = [
        f"  {one}: {{source: {one}, target: hub, topics: [orders]{more}}}\n"
        for one, more in (("a", first), ("b", second))
    ]
    text = f"clusters:\n{clusters}links:\n{''.join(links)}"
    if is_fine:
        assert list(load(text).links) == ["a", "b"]
        return
    (found,) = mistakes(text)
    assert "the link a writes to " in found and "merge: true" in found


def test_a_topic_that_only_the_default_would_leave_out_is_refused() -> None:
    text = WITHOUT_TOPICS + "    topics: [orders, orders-internal]\n"
    (found,) = mistakes(text)
    assert found.startswith("links.a.topics (line 9): orders-internal would not be copied")
    assert load(text + "    exclude: []\n").links["a"].exclude == ()
    assert load(text + "    exclude: ['.*-internal']\n").links["a"].topics[1] == "orders-internal"


@pytest.mark.parametrize("wrong", ["naming: '{x}'", "exclude: ['(']", "topics: [orders, '(']"])
def test_what_a_wrong_setting_may_have_meant_is_not_guessed(wrong: str) -> None:
    b = {"source": "paris", "target": "dublin", "topics": "[orders]"}
    key, _, value = wrong.partition(": ")
    given = ", ".join(f"{name}: {text}" for name, text in (b | {key: value}).items())
    (found,) = mistakes(f"{BASE}  b: {{{given}}}\n")
    assert found.startswith(f"links.b.{key} (line 10): ")


def test_links_without_ends_are_not_compared() -> None:
    found = mistakes(f"{CLUSTERS}links: {{a: {{topics: [x]}}, b: {{topics: [x]}}}}\n")
    assert [line.split(":")[1].split(".")[0] for line in found] == [" is missing"] * 4


def test_links_in_both_directions_are_no_overlap() -> None:
    text = f"{BASE}  b: {{source: dublin, target: paris, topics: [orders], origin: local}}\n"
    assert list(load(text).links) == ["a", "b"]


def test_every_mistake_of_a_file_is_reported_in_its_order() -> None:
    text = """\
spark: {master: mars}
clusters:
  paris: {bootstrap.servers: x}
  par.is: {}
links:
  one:
    source: pariss
    target: paris
    topics: [orders, "("]
    on_gap: go
    on_gap: stop
    sync:
      topics: 5
      acl: off
  two:
    source: paris
    topics:
      - orders
      - "*"
dashbord: {}
"""
    found = mistakes(text)
    assert [line.partition("): ")[0] for line in found] == [
        "spark.master (line 1",
        "clusters.par.is (line 4",
        "links.one.source (line 7",
        "links.one.topics (line 9",
        "links.one.on_gap (line 10",
        "links.one.on_gap (line 11",
        "links.one.sync.topics (line 13",
        "links.one.sync.acl (line 14",
        "links.two.target (line 15",
        "links.two.topics (line 19",
        "dashbord (line 20",
    ]


def test_what_the_check_of_a_cluster_finds_stands_in_its_place() -> None:
    text = """\
links: {a: {source: paris, target: dublin, topics: [x], on_gap: go}}
clusters:
  paris:
    sasl.password: hunter2
    bootstrap.servers: paris-1
    allow_literal_secrets: true
  dublin:
    client.id: x
"""
    asked: list[ClusterConfig] = []

    def check(cluster: ClusterConfig) -> list[str]:
        asked.append(cluster)
        if cluster.name == "dublin":
            return ["bootstrap.servers is missing. Name at least one broker as host:port"]
        return ["bootstrap.servers: 'paris-1' has no port", "sasl.password holds a secret"]

    with pytest.raises(ConfigError) as refused:
        load(text, check_cluster=check)
    _, *lines = refused.value.message.split("\n  - ")
    assert lines == [
        "links.a.on_gap (line 1): 'go' is not allowed. Allowed: stop or skip",
        "clusters.paris.sasl.password (line 4): sasl.password holds a secret",
        "clusters.paris.bootstrap.servers (line 5): 'paris-1' has no port",
        "clusters.dublin (line 7): bootstrap.servers is missing. Name at least one broker as "
        "host:port",
    ]
    assert [(one.name, one.allow_literal_secrets) for one in asked] == [
        ("paris", True),
        ("dublin", False),
    ]


def test_a_cluster_whose_properties_are_right_passes_the_check() -> None:
    assert load(BASE, check_cluster=lambda _: []) == load(BASE)
