from uuid import UUID

import pytest

from heliograph.errors import ConfigError, SlotsShort
from heliograph.model.configs import ConfigEntry, ConfigSource, NewTopic
from heliograph.model.mirrors import (
    Alter,
    Grow,
    SettingRules,
    Settings,
    alteration,
    mirror_configs,
    missing,
)
from heliograph.model.selection import mirror_name, select
from heliograph.model.slots import check_slots, full_master, slots_of, tasks_for
from heliograph.model.topics import PartitionView, TopicView


def topic(name: str, partitions: int, replicas: int = 1) -> TopicView:
    in_order = tuple(range(replicas))
    views = {n: PartitionView(n, 0, 0, in_order, in_order) for n in range(partitions)}
    return TopicView(name, UUID(int=1), views)


def test_an_absent_mirror_is_created_with_the_partitions_of_its_source() -> None:
    actions = missing({"a": topic("a", 3)}, {"a": "p.a"}, {}, {"a": {"x": "y"}}, "target")
    assert actions == [NewTopic("p.a", 3, None, {"x": "y"})]


def test_a_smaller_mirror_grows_and_a_larger_one_is_left_alone() -> None:
    sources = {"a": topic("a", 3), "b": topic("b", 3)}
    targets = {"a": topic("a", 2), "b": topic("b", 5)}
    assert missing(sources, {"a": "a", "b": "b"}, targets, {}, "target") == [Grow("a", 3)]


@pytest.mark.parametrize(("wanted", "factor"), [("target", None), ("source", 3), (2, 2)])
def test_the_replication_factor_is_as_told(wanted: str | int, factor: int | None) -> None:
    actions = missing({"a": topic("a", 1, replicas=3)}, {"a": "a"}, {}, {}, wanted)  # type: ignore[arg-type]
    assert actions == [NewTopic("a", 1, factor, {})]


def settings(
    own: dict[str, str], others: dict[str, str] | None = None, source: str = ConfigSource.DEFAULT
) -> Settings:
    """Return settings of a topic: those that were set on it, and others from elsewhere."""
    entries = [ConfigEntry(*pair, ConfigSource(source)) for pair in (others or {}).items()]
    entries += [ConfigEntry(*pair, ConfigSource.TOPIC) for pair in own.items()]
    return {entry.name: entry for entry in entries}


DEFAULTS = {"retention.ms": "7", "cleanup.policy": "delete", "max.message.bytes": "1048588"}


def test_a_mirror_takes_what_was_set_on_its_source_but_for_what_is_left_out() -> None:
    source = settings({"retention.ms": "5", "min.insync.replicas": "2"}, DEFAULTS)
    configs = mirror_configs(source, SettingRules(["min\\.insync\\..*"]))
    assert configs["retention.ms"] == "5"
    assert not {"min.insync.replicas", "cleanup.policy"} & configs.keys()


def test_batches_pass_a_mirror_untouched() -> None:
    own = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
    source = settings(own, {"max.message.bytes": "5000000"}, ConfigSource.FILE)
    configs = mirror_configs(source, SettingRules())
    assert configs["compression.type"] == "producer"
    assert configs["message.timestamp.type"] == "CreateTime"
    assert configs["max.message.bytes"] == "5000000"


def test_a_mirror_is_never_smaller_than_joined_batches() -> None:
    configs = mirror_configs(settings({"max.message.bytes": "1000"}), SettingRules())
    assert configs["max.message.bytes"] == "1048588"


def mirror(set_: dict[str, str] | None = None) -> Settings:
    """Return the settings of a mirror as it was made, and what was set on it since."""
    made = {"max.message.bytes": "1048588", "compression.type": "producer"}
    return settings({**made, **(set_ or {})}, DEFAULTS)


def altered(
    source: dict[str, str], target: dict[str, str], *exclude: str, is_ours: bool = True
) -> Alter | None:
    rules = SettingRules(exclude)
    return alteration("m", settings(source, DEFAULTS), mirror(target), rules, is_ours=is_ours)


def test_a_mirror_in_step_is_left_alone() -> None:
    assert altered({}, {}) is None
    assert altered({"retention.ms": "5"}, {"retention.ms": "5"}) is None


def test_what_is_set_on_the_source_is_set_and_what_is_unset_there_is_unset() -> None:
    five, nine = {"retention.ms": "5"}, {"retention.ms": "9"}
    assert altered(five, {}) == altered(five, nine) == Alter("m", five)
    assert altered({}, {"retention.ms": "9"}) == Alter("m", {}, ("retention.ms",))


def test_a_setting_equal_to_the_default_is_set_all_the_same() -> None:
    assert altered({"retention.ms": "7"}, {}) == Alter("m", {"retention.ms": "7"})


def test_edits_of_what_is_left_out_survive() -> None:
    assert altered({"retention.ms": "5"}, {"retention.ms": "9"}, "retention[.].*") is None
    assert altered({}, {"retention.ms": "9"}, "retention[.].*") is None
    assert altered({}, {"compression.type": "zstd"}) is None


def test_what_the_target_does_not_know_is_told() -> None:
    assert altered({"vendor.key": "x"}, {}) == Alter("m", {}, (), ("vendor.key",))


def test_a_topic_of_others_keeps_what_decides_which_records_are_deleted() -> None:
    assert altered({"cleanup.policy": "compact"}, {}, is_ours=False) is None
    assert altered({}, {"retention.ms": "9"}, is_ours=False) is None
    assert altered({"segment.ms": "9"}, {"segment.ms": "1"}, is_ours=False) is not None


def test_defaults_of_the_source_are_set_only_where_the_targets_differ() -> None:
    rules = SettingRules((), "source")
    source = settings({}, {"retention.ms": "5", "cleanup.policy": "delete"})
    five = {"retention.ms": "5"}
    assert alteration("m", source, mirror(), rules, is_ours=True) == Alter("m", five)
    assert alteration("m", source, mirror(five), rules, is_ours=True) is None


def test_names_are_names_and_patterns_match_the_whole_name() -> None:
    topics = ["a.b", "axb", "orders", "orders2", "__heliograph.l.ledger"]
    assert select(topics, ["a.b", "orders"], []) == ["a.b", "orders"]
    assert select(topics, ["orders.*", "a[.]b"], ["orders2"]) == ["a.b", "orders"]
    assert select(topics, [".*"], []) == ["a.b", "axb", "orders", "orders2"]


@pytest.mark.parametrize("template", ["{topic}/x", "", "x" * 250 + "{topic}"])
def test_an_illegal_mirror_name_says_what_to_change(template: str) -> None:
    with pytest.raises(ConfigError, match="Change naming, or exclude it"):
        mirror_name(template, "paris", "orders")


def test_too_few_slots_are_refused_with_what_to_do() -> None:
    with pytest.raises(SlotsShort, match=r"need 12 slots and it has 8.*4 more slots"):
        check_slots(8, 12)
    check_slots(8, 8)


def test_a_bare_local_master_has_room_for_all() -> None:
    assert slots_of(full_master("local", 50, cores=2)) == 50
    assert slots_of(full_master("local[*]", 50, cores=2)) == 2
    assert full_master("local[4,7]", 1, cores=2) == "local[4,7]"
    assert slots_of("spark://host:7077") is None


def test_links_share_the_cores() -> None:
    assert tasks_for(None, partitions=100, slots=32, links=40, cores=8) == 1
    assert tasks_for(None, partitions=100, slots=32, links=2, cores=8) == 4
    assert tasks_for(None, partitions=100, slots=32, links=1, cores=1) == 1
    assert tasks_for(None, partitions=1, slots=32, links=1, cores=8) == 1
