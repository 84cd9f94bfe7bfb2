"""The helm of a link on a real broker: one driver at a time, and each knows when it is not."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.errors import LedgerUnfit, OutcomeUnknown, Superseded
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.links.helm import Helm
from heliograph.links.own_topics import make_own_topics
from heliograph.model.control import DRIVER, WANTED, Driver, Wanted, read, row
from heliograph.model.drivers import turn_of
from heliograph.model.names import control_topic, ledger_topic
from tests.making import delete_topic


@pytest.fixture
def take_helm(target: Any, link_name: str) -> Iterator[Callable[[], Helm]]:
    """Makes drivers; each has taken the helm when it is returned."""
    with ExitStack() as stack:

        def take() -> Helm:
            settings = parse("target", target.client_properties())
            helm = Helm(stack.enter_context(Cluster(settings, "target")), link_name)
            helm.take(within(20))
            return helm

        yield take


def test_whoever_takes_the_helm_last_has_it(take_helm: Callable[[], Helm]) -> None:
    first, second = take_helm(), take_helm()
    assert second.generation == first.generation + 1
    with pytest.raises(Superseded):
        first.put({b"x": b"1"})
    second.put({b"x": b"2"})
    second.control.catch_up(within(10))
    assert second.control.rows[b"x"] == b"2"


def test_an_earlier_driver_reads_of_the_next_one(take_helm: Callable[[], Helm]) -> None:
    first, second = take_helm(), take_helm()
    first.control.catch_up(within(10))
    with pytest.raises(Superseded, match=second.name):
        first.look()
    second.look()


def test_another_driver_of_the_same_generation_is_another(
    take_helm: Callable[[], Helm], link_name: str, target: Any
) -> None:
    """Its row was put while ours was lost on its way; both counted from the same row before."""
    helm = take_helm()
    helm.control.catch_up(within(10))
    helm.look()
    mine = read(helm.control.rows, DRIVER, Driver)
    assert mine is not None
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        other = replace(mine, name="elsewhere:1")
        Table(cluster, control_topic(link_name)).put({DRIVER: row(other)}, within(10))
    helm.control.catch_up(within(10))
    with pytest.raises(Superseded, match="elsewhere:1"):
        helm.look()


def test_of_two_that_start_at_once_the_one_that_lost_sees_whose_turn_it_is(
    take_helm: Callable[[], Helm], link_name: str, target: Any
) -> None:
    """Its row never landed, and the winner counted from the same row before."""
    winners = []

    class Late(Helm):
        def put(self, rows: Mapping[bytes, bytes | None]) -> None:
            winners.append(take_helm())
            super().put(rows)

    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        late = Late(cluster, link_name)
        with pytest.raises(Superseded):
            late.take(within(20))
        late.control.catch_up(within(10))
    (winner,) = winners
    assert late.generation == winner.generation
    assert turn_of(late.control.rows, late.state.rows, late.driver)[0] == "theirs"
    assert turn_of(late.control.rows, late.state.rows, winner.driver)[0] == "unknown"


def test_a_driver_that_comes_back_late_does_not_stop_its_successor(
    take_helm: Callable[[], Helm], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its put was on its way when it froze: what became of that is not known."""
    first, second = take_helm(), take_helm()

    def lose(_: object) -> None:
        raise OutcomeUnknown("no reply", cluster="target")

    monkeypatch.setattr(first, "_put", lose)
    with pytest.raises(Superseded, match=second.name):
        first.put({b"x": b"1"})
    second.put({b"x": b"2"})


def test_who_starts_a_stopped_link_wants_it_to_run(take_helm: Callable[[], Helm]) -> None:
    helm = take_helm()
    helm.put({WANTED: row(Wanted(state="stopped", paused=("a",)))})
    again = take_helm()
    again.control.catch_up(within(10))
    assert (again.wanted.state, again.wanted.paused) == ("active", ("a",))
    assert again.wanted.asked_by == again.name and again.wanted.asked_ms > 0


def test_a_link_whose_ledger_is_gone_is_not_started_anew(target: Any, link_name: str) -> None:
    delete_topic(target.bootstrap, ledger_topic(link_name))
    with (
        Admin(parse("target", target.client_properties()), "target") as admin,
        pytest.raises(LedgerUnfit, match="is gone"),
    ):
        make_own_topics(admin, link_name, within(20))
