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
