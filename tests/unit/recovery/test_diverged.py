"""What diverged, as a value: small enough for a row, whatever its records hold."""

from heliograph.kafka.records import Record
from heliograph.model.topics import Partition
from heliograph.recovery.diverged import Found, as_text, from_text


def test_long_keys_are_shown_cut_and_what_is_kept_stays_small() -> None:
    found = Found(Partition("orders", 0), "orders.diverged")
    for number in range(20):
        found.see(Record(number, number, b"%d" % number + b"\xc3\xa9" * 1_000_000, None))
    assert found.count == 20 and [len(one) for one in found.keys] == [64] * 5
    kept = as_text({found.partition: found})
    assert len(kept) < 4000 and from_text(kept) == {found.partition: found}


def test_times_are_told_as_everywhere() -> None:
    found = Found(Partition("orders", 0), "orders.diverged")
    found.see(Record(7, 1_767_225_600_123, b"key", None))
    assert found.as_dict()["first"] == found.as_dict()["last"] == "2026-01-01T00:00:00.123Z"


def test_what_expired_is_said_beside_what_was_saved_and_alone() -> None:
    found = Found(Partition("orders", 0), "orders.diverged", expired=2)
    gone = "what stood at 2 offsets on the source expired before it could be saved"
    assert found.line() == f"orders-0: {gone}"
    assert [found.as_dict()[name] for name in ("first", "last", "saved_as")] == [None] * 3
    found.see(Record(7, 1000, b"key", None))
    assert found.line().endswith(f"; {gone}") and "saved to orders.diverged" in found.line()
    assert from_text(as_text({found.partition: found})) == {found.partition: found}


def test_what_an_earlier_version_kept_is_read() -> None:
    text = '[{"partition": ["orders", 0], "saved_as": "orders.diverged", "count": 3}]'
    (found,) = from_text(text).values()
    assert (found.count, found.expired) == (3, 0)
