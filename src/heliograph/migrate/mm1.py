"""The flags and files of MirrorMaker 1 in, a heliograph.yaml out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heliograph.migrate.clients import OWN_REQUESTS, ClientWriter, is_client_key
from heliograph.migrate.draft import Draft, Imported, legal_name
from heliograph.migrate.entries import Entry, newest
from heliograph.migrate.patterns import dotted_names, read_patterns, split_list
from heliograph.migrate.references import find_providers
from heliograph.migrate.starts import put_start

_HEAD = """\
Imported from MirrorMaker 1's flags and property files. Above each setting stands what it comes \
from: mapped means the same, changed says what differs. What has no place here is listed as not \
needed.
Positions are not taken over: what the group {group} has committed has no effect.\
"""
# Kafka's own topics, which a consumer leaves out of a pattern.
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_DEFAULT = "MirrorMaker's default, which is not ours"

# How a client appears to brokers, and its sockets: the same words here.
_KEPT = {
    "source": ("receive.buffer.bytes", "send.buffer.bytes"),
    "target": ("client.id", "receive.buffer.bytes", "send.buffer.bytes"),
}
_CONSUMER = {
    "isolation.level": "only what is committed is copied, whatever this says",
    "client.id": "MirrorMaker does not use it: it calls its consumers <group.id>-0, -1 and so on",
    "enable.auto.commit": "the ledger on the target holds the positions",
    "exclude.internal.topics": "Kafka's own topics are never copied",
    "zookeeper.connect": "brokers are asked, never ZooKeeper",
    "partition.assignment.strategy": "nothing rebalances",
}
_PRODUCER = {
    "compression.type": "batches keep the compression that they have",
    "compression.codec": "batches keep the compression that they have",
    "acks": "every write is acknowledged by all replicas in sync",
    "request.required.acks": "every write is acknowledged by all replicas in sync",
    "retries": "what can heal is tried again",
    "producer.type": "every write is acknowledged",
    "enable.idempotence": "every link is exactly-once",
    "transactional.id": "every link is exactly-once",
    "partitioner.class": "a record keeps its partition",
}


@dataclass(frozen=True, slots=True)
class Flags:
    """What MirrorMaker 1 was called with, besides its two files; None where it was not said."""

    include: str | None = None
    whitelist: str | None = None
    blacklist: str | None = None
    num_streams: int | None = None
    offset_commit_interval_ms: int | None = None
    abort_on_send_failure: bool | None = None
    message_handler: str | None = None
    message_handler_args: str | None = None
    consumer_rebalance_listener: str | None = None
    rebalance_listener_args: str | None = None
    obsolete: tuple[str, ...] = ()


def import_mm1(consumer: Sequence[Entry], producer: Sequence[Entry], flags: Flags) -> Imported:
    """Turn a call of MirrorMaker 1 into a configuration, or raise one error with every refusal.

    The result's ``group`` is the consumer group, which the link is named after.
    """
    importer = _Importer(newest(consumer), newest(producer), flags)
    importer.write()
    return importer.draft.finish(
        _HEAD.format(group=importer.group), "this call of MirrorMaker", importer.group
    )


class _Importer:
    def __init__(
        self, consumer: dict[str, Entry], producer: dict[str, Entry], flags: Flags
    ) -> None:
        self.draft = Draft()
        self._consumer, self._producer, self._flags = consumer, producer, flags
        self.group = consumer["group.id"].value if "group.id" in consumer else ""
        self._link = ("links", legal_name(self.group))

    def write(self) -> None:
        """Write both clusters and the link, and account for every key and flag."""
        self._refuse_without_group()
        self._write_cluster("source", self._consumer, _CONSUMER)
        self._write_cluster("target", _with_brokers(self._producer), _PRODUCER)
        for end in ("source", "target"):
            self.draft.default((*self._link, end), end, f"{end} is that of {_file(end)}")
        if "group.id" in self._consumer:
            entry = self._consumer["group.id"]
            name = self._link[1]
            change = f"; {self.group} cannot be a name here" if name != self.group else ""
            word = "changed" if change else "mapped"
            self.draft.say(self._link, f"{word}: {entry.shown}{change}")
        self._write_topics()
        self.draft.default((*self._link, "naming"), "same", "MirrorMaker keeps the names of topics")
        self.draft.default((*self._link, "sync", "groups"), "off", "MirrorMaker 1 moves no groups")
        reset = self._consumer.get("auto.offset.reset")
        put_start(self.draft, (*self._link, "start"), reset, default="latest")
        self._write_limits()
        self._write_handlers()

    def _refuse_without_group(self) -> None:
        if not self.group:
            self.draft.refusals.append(
                "consumer.config: group.id is missing. The link is named after it: set it"
            )

    # Clusters

    def _write_cluster(
        self, name: str, keys: Mapping[str, Entry], reasons: Mapping[str, str]
    ) -> None:
        if "zookeeper.connect" in keys and "bootstrap.servers" not in keys:
            why = "ZooKeeper alone does not do: name the brokers as bootstrap.servers, and say"
            self.draft.refuse(keys["zookeeper.connect"], f"{why} auto.offset.reset for the start")
            return
        own = {key: entry for key, entry in keys.items() if is_client_key(key)}
        own |= {key: keys[key] for key in _KEPT[name] if key in keys and keys[key].value}
        if name == "target" and "client.rack" in own:
            self.draft.drop(("clusters", name), own.pop("client.rack"), "nothing is read there")
        ClientWriter(self.draft, name, own, find_providers(keys)).write()
        for key, entry in keys.items():
            is_written = is_client_key(key) or key in own
            if not is_written and key not in ("group.id", "auto.offset.reset"):
                self._drop(name, entry, reasons)

    def _drop(self, name: str, entry: Entry, reasons: Mapping[str, str]) -> None:
        if entry.name == "interceptor.classes" and entry.value:
            self.draft.refuse(entry, "Java classes cannot be used. Remove it")
        elif entry.name in reasons:
            self.draft.drop(("clusters", name), entry, reasons[entry.name])
        elif entry.is_telling:
            self.draft.drop(("clusters", name), entry, OWN_REQUESTS)
        else:
            self.draft.drop_unknown(entry)

    # Topics

    def _write_topics(self) -> None:
        flags = self._flags
        chosen = flags.include if flags.include is not None else flags.whitelist
        name = "--include" if flags.include is not None else "--whitelist"
        if chosen is not None and flags.blacklist is not None:
            self.draft.refuse(Entry("--blacklist", ""), f"MirrorMaker takes it or {name}, not both")
        elif chosen is not None:
            self._put_patterns("topics", Entry(name, chosen))
            self._exclude()
        elif flags.blacklist is not None:
            self.draft.default((*self._link, "topics"), [".*"], "all but those of --blacklist")
            self._put_patterns("exclude", Entry("--blacklist", flags.blacklist), _INTERNAL)
        else:
            self.draft.refusals.append("--include: it is missing. Say which topics to copy")
        if flags.include is not None and flags.whitelist is not None:
            self.draft.drop(self._link, Entry("--whitelist", ""), "--include wins")

    def _exclude(self) -> None:
        why = "what a consumer leaves out; MirrorMaker copies everything else"
        self.draft.default((*self._link, "exclude"), list(_INTERNAL), why)

    def _put_patterns(self, setting: str, entry: Entry, more: Sequence[str] = ()) -> None:
        items = split_list(entry.value.replace(" ", "").strip("\"'"))
        try:
            if not items:
                raise ValueError("it is blank. Say which topics")
            patterns = read_patterns(items)
        except ValueError as error:
            self.draft.refuse(entry, str(error))
            return
        names = dotted_names(patterns)
        change = f"a dot is a dot in the name {', '.join(names)}" if names else ""
        both = list(dict.fromkeys([*patterns, *more]))
        self.draft.map((*self._link, setting), both, entry, change=change)

    # Flags

    def _write_limits(self) -> None:
        flags = self._flags
        if flags.num_streams is not None:
            entry = Entry("--num.streams", "")
            self.draft.map((*self._link, "limits", "tasks"), flags.num_streams, entry)
        if flags.offset_commit_interval_ms is not None:
            entry = Entry("--offset.commit.interval.ms", "")
            self.draft.drop(self._link, entry, "the ledger is a second behind at most")
        path, entry = (*self._link, "on_refuse"), Entry("--abort.on.send.failure", "")
        if flags.abort_on_send_failure is None:
            self.draft.default(path, "stop", f"{_DEFAULT}: the partition stops, others go on")
        elif flags.abort_on_send_failure:
            change = "the partition stops; only heliograph mirror-maker ends by it"
            self.draft.map(path, "stop", entry, change=change)
        else:
            change = "a refused record is not dropped, but kept aside"
            self.draft.map(path, "quarantine", entry, change=change)

    def _write_handlers(self) -> None:
        flags = self._flags
        if flags.message_handler is not None:
            self.draft.refuse(
                Entry("--message.handler", ""),
                "Java classes cannot be used. Leave it out: naming renames topics, and this "
                "version cannot change records",
            )
        listener = "nothing rebalances; topics are created without it"
        for name, value, why in (
            ("--message.handler.args", flags.message_handler_args, "there is no handler"),
            ("--consumer.rebalance.listener", flags.consumer_rebalance_listener, listener),
            ("--rebalance.listener.args", flags.rebalance_listener_args, listener),
        ):
            if value is not None:
                self.draft.drop(self._link, Entry(name, ""), why)
        for name in flags.obsolete:
            why = "it has no effect in newer versions of MirrorMaker either"
            self.draft.drop(self._link, Entry(name, ""), why)


def _with_brokers(producer: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return a producer's keys with its brokers under their present name."""
    found = dict(producer)
    for old in ("metadata.broker.list", "broker.list"):
        if old in found and "bootstrap.servers" not in found:
            found["bootstrap.servers"] = found.pop(old)
    return found


def _file(end: str) -> str:
    return "--consumer.config" if end == "source" else "--producer.config"
