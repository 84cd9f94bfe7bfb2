"""References to what stands elsewhere: Kafka's providers in, ours out."""

import re
from collections.abc import Mapping

from heliograph.migrate.entries import Entry

# As Kafka's ConfigTransformer reads them: a provider, perhaps a path, and a key.
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")
_KINDS = {"EnvVarConfigProvider": "env", "DirectoryConfigProvider": "directory"}
_REMEDY = "Use ${env:NAME}, or ${directory:FOLDER:FILE} with the value alone in a file"
_PROVIDERS = "config.providers."


def find_providers(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return what kind each provider is that a file names: env, directory, or its class."""
    found = {}
    for name, entry in entries.items():
        if name.startswith(_PROVIDERS) and name.endswith(".class"):
            provider = name.removeprefix(_PROVIDERS).removesuffix(".class")
            kind = entry.value.rpartition(".")[2]
            found[provider] = _KINDS.get(kind, kind)
    return found


def holds_reference(text: str) -> bool:
    """Tell whether Kafka would look something up for a text."""
    return _REFERENCE.search(text) is not None


def translate(text: str, providers: Mapping[str, str]) -> str:
    """Return a text with its reference in our form; raise a ValueError where there is none.

    >>> translate("${directory:/etc/kafka:password}", {}), translate("${env:USER}", {})
    ('${file:/etc/kafka/password}', '${env:USER}')
    """
    if not holds_reference(text):
        return text
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise ValueError(
            "a reference must be the whole value, nothing before or after it. Put the whole value "
            "where the reference points"
        )
    provider, folder, key = found.groups()
    kind = providers.get(provider, provider)
    if kind == "env" and not folder:
        return f"${{env:{key}}}"
    if kind == "directory" and folder:
        return f"${{file:{folder.rstrip('/')}/{key}}}"
    # Not named unless the file itself does: a password may look like a reference.
    which = f"the provider {provider}" if provider in {*providers, "file"} else "this provider"
    raise ValueError(f"{which} is not supported. {_REMEDY}")
