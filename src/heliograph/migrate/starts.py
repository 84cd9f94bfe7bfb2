"""Where a link begins that has no position yet: ``auto.offset.reset`` in, ``start`` out."""

from datetime import UTC, datetime

from heliograph.migrate.draft import Draft, Path
from heliograph.migrate.entries import Entry

_WORDS = {
    "earliest": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "largest": "latest",
}


def reset_word(entry: Entry | None, default: str) -> str | None:
    """Return earliest or latest; None where neither is meant."""
    return default if entry is None else _WORDS.get(entry.value.lower())


def put_start(
    draft: Draft, path: Path, entry: Entry | None, now: datetime, *, default: str = "earliest"
) -> None:
    """Write the start; ``default`` is what a client does if nobody says.

    Latest becomes the present: topics that are there begin at their ends, and those made later
    are copied whole, of which MirrorMaker loses the first records.
    """
    word = reset_word(entry, default)
    entries = [] if entry is None else [entry]
    if word is None:
        assert entry is not None, "a default is one of the words"
        draft.refuse(entry, "say where to begin: earliest or latest")
    elif word == "earliest":
        if entries:
            draft.map(path, "earliest", *entries)
    else:
        moment = now.astimezone(UTC).replace(microsecond=0)
        text = moment.isoformat().replace("+00:00", "Z")
        why = "latest is the time of this import, so that topics made later are copied whole"
        if entries:
            draft.map(path, text, *entries, change=why)
        else:
            draft.default(path, text, f"auto.offset.reset is not given, so {why}")
