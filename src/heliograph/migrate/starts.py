"""Where a link begins that has no position yet: ``auto.offset.reset`` in, ``start`` out."""

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


def put_start(draft: Draft, path: Path, entry: Entry | None, *, default: str = "earliest") -> None:
    """Write the start; ``default`` is what a client does if nobody says.

    Of topics that appear later MirrorMaker loses the first records; here they are copied whole.
    """
    word = reset_word(entry, default)
    entries = [] if entry is None else [entry]
    if word is None:
        assert entry is not None, "a default is one of the words"
        draft.refuse(entry, "say where to begin: earliest or latest")
    elif word == "earliest":
        if entries:
            draft.map(path, "earliest", *entries)
    elif entries:
        draft.map(path, "latest", *entries, change="topics that appear later are copied whole")
    else:
        draft.default(path, "latest", "as consumers do where auto.offset.reset is not given")
