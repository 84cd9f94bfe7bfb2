"""``heliograph limits``: how much a link may copy in a second, changed as it runs."""

from functools import partial

import click

from heliograph.cli.options import Session, option
from heliograph.cli.steer import ask, steering
from heliograph.config.values import parse_limit
from heliograph.control.commands import limit_bytes
from heliograph.wiring import load_config, setups


def _limit(_: click.Context, __: click.Parameter, value: str) -> int | None:
    """Return the limit: 0 for none, None for that of the file."""
    try:
        return parse_limit(value)
    except ValueError as wrong:
        raise click.BadParameter(f"{value!r} {wrong}.") from None


@click.command(short_help="Change how much a link may copy in a second.")
@click.argument("link", metavar="LINK")
@option(
    "--bytes-per-second",
    metavar="SIZE",
    callback=_limit,
    required=True,
    help="Such as 50MB; off for no limit; file for what the configuration says.",
)
@steering
def limits(
    session: Session, /, link: str, bytes_per_second: int | None, dry_run: bool, no_wait: bool
) -> int:
    """Change how many bytes a link may copy in a second, while it runs.

    It takes effect within two seconds, and holds for a `run` that is started later.

    \b
    Examples:
      heliograph limits paris-dublin --bytes-per-second 20MB
      heliograph limits paris-dublin --bytes-per-second off
      heliograph limits paris-dublin --bytes-per-second file
    """
    (setup,) = setups(load_config(session.file), [link])
    wish = partial(limit_bytes, bytes_per_second)
    return ask(session, setup, wish, dry_run=dry_run, wait=not no_wait)
