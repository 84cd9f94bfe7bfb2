"""The load generator on a real broker: its journal is the truth that the checker holds up."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checker.check import Scope, check
from tests.checker.follow import following
from tests.checker.journal import read_journal
from tests.checker.reading import Reader
from tests.doubles.mirrored import LINK, Pair, delete_before, ensure_ledger
from tests.making import create_topic

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pair(source: Any, target: Any, topic_name: str) -> Pair:
    ensure_ledger(target.bootstrap)
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name)
    return Pair(source.bootstrap, target.bootstrap, topic_name)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


Start = Callable[..., subprocess.Popen[str]]
Load = Callable[..., dict[str, int]]


@pytest.fixture
def start(journal: Path) -> Iterator[Start]:
    """Start the generator as tests do; none outlives its test."""
    loads: list[subprocess.Popen[str]] = []

    def start(pair: Pair, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.load", "--bootstrap", pair.source]
        command += ["--topic", pair.topic, "--journal", str(journal), *more]
        pipe = subprocess.PIPE
        loads.append(subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True))
        return loads[-1]

    yield start
    for running in loads:
        running.kill()
        running.communicate()


@pytest.fixture
def load(start: Start) -> Load:
    """Run the generator for a second; return how many writes had which outcome."""
    return lambda pair, *more: end(start(pair, "--seconds", "1", *more))


def end(running: subprocess.Popen[str]) -> dict[str, int]:
    """Wait for a generator; return how many writes had which outcome."""
    out, error = running.communicate(timeout=60)
    assert running.returncode == 0, error
    outcomes: dict[str, int] = json.loads(out)
    return outcomes


def names(pair: Pair, journal: Path, *, gaps_ok: bool = False) -> set[str]:
    with journal.open() as lines:
        accounts = read_journal(lines)
    topics = {pair.topic: pair.topic}
    scope = Scope(pair.source, pair.target, LINK, topics, journal=accounts, gaps_ok=gaps_ok)
    return check(scope).names


def test_a_load_of_every_shape_agrees_with_its_journal(
    pair: Pair, journal: Path, load: Load
) -> None:
    done = load(pair, "--rate", "300", "--identical-ratio", "0.1", "--codec", "lz4")
    pair.take_over()
    assert len(pair.images) == done["ok"] >= 200
    contents = [image.seen._replace(timestamp=0) for image in pair.images]
    assert len(set(contents)) < len(contents), "some are alike"
    pair.write()
    assert names(pair, journal) == set()


def test_aborted_transactions_fail_in_the_journal(pair: Pair, journal: Path, load: Load) -> None:
    ratio = ("--transactional", "--abort-ratio", "0.5", "--seed", "1")
    done = load(pair, "--rate", "2000", *ratio)
    pair.take_over()
    assert len(pair.images) == done["ok"] and done["fail"] > 0
    assert pair.source_end() > done["ok"] + done["fail"], "aborted records stand in the log"
    pair.write()
    assert names(pair, journal) == set()


def test_old_records_carry_old_timestamps(pair: Pair, load: Load) -> None:
    load(pair, "--rate", "100", "--age-days", "3", "--compact-keys", "5")
    load(pair, "--rate", "100")
    with Reader(pair.source, committed=True) as reader:
        seen = [record for _, record in reader.read(pair.topic, 0)]
    days = (seen[-1].timestamp - seen[0].timestamp) / 86_400_000
    assert 2.9 < days < 3.1
    assert len({record.key for record in seen[:50]}) == 5


def test_what_was_acknowledged_and_is_not_on_the_mirror_is_lost(
    pair: Pair, journal: Path, load: Load
) -> None:
    load(pair, "--rate", "100")
    pair.take_over()
    left = pair.images.pop()
    pair.write()
    assert left.source is not None
    pair.record(source_next=left.source)
    assert pair.check().names == set(), "without a journal it is only not copied yet"
    assert names(pair, journal) == {"lost"}


def test_the_journal_remembers_what_the_source_forgot(
    pair: Pair, journal: Path, load: Load
) -> None:
    load(pair, "--rate", "100")
    pair.take_over()
    pair.images[5].seen = pair.images[5].seen._replace(value=b"changed")
    pair.write()
    delete_before(pair.source, pair.topic, 10)
    assert pair.check().names == set(), "nobody else knows"
    assert names(pair, journal) == {"mismatch"}


def test_loads_and_the_readers_of_their_topic_survive_a_killed_broker(
    pair: Pair, journal: Path, start: Start, private_cluster: Callable[..., Any]
) -> None:
    cluster = private_cluster()
    pair.source = cluster.bootstrap
    create_topic(pair.source, pair.topic)
    lasting = ("--seconds", "600", "--rate", "100")
    with following(pair.source, pair.target, {pair.topic: pair.topic}) as followers:
        aborting = ("--transactional", "--abort-ratio", "0.3", "--seed", "1")
        loads = [start(pair, *lasting, *mode) for mode in (("--seed", "2"), aborting)]
        before = await_entries(journal, ok=100, fail=1)
        cluster.node(1).kill()
        cluster.node(1).start()
        await_entries(journal, ok=before["ok"] + 100, fail=before["fail"] + 1)
        for running in loads:
            running.terminate()
            end(running)
        pair.take_over()
        pair.write()
        followers.catch_up(within_s=60)
    assert followers.anomalies == []
    assert [follower.images for follower in followers.each] == [len(pair.images)] * 2
    assert names(pair, journal) == set()


def await_entries(journal: Path, **wanted: int) -> Counter[str]:
    """Wait until the journal holds that many of each outcome; only transactions fail here."""
    deadline_s = time.monotonic() + 90
    while True:
        lines = journal.read_text().splitlines() if journal.exists() else []
        found = Counter(json.loads(line)["outcome"] for line in lines)
        if all(found[outcome] >= count for outcome, count in wanted.items()):
            return found
        assert time.monotonic() < deadline_s, f"the journal holds {found}, not {wanted}"
        time.sleep(0.1)
