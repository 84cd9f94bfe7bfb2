"""An mm2.properties in, a heliograph.yaml out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from heliograph.migrate.clients import OWN_REQUESTS, ClientWriter, is_client_key
from heliograph.migrate.draft import Draft, Imported, legal_name
from heliograph.migrate.entries import Entry, newest
from heliograph.migrate.mm2_keys import LINK_KEYS, refusal, why_not_needed
from heliograph.migrate.mm2_link import LinkWriter
from heliograph.migrate.references import find_providers
from heliograph.migrate.scopes import Pair, Scopes, sort_out
from heliograph.model.mm2_positions import Keeping

_HEAD = """\
Imported from MirrorMaker 2's {name}. Above each setting stands the key that it comes from: mapped \
means the same, changed says what differs. What has no place here is listed as not needed.
A link goes on where MirrorMaker stopped only if its positions are taken over (--take-over); else it
copies its topics from the start that it names.\
"""


def import_mm2(entries: Sequence[Entry], *, name: str, targets: Iterable[str] = ()) -> Imported:
    """Turn the keys of a file into a configuration, or raise one error with every refusal.

    ``targets`` are the clusters to copy to; all unless told. ``name`` is the file's, for people.
    """
    importer = _Importer(newest(entries), tuple(targets))
    importer.write()
    for entry in entries:
        if importer.keys[entry.name] is not entry:
            importer.draft.say((), f"not needed: {entry.place}: the key is given again below")
    found = importer.draft.finish(_HEAD.format(name=name), name)
    return replace(found, keepings=importer.keepings)


class _Importer:
    def __init__(self, keys: dict[str, Entry], targets: tuple[str, ...]) -> None:
        self.keys, self._targets = keys, targets
        self.draft = Draft()
        self._scopes: Scopes = sort_out(keys)
        self._providers = find_providers(keys)
        self._names: dict[str, str] = {}
        self.keepings: dict[str, Keeping] = {}
        for alias in self._scopes.aliases:
            self._names[alias] = legal_name(alias, self._names)

    def write(self) -> None:
        """Write what is used, in the order of the file; then account for every key left."""
        pairs = self._pairs()
        self._refuse_missing(pairs)
        used = dict.fromkeys(alias for pair in pairs for alias in pair)
        for alias in used:
            self._write_cluster(alias)
        links: dict[str, str] = {}
        for pair in pairs:
            label = "->".join(pair)
            links[label] = legal_name("-".join(self._names[alias] for alias in pair), links)
            writer = LinkWriter(self.draft, self._scopes, pair, self._names, links[label])
            writer.write()
            if self.draft.has(("links", links[label])):
                self.keepings[links[label]] = writer.keeping()
        self._warn_of_loops(links)
        if pairs and not self.draft.has(("links",)):
            self.draft.refusals.append("no link copies anything. Name some topics")
        for entry in self.keys.values():
            if entry.name not in self.draft.seen:
                self._account_for(entry, pairs)

    def _warn_of_loops(self, links: Mapping[str, str]) -> None:
        """Tell of links that copy to and fro under the same names."""
        same = [
            label
            for label, name in links.items()
            if self.draft.group(("links", name)).get("naming") == "same"
        ]
        for label in same:
            source, _, target = label.partition("->")
            if f"{target}->{source}" in same and source < target:
                self.draft.warnings.append(
                    f"{label} and back keep the names of topics: what both copy goes round for "
                    "ever. Keep their topics apart"
                )

    def _pairs(self) -> list[Pair]:
        """Return the links that are enabled, to the targets that were asked for."""
        found = []
        for pair, keys in self._scopes.pairs.items():
            enabled = keys.get("enabled")
            if enabled is None or enabled.value.lower() != "true":
                continue
            if not self._targets or pair[1] in self._targets:
                found.append(pair)
        return found

    def _refuse_missing(self, pairs: list[Pair]) -> None:
        refusals, aliases = self.draft.refusals, self._scopes.aliases
        if not aliases:
            refusals.append("clusters: it is missing. Name the clusters: clusters = A, B")
        elif unknown := [one for one in self._targets if one not in aliases]:
            known = ", ".join(aliases)
            refusals.append(f"--clusters {unknown[0]}: no such cluster. The file has: {known}")
        elif not pairs:
            where = f" to {', '.join(self._targets)}" if self._targets else ""
            refusals.append(f"no link{where} is enabled. Set A->B.enabled = true for one")

    def _write_cluster(self, alias: str) -> None:
        given = {}
        for key in self._scopes.client_keys(alias):
            found = self._scopes.client(alias, key)
            if len({entry.value for entry in found}) > 1:
                others = " and ".join(entry.shown for entry in found[1:])
                why = f"{others} differs, and a cluster has one login for all. Make them the same"
                self.draft.refuse(found[0], why)
            given[key] = found[0]
            self.draft.seen |= {entry.name for entry in found}
            for entry in found[1:]:
                self.draft.drop(("clusters", self._names[alias]), entry, "said once is enough")
        name = self._names[alias]
        if name != alias:
            self.draft.say(("clusters", name), f"changed: {alias} cannot be a name here")
        ClientWriter(self.draft, name, given, self._providers).write()

    def _account_for(self, entry: Entry, pairs: list[Pair]) -> None:
        """Say why a key that nothing asked for is left out, or refuse it."""
        pair, alias, key = self._about(entry)
        if pair is not None and pair not in pairs:
            self.draft.drop((), entry, f"{'->'.join(pair)} is not imported")
        elif alias is not None and all(alias not in one for one in pairs):
            self.draft.drop((), entry, f"no link uses {alias}")
        elif key == "clusters":
            self.draft.say(("clusters",), f"mapped: {entry.shown}")
        elif (remedy := refusal(key, entry.value)) is not None:
            self.draft.refuse(entry, remedy)
        elif (why := why_not_needed(key, is_bare=pair is None and alias is None)) is not None:
            self.draft.drop((), entry, why)
        elif alias is not None and key in LINK_KEYS:
            self.draft.drop((), entry, "MirrorMaker reads it only alone or with A->B. before it")
        elif key in LINK_KEYS or is_client_key(key):
            self.draft.drop((), entry, "a key for a narrower case wins everywhere")
        elif alias is not None:
            self.draft.drop((), entry, OWN_REQUESTS)
        else:
            self.draft.drop_unknown(entry)

    def _about(self, entry: Entry) -> tuple[Pair | None, str | None, str]:
        for pair, keys in self._scopes.pairs.items():
            if entry in keys.values():
                return pair, None, entry.name.removeprefix(f"{'->'.join(pair)}.")
        for alias, keys in self._scopes.clusters.items():
            if entry in keys.values():
                return None, alias, entry.name.removeprefix(f"{alias}.")
        return None, None, entry.name
