"""``heliograph mirror-maker``: MirrorMaker 1's flags and files, unchanged."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from heliograph import __version__
from heliograph.cli import render
from heliograph.cli.mm1_flags import imported, mm1_flags
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.run import mirror
from heliograph.config.settings import Config, LinkConfig
from heliograph.control.positions import find_positions
from heliograph.control.supervise import Terms
from heliograph.control.taking_over_group import take_over_group
from heliograph.errors import RecordsRefused
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup
from heliograph.local.folders import state_folder
from heliograph.wiring import config_of, setups

_PATIENCE = timedelta(seconds=30)
_DAEMON = ("-daemon", "--daemon")


@click.command("mirror-maker", short_help="Mirror, with MirrorMaker 1's flags and files.")
@mm1_flags
@option(*_DAEMON, is_flag=True, help="Run in the background; say where it writes, and its pid.")
@click.version_option(__version__, prog_name="heliograph mirror-maker")
@shared_options
@click.pass_obj
def mirror_maker(session: Session, /, daemon: bool, **words: Any) -> int:
    """Mirror as MirrorMaker 1 did: its flags and property files, unchanged.

    What has no effect any more is told on stderr; what cannot be kept to is refused with exit
    code 2. Records arrive exactly once, in the partition that they had. The link is named after
    group.id, and remembers on the target how far it is.

    It goes on where MirrorMaker's group stopped: from its committed offsets on the source, and
    behind those records that are on the target already. Where that cannot be told, or while the
    group still has members, this is refused with exit code 3. A group that has committed nothing
    begins by auto.offset.reset.

    \b
    Example:
      heliograph mirror-maker --consumer.config c.properties --producer.config p.properties \\
        --include "orders.*"
    """
    found = imported(words)
    for text in (*(f"note: {one}" for one in found.ignored), *found.warnings):
        render.remark(session, text)
    # Spark's tasks resolve secrets themselves, and inherit these; no file and no plan has them.
    os.environ.update(found.variables)
    config = config_of(found.text, "what became of MirrorMaker's flags and files")
    assert found.group is not None, "a call without a group is refused"
    config = _begin(session, config, found.group)
    (setup,) = setups(config)
    if daemon:
        _detach(session, setup)
        return 0
    # Only who asked for it has one refused record end everything.
    fatal = frozenset({RecordsRefused.code} if words["abort_on_send_failure"] else ())
    return mirror(session, config, [setup], Terms(), fatal)


def _begin(session: Session, config: Config, group: str) -> Config:
    """Return the configuration with the start that is right for what was copied before."""
    (setup,) = setups(config)
    found = find_positions(setup, group, Deadline.after(_PATIENCE))
    if found.known and found.committed.keys() <= found.known:
        # What it does not know yet was made later, and is copied whole.
        return _with_link(config, replace(setup.link, start="earliest"))
    if found.committed:
        taken = take_over_group(setup, group, found.committed)
        ahead = sum(
            one.walked.source_next - found.committed[one.position.source].offset
            for one in taken
            if not one.is_known
        )
        render.remark(
            session,
            f"Goes on where the group {group} stopped, in {len(taken)} partitions;"
            f" {ahead} records behind its offsets were on the target already.",
        )
        # What the group does not know was made later, and is copied whole.
        return _with_link(config, replace(setup.link, start="earliest"))
    where = "earliest" if setup.link.start == "earliest" else "latest"
    render.remark(
        session,
        f"The group {group} has committed nothing on the source: begins by auto.offset.reset, "
        f"which is {where}.",
    )
    return config


def _with_link(config: Config, link: LinkConfig) -> Config:
    links: Mapping[str, LinkConfig] = {**config.links, link.name: link}
    return replace(config, links=links)


def _detach(session: Session, setup: Setup) -> None:
    """Start this command again without a terminal, as Kafka's own scripts do."""
    folder = Path(os.environ.get("LOG_DIR") or state_folder() / "logs").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{setup.link.name}.out"
    words = [word for word in session.words if word not in _DAEMON]
    with file.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "heliograph.cli.app", *words],
            env={name: value for name, value in os.environ.items() if name != "HELIOGRAPH_DAEMON"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    row = {"link": setup.link.name, "pid": process.pid, "log": str(file)}
    render.show(session, [row], tuple(row), "")
