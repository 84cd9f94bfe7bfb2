"""One link of MirrorMaker 2: its keys, with MirrorMaker's defaults where ours are others."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from heliograph.config.settings import TOPICS_LEFT_OUT
from heliograph.config.values import parse_naming, show_span
from heliograph.migrate.draft import Draft, Path
from heliograph.migrate.entries import Entry
from heliograph.migrate.patterns import dotted_names, literally, read_patterns, split_list
from heliograph.migrate.scopes import Pair, Scopes
from heliograph.migrate.starts import put_start
from heliograph.model.mm2_positions import Keeping

_POLICIES = "org.apache.kafka.connect.mirror."
_FIXED = (r"\..*", r"__.*", r".*[\-\.]internal")
_OFF = "off"
_MOST_SECONDS = 10**8
_DEFAULT = "MirrorMaker's default, which is not ours"
# How often MirrorMaker copies ACLs if nobody says.
_ACLS = timedelta(seconds=600)


class LinkWriter:
    """Writes one link. ``names`` are those of the clusters here, by their aliases there."""

    def __init__(
        self,
        draft: Draft,
        scopes: Scopes,
        pair: Pair,
        names: Mapping[str, str],
        name: str,
    ) -> None:
        self._draft, self._scopes, self._pair = draft, scopes, pair
        self._names = names
        self._path: Path = ("links", name)

    def write(self) -> None:
        """Write all settings of the link; none at all if it copies nothing."""
        enabled = self._find("enabled")
        assert enabled is not None, "links that are not enabled are not written"
        topics = self._find("topics")
        if topics is not None and not split_list(topics.value):
            why = f"it is blank, so MirrorMaker copies nothing from {'->'.join(self._pair)}"
            self._draft.drop((), topics, why)
            self._draft.drop((), enabled, why)
            return
        self._draft.seen.add(enabled.name)
        self._draft.say(self._path, f"mapped: {enabled.shown}")
        for end, alias in zip(("source", "target"), self._pair, strict=True):
            self._draft.default((*self._path, end), self._names[alias], f"{end} is {alias}")
        self._write_topics(topics)
        self._write_naming()
        put_start(self._draft, (*self._path, "start"), self._consumer_reset())
        self._write_sync()
        self._write_mirrors()
        self._write_groups()
        self._write_refusals()

    def _find(self, *keys: str) -> Entry | None:
        return self._scopes.find(self._pair, *keys)

    def _at(self, *keys: str) -> Path:
        return (*self._path, *keys)

    # Topics

    def _write_topics(self, topics: Entry | None) -> None:
        if topics is None:
            self._draft.default(self._at("topics"), [".*"], _DEFAULT)
        else:
            self._put_patterns(self._at("topics"), topics)
        exclude = self._find("topics.exclude", "topics.blacklist")
        more = self._always_excluded()
        if exclude is not None:
            change = "with what MirrorMaker never copies, whatever this says"
            self._put_patterns(self._at("exclude"), exclude, more, change)
        else:
            why = "MirrorMaker's default, with what it never copies"
            both = dict.fromkeys([*TOPICS_LEFT_OUT, *more])
            self._draft.default(self._at("exclude"), list(both), why)

    def _always_excluded(self) -> list[str]:
        """Return what MirrorMaker leaves out by itself, and the topics of its heartbeats."""
        mark = literally(self._separator)
        found = [*_FIXED, rf"(.*{mark})?heartbeats"]
        if not self._is_identity:
            # What came from the target would come back to it under a longer name.
            found.append(rf"(.*{mark})?{literally(self._pair[1])}{mark}.+")
        return found

    def _put_patterns(
        self, path: Path, entry: Entry, more: Sequence[str] = (), change: str = ""
    ) -> None:
        try:
            patterns = read_patterns(split_list(entry.value))
        except ValueError as error:
            self._draft.refuse(entry, str(error))
            return
        if names := dotted_names(patterns):
            change = (change and f"{change}; ") + f"a dot is a dot in the name {', '.join(names)}"
        self._draft.map(path, list(dict.fromkeys([*patterns, *more])), entry, change=change)

    def keeping(self) -> Keeping:
        """Return where MirrorMaker keeps its positions for this link."""
        where = self._find("offset-syncs.topic.location")
        plain = self._find("replication.policy.internal.topic.separator.enabled")
        is_plain = plain is not None and plain.value.lower() == "false"
        return Keeping(
            *self._pair,
            "." if is_plain else self._separator,
            where is not None and where.value.lower() == "target",
        )

    # Naming

    @property
    def _separator(self) -> str:
        entry = self._find("replication.policy.separator")
        return entry.value if entry is not None and entry.value else "."

    @property
    def _is_identity(self) -> bool:
        entry = self._find("replication.policy.class")
        return entry is not None and entry.value == f"{_POLICIES}IdentityReplicationPolicy"

    def _write_naming(self) -> None:
        policy = self._find("replication.policy.class")
        separator = self._find("replication.policy.separator")
        entries = [entry for entry in (policy, separator) if entry is not None]
        known = [f"{_POLICIES}{kind}ReplicationPolicy" for kind in ("Default", "Identity")]
        if policy is not None and policy.value not in known:
            why = "Java classes cannot be used. Use DefaultReplicationPolicy with a separator"
            self._draft.refuse(policy, f"{why}, or IdentityReplicationPolicy")
        path, alias = self._at("naming"), self._pair[0]
        if self._is_identity:
            self._draft.map(path, "same", *entries)
            return
        if self._names[alias] != alias:
            template = f"{alias}{self._separator}{{topic}}"
        else:
            template = f"{{source}}{self._separator}{{topic}}"
        self._put_naming(path, "prefix" if template == "{source}.{topic}" else template, entries)

    def _put_naming(self, path: Path, template: str, entries: Sequence[Entry]) -> None:
        try:
            parse_naming(template)
        except ValueError as error:
            remedy = "Choose another separator, or rename the cluster"
            where = " and ".join(entry.place for entry in entries) or "->".join(self._pair)
            self._draft.refusals.append(f"{where}: {template!r} {error}. {remedy}")
        if entries:
            self._draft.map(path, template, *entries)
        else:
            self._draft.default(path, template, _DEFAULT)

    # The start, and what is brought in step

    def _consumer_reset(self) -> Entry | None:
        return self._scopes.consumer(self._pair, "auto.offset.reset")

    def _write_sync(self) -> None:
        self._put_interval("topics", "refresh.topics", default=None)
        self._put_interval("configs", "sync.topic.configs", default=None)
        self._put_interval("acls", "sync.topic.acls", default=show_span(_ACLS))
        self._put_interval("groups", "sync.group.offsets", default=_OFF)

    def _put_interval(self, setting: str, key: str, default: str | None) -> None:
        """Write how often something happens; ``default`` is MirrorMaker's, None if ours will do.

        Where it is turned on without an interval, ours is shorter, and costs nothing.
        """
        enabled, seconds = self._find(f"{key}.enabled"), self._find(f"{key}.interval.seconds")
        path = self._at("sync", setting)
        is_on = default != _OFF if enabled is None else self._flag(enabled)
        entries = [entry for entry in (enabled, seconds) if entry is not None]
        if not is_on and entries:
            self._draft.map(path, _OFF, *entries)
        elif is_on and seconds is not None:
            self._draft.map(path, self._span(seconds), *entries)
        elif default is None:
            for entry in entries:
                self._draft.drop(path[:-1], entry, f"sync.{setting} is on by itself, and faster")
        elif enabled is not None:
            self._draft.map(path, "5s" if default == _OFF else default, enabled)
        else:
            self._draft.default(path, default, _DEFAULT)

    def _flag(self, entry: Entry) -> bool:
        value = entry.value.lower()
        if value not in ("true", "false"):
            self._draft.refuse(entry, "it is neither true nor false")
        return value == "true"

    def _span(self, entry: Entry) -> str:
        seconds = int(entry.value) if entry.value.removeprefix("-").isdecimal() else 0
        if seconds < 0:
            return _OFF
        if not 0 < seconds <= _MOST_SECONDS:
            self._draft.refuse(entry, "it must be a number of seconds, 1 or more; -1 is never")
            return _OFF
        return show_span(timedelta(seconds=seconds))

    # Mirrors and groups

    def _write_mirrors(self) -> None:
        self._put_factor(self._at("mirrors", "replication_factor"))
        exclude = self._find("config.properties.exclude", "config.properties.blacklist")
        path = self._at("mirrors", "configs_exclude")
        if exclude is not None:
            self._put_patterns(path, exclude)
        # Where it stands alone, MirrorMaker does not read it.
        use = self._scopes.pairs[self._pair].get("use.defaults.from")
        alone = self._scopes.bare.get("use.defaults.from")
        if alone is not None and alone.name not in self._draft.seen:
            self._draft.drop((), alone, "MirrorMaker reads it only with A->B. before it")
        if use is not None:
            self._put_word(self._at("mirrors", "use_defaults_from"), use, ("target", "source"))

    def _put_factor(self, path: Path) -> None:
        factor = self._find("replication.factor")
        if factor is None:
            self._draft.default(path, 2, _DEFAULT)
        elif factor.value == "-1":
            self._draft.map(path, "target", factor)
        elif factor.value.isdecimal() and 1 <= int(factor.value) <= 32_767:
            self._draft.map(path, int(factor.value), factor)
        else:
            self._draft.refuse(factor, "it must be a number from 1, or -1 for the broker's default")

    def _put_word(self, path: Path, entry: Entry, words: Sequence[str]) -> None:
        if entry.value.lower() in words:
            self._draft.map(path, entry.value.lower(), entry)
        else:
            self._draft.refuse(entry, f"it must be {' or '.join(words)}")

    def _write_groups(self) -> None:
        for setting, keys in (
            ("groups", ("groups",)),
            ("groups_exclude", ("groups.exclude", "groups.blacklist")),
        ):
            entry = self._find(*keys)
            if entry is not None:
                self._put_patterns(self._at(setting), entry)

    def _write_refusals(self) -> None:
        tolerance = self._find("errors.tolerance")
        if tolerance is None:
            return
        words = {"none": "stop", "all": "quarantine"}
        if tolerance.value.lower() in words:
            wanted = words[tolerance.value.lower()]
            self._draft.map(self._at("on_refuse"), wanted, tolerance)
        else:
            self._draft.refuse(tolerance, "it must be none or all")
