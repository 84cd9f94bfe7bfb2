"""A cluster's section: the properties of Java clients in, ours out."""

from collections.abc import Mapping
from pathlib import PurePath

from heliograph.errors import ConfigError
from heliograph.kafka import jaas, pem
from heliograph.kafka.properties import MECHANISMS, PROPERTIES, parse
from heliograph.kafka.secret import is_reference
from heliograph.migrate.draft import Draft, variable_name
from heliograph.migrate.entries import Entry
from heliograph.migrate.patterns import split_list
from heliograph.migrate.references import holds_reference, translate

OWN_REQUESTS = "Heliograph sizes and times its requests by itself"
# Properties that hold a secret, and how the variable of a literal one ends.
SECRETS = {
    "sasl.password": "PASSWORD",
    "sasl.oauthbearer.client.credentials.client.secret": "CLIENT_SECRET",
    "ssl.key.password": "KEY_PASSWORD",
    "ssl.keystore.key": "KEY",
}
_SECURITY = ("security.", "sasl.", "ssl.")
_PASSWORDS = tuple(one for one in MECHANISMS if one != "OAUTHBEARER")
_CONNECTION = ("bootstrap.servers", "client.rack")
_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
_STORES = {
    "ssl.truststore": pem.Holds.AUTHORITIES,
    "ssl.keystore": pem.Holds.CERTIFICATE_AND_KEY,
}
_KEYS = {"ssl.keystore.location", "ssl.keystore.key"}
_CLASSES = (".callback.handler.class", ".engine.factory.class", "sasl.login.class", ".providers")
# Java needs it for tokens, and so it stands in every file that has them.
_TOKEN_HANDLER = "OAuthBearerLoginCallbackHandler"
# What stands for a reference while the rest is checked: it may not be there on this machine.
_STAND_INS = {
    "bootstrap.servers": "host:9092",
    "sasl.oauthbearer.token.endpoint.url": "https://host",
    "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
    "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
}
# Whether the rest can be judged depends on these.
_DECIDING = ("security.protocol", "sasl.mechanism")
_LOGIN_REMEDY = (
    "the login stood in the JAAS file that KAFKA_OPTS named. Add sasl.jaas.config, as in "
    "org.apache.kafka.common.security.scram.ScramLoginModule required username=… password=…;"
)


def is_client_key(key: str) -> bool:
    """Tell whether a property is about reaching a cluster."""
    return key.startswith(_SECURITY) or key in _CONNECTION


