"""The keys of an mm2.properties by what they are about: a link, a cluster, or everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from heliograph.migrate.clients import is_client_key
from heliograph.migrate.entries import Entry
from heliograph.migrate.patterns import split_list

Pair = tuple[str, str]
Keys = dict[str, Entry]

_ROLES = ("consumer.", "producer.", "admin.")
# Below A->B., for which end a client's key is.
_SOURCE_ROLES = ("source.cluster.", "source.consumer.", "source.admin.", "consumer.")
_TARGET_ROLES = (
    "target.cluster.", "target.producer.", "target.admin.", "producer.override.", "producer.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scopes:
    """Keys without what stands before them, by link, by cluster, and those that stand alone."""

    aliases: tuple[str, ...]
    pairs: Mapping[Pair, Keys]
    clusters: Mapping[str, Keys]
    bare: Keys = field(default_factory=dict)

    def find(self, pair: Pair, *keys: str) -> Entry | None:
        """Return what holds for a link: A->B.key beats key; of several names the first wins."""
        for key in keys:
            for scope in (self.pairs.get(pair, {}), self.bare):
                if key in scope:
                    return scope[key]
        return None

    def client(self, alias: str, key: str) -> list[Entry]:
        """Return what is said of a client's key for a cluster, the narrowest; they may differ."""
        narrow = [entry for name, entry in self._narrow(alias) if name == key]
        broad = [scope[key] for scope in (self.clusters[alias], self.bare) if key in scope]
        return narrow or broad[:1]

    def client_keys(self, alias: str) -> list[str]:
        """Return the client's keys that are said anything of, for a cluster."""
        below = [name for name in self.clusters[alias] if not name.startswith(_ROLES)]
        narrow = [name for name, _ in self._narrow(alias)]
        bare = [name for name in self.bare if is_client_key(name)]
        return [name for name in dict.fromkeys([*below, *narrow, *bare]) if is_client_key(name)]

    def _narrow(self, alias: str) -> Iterator[tuple[str, Entry]]:
        yield from _stripped(self.clusters[alias], _ROLES)
        for (source, target), keys in self.pairs.items():
            if source == alias:
                yield from _stripped(keys, _SOURCE_ROLES)
            if target == alias:
                yield from _stripped(keys, _TARGET_ROLES)

    def consumer(self, pair: Pair, key: str) -> Entry | None:
        """Return what holds for a link's consumer."""
        for name, entry in (
            *_stripped(self.pairs.get(pair, {}), ("source.consumer.", "consumer.")),
            *_stripped(self.clusters[pair[0]], ("consumer.",)),
        ):
            if name == key:
                return entry
        return None


def sort_out(entries: Mapping[str, Entry]) -> Scopes:
    """Tell what each key is about. An alias may hold dots: the longest that fits is meant."""
    aliases = tuple(dict.fromkeys(_aliases(entries)))
    pairs: dict[Pair, Keys] = {}
    clusters: dict[str, Keys] = {alias: {} for alias in aliases}
    bare: Keys = {}
    for name, entry in entries.items():
        pair, alias = _pair_of(name, aliases), _longest(name, aliases)
        if pair is not None:
            pairs.setdefault(pair, {})[name.removeprefix(f"{pair[0]}->{pair[1]}.")] = entry
        elif alias is not None:
            clusters[alias][name.removeprefix(f"{alias}.")] = entry
        else:
            bare[name] = entry
    return Scopes(aliases, pairs, clusters, bare)


def _aliases(entries: Mapping[str, Entry]) -> list[str]:
    return split_list(entries["clusters"].value) if "clusters" in entries else []


def _pair_of(name: str, aliases: Iterable[str]) -> Pair | None:
    known = [
        (source, target)
        for source in aliases
        for target in aliases
        if source != target and name.startswith(f"{source}->{target}.")
    ]
    return max(known, key=lambda pair: len("".join(pair)), default=None)


def _longest(name: str, aliases: Iterable[str]) -> str | None:
    return max((one for one in aliases if name.startswith(f"{one}.")), key=len, default=None)


def _stripped(keys: Keys, prefixes: tuple[str, ...]) -> Iterator[tuple[str, Entry]]:
    for name, entry in keys.items():
        for prefix in prefixes:
            if name.startswith(prefix):
                yield name.removeprefix(prefix), entry
                break
