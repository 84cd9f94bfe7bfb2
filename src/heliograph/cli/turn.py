"""``heliograph failback | switch``: links that turn round."""

from datetime import timedelta
from typing import Literal

import click

from heliograph.cli.options import Session, option
from heliograph.cli.recover import (
    consent,
    meant,
    recovering,
    say_to,
    setup_of,
    show,
    timeout_option,
)
from heliograph.cli.steer import who
from heliograph.recovery import failback as failing_back
from heliograph.recovery import switch as switching
from heliograph.recovery.command import Options
from heliograph.recovery.failback import Manner
from heliograph.recovery.switch import Swap


@click.command(short_help="The old source is back: mirror back what came since.")
@recovering
@option(
    "--diverged-to",
    type=click.Choice(["source", "target"]),
    default="target",
    show_default=True,
    help="The side of the link that keeps, in <topic>.diverged, what only the old source has.",
)
@option("--wipe", is_flag=True, help="Delete the old source's topics, and mirror everything back.")
@click.option("--all", "every", is_flag=True, help="With --wipe: all topics of the link.")
@option("--yes", is_flag=True, help="With --wipe: do not ask whether the topics may be deleted.")
def failback(
    session: Session,
    /,
    link: str,
    topics: str | None,
    named: str | None,
    dry_run: bool,
    no_hooks: bool,
    diverged_to: Literal["source", "target"],
    wipe: bool,
    every: bool,
    yes: bool,
) -> int:
    """After a failover or a promotion: let the old source be the mirror, then switch back to it.

    Finds where the two sides parted, saves what only the old source has to <topic>.diverged, with
    where each record stood in its headers, and turns the link round: what was written to the
    target since is copied back, exactly once, by whoever runs the link. Groups follow. Once it has
    caught up, `heliograph switch LINK --back` makes the old source primary again.

    \b
    Examples:
      heliograph failback paris-dublin --dry-run
      heliograph failback paris-dublin
      heliograph failback paris-dublin --wipe --topics orders
    """
    if wipe and topics is None and named is None and not every:
        raise click.UsageError(
            "--wipe deletes topics: name them with --topics or --set, or say --all."
        )
    setup = setup_of(session, link)
    pattern = meant(setup, topics, named)
    options = Options(who(), pattern, has_hooks=not no_hooks)
    manner = Manner(diverged_to, wipe)
    if dry_run:
        return show(session, failing_back.foresee(setup, options, manner))
    if wipe and not yes:
        names = pattern or "all topics"
        consent(f"{link}: delete {names} on {setup.link.source}, and mirror everything back?")
    return show(session, failing_back.failback(setup, options, manner, say_to(session)))


@click.command(short_help="Planned: swap source and target, with nothing lost.")
@recovering
@option("--back", is_flag=True, help="Make the link's source primary again.")
@option(
    "--fence",
    type=click.Choice(["acl", "none"]),
    default="acl",
    show_default=True,
    help="How writers are kept out: ACLs that deny everybody, or by other means, such as a hook.",
)
@timeout_option
def switch(
    session: Session,
    /,
    link: str,
    topics: str | None,
    named: str | None,
    dry_run: bool,
    no_hooks: bool,
    back: bool,
    fence: Literal["acl", "none"],
    timeout: timedelta,
) -> int:
    """Make the link's target primary, and its source the mirror; --back for the way back.

    Keeps writers out of the source topics and sees that they stand still, waits until every record
    has arrived, closes the mirrors, moves the groups, and turns the link round. Refuses (exit code
    3) where somebody still writes or records are missing when the time is over: then everything is
    as before. Said twice, it changes nothing.

    \b
    Examples:
      heliograph switch paris-dublin --dry-run
      heliograph switch paris-dublin
      heliograph switch paris-dublin --back --fence none
    """
    setup = setup_of(session, link)
    options = Options(who(), meant(setup, topics, named), timeout, not no_hooks)
    swap = Swap(back, fence)
    if dry_run:
        return show(session, switching.foresee(setup, options, swap))
    return show(session, switching.switch(setup, options, swap, say_to(session)))
