"""``heliograph import mm2 --take-over``: go on where MirrorMaker 2 stopped."""

import os
from typing import Any

from heliograph.cli import render
from heliograph.cli.options import Session
from heliograph.control.adopting import Adoption
from heliograph.control.taking_over import take_over
from heliograph.errors import Unsafe
from heliograph.migrate.draft import Imported
from heliograph.wiring import config_of, setups

_COLUMNS = ("link", "topic", "partition", "mirror", "copied_to", "doubled", "state")


def take_over_all(session: Session, found: Imported, *, dry_run: bool) -> None:
    """Take over every link, show what was found, and raise where one could not be."""
    os.environ.update(found.variables)  # what stood in the file in the open
    rows: list[dict[str, Any]] = []
    refused = []
    for setup in setups(config_of(found.text, "what became of MirrorMaker's file")):
        link = setup.link.name
        with render.busy(session, f"comparing the mirrors of {link} with their sources"):
            taken = take_over(setup, found.keepings[link], dry_run=dry_run)
        rows += [_row(link, one, dry_run) for one in taken.adoptions]
        refused += [f"{link}: {one.error}" for one in taken.adoptions if one.error is not None]
        if taken.unstored:
            render.remark(
                session,
                f"{link}: MirrorMaker 2 had stored no position for {taken.unstored} partitions."
                " Their mirrors were compared with the source all the same.",
            )
        if taken.doubled:
            render.remark(
                session,
                f"{link}: MirrorMaker 2 left {taken.doubled} records twice on the mirrors. They"
                " stay: nobody but their readers can tell which one to drop.",
            )
    render.show(
        session, rows, _COLUMNS, "No mirror of these links holds a record: nothing to take over."
    )
    if refused:
        told = "\n  - ".join(refused)
        raise Unsafe(f"some partitions cannot be taken over, so nothing was changed:\n  - {told}")


def _row(link: str, one: Adoption, dry_run: bool) -> dict[str, Any]:
    where = one.position
    if one.error is not None:
        state = "refused"
    elif one.is_known:
        state = "known already"
    else:
        state = "would go on" if dry_run else "goes on"
    return {
        "link": link,
        "topic": where.source.topic,
        "partition": where.source.partition,
        "mirror": where.mirror.topic,
        "copied_to": None if one.is_known or one.error else one.walked.source_next,
        "doubled": len(one.walked.doubled),
        "state": state,
    }
