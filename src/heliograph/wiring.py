"""Settings in, parts out: the only module that knows them all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from heliograph.config.document import Finding
from heliograph.config.load import find, inspect, load, load_file
from heliograph.config.settings import ClusterConfig, Config
from heliograph.config.values import Address, parse_address, parse_master
from heliograph.control.cycles import cycles_in_file
from heliograph.control.lifetime import Lifetime
from heliograph.control.operations import Operations, no_such_link
from heliograph.control.supervise import Terms
from heliograph.errors import ConfigError, EngineFailed
from heliograph.kafka import clock
from heliograph.kafka.client_settings import ClientSettings
from heliograph.links.setup import Setup, client_settings, make_setup, opposite, refuse_unbuilt
from heliograph.local.folders import cache_folder
from heliograph.model.names import REVERSE, reverse_name
from heliograph.model.slots import check_slots, full_master, slots_of
from heliograph.spark.home import archive_name
from heliograph.spark.query import Engine
from heliograph.web import guard

T = TypeVar("T")
# How long the opposite direction of a link waits after it failed.
_AGAIN_S = 10.0


def load_config(
    file: Path | None = None,
    *,
    master: str | None = None,
    listen: str | None = None,
    may_start: bool = False,
) -> Config:
    """Read the configuration, with every mistake in it told at once; what is typed wins over it.

    ``may_start`` is for those that start links, or say whether they could: links that would copy
    their own copies are a mistake then. Nobody is kept from looking and stopping because of them.
    """
    config = load_file(
        find(file),
        check_cluster=_mistakes,
        check_topology=cycles_in_file if may_start else None,
        check_dashboard=guard.mistakes,
    )
    _refuse_reverse_names(config)
    if master is not None:
        spark = replace(config.spark, master=_typed("--master", parse_master, master))
        config = replace(config, spark=spark)
    if listen is not None:
        place = _typed("--listen", parse_address, listen)
        config = replace(config, dashboard=replace(config.dashboard, listen=place))
    return config


def _refuse_reverse_names(config: Config) -> None:
    """Raise where a link has the name of another one's opposite direction: they would share it."""
    for name in config.links:
        if reverse_name(name) in config.links:
            raise ConfigError(
                f"links: {reverse_name(name)} is what the opposite direction of {name} is called,"
                " once a recovery verb turns it round. Give that link another name"
            )


def _typed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as wrong:
        raise ConfigError(f"{option} {text} {wrong}") from None


def config_of(text: str, name: str) -> Config:
    """Read a configuration that stands in no file; ``name`` is for the message."""
    return load(text, name=name, check_cluster=_mistakes)


def setups(config: Config, links: Sequence[str] = ()) -> list[Setup]:
    """Return the links that were named, in the order of the file; all of them unless told."""
    unknown = [name for name in links if name.removesuffix(REVERSE) not in config.links]
    if unknown:
        raise no_such_link(unknown[0], list(config.links))
    into = {
        cluster: tuple(one.name for one in config.links.values() if one.target == cluster)
        for cluster in config.clusters
    }
    made = {
        name: make_setup(
            link, config.clusters[link.source], config.clusters[link.target], into[link.source]
        )
        for name, link in config.links.items()
    }
    reverses = {reverse_name(name): opposite(setup) for name, setup in made.items()}
    chosen = [setup for name, setup in made.items() if not links or name in links]
    return chosen + [reverses[name] for name in links if name not in made]


def settings_of(config: Config, cluster: str) -> ClientSettings:
    """Return how to connect to a cluster of the configuration, whether links use it or not."""
    if cluster not in config.clusters:
        known = ", ".join(config.clusters)
        raise ConfigError(f"there is no cluster {cluster!r}. The configuration has: {known}")
    return client_settings(config.clusters[cluster])


def validate(text: str) -> list[Finding]:
    """Return the mistakes in a configuration that somebody sent, without looking at anything else.

    What its references stand for is not for the sender to know: none is resolved, no file opened.
    """
    judge = partial(_mistakes, text_only=True)
    return inspect(text, judge, cycles_in_file, guard.mistakes)[1]


def _mistakes(cluster: ClusterConfig, *, text_only: bool = False) -> list[str]:
    try:
        client_settings(cluster, text_only=text_only)
    except ConfigError as error:
        return error.message.split("\n  - ")[1:] or [error.message]
    return []


