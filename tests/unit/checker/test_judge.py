"""The checker's judgement: a correct mirror is clean, each anomaly is red under its own name."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.ledger import Gap, Ledger
from tests.checker.pairs import Pairs
from tests.checker.reading import APPEND_TIME, CREATE_TIME
from tests.checker.walk import Sourced
from tests.unit.checker.worlds import Image, World, make, seen, unique

SEEDS = st.integers(0, 2**32)


def images_of(world: World) -> list[int]:
    return [target for target, image in enumerate(world.images) if image is not None]


def lose(world: World, chance: random.Random) -> None:
    # Not the last: behind the last image a record is not copied yet.
    del world.images[chance.choice(images_of(world)[:-1])]


def repeat(world: World, chance: random.Random) -> None:
    at = chance.choice(images_of(world))
    image = world.images[at]
    assert image is not None
    world.images.insert(chance.randrange(at + 1, len(world.images) + 1), Image(image.seen, None))


def swap(world: World, chance: random.Random) -> None:
    first, second = sorted(chance.sample(images_of(world), 2))
    one, other = world.images[first], world.images[second]
    assert one is not None and other is not None
    world.images[first] = Image(other.seen, one.source)
    world.images[second] = Image(one.seen, other.source)


def invent(world: World, chance: random.Random) -> None:
    at = chance.randrange(len(world.images) + 1)
    world.images.insert(at, Image(seen(b"invented"), None))


def change(world: World, chance: random.Random) -> None:
    at = chance.choice(images_of(world))
    image = world.images[at]
    assert image is not None
    world.images[at] = Image(seen(b"changed"), image.source)


def copy_aborted(world: World, _: random.Random) -> None:
    world.source.append(Sourced(world.source[-1].offset + 1, seen(b"aborted"), False))
    world.images.append(Image(seen(b"aborted"), world.source[-1].offset))
    invented = Sourced(world.source[-1].offset + 1, seen(b"last"))
    world.source.append(invented)
    world.images.append(Image(invented.seen, invented.offset))


INJECTIONS: dict[str, Callable[[World, random.Random], None]] = {
    "lost": lose,
    "duplicate": repeat,
    "reordered": swap,
    "phantom": invent,
    "mismatch": change,
    "aborted": copy_aborted,
}


@given(SEEDS)
def test_a_correct_mirror_is_clean(seed: int) -> None:
    walked, findings = make(random.Random(seed)).find()
    assert findings == []
    assert walked.not_copied == 0


@given(SEEDS)
def test_a_mirror_that_is_behind_is_clean_unless_it_must_be_complete(seed: int) -> None:
    world = make(random.Random(seed))
    world.source.append(Sourced(world.source[-1].offset + 1, seen(b"new")))
    world.ledger = make(random.Random(seed)).recorded()
    assert world.names() == set()
    assert world.names(is_complete=True) == {"lost"}


@pytest.mark.parametrize("name", INJECTIONS)
@given(seed=SEEDS)
def test_an_anomaly_is_found_under_its_own_name(name: str, seed: int) -> None:
    chance = random.Random(seed)
    world = make(chance, alike=0.0)
    world.unrecorded = 0
    INJECTIONS[name](world, chance)
    assert world.names() == {name}


@pytest.mark.parametrize("name", ["lost", "duplicate", "phantom"])
@given(seed=SEEDS)
def test_records_that_are_alike_do_not_confuse_it(name: str, seed: int) -> None:
    chance = random.Random(seed)
    world = make(chance, alike=0.9)
    world.unrecorded = 0
    INJECTIONS[name](world, chance)
    assert world.names() == {name}


@pytest.mark.parametrize("name", ["duplicate", "reordered", "phantom", "mismatch"])
@given(seed=SEEDS)
def test_an_anomaly_that_is_not_recorded_yet_is_found_by_order(name: str, seed: int) -> None:
    chance = random.Random(seed)
    world = make(chance, alike=0.0)
    INJECTIONS[name](world, chance)
    world.unrecorded = len(world.images)
    assert name in world.names() <= {name, "ledger-lie"}


def test_a_record_lost_behind_the_ledgers_end_is_all_that_is_told() -> None:
    world = unique()
    del world.images[5]
    world.unrecorded = 9
    assert world.names() == {"lost"}


def test_a_record_behind_all_images_is_not_copied_yet_whatever_stands_in_its_place() -> None:
    world = unique()
    world.images[9] = Image(seen(b"3"), None)
    world.unrecorded = 5
    assert world.names() == {"duplicate"}


def test_an_image_that_comes_late_is_reordered_though_no_run_names_it() -> None:
    world = unique()
    late = world.images.pop(2)
    assert late is not None
    world.images.append(Image(late.seen, None))
    assert world.names() == {"reordered"}


def plain_ledger(world: World, *runs: tuple[int, int, int]) -> World:
    """Doctor the ledger: other runs under the same ends."""
    world.ledger = world.recorded()
    world.ledger.runs = Pairs()
    for run in runs:
        world.ledger.runs.add(*run)
    return world


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([(0, 1, 9)], id="shifted"),
        pytest.param([(0, 0, 5), (6, 5, 4)], id="skips a record"),
        pytest.param([(0, 0, 5), (5, 6, 4)], id="skips an image"),
        pytest.param([], id="empty"),
    ],
)
def test_a_ledger_that_points_elsewhere_lies(runs: list[tuple[int, int, int]]) -> None:
    assert plain_ledger(unique(), *runs).names() == {"ledger-lie"}


def test_a_run_past_both_ends_is_a_lie() -> None:
    world = plain_ledger(unique(), (0, 0, 12))
    assert world.ledger is not None
    world.ledger.source_next = world.ledger.target_next = 12
    assert world.names() == {"ledger-lie"}


def test_a_run_over_markers_is_a_lie() -> None:
    world = unique(4)
    world.source[2] = world.source[2]._replace(offset=3)
    world.source[3] = world.source[3]._replace(offset=4)
    world.images = [Image(record.seen, record.offset) for record in world.source]
    world.images.insert(2, None)
    assert world.names() == set()
    assert plain_ledger(world, (0, 0, 5)).names() == {"ledger-lie"}


def test_a_ledger_ahead_of_its_mirror_lies_and_loses() -> None:
    world = unique()
    world.ledger = world.recorded()
    del world.images[8:]
    assert world.names() == {"lost", "ledger-lie"}


def test_a_run_over_an_image_that_is_not_there_is_a_lie_too() -> None:
    world = unique()
    world.ledger = world.recorded()
    world.images[5] = None
    assert world.names() == {"lost", "ledger-lie"}


@pytest.mark.parametrize("end", ["source_next", "target_next"])
def test_a_ledger_whose_end_is_past_that_of_the_log_lies(end: str) -> None:
    world = unique()
    world.ledger = world.recorded()
    setattr(world.ledger, end, 12)
    assert world.names() == {"ledger-lie"}


def test_a_mirror_without_a_ledger_is_compared_by_order() -> None:
    world = unique()
    world.ledger = Ledger(exists=False)
    walked, findings = world.find()
    assert {str(finding.name) for finding in findings} == {"ledger-lie"}
    assert walked.equal == 10


def test_an_image_that_only_uncommitted_readers_see_is_lost_to_the_others() -> None:
    world = unique()
    world.hidden = {3}
    assert world.names() == {"lost"}


@pytest.mark.parametrize("kind", [CREATE_TIME, APPEND_TIME])
def test_a_timestamp_keeps_its_value_and_becomes_a_create_time(kind: int) -> None:
    world = unique()
    world.source = [
        record._replace(seen=record.seen._replace(timestamp_type=kind)) for record in world.source
    ]
    assert world.names() == set()
    world.images[3] = Image(seen(b"3", timestamp_type=APPEND_TIME), 3)
    assert world.names() == {"mismatch"}


@pytest.mark.parametrize(
    "fields",
    [
        {"key": None},
        {"key": b""},
        {"value": b""},
        {"timestamp": 1_001},
        {"headers": (("a", b"1"),)},
        {"headers": (("a", None), ("b", b""))},
        {"headers": (("b", b""), ("a", b""))},
        {"headers": (("a", b""), ("b", b""), ("b", b""))},
    ],
    ids=str,
)
def test_every_field_is_compared(fields: dict[str, Any]) -> None:
    world = unique()
    headers = (("a", b""), ("b", b""))
    world.source[3] = world.source[3]._replace(seen=seen(None, headers=headers))
    world.images[3] = Image(seen(None, headers=headers), 3)
    assert world.names() == set()
    world.images[3] = Image(seen(None, headers=headers)._replace(**fields), 3)
    assert world.names() == {"mismatch"}


# What retention and compaction took


def with_hole(start: int, end: int) -> World:
    """Return a world whose mirror lacks source offsets, as the ledger's runs admit."""
    world = unique()
    del world.images[start:end]
    return world


