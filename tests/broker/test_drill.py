"""`drill`: a failover rehearsed on scratch topics, which leaves nothing but its verdict."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from heliograph.cli.app import run
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.spec import User
from heliograph.model.acls import Acl, Operation, Pattern, Resource
from heliograph.model.control import WANTED, Heard, Wanted, heard_key, row
from heliograph.model.drills import DRILL, Mark
from heliograph.model.names import control_topic, ledger_topic, own_topics, state_topic
from heliograph.model.recovery import read_events
from heliograph.model.stages import Stage, stage_key
from heliograph.model.topics import Partition
from tests.broker.groups import GroupLink
from tests.broker.linked import on_mirror, produce, within
from tests.broker.links import link_report, make_link, part_report
from tests.checker.ledger import triples
from tests.conftest import BorrowedCluster
from tests.making import create_topic

Make = Callable[..., GroupLink]
_QUICK = ("--copy-for", "500ms")


def mirrored(link: GroupLink, topic: str, count: int = 50, partitions: int = 1) -> Partition:
    """Make a topic and its mirror, copy it, and report what a driver and its task would."""
    here = link.make(topic, partitions)
    produce(link.source.bootstrap, topic, [b"%d" % number for number in range(count)])
    link.copy(here)
    parts = {here: part_report(newest_ms=clock.wall_ms())}
    link.link.report(link_report(topics={topic: topic}), parts)
    link.link.put(state_topic(link.name), {heard_key(0): row(Heard(1, 1, clock.wall_ms()))})
    return here


@contextmanager
def load(link: GroupLink, topic: str, partitions: int) -> Iterator[None]:
    """Write to a topic all the time, in small batches, with headers."""
    over = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": link.source.bootstrap, "linger.ms": 1})
        number = 0
        while not over.wait(0.001):
            value, place = b"live %d" % number, number % partitions
            producer.produce(topic, value, key=value, partition=place, headers=[("n", value)])
            producer.poll(0)
            number += 1
        assert producer.flush(20) == 0

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def drill(
    link: GroupLink, capsys: pytest.CaptureFixture[str], *more: str, code: int = 0
) -> dict[str, Any]:
    capsys.readouterr()
    found = run(link.link.words("drill", *_QUICK, *more, "-o", "json"))
    said = capsys.readouterr()
    assert found == code, said.err + said.out
    (report,) = json.loads(said.out)
    assert isinstance(report, dict)
    return report


def left_of(link: GroupLink) -> list[str]:
    """Return the topics and groups of the link's drills, as librdkafka sees them."""
    admin = AdminClient({"bootstrap.servers": link.target.bootstrap})
    names = list(admin.list_topics(timeout=20).topics)
    names += [one.group_id for one in admin.list_consumer_groups().result(20).valid]
    return sorted(one for one in names if f"{link.name}-drill" in one)


def copiers(link: GroupLink) -> list[Path]:
    """Return the processes that copy for drills of a link."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended while we looked
            if f"{link.name}-drill".encode() in entry.read_bytes():
                found.append(entry)
    return found


def refused(link: GroupLink, capsys: pytest.CaptureFixture[str], *more: str, code: int = 3) -> str:
    capsys.readouterr()
    assert run(link.link.words("drill", *more)) == code
    return capsys.readouterr().err


def untouched(link: GroupLink, here: Partition) -> list[Any]:
    """Return what a drill must leave as it is: the mirror, the link's own rows, the source."""
    own = [link.link.rows(topic(link.name)) for topic in (ledger_topic, control_topic)]
    admin = AdminClient({"bootstrap.servers": link.source.bootstrap})
    groups = [one.group_id for one in admin.list_consumer_groups().result(20).valid]
    mine = [one for one in (*admin.list_topics(timeout=20).topics, *groups) if link.name in one]
    return [on_mirror(link.target, here), *own, mine]


