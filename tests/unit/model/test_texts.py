from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.control import Added, Wanted
from heliograph.model.leases import Access, HandOver, Job, Lease, Part, PartReceipt, Receipt
from heliograph.model.policies import Policies, Start
from heliograph.model.texts import from_text, to_text
from heliograph.model.topics import Partition

numbers = st.integers(0, 1 << 40)
names = st.text(max_size=8)
partitions = st.builds(Partition, names, st.integers(0, 99))
maps = st.dictionaries(names, names, max_size=3)
handed = st.builds(
    HandOver, names, numbers, numbers, numbers, numbers, numbers, numbers, numbers, maps
)
parts = st.builds(Part, partitions, partitions, st.none() | numbers, st.none() | handed)
part_receipts = st.builds(
    PartReceipt,
    partitions,
    numbers,
    numbers,
    numbers,
    st.booleans(),
    st.lists(names, max_size=2).map(tuple),
    st.none() | handed,
)


@given(st.lists(parts, max_size=3), st.floats(0, 1e6))
def test_a_lease_reads_back_as_it_was(some: list[Part], most_s: float) -> None:
    lease = Lease("link", 3, 7, 0, most_s, 86_400_000, tuple(some))
    assert from_text(Lease, to_text(lease)) == lease


@given(st.lists(part_receipts, max_size=3))
def test_a_receipt_reads_back_as_it_was(some: list[PartReceipt]) -> None:
    receipt = Receipt(1, 2, 3, 4, 5.5, tuple(some))
    assert from_text(Receipt, to_text(receipt)) == receipt


def test_a_job_reads_back_as_it_was() -> None:
    access = Access("paris", {"bootstrap.servers": "a:1"})
    job = Job("link", 1, access, access, Policies(origin="local", inbound=("dublin-paris",)))
    assert from_text(Job, to_text(job)) == job


@pytest.mark.parametrize("start", ["earliest", "latest", 1_767_225_600_000, None])
def test_what_is_wanted_reads_back_as_it_was(start: Start | None) -> None:
    wanted = Wanted("paused", ("a",), 3, (Added("b.*", start),), ("c",), 500)
    assert from_text(Wanted, to_text(wanted)) == wanted


@dataclass(frozen=True)
class Older:
    name: str
    count: int = 5


def test_a_newer_writer_is_understood_and_a_missing_default_taken() -> None:
    assert from_text(Older, '{"name": "a", "since": "later"}') == Older("a", 5)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "7", "null", '{"name": 3}', '{"name": null}', '{"name": "a", "count": "5"}'],
)
def test_nonsense_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        from_text(Older, text)
