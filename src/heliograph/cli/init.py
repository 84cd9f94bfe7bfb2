"""``heliograph init``: a configuration to begin with."""

import click

from heliograph.cli.options import option, shared_options
from heliograph.config.reference import example


@click.command(short_help="Print a heliograph.yaml to begin with.")
@option("--minimal", is_flag=True, help="Only what must be given.")
@shared_options
def init(minimal: bool) -> None:
    """Print a heliograph.yaml: an example, and every setting with its default as a comment.

    Changes nothing. The output is YAML whatever --output says.

    \b
    Example:
      heliograph init > heliograph.yaml
    """
    click.echo(example(minimal=minimal), nl=False)
