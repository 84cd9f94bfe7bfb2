"""``heliograph clusters``: local Kafka clusters for trying and testing."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.errors import ConfigError
from heliograph.local import ivy, jars
from heliograph.local.brokers import Cluster
from heliograph.local.launch import start
from heliograph.local.registry import Record, Registry, State, stop
from heliograph.local.spec import MECHANISMS, MOST_NODES, Spec

_COLUMNS = ("name", "state", "nodes", "bootstrap", "security", "data", "logs")


@click.group("clusters", short_help="Local Kafka clusters for trying and testing.")
def clusters() -> None:
    """Local Kafka clusters for trying and testing.

    They are real Apache Kafka brokers on this machine, reachable from this machine only. Java
    17 or newer must be installed; Kafka itself is downloaded at the first use.
    """


@clusters.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@option(
    "--nodes",
    type=click.IntRange(1, MOST_NODES),
    default=1,
    show_default=True,
    help="Brokers in each cluster.",
)
@option("--racks", metavar="A,B,…", default="", help="Racks, dealt out to the nodes in turn.")
@option("--tls", is_flag=True, help="Clients connect by TLS.")
@option("--mtls", is_flag=True, help="TLS, and clients must show a certificate.")
@option(
    "--sasl",
    metavar="MECHANISM",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    help=f"Clients log in: {', '.join(MECHANISMS)}.",
)
@option("--acls", is_flag=True, help="Allow nothing without an ACL; needs --sasl or --mtls.")
@option(
    "--property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    help="A broker property; may be repeated.",
)
@option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the files in DIR/NAME, and start from what is there.",
)
@option("--foreground", is_flag=True, help="Hold the clusters until Ctrl-C.")
@shared_options
@click.pass_obj
def up(session: Session, /, names: tuple[str, ...], foreground: bool, **asked: Any) -> None:
    """Start clusters, by default two: source and target.

    Returns when they serve; they go on until `heliograph clusters down`. On a secured cluster
    there is one user, heliograph; -o json shows what a client needs.

    \b
    Examples:
      heliograph clusters up
      heliograph clusters up paris --nodes 3 --racks a,b,c
      heliograph clusters up paris --tls --sasl SCRAM-SHA-512 --acls
      heliograph clusters up paris --property log.retention.ms=60000
    """
    specs = [_spec(name, **asked) for name in names or ("source", "target")]
    registry = Registry()
    wanted = [spec.name for spec in specs]
    _refuse_repeats(wanted)
    fetch_jars(session, verify=False)
    with _booked(registry, wanted), _ended_by_sigterm():
        started = bring_up(session, specs, registry.folder)
        with _stopped_on_failure(started):
            records = [Record.of(cluster) for cluster in started]
            for record in records:
                registry.enter(record)
            _show(session, records)
            if foreground:
                _hold(session, started)
                return
            for cluster in started:
                cluster.detach()
    render.remark(session, f"Stop with: heliograph clusters down {' '.join(wanted)}")


@clusters.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@option("--all", "everything", is_flag=True, help="All that `clusters list` shows.")
@option("--keep-data", is_flag=True, help="Leave the files where they are.")
@shared_options
@click.pass_obj
def down(session: Session, /, names: tuple[str, ...], everything: bool, keep_data: bool) -> None:
    """Stop clusters, and remove their files.

    Files in a folder that was named with --data stay.
    """
    if bool(names) == everything:
        raise click.UsageError("Name the clusters to stop, or say --all.")
    registry = Registry()
    records = registry.all() if everything else registry.find(list(dict.fromkeys(names)))
    were = {record.name: record.state() for record in records}
    with render.busy(session, f"stopping {', '.join(were)}" if were else "nothing to stop"):
        stop(records, registry, keep_data=keep_data)
    for record in records:
        seen = "was not running" if were[record.name] is State.DEAD else "stopped"
        kept = (keep_data or record.is_kept) and record.folder
        files = f"its files are in {record.folder}" if kept else "its files are removed"
        render.remark(session, f"{record.name} {seen}; {files}")


@clusters.command("list")
@shared_options
@click.pass_obj
def list_clusters(session: Session, /) -> None:
    """Show the clusters that were started, and whether they run."""
    _show(session, Registry().all())


@clusters.command()
@option("--verify", is_flag=True, help="Read every jar and compare its digest.")
@shared_options
@click.pass_obj
def fetch(session: Session, /, verify: bool) -> None:
    """Make sure that Kafka's jars are here (44 MB, once).

    Says nothing when they are. Damaged jars are downloaded anew. `clusters up` does this by
    itself.
    """
    folder = fetch_jars(session, verify=verify)
    if verify or session.verbose:
        render.remark(session, f"Kafka {jars.KAFKA} is in {folder}")


def fetch_jars(session: Session, *, verify: bool) -> Path:
    """Make sure of Kafka's jars, showing how far a download is."""
    with render.count(session, f"downloading Kafka {jars.KAFKA}") as update:

        def report(progress: ivy.Progress) -> None:
            # What is needed is all known when the first jar arrives.
            update(progress.arrived, progress.found if progress.arrived else None)

        return jars.ensure(verify=verify, report=report)


def bring_up(session: Session, specs: Sequence[Spec], under: Path | None) -> tuple[Cluster, ...]:
    """Start clusters that end with this process, showing that work goes on."""
    names = " and ".join(spec.name for spec in specs)
    with render.busy(session, f"starting {names}"):
        return start(*specs, under=under)


def _spec(
    name: str, *, racks: str, properties: tuple[str, ...], data: Path | None, **plain: Any
) -> Spec:
    return Spec(
        name=name,
        racks=tuple(rack.strip() for rack in racks.split(",") if rack.strip()),
        properties=dict(_property(text) for text in properties),
        data=None if data is None else data / name,
        **plain,
    )


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(
            f"{text!r} is not a broker property. Nothing was started. Write --property KEY=VALUE."
        )
    return key.strip(), value.strip()


def _refuse_repeats(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"the cluster {name} was asked for twice. Nothing was started.")


@contextmanager
def _booked(registry: Registry, names: Sequence[str]) -> Iterator[None]:
    """Hold names while their clusters start; give them back if that fails."""
    registry.book(names)
    try:
        yield
    except BaseException:
        registry.strike(names)
        raise


@contextmanager
def _stopped_on_failure(started: Sequence[Cluster]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for cluster in started:
            cluster.stop()
        raise


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Treat a polite kill like Ctrl-C, so that nothing half started stays."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _hold(session: Session, started: Sequence[Cluster]) -> None:
    render.remark(session, "Ctrl-C stops them.")
    while any(cluster.keeper.is_alive() for cluster in started):
        time.sleep(0.2)
    render.remark(session, "They were stopped from elsewhere.")


def _show(session: Session, records: Sequence[Record]) -> None:
    rows = [_row(record) for record in records]
    empty = "No local clusters. Start two with: heliograph clusters up"
    render.show(session, rows, _COLUMNS, empty)


def _row(record: Record) -> dict[str, Any]:
    return {
        "name": record.name,
        "state": str(record.state()),
        "nodes": len(record.nodes),
        "bootstrap": record.bootstrap,
        "security": record.security,
        "data": record.folder,
        "logs": record.logs,
        "client": record.client,
        "started_at": record.started_at,
    }
