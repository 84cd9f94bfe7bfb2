"""``heliograph demo``: the guided first minutes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import click

from heliograph.cli import render
from heliograph.cli.clusters import bring_up, fetch_jars
from heliograph.cli.demo_orders import PARTITIONS, TOPIC, Shop, prove
from heliograph.cli.options import Session, option, shared_options
from heliograph.config.output import to_yaml
from heliograph.errors import DemoFailed
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import ClientSettings, parse
from heliograph.kafka.tables import Table
from heliograph.local import brokers
from heliograph.local.registry import Record, Registry
from heliograph.local.spec import Spec
from heliograph.model.configs import NewTopic
from heliograph.model.ledger import read_ledger
from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition

LINK = "demo"
_NAMES = ("demo-source", "demo-target")
_COLUMNS = ("partition", "written", "mirrored", "lost", "doubled", "equal")
_PATIENCE = timedelta(seconds=60)
_WATCH_S = 6.0


@click.command(short_help="See it work: a live mirror, killed and proven exact.")
@option("--keep", is_flag=True, help="Leave the clusters and the mirror running, to play with.")
@shared_options
@click.pass_obj
def demo(session: Session, /, keep: bool) -> None:
    """Mirror between two local clusters, kill the mirror, start it again, prove it exact.

    Takes about a minute. Needs Java 17 or newer, downloads Kafka at the first use (44 MB), and
    otherwise leaves nothing behind, unless --keep is given.
    """
    fetch_jars(session, verify=False)
    registry = Registry()
    folder = Path(tempfile.mkdtemp(prefix="heliograph-demo-"))
    if keep:
        registry.book(_NAMES)
    try:
        with ExitStack() as stack:
            specs = [Spec(name=name) for name in _NAMES]
            started = bring_up(session, specs, registry.folder if keep else None)
            for cluster in started:
                stack.callback(cluster.stop)
                render.remark(session, f"{cluster.name} serves at {cluster.bootstrap}")
            mirror = stack.enter_context(_Demo(session, folder, *started).shown())
            if keep:
                stack.pop_all()
                _leave(session, registry, started, folder, mirror)
                return
    except BaseException:
        if keep:
            registry.strike(_NAMES)
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    render.remark(session, "The mirror and both clusters are stopped, their files removed.")


class _Demo:
    """The two clusters, a shop that writes orders, and a mirror that is killed on the way."""

    def __init__(
        self, session: Session, folder: Path, source: brokers.Cluster, target: brokers.Cluster
    ) -> None:
        self._session, self._folder = session, folder
        self._source = parse(source.name, source.client_properties())
        self._target = parse(target.name, target.client_properties())
        self._file = folder / "heliograph.yaml"
        self._file.write_text(_config(source, target))

    @contextmanager
    def shown(self) -> Iterator[subprocess.Popen[bytes]]:
        """Show all of it; yields the mirror, still running, once everything is proven."""
        deadline = Deadline.after(_PATIENCE)
        with Admin(self._source, self._source.cluster) as admin:
            admin.topics.create(NewTopic(TOPIC, partitions=PARTITIONS), deadline=deadline)
        shop = Shop(self._source, self._source.cluster)
        shop.start()
        self._say(f"a shop writes orders to the topic {TOPIC}, and a mirror starts")
        mirror = self._start()
        try:
            self._watch(mirror, shop)
            mirror.kill()
            mirror.wait()
            self._say("kill -9: the mirror is gone, orders go on. Another one starts.")
            mirror = self._start()
            self._watch(mirror, shop)
            shop.close()
            self._catch_up(shop, mirror)
            self._prove(shop)
            yield mirror
        finally:
            _stop(mirror)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "heliograph.cli.app", "run", "-f", str(self._file), LINK]
        with (self._folder / "mirror.log").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _watch(self, mirror: subprocess.Popen[bytes], shop: Shop) -> None:
        """Show both sides grow, until the mirror has kept up for a few seconds."""
        began = sum(self._mirrored().values())
        until_s = time.monotonic() + _PATIENCE.total_seconds()
        kept_up_s = 0.0
        while kept_up_s < _WATCH_S:
            self._refuse_end(mirror)
            if shop.error is not None:
                raise shop.error
            if time.monotonic() > until_s:
                raise DemoFailed(f"the mirror did not keep up; its log: {self._log()}")
            mirrored = sum(self._mirrored().values())
            written = sum(shop.written.values())
            self._say(f"  {written:>7,} orders written {mirrored:>9,} mirrored")
            kept_up_s += 1.0 if mirrored > began else 0.0
            time.sleep(1.0)

    def _catch_up(self, shop: Shop, mirror: subprocess.Popen[bytes]) -> None:
        deadline = Deadline.after(_PATIENCE)
        while self._mirrored() != shop.written:
            self._refuse_end(mirror)
            if deadline.passed:
                raise DemoFailed(f"the mirror did not catch up; its log: {self._log()}")
            time.sleep(0.2)
        self._say("the shop closes, and the mirror has caught up")

    def _prove(self, shop: Shop) -> None:
        deadline = Deadline.after(_PATIENCE)
        with _cluster(self._source) as source, _cluster(self._target) as target:
            proofs = prove(source, target, shop.written, deadline)
        rows = [proof.as_row() for proof in proofs]
        render.show(self._session, rows, _COLUMNS, "nothing was written")
        if not all(proof.equal and proof.written == proof.mirrored for proof in proofs):
            raise DemoFailed("source and mirror differ; see the table")
        self._say("every order is on the mirror, once, in order, with its time and content")

    def _mirrored(self) -> dict[int, int]:
        """Return how far the ledger of each partition is."""
        deadline = Deadline.after(_PATIENCE)
        with Admin(self._target, self._target.cluster) as admin:
            if ledger_topic(LINK) not in admin.topics.describe([ledger_topic(LINK)], deadline):
                return dict.fromkeys(range(PARTITIONS), 0)
        with _cluster(self._target) as target:
            rows = Table(target, ledger_topic(LINK)).load(deadline)
        ledgers = {n: read_ledger(Partition(TOPIC, n), rows) for n in range(PARTITIONS)}
        return {number: ledger.records if ledger else 0 for number, ledger in ledgers.items()}

    def _refuse_end(self, mirror: subprocess.Popen[bytes]) -> None:
        if mirror.poll() is not None:
            raise DemoFailed(f"the mirror ended by itself; its log: {self._log()}")

    def _log(self) -> str:
        return (self._folder / "mirror.log").read_text(errors="replace")[-2000:].strip()

    def _say(self, text: str) -> None:
        render.remark(self._session, text)


def _cluster(settings: ClientSettings) -> Cluster:
    return Cluster(settings, settings.cluster)


def _config(source: brokers.Cluster, target: brokers.Cluster) -> str:
    ends = (source, target)
    return to_yaml(
        {
            "clusters": {
                one.name: dict(one.client_properties(), allow_literal_secrets=True) for one in ends
            },
            "links": {LINK: {"source": source.name, "target": target.name, "topics": [TOPIC]}},
        }
    )


def _stop(mirror: subprocess.Popen[bytes]) -> None:
    if mirror.poll() is None:
        mirror.send_signal(signal.SIGTERM)
        try:
            mirror.wait(_PATIENCE.total_seconds())
        except subprocess.TimeoutExpired:
            os.killpg(mirror.pid, signal.SIGKILL)


def _leave(
    session: Session,
    registry: Registry,
    started: tuple[brokers.Cluster, ...],
    folder: Path,
    mirror: subprocess.Popen[bytes],
) -> None:
    for cluster in started:
        registry.enter(Record.of(cluster))
        cluster.detach()
    file = folder / "heliograph.yaml"
    render.remark(session, f"Left running: both clusters, and the mirror (pid {mirror.pid}). Try:")
    render.remark(session, f"  heliograph status -f {file}")
    render.remark(session, f"  heliograph stop {LINK} -f {file}")
    render.remark(session, f"  heliograph clusters down {' '.join(_NAMES)}")
