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
from heliograph.local import ivy, jars, preview
from heliograph.local.brokers import Cluster
from heliograph.local.launch import start
from heliograph.local.registry import Record, Registry, State, stop
from heliograph.local.spec import MECHANISMS, MOST_NODES, Spec

_COLUMNS = ("name", "state", "nodes", "bootstrap", "security", "data", "logs")
_START_COLUMNS = ("name", "nodes", "racks", "security", "data")
_STOP_COLUMNS = ("name", "state", "stops", "removes", "keeps")


@click.group("clusters", short_help="Local Kafka clusters for trying and testing.")
@shared_options
def clusters() -> None:
    """Local Kafka clusters for trying and testing.

    They are real Apache Kafka brokers on this machine, reachable from this machine only. Java
    17 or newer must be installed; Kafka itself is downloaded at the first use.

    \b
    Example:
      heliograph clusters up            # two, called source and target
      heliograph clusters list          # where they are
      heliograph clusters down --all
    """


_dry_run = option("--dry-run", is_flag=True, help="Print what would be done, and do nothing of it.")


@clusters.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@option(
    "--nodes",
    metavar="N",
    type=click.IntRange(1, MOST_NODES),
    default=1,
    show_default=True,
    help="Brokers in each cluster.",
)
@option(
    "--racks",
    metavar="A,B,…",
    default="",
    help="Racks of the nodes, in turn: with A,B the third node is on A again.",
)
@option("--tls", is_flag=True, help="Clients must connect by TLS.")
@option("--mtls", is_flag=True, help="The same, and they must show a certificate.")
@option(
    "--sasl",
    metavar=f"[{'|'.join(MECHANISMS)}]",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    help="Clients must log in, in this way.",
)
@option(
    "--acls",
    is_flag=True,
    help="Who logs in may do nothing until an ACL allows it; needs --sasl or --mtls.",
)
@option(
    "--property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    help="A property of every broker, as in server.properties; may be repeated.",
)
@option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the files in DIR/NAME, also after `down`; go on from records that are there.",
)
@option("--foreground", is_flag=True, help="Do not return; Ctrl-C stops the clusters.")
@_dry_run
@shared_options
@click.pass_obj
def up(
    session: Session, /, names: tuple[str, ...], foreground: bool, dry_run: bool, **asked: Any
) -> None:
    """Start clusters, by default two: source and target.

    Returns when they serve; they go on until `heliograph clusters down`. On a secured cluster
    there is one user, heliograph. With -o json, `client` holds the settings that a client
    needs, and `internal_bootstrap` is an address where no login is asked for and no ACL holds.

    \b
    Examples:
      heliograph clusters up
      heliograph clusters up paris --nodes 3 --racks a,b,c
      heliograph clusters up paris --tls --sasl SCRAM-SHA-512 --acls
      heliograph clusters up paris --property log.retention.ms=60000
      heliograph clusters up paris --nodes 3 --dry-run
    """
    specs = [_spec(name, **asked) for name in names or ("source", "target")]
    registry = Registry()
    wanted = [spec.name for spec in specs]
    _refuse_repeats(wanted)
    if dry_run:
        _show_start(session, preview.of_start(specs, registry))
        return
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
@option(
    "--all",
    "everything",
    is_flag=True,
    envvar=None,  # never implied by an environment
    help="All that `clusters list` shows.",
)
@option("--keep-data", is_flag=True, help="Leave the files where they are.")
@_dry_run
@shared_options
@click.pass_obj
def down(
    session: Session, /, names: tuple[str, ...], everything: bool, keep_data: bool, dry_run: bool
) -> None:
    """Stop clusters, and remove their files.

    Asks nothing, because it removes only folders that `clusters up` itself made for these
    clusters. A folder that was named with --data stays.

    \b
    Examples:
      heliograph clusters down source target
      heliograph clusters down --all --dry-run
    """
    if bool(names) == everything:
        raise click.UsageError("Name the clusters to stop, or say --all.")
    registry = Registry()
    records = registry.all() if everything else registry.find(list(dict.fromkeys(names)))
    if dry_run:
        _show_stop(session, preview.of_stop(records, keep_data=keep_data))
        return
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
        "internal_bootstrap": record.internal_bootstrap,
        "security": record.security,
        "data": record.folder,
        "logs": record.logs,
        "client": record.client,
        "started_at": record.started_at,
    }


def _show_start(session: Session, starts: preview.Starts) -> None:
    if starts.downloads:
        render.remark(session, f"{starts.downloads} would be downloaded first (44 MB).")
    for folder in starts.removes:
        render.remark(session, f"What a dead cluster left in {folder} would be removed.")
    rows = [_start_row(one, starts) for one in starts.clusters]
    render.show(session, rows, _START_COLUMNS, "Nothing to start.")
    for one in starts.clusters:
        for number, properties in enumerate(one.broker_properties, 1):
            render.settings(session, f"{one.spec.name}, node {number}", properties)
    render.remark(
        session,
        f"Nothing was started. Each port (shown as {preview.DRAWN_PORT}) and the end of a new "
        f"folder's name ({preview.DRAWN_LETTERS}) are drawn at the start.",
    )


def _start_row(start: preview.Start, starts: preview.Starts) -> dict[str, Any]:
    spec = start.spec
    racks = [spec.rack(node) for node in range(1, spec.nodes + 1)]
    return {
        "name": spec.name,
        "nodes": spec.nodes,
        "racks": [rack for rack in racks if rack is not None],
        "security": spec.security,
        "data": str(start.folder),
        "holds_records": start.holds_records,
        "broker_properties": list(start.broker_properties),
        "downloads": starts.downloads,
        "removes": list(starts.removes),
    }


def _show_stop(session: Session, stops: Sequence[preview.Stop]) -> None:
    rows = [
        {
            "name": one.name,
            "state": str(one.state),
            "stops": [f"{name} (pid {pid})" for name, pid in one.processes],
            "removes": one.removes,
            "keeps": one.keeps,
        }
        for one in stops
    ]
    render.show(session, rows, _STOP_COLUMNS, "No local clusters, so there is nothing to stop.")
    render.remark(session, "Nothing was stopped or removed.")