class ClientWriter:
    """Writes one cluster's section from the properties that hold for it, by their bare names."""

    def __init__(
        self, draft: Draft, cluster: str, given: Mapping[str, Entry], providers: Mapping[str, str]
    ) -> None:
        self._draft, self._cluster = draft, cluster
        self._given, self._providers = given, providers
        self._path = ("clusters", cluster)
        protocol = self._text("security.protocol").upper() or "PLAINTEXT"
        # A protocol that is looked up elsewhere may be any.
        is_open = holds_reference(protocol)
        self._has_login = protocol.startswith("SASL_") or is_open
        self._has_tls = protocol.endswith("SSL") or is_open
        self._protocol = protocol

    def write(self) -> None:
        """Write every property, and refuse what the cluster could not be used with."""
        for key, entry in self._given.items():
            self._take(key, entry)
        self._check()

    def _text(self, key: str) -> str:
        return self._given[key].value if key in self._given else ""

    def _take(self, key: str, entry: Entry) -> None:
        if (why := self._why_not_needed(key)) is not None:
            self._draft.drop(self._path, entry, why)
        elif key.endswith(_CLASSES):
            self._refuse_class(entry)
        elif key == jaas.SETTING:
            self._take_jaas(entry)
        elif key in SECRETS:
            self._take_secret(key, entry)
        elif key in ("ssl.truststore.location", "ssl.keystore.location"):
            self._take_store(key, entry)
        elif key in ("ssl.enabled.protocols", "ssl.protocol"):
            self._take_versions(key, entry)
        elif key in PROPERTIES:
            self._put(key, self._listed(key, entry.value), entry)
        else:
            self._draft.drop(self._path, entry, "left to the system's own defaults")

    def _why_not_needed(self, key: str) -> str | None:
        if key.startswith("sasl.") and not self._has_login:
            return f"security.protocol is {self._protocol}, which has no login"
        if key.startswith("ssl.") and not self._has_tls:
            return f"security.protocol is {self._protocol}, which does not encrypt"
        if key == "ssl.key.password" and not self._given.keys() & _KEYS:
            return "there is no key"
        if key in ("ssl.truststore.password", "ssl.keystore.password"):
            return "a PEM file has none"
        if key.startswith("sasl.oauthbearer.") and self._text("sasl.mechanism") in _PASSWORDS:
            return "it is for OAUTHBEARER only"
        if key.startswith("sasl.kerberos."):
            return "it is for Kerberos only"
        if key.endswith(".callback.handler.class") and self._text(key).endswith(_TOKEN_HANDLER):
            return "tokens are fetched without it"
        return None

    def _refuse_class(self, entry: Entry) -> None:
        self._draft.refuse(entry, "Java classes cannot be used. Remove it")

    def _take_jaas(self, entry: Entry) -> None:
        if holds_reference(entry.value) and "required" not in entry.value:
            # The whole line stands elsewhere, and is read there.
            self._put(jaas.SETTING, entry.value, entry)
            return
        try:
            login = jaas.parse(entry.value)
        except ConfigError as error:
            self._draft.refuse(entry, error.message.removeprefix(jaas.SETTING).lstrip(": "))
            return
        mechanism = self._text("sasl.mechanism")
        if mechanism in MECHANISMS and mechanism not in login.mechanisms:
            wanted = " and ".join(login.mechanisms)
            why = f"its login module is for {wanted}, but sasl.mechanism is {mechanism}"
            self._draft.refuse(entry, why)
        self._put("sasl.username", login.username, entry)
        self._put_secret("sasl.password", login.password, entry)

    def _take_secret(self, key: str, entry: Entry) -> None:
        if jaas.SETTING in self._given and key == "sasl.password":
            self._draft.drop(self._path, entry, f"{jaas.SETTING} has it")
        else:
            self._put_secret(key, entry.value, entry)

    def _put_secret(self, key: str, value: str, entry: Entry) -> None:
        if holds_reference(value):
            self._put(key, value, entry)
            return
        if not value:
            self._draft.drop(self._path, entry, "it is empty")
            return
        reference = self._draft.conceal(variable_name(self._cluster, SECRETS[key]), value)
        name = reference.removeprefix("${env:").removesuffix("}")
        change = f"a secret does not stand here. Export it as {name}"
        self._draft.map((*self._path, key), reference, entry, change=change)

    def _put(self, key: str, value: str, entry: Entry) -> None:
        try:
            self._draft.map((*self._path, key), translate(value, self._providers), entry)
        except ValueError as error:
            self._draft.refuse(entry, str(error))

    def _take_store(self, key: str, entry: Entry) -> None:
        store = key.removesuffix(".location")
        path = PurePath(entry.value)
        if not path.name:
            self._draft.drop(self._path, entry, "it is empty")
            return
        kind = self._text(f"{store}.type").upper() or pem.store_by_name(path)
        if kind == "PEM" or holds_reference(entry.value):
            self._put(key, entry.value, entry)
            return
        remedy = pem.conversion(path, kind, _STORES[store])
        then = f"Then set {key} to the .pem file and {store}.type to PEM"
        self._draft.refuse(entry, f"it is {kind}; Heliograph reads PEM. {remedy}. {then}")

    def _take_versions(self, key: str, entry: Entry) -> None:
        kept = [one for one in split_list(entry.value) if one in (*_TLS_VERSIONS, "TLS")]
        if kept == split_list(entry.value):
            self._put(key, ",".join(kept), entry)
        elif kept:
            change = "only TLSv1.2 and TLSv1.3 are spoken"
            self._draft.map((*self._path, key), ",".join(kept), entry, change=change)
        else:
            self._draft.refuse(entry, "Heliograph speaks TLSv1.2 and TLSv1.3 only. Allow one")

    def _listed(self, key: str, value: str) -> str:
        """Return a value with each broker named once: Java does not mind, we do."""
        if key != "bootstrap.servers" or holds_reference(value):
            return value
        return ",".join(dict.fromkeys(split_list(value)))

    def _check(self) -> None:
        """Refuse what no machine could use; whether files and variables are there is not asked."""
        found = self._draft.group(self._path)
        if any(is_reference(str(found.get(key, ""))) for key in _DECIDING):
            return
        logins = {"sasl.username", jaas.SETTING} & (found.keys() | self._given.keys())
        if self._has_login and not logins and found.get("sasl.mechanism") in _PASSWORDS:
            missing = f"cluster {self._cluster}: {jaas.SETTING} is missing: {_LOGIN_REMEDY}"
            self._draft.refusals.append(missing)
            return
        try:
            settings = parse(self._cluster, _standing_alone(found))
        except ConfigError as error:
            for mistake in error.message.split("\n  - ")[1:]:
                if not self._is_refused(mistake, found):
                    self._draft.refusals.append(f"cluster {self._cluster}: {mistake}")
        else:
            self._draft.warnings += [f"cluster {self._cluster}: {one}" for one in settings.warnings]

    def _is_refused(self, mistake: str, found: Mapping[str, object]) -> bool:
        """Claim: what is wrong here was told already, of the key that it comes from."""
        about = mistake.split(" ", 1)[0].rstrip(":")
        of_login = about in ("sasl.username", "sasl.password") and jaas.SETTING in self._given
        return (of_login or about in self._given) and about not in found


def _standing_alone(found: Mapping[str, object]) -> dict[str, object]:
    """Return properties that refer to nothing outside, except for secrets, which nobody reads."""
    alone = {
        key: _STAND_INS.get(key, "x") if is_reference(str(value)) and key not in SECRETS else value
        for key, value in found.items()
        if not key.endswith((".location", "store.type")) and key != "ssl.key.password"
    }
    if alone.pop(jaas.SETTING, None):
        alone |= {"sasl.username": "x", "sasl.password": "${env:X}"}
    return alone
