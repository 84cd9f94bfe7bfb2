"""``heliograph run``: mirror, until told to stop."""

import threading
import time
from collections.abc import Sequence
from datetime import timedelta

import click

from heliograph.cli import render
from heliograph.cli.dashboard import beside
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.stopping import Stopping
from heliograph.config.settings import Config
from heliograph.control.bound import Bound
from heliograph.control.supervise import LEASE, Terms
from heliograph.control.voice import Progress
from heliograph.errors import HeliographError, RunFailed
from heliograph.links.setup import Setup
from heliograph.wiring import Application, load_config, setups

_SUMMARY = ("link", "records", "bytes", "seconds", "lag")


@click.command(short_help="Mirror, until told to stop.")
@click.argument("links", nargs=-1, metavar="[LINK]...")
@option("--until-synced", is_flag=True, help="Copy what is there now, then end with a summary.")
@option("--master", metavar="URL", help="Where Spark runs; wins over spark.master.")
@option(
    "--lease-seconds",
    type=click.FloatRange(min=1),
    default=LEASE.total_seconds(),
    show_default=True,
    help="How long a task copies before the leases are dealt out anew.",
)
@shared_options
@click.pass_obj
def run(
    session: Session,
    /,
    links: tuple[str, ...],
    until_synced: bool,
    master: str | None,
    lease_seconds: float,
) -> int:
    """Mirror the links of the configuration, all unless some are named, until told to stop.

    Ctrl-C and SIGTERM end in good order: what is on its way lands, ledgers are written. It can be
    started again anywhere, at any time: what was copied is read from the target. A second `run` of
    the same link takes it over; one with --until-synced gives it back at its end. A link whose
    cluster is away is tried again until it can be copied, unless with --until-synced.

    With --until-synced, what is paused, and a topic that is named and does not exist, is not
    copied; the rest is, and the exit code is 1. So it is where SIGTERM ended the run before all had
    arrived. Ctrl-C is 130.

    \b
    Examples:
      heliograph run                              everything, for ever
      heliograph run paris-dublin --until-synced  one link, once
    """
    config = load_config(session.file, master=master, may_start=True)
    terms = Terms(timedelta(seconds=lease_seconds), until_synced)
    return mirror(session, config, setups(config, links), terms)


def mirror(
    session: Session,
    config: Config,
    chosen: Sequence[Setup],
    terms: Terms,
    fatal: frozenset[str] = frozenset(),
) -> int:
    """Mirror links until told to stop, and return the exit status.

    A partition that stops by an error whose code is ``fatal`` ends them all, with an error.
    """
    application = Application(config, chosen, terms, lambda text: render.remark(session, text))
    stopping = Stopping()
    stopping.listen()
    started_s = time.monotonic()
    with beside(session, config, chosen):
        try:
            application.start()
            stopping.listen()  # Spark has put its own handler in place: it would kill the tasks
            render.remark(session, f"Spark runs, after {time.monotonic() - started_s:.1f} s")
            ended = _watch(session, application, stopping, fatal)
        finally:
            if stopping.is_set():
                render.remark(session, "Stopping: what is on its way lands first.")
            application.stop()
    _tell(session, application, stopping)
    if ended:
        raise RunFailed(f"a partition stopped by {ended}; see above. Everything was stopped")
    return stopping.status


def _watch(
    session: Session, application: Application, stopping: threading.Event, fatal: frozenset[str]
) -> str:
    """Show how the links get on until they are over: in place on a terminal, else now and then.

    Returns the fatal code that they are to end by, if there was one.
    """
    with render.ticker(session) as tick:
        while application.is_running and not stopping.is_set():
            application.wait(0.2)
            tick(
                [
                    _line(name, supervisor.progress)
                    for name, supervisor in application.supervisors.items()
                    if supervisor.progress.lag_records is not None
                ]
            )
            for supervisor in application.supervisors.values():
                if found := fatal & supervisor.progress.codes:
                    return min(found)
    return ""


def _line(name: str, progress: Progress) -> str:
    lag = f"lag {progress.lag_records:,} records"
    rate = (
        f"{progress.records_per_second:,.0f} records/s, {progress.bytes_per_second / 1e6:.1f} MB/s"
    )
    eta = f", {progress.eta_s:,.0f} s to go" if progress.lag_records and progress.eta_s else ""
    faulted = f", {progress.faulted} of {progress.partitions} partitions FAULTED"
    return f"{name}: {lag}, {rate}{eta}{faulted if progress.faulted else ''}"


def _tell(session: Session, application: Application, stopping: Stopping) -> None:
    """Show what came of bounded runs; raise where a link failed, or not everything was copied.

    Ctrl-C has an exit status of its own: then what was not copied is told, and no error.
    """
    rows = [
        _row(name, supervisor.summary)
        for name, supervisor in application.supervisors.items()
        if supervisor.summary is not None
    ]
    if rows:
        render.show(session, rows, _SUMMARY, "")
    alone = len(application.failures) == 1 == len(application.supervisors)
    for name, failure in application.failures.items():
        if not isinstance(failure, HeliographError) or (alone and not stopping.status):
            raise failure
        render.remark(session, f"error: link {name}: {failure}")
    if application.failures and not stopping.status:
        raise RunFailed(f"{len(application.failures)} links ended with an error; see above")
    for name, supervisor in application.supervisors.items():
        for line in supervisor.summary.left_out if supervisor.summary else ():
            render.remark(session, f"{name}: {line}")
    left = [row["link"] for row in rows if row["lag"] != 0 or row["left_out"]]
    if not left:
        return
    why = "was" if stopping.is_set() else "could be"
    text = f"not everything {why} copied: {', '.join(map(str, left))}; see above"
    if not stopping.status:
        raise RunFailed(text)
    render.remark(session, text)


def _row(name: str, bound: Bound) -> dict[str, object]:
    """Return the summary of a bounded run; what is not known of one that failed is None."""
    records, size_bytes = bound.copied or (None, None)
    given_up = bound.given_up
    return {
        "link": name,
        "records": records,
        "bytes": size_bytes,
        "seconds": round(bound.seconds, 1),
        "lag": None if given_up is None else len(given_up),
        "given_up": None if given_up is None else [str(partition) for partition in given_up],
        "left_out": list(bound.left_out),
    }