@contextmanager
def serve(config: Config, chosen: Sequence[Setup]) -> Iterator[Address]:
    """Serve the REST API for some links while the context lasts; yield where it listens."""
    # Here, because no other command needs the web framework, nor the time that it takes to load.
    from heliograph.web.server import serving

    with (
        closing(Operations(chosen)) as operations,
        serving(operations, validate, config.dashboard) as place,
    ):
        yield place


def class_archive() -> Path:
    """Return where the archive is kept that lets Spark start in half the time."""
    return cache_folder() / "spark" / archive_name()


class Application:
    """One Spark application that runs links: each in a thread of its own, joined by one engine.

    A link that fails for good is told of at once; the others go on, and the run ends with an error.
    """

    def __init__(
        self, config: Config, chosen: Sequence[Setup], terms: Terms, say: Callable[[str], None]
    ) -> None:
        for setup in chosen:
            refuse_unbuilt(setup.link)
        self._config = config
        self._terms = replace(terms, links=len(chosen), cores=os.cpu_count() or 1)
        self._engine: Engine | None = None
        self._engine_error: BaseException | None = None
        self._has_engine = threading.Event()
        self.failures: dict[str, BaseException] = {}
        self.supervisors = {
            setup.link.name: Lifetime(setup, self._terms, self._get_engine, say) for setup in chosen
        }
        self._wanted_slots = sum(_wanted_tasks(setup) for setup in chosen)
        self._threads: dict[str, threading.Thread] = {}
        self._opposites = {setup.link.name: opposite(setup) for setup in chosen}
        self._say = say
        self._again_s: dict[str, float] = {}

    def start(self) -> None:
        """Start Spark and every link, side by side: a link gets ready while Spark does."""
        spark = self._config.spark
        if (
            slots := slots_of(full_master(spark.master, self._wanted_slots, self._terms.cores))
        ) is not None:
            check_slots(slots, self._wanted_slots)
        for name in list(self.supervisors):
            self._launch(name)
        # In the caller's thread: Spark installs signal handlers, which only the first may.
        try:
            archive = class_archive()
            java = f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""
            self._engine = Engine(
                spark.master,
                spark.conf,
                self._wanted_slots,
                folder=archive.parent,
                java_options=java,
            )
        except BaseException as error:
            self._engine_error = error
            raise
        finally:
            self._has_engine.set()

    @property
    def is_running(self) -> bool:
        """Claim: at least one link is not over."""
        return any(thread.is_alive() for thread in self._threads.values())

    def wait(self, seconds: float) -> None:
        """Wait a moment, or until no link runs any more; see to links that turned round."""
        self._turn_round()
        alive = next((thread for thread in self._threads.values() if thread.is_alive()), None)
        if alive is not None:
            alive.join(seconds)

    def _turn_round(self) -> None:
        """Run the opposite direction of every link that recovery has turned round.

        One that failed is tried again after a while: its target may have been away.
        """
        for name, setup in self._opposites.items():
            reverse, link = setup.link.name, self.supervisors[name]
            if not link.is_turned or not self._threads[name].is_alive():
                continue
            thread = self._threads.get(reverse)
            if thread is not None and (thread.is_alive() or clock.now_s() < self._again_s[reverse]):
                continue
            self.failures.pop(reverse, None)
            self._again_s[reverse] = clock.now_s() + _AGAIN_S
            self.supervisors[reverse] = Lifetime(setup, self._terms, self._get_engine, self._say)
            self._launch(reverse)

    def _launch(self, name: str) -> None:
        thread = threading.Thread(target=self._run, args=(name,), name=name, daemon=True)
        self._threads[name] = thread
        thread.start()

    def stop(self) -> None:
        """End every link in good order, then Spark."""
        for supervisor in self.supervisors.values():
            supervisor.stop()
        for thread in self._threads.values():
            thread.join()
        if self._engine is not None:
            self._engine.stop()

    def _run(self, name: str) -> None:
        try:
            self.supervisors[name].run()
        except BaseException as failure:
            self.failures[name] = failure
            if len(self.supervisors) > 1:  # else it is told in a moment, at the end of the run
                self._say(f"error: link {name}: {failure}. It is not copied any more; others are")

    def _get_engine(self) -> Engine:
        self._has_engine.wait()
        if self._engine is None:
            raise EngineFailed(f"Spark did not start: {self._engine_error}")
        return self._engine


def _wanted_tasks(setup: Setup) -> int:
    tasks = setup.link.limits.tasks
    return tasks if isinstance(tasks, int) else 1