def test_offsets_that_the_source_lost_before_they_were_copied_need_a_gap() -> None:
    world = with_hole(3, 6)
    world.source_start = 6
    assert world.names() == {"gap-unreported"}
    world.gaps = [Gap(3, 5, "retention")]
    assert world.names() == {"gap-unreported"}
    world.gaps = [Gap(3, 6, "retention")]
    assert world.names() == set()


def test_a_gap_over_records_that_the_source_still_has_must_be_allowed() -> None:
    world = with_hole(3, 6)
    assert world.names() == {"lost"}
    world.gaps = [Gap(3, 6, "refused")]
    assert world.names() == {"lost"}
    assert world.names(gaps_ok=True) == set()


def test_a_quarantined_record_needs_its_entry() -> None:
    world = with_hole(3, 5)
    world.gaps = [Gap(3, 5, "quarantined: too large")]
    assert world.names(quarantined={3, 4}) == set()
    assert world.names(quarantined={3}) == {"lost"}


def test_images_whose_source_is_gone_are_counted_and_not_judged() -> None:
    world = unique()
    world.source_start = 4
    walked, findings = world.find()
    assert (walked.unverified, walked.equal, findings) == (4, 6, [])


def test_records_whose_images_retention_took_are_not_lost() -> None:
    world = unique()
    world.mirror_start = 4
    walked, findings = world.find()
    assert (walked.equal, findings) == (6, [])
    # The ledger forgets the runs that retention has passed.
    assert plain_ledger(world, (3, 3, 7)).names() == set()


