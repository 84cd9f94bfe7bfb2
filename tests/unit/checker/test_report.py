"""Reports: neighbours are told once, tables for people, JSON for programs."""

import json

from tests.checker.anomalies import Anomaly, Name, Report, merge
from tests.checker.pairs import Span


def lost(source: Span, partition: int = 0, detail: str = "gone") -> Anomaly:
    return Anomaly(Name.LOST, "t", partition, detail, source)


def test_neighbours_that_say_the_same_are_told_once() -> None:
    assert merge([lost((3, 4)), lost((1, 2)), lost((2, 3))]) == [lost((1, 4))]


def test_others_are_told_apart() -> None:
    apart = [lost((1, 2)), lost((3, 4)), lost((4, 5), detail="eaten"), lost((4, 5), partition=1)]
    assert len(merge(apart)) == 4


def test_a_table_names_each_anomaly_its_place_and_its_offsets() -> None:
    report = Report(
        [lost((1, 4)), Anomaly(Name.LEDGER_LIE, "t", 7, "wrong", None, (5, 6))], equal=9
    )
    head, first, second, counts = str(report).splitlines()
    assert head.split() == ["ANOMALY", "PARTITION", "SOURCE", "TARGET", "DETAIL"]
    assert first.split() == ["lost", "t/0", "1..3", "-", "gone"]
    assert second.split() == ["ledger-lie", "t/7", "-", "5", "wrong"]
    assert counts.startswith("9 equal")


def test_json_holds_the_same() -> None:
    found = json.loads(Report([lost((1, 4))], not_copied=2).as_json())
    assert found["not_copied"] == 2
    (anomaly,) = found["anomalies"]
    assert anomaly["name"] == "lost" and anomaly["source"] == [1, 4] and anomaly["target"] is None
