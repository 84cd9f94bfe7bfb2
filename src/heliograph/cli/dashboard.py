"""``heliograph dashboard``: the REST API, alone or beside a run."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.cli.stopping import Stopping
from heliograph.config.settings import Config
from heliograph.errors import AddressTaken
from heliograph.links.setup import Setup
from heliograph.model.moments import moment
from heliograph.wiring import load_config, serve, setups


@click.command(short_help="Serve the REST API.")
@option("--listen", metavar="HOST:PORT", help="Where to listen; wins over dashboard.listen.")
@shared_options
@click.pass_obj
def dashboard(session: Session, /, listen: str | None) -> int:
    """Serve the REST API until told to stop: what links do, and pause, resume and stop.

    Runs on any machine that reaches the targets; no link runs here. Listens on loopback unless told
    otherwise, and anywhere else only with `dashboard.token`. Changes are logged on stderr, each
    with who asked for it. Ctrl-C and SIGTERM end it.

    \b
    Examples:
      heliograph dashboard
      heliograph dashboard --listen 127.0.0.1:9000
      curl http://127.0.0.1:8040/api/v1/links
    """
    config = load_config(session.file, listen=listen)
    stopping = Stopping()
    stopping.listen()
    with _logged(session), serve(config, setups(config)) as place:
        render.remark(session, f"The REST API is at http://{place}/api/v1, its page at /docs.")
        stopping.wait()
    return stopping.status


@contextmanager
def beside(session: Session, config: Config, chosen: Sequence[Setup]) -> Iterator[None]:
    """Serve the REST API beside a run, where the configuration has a section for it.

    A run goes on without one where another process listens already: mirroring matters more.
    """
    with ExitStack() as stack:
        if config.has_dashboard:
            stack.enter_context(_logged(session))
            try:
                place = stack.enter_context(serve(config, chosen))
            except AddressTaken as taken:
                render.remark(session, f"warning: {taken}. Links run without it.")
            else:
                render.remark(session, f"The REST API is at http://{place}/api/v1.")
        yield


@contextmanager
def _logged(session: Session) -> Iterator[None]:
    """Show what the API logs, each line with its time."""
    logger, lines = logging.getLogger("heliograph.web"), _Lines(session)
    logger.setLevel(logging.DEBUG if session.verbose else logging.INFO)
    logger.addHandler(lines)
    try:
        yield
    finally:
        logger.removeHandler(lines)


class _Lines(logging.Handler):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        at = moment(int(record.created * 1000))
        render.remark(self._session, f"{at} {self.format(record)}")
