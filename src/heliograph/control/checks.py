"""Checks: all that would go wrong, found before it does. Nothing is changed anywhere.

Each check stands alone and has its own time; one that cannot be made is a finding itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from heliograph.config.settings import LinkConfig
from heliograph.config.values import SAME, is_topic_name
from heliograph.control.cycles import check_cycles
from heliograph.control.permissions import (
    check_claims,
    check_groups,
    check_mirrors,
    check_own_topics,
    check_source,
    cluster_acl,
    principal,
    topic_acl,
)
from heliograph.control.visits import (
    Visit,
    accepted,
    connect,
    newest_versions,
    refused,
    unreachable_brokers,
)
from heliograph.copy.finding import find_starts
from heliograph.errors import ConfigError, HeliographError, NotAuthorized
from heliograph.kafka import clock
from heliograph.kafka.admin import ALL_BROKERS, Admin
from heliograph.kafka.allowed import forbidden
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.tables import Table
from heliograph.links.setup import Setup
from heliograph.model.acls import Operation
from heliograph.model.configs import NewTopic
from heliograph.model.findings import (
    EXPIRATION,
    LONGEST_EXPIRATION_MS,
    NEEDS_OF_SOURCE,
    NEEDS_OF_TARGET,
    Finding,
    Need,
    mirror_unfit,
    near,
    old_records,
    one_replica,
    replication,
    same_cluster,
    some,
    source_unfit,
    too_old,
)
from heliograph.model.ledger import Ledger, partitions_in, read_ledger
from heliograph.model.mirrors import mirror_configs
from heliograph.model.names import ledger_topic, own_topics
from heliograph.model.selection import mirror_name, select
from heliograph.model.topics import Partition

LIMIT = timedelta(seconds=10)
"""How long one check may take."""
Check = Callable[[Deadline], Iterable[Finding]]


@dataclass(slots=True)
class Checked:
    """What was looked at, and what was found."""

    findings: list[Finding] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    clusters: dict[str, int] = field(default_factory=dict)


def check(setups: Sequence[Setup], links: Collection[LinkConfig] = ()) -> Checked:
    """Check links and their clusters, each cluster once.

    ``links`` are all that there are: with others, those that are checked may make a cycle.
    """
    checked = Checked()
    ends = {setup.link.source: setup.source_settings for setup in setups}
    ends |= {setup.link.target: setup.target_settings for setup in setups}
    with ExitStack() as stack:
        visits = visit_all(ends, checked, stack)
        for setup in setups:
            source, target = visits.get(setup.link.source), visits.get(setup.link.target)
            checks = _LinkChecks(setup, source, target, checked)
            for what, one in checks.all():
                checked.findings += bounded(one, f"link {setup.link.name}", what)
        checked.findings += check_cycles(links, [setup.link.name for setup in setups], visits)
    return checked


def bounded(one: Check, where: str, what: str) -> Iterator[Finding]:
    """Make a check; what it found before it failed counts."""
    try:
        yield from one(Deadline.after(LIMIT))
    except HeliographError as error:
        finding = f"{what} could not be checked: {error}"
        remedy = "See to the other findings first, then check again"
        yield Finding("error", "not-checked", where, finding, remedy)


def visit_all(
    ends: Mapping[str, ClientSettings], checked: Checked, stack: ExitStack
) -> dict[str, Visit]:
    """Visit clusters by name; one that cannot be asked anything is a finding, and is left out."""
    visits = {}
    for name, settings in ends.items():
        checked.findings += accepted(settings)
        cluster = stack.enter_context(Cluster(settings, name))
        admin = stack.enter_context(Admin(settings, name))
        try:
            visits[name] = connect(cluster, admin, principal(settings), Deadline.after(LIMIT))
        except HeliographError as error:
            checked.findings.append(refused(name, error))
        else:
            checked.clusters[name] = visits[name].brokers
            away = list(unreachable_brokers(visits[name], Deadline.after(LIMIT)))
            checked.findings += away
            if len(away) == visits[name].brokers:
                del visits[name]  # nothing else can be asked
    return visits


def _versions(visit: Visit, needs: Iterable[Need], deadline: Deadline) -> Iterator[Finding]:
    yield from too_old(visit.side.cluster, newest_versions(visit, deadline), needs)


class _LinkChecks:
    """The checks of one link, as far as its clusters answer."""

    def __init__(
        self, setup: Setup, source: Visit | None, target: Visit | None, checked: Checked
    ) -> None:
        self._setup, self._link = setup, setup.link
        self._source, self._target = source, target
        self._where = f"link {setup.link.name}"
        self._topics: list[str] = []
        self._mirrors: dict[str, str] = {}
        self._unnamed: list[ConfigError] = []
        self._read: dict[Partition, Ledger] | None = None
        if source is not None:
            self._topics = select(source.topics, self._link.topics, self._link.exclude)
            checked.topics[self._link.name] = len(self._topics)
        for topic in self._topics:
            try:
                self._mirrors[topic] = mirror_name(self._link.naming, self._link.source, topic)
            except ConfigError as unfit:
                self._unnamed.append(unfit)

    def all(self) -> Iterator[tuple[str, Check]]:
        """Yield each check with its name."""
        source, target = self._source, self._target
        for visit, needs in ((source, NEEDS_OF_SOURCE), (target, NEEDS_OF_TARGET)):
            if visit is not None:
                yield "the versions of brokers", partial(_versions, visit, needs)
        if source is not None:
            yield "the selection of topics", lambda by: self._selection(source, by)
            yield (
                "what the source allows",
                lambda by: check_source(self._setup, source, self._topics, by),
            )
        if target is not None:
            yield "claims", lambda by: check_claims(self._setup, target, by)
            yield "the link's own topics", lambda by: check_own_topics(self._setup, target, by)
            yield "their replicas", lambda _: self._replicas(target)
        if source is not None and target is not None:
            yield "the identity of the clusters", lambda _: self._identity(source, target)
            yield "groups", lambda by: check_groups(self._setup, source, target, by)
            yield "the mirrors", lambda by: self._creation(source, target, by)
            yield "the settings of mirrors", lambda by: self._settings(source, target, by)
            yield "the records of mirrors", lambda by: self._occupied(target, by)
            yield "the ages of records", lambda by: self._ages(source, target, by)
            yield "the ledger", lambda by: self._origins(source, target, by)

    # The source

    def _selection(self, source: Visit, deadline: Deadline) -> Iterator[Finding]:
        """Find names that select nothing. What may not be described is not in the view."""
        names = [
            one for one in self._link.topics if is_topic_name(one) and one not in source.topics
        ]
        hidden = {name for name in names if self._is_hidden(source, name, deadline)}
        if hidden:
            acl = {Operation.READ: hidden}
            yield topic_acl("error", source, acl, "fetching, offsets and epochs")
        for name in names:
            if name not in hidden:
                yield Finding(
                    "warning",
                    "no-such-topic",
                    self._where,
                    f"{self._link.source} has no topic {name}.{near(name, source.topics)}",
                    "Correct the name; or leave it: the topic is copied once it exists",
                )
        for unfit in self._unnamed:
            remedy = "Change naming of the link, or exclude the topic"
            yield Finding("error", "mirror-name", self._where, unfit.message, remedy)
        if not self._topics and not names:
            seen = some(sorted(source.topics)) or "none at all"
            yield Finding(
                "warning",
                "no-topics",
                self._where,
                f"no topic of {self._link.source} is selected. The user sees: {seen}."
                + "".join(near(one, source.topics) for one in self._link.topics),
                "Correct topics and exclude of the link; a regular expression must match whole"
                " names. Brokers hide topics that a user may not Describe: grant Read on them",
            )

    def _is_hidden(self, source: Visit, topic: str, deadline: Deadline) -> bool:
        try:
            source.cluster.look([topic], deadline)
        except NotAuthorized:
            return True
        return False

    # Both ends

    def _identity(self, source: Visit, target: Visit) -> Iterator[Finding]:
        link = self._link
        if source.cluster_id == target.cluster_id:
            yield from same_cluster(
                link.name,
                link.source,
                link.target,
                target.cluster_id,
                is_allowed=link.allow_same_cluster,
                renames=link.naming != SAME,
            )

    def _replicas(self, target: Visit) -> Iterator[Finding]:
        own = own_topics(self._link.name)
        return one_replica(self._where, own, target.topics, target.brokers)

    def _creation(self, source: Visit, target: Visit, deadline: Deadline) -> Iterator[Finding]:
        factor = self._link.mirrors.replication_factor
        replicas = [
            len(one.replicas)
            for topic in self._mirrors
            for one in source.topics[topic].partitions.values()
        ]
        wanted = max(replicas, default=1) if factor == "source" else factor
        too_many = []
        if isinstance(wanted, int):
            what = "mirrors.replication_factor"
            what += ": source" if factor == "source" else ""
            too_many = list(replication(self._where, wanted, target.brokers, what))
        yield from too_many
        new = [
            NewTopic(
                mirror,
                len(source.topics[topic].partitions),
                wanted if isinstance(wanted, int) and not too_many else None,
                mirror_configs({}, self._setup.mirror_rules.settings),
            )
            for topic, mirror in self._mirrors.items()
        ]
        yield from check_mirrors(self._setup, target, new, deadline)

    def _settings(self, source: Visit, target: Visit, deadline: Deadline) -> Iterator[Finding]:
        there = {t: m for t, m in self._mirrors.items() if m in target.topics}
        try:
            ours = source.admin.configs.of_topics(self._mirrors, deadline)
            theirs = target.admin.configs.of_topics(there.values(), deadline)
        except NotAuthorized:
            return  # found already, with its ACL
        for topic in [] if self._setup.policies.is_shared else self._mirrors:
            where, bootstrap = f"{self._where}, topic {topic}", source.side.bootstrap
            yield from source_unfit(where, topic, bootstrap, ours[topic])
        for topic, mirror in there.items():
            where = f"{self._where}, topic {topic}"
            bootstrap = target.side.bootstrap
            yield from mirror_unfit(where, mirror, bootstrap, ours[topic], theirs[mirror])

    def _occupied(self, target: Visit, deadline: Deadline) -> Iterator[Finding]:
        """Find topics that hold something, and that this link has never copied to."""
        known = {one.topic for one in self._ledgers(target, deadline)}
        new = {m for t, m in self._mirrors.items() if m in target.topics and t not in known}
        if self._setup.policies.is_shared or not new:
            return
        places = [Partition(one, number) for one in new for number in target.topics[one].partitions]
        starts = list_offsets(target.cluster, dict.fromkeys(places, EARLIEST), deadline)
        ends = list_offsets(target.cluster, dict.fromkeys(places, LATEST), deadline)
        taken = sorted({one.topic for one in places if ends[one] > starts[one]})
        if taken:
            yield Finding(
                "warning",
                "mirror-occupied",
                self._where,
                f"{some(taken)} on {self._link.target} hold records, and this link has never copied"
                " there. Where somebody else wrote them, the link stops and copies nothing",
                "Change naming, delete the topics if nobody needs them, take over from whoever"
                " filled them (heliograph import mm2 FILE --take-over), or share them: mirrors:"
                " {merge: true}",
            )

    # Ages

    def _ages(self, source: Visit, target: Visit, deadline: Deadline) -> Iterator[Finding]:
        broker = next(iter(target.cluster.view.brokers))
        try:
            entry = target.admin.configs.of_broker(broker, deadline).get(EXPIRATION)
        except NotAuthorized:
            why = f"reading {EXPIRATION}, to know how long the target remembers its writers"
            yield cluster_acl("warning", target, Operation.DESCRIBE_CONFIGS, why)
            return
        if self._link.allow_broker_settings:
            yield from self._raising(target, deadline)
            return
        if entry is None or entry.value is None:
            return
        limit = timedelta(milliseconds=int(entry.value))
        oldest, old = self._oldest(source, self._starts(source, target, deadline), limit, deadline)
        if old:
            bootstrap = target.side.bootstrap
            yield old_records(self._where, bootstrap, oldest, limit, [str(one) for one in old])

    def _raising(self, target: Visit, deadline: Deadline) -> Iterator[Finding]:
        change = {EXPIRATION: str(LONGEST_EXPIRATION_MS)}
        try:
            target.admin.configs.change_broker(
                ALL_BROKERS, put=change, validate_only=True, deadline=deadline
            )
        except NotAuthorized:
            why = f"raising {EXPIRATION}, as allow_broker_settings says"
            yield cluster_acl("error", target, Operation.ALTER_CONFIGS, why)

    def _starts(self, source: Visit, target: Visit, deadline: Deadline) -> dict[Partition, int]:
        """Return where each partition will be copied from, by its ledger or by ``start``."""
        partitions = [
            Partition(topic, number)
            for topic in self._topics
            for number in source.topics[topic].partitions
        ]
        wanted = {one: self._setup.starts.of(one.topic, ()) for one in partitions}
        found = find_starts(source.cluster, wanted, deadline)
        starts = {one: start for one, start in found.items() if isinstance(start, int)}
        for partition, ledger in self._ledgers(target, deadline).items():
            if partition in starts:
                starts[partition] = ledger.source_next
        return starts

    def _oldest(
        self,
        source: Visit,
        starts: Mapping[Partition, int],
        limit: timedelta,
        deadline: Deadline,
    ) -> tuple[timedelta, list[Partition]]:
        """Return an age that records still to be copied surely have, and where they are.

        Asked by time, so that nothing is read: half the limit first, since that counts as old,
        then twice as old each time.
        """
        ends = list_offsets(source.cluster, dict.fromkeys(starts, LATEST), deadline)
        found: tuple[timedelta, list[Partition]] = (limit / 2, [])
        at, left = limit / 2, {one for one in starts if starts[one] < ends[one]}
        while left:
            time_ms = max(0, clock.wall_ms() - int(at.total_seconds() * 1000))
            after = list_offsets(source.cluster, dict.fromkeys(left, time_ms), deadline)
            left = {
                one for one in left if (after[one] if after[one] >= 0 else ends[one]) > starts[one]
            }
            if left:
                found = (at, sorted(left))
            if at.total_seconds() * 1000 > LONGEST_EXPIRATION_MS:
                break
            at *= 2
        return found

    # The ledger

    def _ledgers(self, target: Visit, deadline: Deadline) -> dict[Partition, Ledger]:
        """Return the ledgers of the selected topics, as far as they may be read."""
        if self._read is None:
            name, rows = ledger_topic(self._link.name), {}
            if name in target.topics and not forbidden(
                target.cluster, [name], Operation.READ, deadline
            ):
                rows = dict(Table(target.cluster, name).load(deadline))
            known = sorted(partitions_in(rows))
            ledgers = (read_ledger(one, rows) for one in known if one.topic in self._topics)
            self._read = {one.partition: one for one in ledgers if one is not None}
        return self._read

    def _origins(self, source: Visit, target: Visit, deadline: Deadline) -> Iterator[Finding]:
        """Find a cluster that took the place of the one that was mirrored."""
        wanted = {"source": source.cluster_id, "target": target.cluster_id}
        for ledger in self._ledgers(target, deadline).values():
            was = {"source": ledger.origin.source_cluster_id}
            was["target"] = ledger.origin.target_cluster_id
            for end, cluster_id in was.items():
                if cluster_id != wanted[end]:
                    yield Finding(
                        "error",
                        "cluster-replaced",
                        self._where,
                        f"the {end} is another cluster than the one that was mirrored (id"
                        f" {wanted[end]}, was {cluster_id}): offsets mean something else there",
                        "Correct bootstrap.servers. For a new cluster, begin a new link: under"
                        " another name",
                    )
                    return