def test_what_the_ledger_forgot_with_the_mirrors_retention_is_no_gap() -> None:
    world = unique()
    world.mirror_start, world.source_start = 7, 8
    world.gaps = [Gap(2, 3, "retention")]
    assert plain_ledger(world, (7, 7, 3)).names() == set()


def test_a_hole_in_a_transactional_source_that_is_gone_may_have_been_markers() -> None:
    world = with_hole(3, 4)
    world.source_start = 5
    del world.source[7]
    world.images = [image for image in world.images if image is None or image.source != 7]
    assert world.names() == set()


def test_images_of_records_that_the_source_compacted_away_are_not_phantoms() -> None:
    world = unique()
    world.source = world.source[::3]
    world.source_end = 10
    world.is_compacted = True
    walked, findings = world.find()
    assert (walked.unverified, walked.equal, findings) == (6, 4, [])


def test_a_record_that_a_compacted_source_still_has_must_have_its_image() -> None:
    world = unique()
    del world.images[3]
    world.source = world.source[::3]
    world.source_end = 10
    world.is_compacted = True
    assert world.names() == {"lost"}


def test_images_of_a_topic_that_was_recreated_are_left_alone() -> None:
    world = unique()
    old = [Image(seen(b"old"), None), Image(seen(b"older"), None)]
    world.images = [*old, *world.images]
    assert world.names() == {"phantom"}
    world.gaps = [Gap(0, 0, "topic recreated: the one before it was copied up to 2")]
    assert world.names() == set()


def test_a_walk_with_too_much_wrong_stops_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.checker.walk.MOST_KEPT", 10)
    walked, findings = plain_ledger(unique(50), (0, 1, 49)).find()
    assert walked.stopped_at is not None and walked.stopped_at < 10
    assert {str(finding.name) for finding in findings} == {"ledger-lie"}
