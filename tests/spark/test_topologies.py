"""The examples, each on real clusters: what a topology promises, it keeps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.wiring import load_config
from tests.broker.linked import produce
from tests.checker.reading import Reader, read_partition
from tests.faults.engine import ROOT, Link, running, until
from tests.making import create_topic

REGIONS = ("paris", "dublin", "oslo")
EXAMPLES = ROOT / "examples"
SOAK = ROOT / "tests" / "soak" / "test_engine_mesh.py"

Regions = Mapping[str, str]
"""Bootstrap servers by region."""


@pytest.fixture(scope="module")
def regions(clusters_folder: Path) -> Iterator[Regions]:
    started = start(*(Spec(name=name) for name in REGIONS), under=clusters_folder)
    yield {cluster.name: cluster.bootstrap for cluster in started}
    for cluster in started:
        cluster.stop()


def example(name: str, regions: Regions, folder: Path) -> Link:
    """Return an example as it stands, but for the addresses."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    for region, bootstrap in regions.items():
        text = text.replace(f"{region}-1:9092", bootstrap)
    file = folder / "heliograph.yaml"
    file.write_text(text)
    return Link(name, file, regions["paris"], regions["dublin"])


def write(regions: Regions, topic: str, *names: str, count: int = 20, tag: str = "") -> set[bytes]:
    """Write records to a topic of some regions; each says where it is from."""
    written = set()
    for name in names:
        values = [f"{name}{tag} {number}".encode() for number in range(count)]
        produce(regions[name], topic, values)
        written |= set(values)
    return written


def found(bootstrap: str, topic: str, *, committed: bool = True) -> Counter[bytes | None]:
    """Count each record of a topic."""
    with Reader(bootstrap, committed=committed) as reader:
        count = reader.partitions(topic)
    rows = (read_partition(bootstrap, topic, one, committed=committed) for one in range(count))
    return Counter(seen.value for some in rows for _, seen in some)


def topics_of(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics)


def holds(bootstrap: str, topic: str, wanted: set[bytes]) -> None:
    """Claim: each record is there once, for every reader, and nothing else is."""
    for committed in (True, False):
        assert found(bootstrap, topic, committed=committed) == Counter(wanted)


def test_every_example_can_be_loaded_and_has_a_test() -> None:
    for file in EXAMPLES.glob("*.yaml"):
        assert load_config(file).links
        tests = Path(__file__).read_text() + SOAK.read_text()
        assert f'"{file.stem}"' in tests, f"{file.name} is not tested"


def test_a_migration_copies_what_is_selected_under_its_own_name(
    regions: Regions, tmp_path: Path
) -> None:
    for topic in ("billing.orders", "billing.scratch", "elsewhere"):
        create_topic(regions["paris"], topic, 2)
    wanted = write(regions, "billing.orders", "paris")
    sync("migration", regions, tmp_path)
    holds(regions["dublin"], "billing.orders", wanted)
    assert not {"billing.scratch", "elsewhere"} & topics_of(regions["dublin"])


def test_a_standby_holds_what_the_active_side_has(regions: Regions, tmp_path: Path) -> None:
    wanted = {}
    for topic in ("orders", "payments"):
        create_topic(regions["paris"], topic)
        wanted[topic] = write(regions, topic, "paris")
    sync("active-standby", regions, tmp_path)
    for topic, values in wanted.items():
        holds(regions["dublin"], topic, values)


def test_a_hub_keeps_regions_apart_by_prefix(regions: Regions, tmp_path: Path) -> None:
    wanted = {}
    for name in ("paris", "dublin"):
        create_topic(regions[name], "readings")
        wanted[name] = write(regions, "readings", name)
    sync("hub-apart", regions, tmp_path)
    for name, values in wanted.items():
        holds(regions["oslo"], f"{name}.readings", values)


def test_a_hub_merges_regions_into_one_topic(regions: Regions, tmp_path: Path) -> None:
    wanted: set[bytes] = set()
    for count, name in enumerate(("paris", "dublin"), 2):
        create_topic(regions[name], "events", count)  # the hub's topic grows to the larger one
        wanted |= write(regions, "events", name)
    sync("hub-merged", regions, tmp_path)
    holds(regions["oslo"], "events", wanted)


def test_prefixed_names_both_ways_stop_after_one_hop(regions: Regions, tmp_path: Path) -> None:
    wanted = {}
    for name in ("paris", "dublin"):
        create_topic(regions[name], "chats")
        wanted[name] = write(regions, "chats", name)
    for number in range(2):  # mirrors are there by the second
        sync("active-active-prefix", regions, tmp_path, f"run-{number}")
    holds(regions["dublin"], "paris.chats", wanted["paris"])
    holds(regions["paris"], "dublin.chats", wanted["dublin"])
    assert "dublin.paris.chats" not in topics_of(regions["paris"])


def test_a_chain_passes_records_on(regions: Regions, tmp_path: Path) -> None:
    create_topic(regions["paris"], "prices")
    wanted = write(regions, "prices", "paris")
    link = example("chain", regions, tmp_path)
    with running(link, tmp_path / "run") as driver:
        arrive(regions, "prices", {"oslo": wanted})
        assert driver.end() == 0, driver.said
    holds(regions["oslo"], "prices", wanted)


@pytest.mark.timeout(600)
def test_one_name_on_both_sides_has_each_record_once(regions: Regions, tmp_path: Path) -> None:
    meet("active-active", "profiles", REGIONS[:2], regions, tmp_path)


def meet(name: str, topic: str, members: tuple[str, ...], regions: Regions, tmp_path: Path) -> None:
    """Write everywhere under one name, kill the mirror in between: each record is there once."""
    link = example(name, regions, tmp_path)
    for one in members:
        create_topic(regions[one], topic)
    wanted = write(regions, topic, *members)
    with running(link, tmp_path / "first") as driver:
        arrive(regions, topic, dict.fromkeys(members, wanted))
        wanted |= write(regions, topic, *members, tag=" late", count=200)
        driver.kill()  # claims follow, and matches among records of others
    wanted |= write(regions, topic, *members, tag=" down")
    with running(link, tmp_path / "second") as driver:
        arrive(regions, topic, dict.fromkeys(members, wanted))
        wanted |= write(regions, topic, *members, tag=" again")
        arrive(regions, topic, dict.fromkeys(members, wanted))
        time.sleep(2)  # whatever goes round would come back by now
        assert driver.end() == 0, driver.said
    for one in members:
        holds(regions[one], topic, wanted)


def arrive(regions: Regions, topic: str, wanted: Mapping[str, set[bytes]]) -> None:
    """Wait until regions have read at least these."""
    for region, values in wanted.items():

        def has_all(region: str = region, values: set[bytes] = values) -> bool:
            return values <= set(found(regions[region], topic))

        until(has_all, 120, f"{region} has not all of {topic}")


def sync(name: str, regions: Regions, folder: Path, run: str = "run") -> None:
    """Copy what is there, over all links of an example."""
    with running(example(name, regions, folder), folder / run, "--until-synced") as driver:
        assert driver.wait(120) == 0, driver.said
