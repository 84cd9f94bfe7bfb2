"""The journal against the source: ok must stand there, fail must not, unknown may."""

from tests.checker.digests import of_payload
from tests.checker.journal import Account, Entry, Outcome, read_journal
from tests.checker.ledger import Gap
from tests.unit.checker.worlds import World, unique


def entry(offset: int | None, value: bytes, outcome: Outcome = Outcome.OK) -> Entry:
    return Entry("t", 0, outcome, offset, of_payload(b"key", value, ()), True)


def account(*entries: Entry) -> Account:
    return read_journal(one.to_line() for one in entries)["t", 0]


def all_ok(records: int = 10) -> list[Entry]:
    return [entry(offset, b"%d" % offset) for offset in range(records)]


def names(world: World, *entries: Entry, gaps_ok: bool = False) -> set[str]:
    return world.names(account=account(*entries), is_complete=True, gaps_ok=gaps_ok)


def test_a_source_that_holds_what_was_acknowledged_is_clean() -> None:
    assert names(unique(), *reversed(all_ok())) == set()


def test_an_acknowledged_write_that_the_source_lacks_is_lost() -> None:
    world = unique()
    del world.source[4], world.images[4]
    assert names(world, *all_ok()) == {"lost"}


def test_an_acknowledged_write_beyond_the_end_of_the_source_is_lost() -> None:
    assert names(unique(9), *all_ok(10)) == {"lost"}


def test_an_acknowledged_write_with_another_content_is_a_mismatch() -> None:
    entries = all_ok()
    entries[3] = entry(3, b"another")
    assert names(unique(), *entries) == {"mismatch"}


def test_a_failed_write_in_the_source_is_a_phantom() -> None:
    assert names(unique(), *all_ok()[:9], entry(None, b"9", Outcome.FAIL)) == {"phantom"}


def test_a_failed_write_that_was_repeated_on_purpose_is_not() -> None:
    again = entry(None, b"9", Outcome.FAIL)._replace(unique=False)
    assert names(unique(), *all_ok(), again) == set()


def test_an_unknown_write_may_stand_in_the_source_or_not() -> None:
    unknown = [entry(None, b"9", Outcome.UNKNOWN), entry(None, b"nowhere", Outcome.UNKNOWN)]
    assert names(unique(), *all_ok()[:9], *unknown) == set()


def test_an_acknowledged_write_that_a_gap_gives_up_must_be_allowed() -> None:
    world = unique()
    del world.images[3:6]
    world.source_start = 6
    world.gaps = [Gap(3, 6, "retention")]
    assert names(world, *all_ok()) == {"lost"}
    assert names(world, *all_ok(), gaps_ok=True) == set()


def test_the_journal_knows_what_retention_took_from_the_source() -> None:
    world = unique()
    world.source_start = 4
    walked, findings = world.find(account=account(*all_ok()), is_complete=True)
    assert (walked.equal, walked.unverified, findings) == (10, 0, [])
    entries = all_ok()
    entries[2] = entry(2, b"another")
    assert names(world, *entries) == {"mismatch"}


def test_the_journal_tells_records_from_markers_where_the_source_is_gone() -> None:
    world = unique()
    del world.images[7], world.source[7], world.images[3]  # a hole shows markers
    world.source_start = 5
    ok = [one for one in all_ok() if one.offset != 7]
    assert names(world, *(one for one in ok if one.offset != 3)) == set()
    assert names(world, *ok) == {"gap-unreported"}


def test_a_compacted_source_may_lack_what_was_acknowledged() -> None:
    world = unique()
    del world.source[4]
    world.is_compacted = True
    assert names(world, *all_ok()) == set()
