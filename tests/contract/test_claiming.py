"""What a coordinator answers to the questions of a claim, in any order."""

import pytest

from heliograph.model.topics import Partition
from tests.contract.wire import NOBODY, Wire, batch

FENCED, INVALID_STATE, INVALID_MAPPING = 90, 48, 49


def begin(wire: Wire, tid: str, *partitions: Partition) -> tuple[int, int]:
    """Begin a transaction over these partitions, under a new epoch."""
    code, *identity = wire.init(tid)
    assert code == 0
    assert wire.add(tid, (identity[0], identity[1]), *partitions) == [0] * len(partitions)
    return identity[0], identity[1]


def claim(wire: Wire, tid: str, *partitions: Partition) -> tuple[int, int]:
    """Claim in four steps; return the identity to write with."""
    identity = begin(wire, tid, *partitions)
    assert wire.end(tid, identity) == 0
    code, producer_id, epoch = wire.init(tid, identity)
    assert (code, producer_id) == (0, identity[0])
    return producer_id, epoch


def test_each_init_of_nobody_raises_the_epoch(wire: Wire, tid: str) -> None:
    _, first, epoch = wire.init(tid)
    assert epoch == 0
    assert wire.init(tid) == (0, first, 1)
    assert wire.init(tid, NOBODY) == (0, first, 2)


def test_ids_are_apart(wire: Wire, tid: str) -> None:
    assert wire.init(tid)[1] != wire.init(f"{tid}.other")[1]


def test_init_that_carries_an_identity_goes_on_from_it_and_may_be_repeated(
    wire: Wire, tid: str
) -> None:
    _, who, epoch = wire.init(tid)
    assert wire.init(tid, (who, epoch)) == (0, who, epoch + 1)
    assert wire.init(tid, (who, epoch)) == (0, who, epoch + 1), "the same answer to a repeat"
    assert wire.init(tid, (who, epoch + 1)) == (0, who, epoch + 2)
    assert wire.init(tid, (who, epoch))[0] == FENCED


def test_init_of_a_rival_fences_the_identity(wire: Wire, tid: str) -> None:
    _, who, epoch = wire.init(tid)
    wire.init(tid)
    assert wire.init(tid, (who, epoch))[0] == FENCED
    assert wire.init(tid, (who + 1, epoch))[0] == FENCED, "nor another id"


def test_stale_or_unknown_identity_can_add_and_end_nothing(
    wire: Wire, tid: str, partition: Partition
) -> None:
    _, who, epoch = wire.init(tid)
    wire.init(tid)
    assert wire.add(tid, (who, epoch), partition) == [FENCED]
    assert wire.end(tid, (who, epoch)) == FENCED
    assert wire.add(tid, (who + 1, epoch), partition) == [INVALID_MAPPING]
    assert wire.end(tid, (who + 1, epoch)) == INVALID_MAPPING
    assert wire.add(f"{tid}.unknown", (who, epoch), partition) == [INVALID_MAPPING]
    assert wire.end(f"{tid}.unknown", (who, epoch)) == INVALID_MAPPING


def test_partition_that_is_not_there_spoils_the_others(
    wire: Wire, tid: str, partition: Partition
) -> None:
    _, who, epoch = wire.init(tid)
    absent = Partition(f"{partition.topic}.absent", 0)
    assert wire.add(tid, (who, epoch), partition, absent) == [55, 3]
    assert wire.end(tid, (who, epoch)) == INVALID_STATE, "no transaction was begun"


@pytest.mark.parametrize("commit", [False, True])
def test_end_may_be_repeated_but_not_changed(
    wire: Wire, tid: str, partition: Partition, commit: bool
) -> None:
    identity = begin(wire, tid, partition)
    assert wire.end(tid, identity, commit=commit) == 0
    assert wire.end(tid, identity, commit=commit) == 0
    assert wire.end(tid, identity, commit=not commit) == INVALID_STATE
    assert wire.state(tid) == ("CompleteCommit" if commit else "CompleteAbort")


def test_states_tell_how_far_a_claim_is(wire: Wire, tid: str, partition: Partition) -> None:
    assert wire.state(tid) == "105"
    identity = begin(wire, tid, partition)
    assert wire.state(tid) == "Ongoing"
    wire.end(tid, identity)
    wire.init(tid, identity)
    assert wire.state(tid) == "Empty"


def test_identity_whose_claim_ended_can_begin_another_transaction(
    wire: Wire, tid: str, partition: Partition
) -> None:
    identity = claim(wire, tid, partition)
    assert wire.add(tid, identity, partition) == [0]
    assert wire.end(tid, identity) == 0


def test_init_over_an_open_transaction_aborts_it_under_a_newer_epoch(
    wire: Wire, tid: str, partition: Partition
) -> None:
    who, epoch = begin(wire, tid, partition)
    assert wire.init(tid) == (0, who, epoch + 2)
    assert wire.produce(partition, batch((who, epoch), 0)).code == 47
    assert wire.produce(partition, batch((who, epoch + 1), 0)).code == 0, "the marker's own epoch"


def test_stale_init_aborts_the_transaction_that_overtook_it(
    wire: Wire, tid: str, partition: Partition
) -> None:
    """Then both claims are lost: see heliograph.kafka.orphans."""
    stale = begin(wire, tid, partition)
    wire.end(tid, stale)
    newer = begin(wire, tid, partition)
    assert wire.init(tid, stale)[0] == FENCED
    assert wire.end(tid, newer) == FENCED
    assert wire.state(tid) == "CompleteAbort"
    who, epoch = newer
    assert wire.init(tid, newer) == (0, who, epoch + 1), "as if by a repeat; its marker is missing"


def test_claim_shuts_older_epochs_out_of_every_partition_of_it(
    wire: Wire, tid: str, partition: Partition
) -> None:
    ledger = Partition(partition.topic, 1)
    old = claim(wire, tid, partition, ledger)
    assert wire.produce(partition, batch(old, 0)).code == 0
    new = claim(wire, tid, partition, ledger)
    for place in (partition, ledger):
        assert wire.produce(place, batch(old, 1)).code == 47
        assert wire.produce(place, batch(new, 1)).code == 45, "from 0 on"
        assert wire.produce(place, batch(new, 0)).code == 0


def test_old_writer_goes_on_until_the_marker(wire: Wire, tid: str, partition: Partition) -> None:
    old = claim(wire, tid, partition)
    begin(wire, tid, partition)
    assert wire.produce(partition, batch(old, 0)).code == 0
    assert wire.produce(partition, batch(old, 1)).code == 0
