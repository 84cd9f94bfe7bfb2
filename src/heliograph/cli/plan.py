"""``heliograph plan``: what ``run`` would change; nothing is."""

from dataclasses import asdict

import click

from heliograph.cli import render
from heliograph.cli.options import Session, shared_options
from heliograph.control.planning import plan as plan_link
from heliograph.control.planning import steps
from heliograph.wiring import load_config, setups

GOOD, BAD = 0, 1
_COLUMNS = ("link", "action", "topic", "detail")


@click.command(short_help="Show what would be created and altered; change nothing.")
@click.argument("links", nargs=-1, metavar="[LINK]...")
@shared_options
@click.pass_obj
def plan(session: Session, /, links: tuple[str, ...]) -> int:
    """Show what `run` would change on the targets: mirrors to create, to grow and to alter.

    Changes nothing. Plans all links unless some are named. Exit code 1 means that something cannot
    be done; stderr says what.

    \b
    Examples:
      heliograph plan
      heliograph plan paris-dublin -o json
    """
    shown, errors = [], 0
    for setup in setups(load_config(session.file, may_start=True), links):
        name = setup.link.name
        with render.busy(session, f"looking at both ends of {name}"):
            blueprint = plan_link(setup)
        shown += [asdict(step) for step in steps(name, blueprint)]
        for text in (*blueprint.errors, *blueprint.notes):
            render.remark(session, f"{name}: {text}")
        errors += len(blueprint.errors)
    render.show(session, shown, _COLUMNS, "Nothing to change: the mirrors are in step.")
    return BAD if errors else GOOD
