"""``heliograph import``: MirrorMaker's files in, a heliograph.yaml out."""

from pathlib import Path
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.mm1_flags import imported, mm1_flags, read_text
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.take_over import take_over_all
from heliograph.config.load import load
from heliograph.errors import ConfigError
from heliograph.migrate.connect import is_json, read_connector
from heliograph.migrate.draft import Imported
from heliograph.migrate.entries import read_properties
from heliograph.migrate.mm2 import import_mm2
from heliograph.migrate.patterns import split_list

_output_file = option(
    "-O",
    "--output-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write it there, to a file that does not exist yet; else it is printed.",
)


@click.group("import", short_help="Turn MirrorMaker's files into a heliograph.yaml.")
@shared_options
def import_files() -> None:
    """Turn MirrorMaker's files into a heliograph.yaml.

    Every key is accounted for in a comment: mapped, changed or not needed. What cannot be kept to
    is refused, all of it at once, each with its remedy. Secrets are never printed: they become
    references to environment variables, which stderr names. No cluster is asked, and positions
    are not taken over.

    \b
    Examples:
      heliograph import mm2 mm2.properties > heliograph.yaml
      heliograph import mm1 --consumer.config c.properties --producer.config p.properties \\
        --include "orders.*" > heliograph.yaml
    """


@import_files.command(short_help="From an mm2.properties, or a connector's JSON.")
@click.argument("properties", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("more_clusters", nargs=-1, metavar="[B]...")
@option(
    "--clusters",
    metavar="B...",
    multiple=True,
    help="Only links to these target clusters; several follow each other.",
)
@_output_file
@option(
    "--take-over",
    is_flag=True,
    help="Find out where MirrorMaker 2 stopped, and write it down for the links.",
)
@option("--dry-run", is_flag=True, help="With --take-over: only show what would be written down.")
@shared_options
@click.pass_obj
def mm2(
    session: Session,
    /,
    properties: Path,
    more_clusters: tuple[str, ...],
    clusters: tuple[str, ...],
    output_file: Path | None,
    take_over: bool,
    dry_run: bool,
) -> None:
    """Turn an mm2.properties, or the JSON of a MirrorSourceConnector, into a heliograph.yaml.

    With --take-over, once MirrorMaker 2 has been stopped or killed: the mirrors are compared with
    their sources, from where it says it was, or else from the beginning, to their ends, and the
    links continue exactly there. Records that it copied twice are reported. If it still runs, or
    some partition cannot be taken over, nothing is changed, and the exit code is 3.

    \b
    Examples:
      heliograph import mm2 mm2.properties -O heliograph.yaml
      heliograph import mm2 mm2.properties --clusters dublin > heliograph.yaml
      heliograph import mm2 mm2.properties --take-over --dry-run
      heliograph import mm2 mm2.properties --take-over
    """
    if dry_run and not take_over:
        raise click.UsageError("--dry-run goes with --take-over.")
    if more_clusters and not clusters:
        raise click.UsageError(f"Got unexpected extra argument ({more_clusters[0]})")
    targets = [one for words in (*clusters, *more_clusters) for one in split_list(words)]
    text = read_text(properties)
    if is_json(text):
        # JSON is UTF-8; only property files have a character for each byte.
        entries = read_connector(text.encode("latin-1").decode(errors="replace"), properties.name)
    else:
        entries = read_properties(text)
    found = import_mm2(entries, name=properties.name, targets=targets)
    if output_file is not None or not take_over:
        _give(session, found, output_file)
    if take_over:
        take_over_all(session, found, dry_run=dry_run)


@import_files.command(short_help="From the flags and files of MirrorMaker 1.")
@mm1_flags
@_output_file
@shared_options
@click.pass_obj
def mm1(session: Session, /, output_file: Path | None, **words: Any) -> None:
    """Turn a call of MirrorMaker 1 into a heliograph.yaml: the same flags, the same files.

    \b
    Example:
      heliograph import mm1 --consumer.config c.properties --producer.config p.properties \\
        --include "orders.*" -O heliograph.yaml
    """
    _give(session, imported(words), output_file)


def _give(session: Session, found: Imported, file: Path | None) -> None:
    load(found.text, name="what became of it")
    if file is None:
        click.echo(found.text, nl=False)
    else:
        try:
            with file.open("x", encoding="utf-8") as new:
                new.write(found.text)
        except FileExistsError:
            raise ConfigError(f"{file} is there already. Remove it, or name another") from None
        render.remark(session, f"Written to {file}.")
    for warning in found.warnings:
        render.remark(session, f"warning: {warning}")
    if found.variables:
        names = ", ".join(found.variables)
        render.remark(session, f"Secrets stood in the open. Export them before a run: {names}")
