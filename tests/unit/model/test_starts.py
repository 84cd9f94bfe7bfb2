"""Where partitions begin that were never mirrored."""

from types import MappingProxyType
from uuid import UUID

from heliograph.model.control import Added, Begun, FirstLook
from heliograph.model.starts import Starts, undecided
from heliograph.model.topics import Partition, PartitionView, TopicView

LATEST, TIME = Starts("latest"), Starts(1_767_225_600_000)
FIRST = FirstLook(1, "cluster")


def topic(name: str, count: int, number: int = 1) -> TopicView:
    parts = {n: PartitionView(n, 1, 0, (1,), (1,)) for n in range(count)}
    return TopicView(name, UUID(int=number), MappingProxyType(parts), False)


def decided(view: TopicView, *offsets: int) -> dict[str, Begun]:
    return {view.topic: Begun(str(view.topic_id), offsets)}


def test_earliest_needs_no_decision() -> None:
    assert undecided({"a": topic("a", 2)}, Starts(), (), {}, None) == {}


def test_at_the_first_look_latest_is_the_end() -> None:
    found = undecided({"a": topic("a", 2)}, LATEST, (), {}, None)
    assert found == {Partition("a", 0): "latest", Partition("a", 1): "latest"}


def test_a_topic_that_appears_later_is_new_as_a_whole() -> None:
    assert undecided({"a": topic("a", 1)}, LATEST, (), {}, FIRST) == {Partition("a", 0): "earliest"}


def test_a_partition_that_appears_later_is_new_as_a_whole() -> None:
    view = topic("a", 3)
    for first in (None, FIRST):
        found = undecided({"a": view}, LATEST, (), decided(view, 7, 8), first)
        assert found == {Partition("a", 2): "earliest"}


def test_what_is_noted_is_decided() -> None:
    view = topic("a", 2)
    assert undecided({"a": view}, LATEST, (), decided(view, 7, 8), FIRST) == {}


def test_a_topic_made_anew_is_another() -> None:
    view, before = topic("a", 1, 2), topic("a", 1)
    found = undecided({"a": view}, LATEST, (), decided(before, 7), FIRST)
    assert found == {Partition("a", 0): "earliest"}


def test_a_time_holds_for_what_appears_later_as_well() -> None:
    found = undecided({"a": topic("a", 1)}, TIME, (), {}, FIRST)
    assert found == {Partition("a", 0): TIME.default}


def test_what_a_command_added_is_looked_at_for_the_first_time_once() -> None:
    added = (Added("a.*", "latest"),)
    views = {"ab": topic("ab", 1)}
    assert undecided(views, Starts(), added, {}, FIRST) == {Partition("ab", 0): "latest"}
    seen = FirstLook(1, "cluster", ("a.*",))
    assert undecided(views, Starts(), added, {}, seen) == {Partition("ab", 0): "earliest"}


def test_the_narrowest_word_counts() -> None:
    starts = Starts("earliest", {"a": "latest", "a.*": 5})
    assert [starts.of(one, ()) for one in ("a", "ab", "b")] == ["latest", 5, "earliest"]
    assert starts.of("a", (Added("a", "earliest"),)) == "earliest"
    assert starts.of("a", (Added("a"),)) == "latest"
