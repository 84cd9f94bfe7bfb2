"""What a drill samples, what it comes to, and the page that tells of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from heliograph.model.control import row
from heliograph.model.drill_page import drill_page
from heliograph.model.drills import Drilled, End, Mark, Outcome, Sampled, choose
from heliograph.model.names import drill_link, drill_named, own_topics, scratch_group
from heliograph.model.recovery import Event, as_rows, event_key, read_events
from heliograph.model.selection import select
from heliograph.model.topics import Partition

DRILL = "paris-drill-0a1b2c3d"


def part(topic: str = "orders", number: int = 0) -> Sampled:
    return Sampled(Partition(topic, number), Partition(f"scratch.{topic}", number), 10, 20)


def outcome(missing: int = 0, seconds: float | None = 0.0, **other: Any) -> Outcome:
    return replace(Outcome(part(), 10, missing, seconds, 16, 1.5), **other)


def drilled(*outcomes: Outcome, **other: Any) -> Drilled:
    found = Drilled(
        link="paris",
        drill=DRILL,
        group=scratch_group(DRILL),
        by="somebody",
        begun_ms=0,
        ended_ms=9000,
        source=End("paris", "p", 3),
        target=End("dublin", "d", 1),
        versions={"heliograph": "1", "python": "3"},
        partitions_of_link=7,
        most_records=1000,
        outcomes=outcomes or (outcome(),),
        failover_seconds=1.0,
        steps=("close", "groups"),
        foreseen={
            "missing_records": None,
            "unknown_partitions": 1,
            "rpo_seconds": None,
            "heard_seconds": 2.0,
            "group_offsets": 4,
        },
    )
    return replace(found, **other)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_every_topic_is_sampled_before_a_second_partition_of_any() -> None:
    logs = {Partition(topic, number): range(5) for topic in ("a", "b") for number in (0, 1)}
    found = choose(logs, {"a": "x.a", "b": "x.b"}, 3, 1000)
    assert [str(one.source) for one in found] == ["a-0", "a-1", "b-0"]
    assert [str(one.mirror) for one in found] == ["x.a-0", "x.a-1", "x.b-0"]


def test_an_empty_partition_is_sampled_with_nothing_in_it() -> None:
    (found,) = choose({Partition("a", 0): range(7, 7)}, {"a": "x"}, 1, 10)
    assert (found.begin, found.end, found.place) == (7, 7, 7)


@pytest.mark.parametrize(
    ("rpo", "rto", "verdict"),
    [
        (None, None, "no objective set"),
        (seconds(2), seconds(1.5), "pass"),
        (seconds(2), None, "pass"),
        (seconds(1.9), seconds(9), "fail"),
        (None, seconds(1.4), "fail"),
    ],
)
def test_the_verdict_is_by_the_objectives(
    rpo: timedelta | None, rto: timedelta | None, verdict: str
) -> None:
    found = drilled(outcome(3, 2.0), outcome(1, 0.5), rpo=rpo, rto=rto)
    assert (found.rpo_seconds, found.rto_seconds, found.missing_records) == (2.0, 1.5, 4)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    "wrong",
    [
        {"findings": ("the sample was not copied",)},
        {"outcomes": (outcome(finding="goes on at another record"),)},
        {"left": ("__heliograph.paris-drill-0a1b2c3d.ledger",)},
    ],
)
def test_whatever_is_not_exact_fails_it_whether_objectives_were_kept_or_not(
    wrong: dict[str, Any],
) -> None:
    found = drilled(**{"rpo": seconds(9), "rto": seconds(9)} | wrong)
    assert found.verdict == "fail" and len(found.all_findings) == 1
    assert found.all_findings[0] in found.lines and found.all_findings[0] in drill_page(
        found.as_dict()
    )


def test_an_age_that_clocks_hide_is_no_objective_kept() -> None:
    found = drilled(outcome(3, None), outcome(1, 0.5), rpo=seconds(9))
    assert (found.rpo_seconds, found.rpo_ok, found.verdict) == (None, None, "fail")
    assert "could not be measured" in found.all_findings[0]
    page = drill_page(found.as_dict())
    assert "| RPO | not known, 4 records (objective 9.0 s: not known) |" in page
    assert drilled(outcome(3, None)).verdict == "no objective set"


@pytest.mark.parametrize(
    ("rpo", "is_ok", "verdict"),
    [
        (seconds(9), False, "fail"),
        (seconds(9), True, "pass"),
        (seconds(9), None, "pass"),
        (None, None, "no objective set"),
    ],
)
def test_a_link_that_would_miss_its_objective_now_passes_no_drill(
    rpo: timedelta | None, is_ok: bool | None, verdict: str
) -> None:
    found = drilled(rpo=rpo)
    real = {**found.foreseen, "missing_records": 40, "rpo_seconds": 60.0, "rpo_ok": is_ok}
    found = replace(found, foreseen=real)
    assert (found.rpo_seconds, found.verdict) == (0.0, verdict)
    late = "would miss the RPO now: 40 records of 60.0 s" in " ".join(found.all_findings)
    assert late is (is_ok is False)
    kept = {None: "-", True: "yes", False: "no"}[is_ok]
    assert f"| RPO kept | {kept} |" in drill_page(found.as_dict())


def test_where_nothing_was_read_the_failover_alone_counts() -> None:
    found = drilled(outcome(read_seconds=None))
    assert found.rto_seconds == 1.0
    assert "0 of 1 offsets were compared" in drill_page(found.as_dict())


def test_the_page_says_what_json_says() -> None:
    found = drilled(outcome(3, 2.0), rpo=seconds(1), notes=("a|b <c>",)).as_dict()
    page = drill_page(json.loads(json.dumps(found)))
    assert "# Failover drill of paris\n" in page and "| verdict | **fail** |" in page
    assert "| RPO | 2.0 s, 3 records (objective 1.0 s: missed) |" in page
    assert "| RTO | 1.5 s (no objective set) |" in page
    assert "| orders | 1 | 10 | 3 | 2.0 | 1.5 |" in page
    assert "| orders | 0 | 15 | 16 | yes | yes |  |" in page
    assert "| records not arrived | - |" in page and "- a\\|b \\<c>\n" in page
    assert all(one in page for one in found["cannot_show"])
    assert "hooks of the configuration were not run" in page


def test_what_drills_make_is_known_by_its_name_and_copied_by_no_link() -> None:
    drill = drill_link("paris", "0a1b2c3d")
    names = [*own_topics(drill), f"__heliograph.{drill}.scratch.a.b", scratch_group(drill)]
    assert {drill_named("paris", one) for one in names} == {DRILL}
    assert select(names, [".*"], []) == []
    others = ["__heliograph.paris.ledger", "__heliograph.paris-drill-x.ledger", f"a{names[0]}"]
    assert {drill_named("paris", one) for one in others} == {None}
    assert drill_named("dublin", names[0]) is None


@pytest.mark.parametrize(
    ("host", "age_s", "living", "is_alive"),
    [
        ("here", 5, True, True),
        ("here", 5, False, False),
        ("here", 3600, True, False),  # another process has its number by now
        ("there", 5, False, True),
        ("there", 3600, False, False),
    ],
)
def test_a_drill_is_left_alone_while_it_may_live(
    host: str, age_s: int, living: bool, is_alive: bool
) -> None:
    mark = Mark("paris", "somebody", "here", 7, begun_ms=0)
    assert mark.may_be_alive(age_s * 1000, host, living) is is_alive


def test_a_timeline_tells_of_drills() -> None:
    event = Event("19700101T000000.000Z-drill", "drill", "verdict", "done", 0, 9.0, ("pass",))
    rows = {event_key(event.recovery, 0): row(event)}
    assert read_events(rows) == [event] and as_rows([event])[0]["verb"] == "drill"