def abort(link: GroupLink, here: Partition, count: int) -> None:
    """Write records to the source that nobody is to read."""
    producer = Producer(
        {"bootstrap.servers": link.source.bootstrap, "transactional.id": here.topic}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(here.topic, b"never", partition=here.partition)
    producer.flush(20)
    producer.abort_transaction(20)


def test_a_drill_measures_and_leaves_only_its_verdict(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    link = make("    objectives: {rpo: 30s, rto: 60s}")
    here = mirrored(link, topic_name, partitions=3)
    abort(link, here, 10)  # the group stands in the middle of the sample, over aborted records
    before, state = untouched(link, here), link.state()
    with load(link, topic_name, 3):
        found = drill(link, capsys, "--report", str(tmp_path / "evidence"))
    assert left_of(link) == [] and untouched(link, here) == before
    assert found["verdict"] == "pass" and found["rpo_ok"] and found["rto_ok"]
    assert found["findings"] == [] and found["left_behind"] == []
    assert found["rto_seconds"] >= found["failover_seconds"] > 0
    assert [one["partitions"] for one in found["topics"]] == [3]
    assert [(one["exact"], one["compared"]) for one in found["groups"]] == [(True, True)] * 3
    assert found["real_failover_now"]["missing_records"] == 0
    # The evidence, as a page and for programs, and the timeline say the same.
    assert json.loads((tmp_path / "evidence.json").read_text()) == found
    page = (tmp_path / "evidence.md").read_text()
    assert "| verdict | **pass** |" in page and f"| RTO | {found['rto_seconds']} s " in page
    assert f"| RPO | {found['rpo_seconds']} s, {found['missing_records']} records " in page
    assert "3 of 3 offsets were compared" in page and found["source"]["cluster_id"] in page
    (key,) = link.state().keys() - state.keys()
    (event,) = read_events({key: link.state()[key]})
    assert (event.verb, event.step, event.outcome) == ("drill", "verdict", "done")
    assert event.lines[0] == "pass: 3 partitions of 1 topics"
    assert run(link.link.words("timeline")) == 0
    assert f"RTO {found['rto_seconds']} s (objective" in capsys.readouterr().out


def test_killed_at_any_moment_it_is_cleaned_up_by_the_next(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rto: 1ms}")
    here = mirrored(link, topic_name)
    before = untouched(link, here)
    for point in ("D-made", "D-copying", "D-read"):
        command = [sys.executable, "-m", "heliograph.cli.app", *link.link.words("drill", *_QUICK)]
        env = os.environ | {"HELIOGRAPH_CRASH_POINT": point}
        done = subprocess.run(command, env=env, capture_output=True, timeout=60)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert len({one.split(".")[1] for one in left_of(link)}) == 1, "the one before is gone"
        over = within(10)
        while copiers(link):
            assert not over.passed, "its copier outlives it"
    # The objective is missed, and everything of all of them is gone.
    found = drill(link, capsys, code=1)
    assert (found["verdict"], found["rto_ok"], found["rpo_ok"]) == ("fail", False, None)
    assert left_of(link) == [] and untouched(link, here) == before
    assert [one.outcome for one in read_events(link.state())] == ["failed"]


def test_interrupted_it_removes_what_it_made(make: Make, topic_name: str) -> None:
    link = make()
    mirrored(link, topic_name)
    command = [sys.executable, "-m", "heliograph.cli.app", *link.link.words("drill")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("copying a sample"):
                process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    assert left_of(link) == []
    (event,) = read_events(link.state())
    assert event.outcome == "failed" and event.lines == ("stopped: KeyboardInterrupt",)


_DEFECT = """
import os, sys
from tests.broker.test_drill import shift_ledger
shift_ledger(sys.argv[1], os.environ["HELIOGRAPH_HOOK_LINK"])
assert os.environ["HELIOGRAPH_HOOK_DRILL"] == sys.argv[2]
"""


def shift_ledger(bootstrap: str, drill_link: str) -> None:
    """Let a ledger say that each record stands one place further than it does."""
    with Cluster(parse("target", {"bootstrap.servers": bootstrap}), "target") as target:
        table = Table(target, ledger_topic(drill_link))
        (key,) = [one for one in table.load(within(20)) if one.count(b"/") == 2]
        ((source, at, length), *more) = triples(json.loads(table.rows[key]))
        shifted = json.dumps([[source, at + 1, length - 1], *more]).encode()
        table.put({key: shifted}, within(20))


def test_a_defect_of_the_translation_is_found(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "defect.py"
    script.write_text(_DEFECT)
    words = ["env", f"PYTHONPATH={os.pathsep.join(sys.path)}", sys.executable, str(script)]
    link = make()
    hook = " ".join([*map(shlex.quote, words), link.target.bootstrap, link.name])
    link.link.file.write_text(
        f"{link.link.file.read_text()}    hooks: {{before_failover: [{json.dumps(hook)}]}}\n"
    )
    mirrored(link, topic_name)
    found = drill(link, capsys, "--with-hooks", code=1)
    assert found["verdict"] == "fail" and not found["groups"][0]["exact"]
    (finding,) = found["findings"]
    assert "goes on at another record" in finding and "from offset 25 in value" in finding
    assert left_of(link) == []


def test_where_a_drill_would_show_nothing_it_is_refused(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    assert "has never run" in refused(link, capsys)
    here = mirrored(link, topic_name)
    before = untouched(link, here)
    # Somebody drills on this machine: this process stands for it.
    mark = Mark(link.name, "somebody", socket.gethostname(), os.getppid(), clock.wall_ms())
    other = replace(link.link, name=f"{link.name}-drill-0a1b2c3d")
    other.make_topics()
    other.put(control_topic(other.name), {DRILL: row(mark)})
    assert "may be under way: somebody" in refused(link, capsys)
    assert run(link.link.words("drill", "--clean", "-o", "json")) == 0
    removed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in removed] == sorted(own_topics(other.name))
    # A link that is only called like one is not taken for a drill.
    other.make_topics()
    other.put(control_topic(other.name), {WANTED: row(Wanted())})
    assert run(link.link.words("drill", "--clean")) == 0
    assert "No drill left anything behind" in capsys.readouterr().err
    assert left_of(link) == sorted(own_topics(other.name))
    text = link.link.file.read_text()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        link.link.file.write_text(text.replace(link.source.bootstrap, nobody))
        assert "does not answer, and a drill copies from it" in refused(link, capsys)
    assert untouched(link, here) == before and read_events(link.state()) == []


def test_a_dry_run_says_what_would_be_made_and_makes_nothing(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, partitions=2)
    before = untouched(link, here)
    assert run(link.link.words("drill", "--dry-run", "--records", "20", "-o", "json")) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [one["action"] for one in rows] == ["create"] * 5 + ["remove"]
    assert f"2 partitions; 20 offsets of 2 partitions of {topic_name}" == rows[3]["detail"]
    assert left_of(link) == [] and untouched(link, here) == before
    stage = Stage("FAILED_OVER", clock.wall_ms(), topic_name, "before")
    link.link.put(control_topic(link.name), {stage_key(topic_name): row(stage)})
    assert f"{topic_name} was left out: it is FAILED_OVER" in refused(link, capsys)


def test_a_sample_that_does_not_arrive_fails_the_drill(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    limits: {bytes_per_second: 1KB}")
    here = mirrored(link, topic_name)
    produce(link.source.bootstrap, here.topic, [bytes(100_000)] * 40)
    found = drill(link, capsys, "--timeout", "2s", "--records", "40", code=1)
    assert found["verdict"] == "fail" and 0 < found["missing_records"] < 40
    assert found["findings"][0].startswith("the sample of 1 partitions was not copied within 2 s")
    assert found["arrived_records"] + found["missing_records"] == 40
    assert left_of(link) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--report", "evidence.txt"], "neither FILE.md nor FILE.json"),
        (["--report", "no/such/folder/evidence"], "there is no folder"),
        (["--copy-for", "1h"], "together"),
        (["--topics", "nothing-like-it"], "matches no topic of link"),
    ],
)
def test_bad_input_is_told(
    words: list[str], told: str, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    link.link.report(link_report(topics={topic_name: topic_name}), {})
    assert told in refused(link, capsys, *words, code=2)


def test_the_permissions_that_the_guide_names_suffice(
    private_cluster: Callable[..., LocalCluster],
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = private_cluster(sasl="PLAIN", acls=True, users=(User("app", "secret-of-app"),))
    inside = BorrowedCluster("target", cluster.internal_bootstrap)  # where everything is allowed
    link = make_link(tmp_path, inside.bootstrap, inside, topics=topic_name)
    link.make_topics()
    mirror = f"copy.{topic_name}"
    for name in (topic_name, mirror):
        create_topic(inside.bootstrap, name)
    produce(inside.bootstrap, topic_name, [b"%d" % number for number in range(20)])
    link.report(link_report(topics={topic_name: mirror}), {})
    login = json.dumps(cluster.client_properties("app"))[1:-1]
    text = link.file.read_text().replace(
        f'bootstrap.servers: "{inside.bootstrap}"', f"allow_literal_secrets: true, {login}"
    )
    link.file.write_text(f'{text}    allow_same_cluster: true\n    naming: "copy.{{topic}}"\n')
    copying = [
        (Resource.TOPIC, topic_name, [Operation.READ]),
        (Resource.TOPIC, mirror, [Operation.READ]),
        (Resource.TOPIC, f"__heliograph.{link.name}.", [Operation.READ, Operation.WRITE]),
    ]
    made = f"__heliograph.{link.name}-drill-"
    four = [Operation.CREATE, Operation.DELETE, Operation.READ, Operation.WRITE]
    drilling = [
        (Resource.TOPIC, made, four),
        (Resource.GROUP, made, [Operation.READ, Operation.DELETE]),
        (Resource.TRANSACTIONAL_ID, f"heliograph.{link.name}-drill-", [Operation.WRITE]),
    ]
    with Admin(parse("all", {"bootstrap.servers": inside.bootstrap}), "all") as admin:
        for resource, name, operations in copying + drilling:
            rules = [
                Acl(resource, name, "User:app", one, pattern=Pattern.PREFIXED) for one in operations
            ]
            admin.acls.create(rules, within(20))
    assert run(link.words("drill", *_QUICK, "-o", "json")) == 0, capsys.readouterr().err
    (found,) = json.loads(capsys.readouterr().out)
    assert found["findings"] == [] and found["groups"][0]["exact"]
    (note,) = found["notes"]
    assert "not the settings of the real mirrors" in note and "DescribeConfigs" in note
