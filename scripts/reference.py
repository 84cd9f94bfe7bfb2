"""Writes docs/reference from the code itself: `make docs`.

A page is a function that returns its text; nothing of the machine it runs on gets in.
tests/unit/test_docs.py fails when a page is not what its function returns.
"""

import inspect
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import chdir
from datetime import timedelta
from pathlib import Path

import click

from heliograph import errors
from heliograph.cli.app import EXIT_CODES, OTHER_CODES, app, exit_code
from heliograph.config.reference import reference as settings
from heliograph.errors import ConfigError, HeliographError
from heliograph.kafka.client_settings import Tls
from heliograph.kafka.fault_codes import FAULTS
from heliograph.kafka.pem import Holds, read_file
from heliograph.kafka.properties import PROPERTIES, parse
from scripts.markdown import cell, table
from scripts.rest import rest_page

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
MARK = "<!-- Written by `make docs` from the code. Do not edit: change the code instead. -->"
_SECRET = "; a secret"

# Variables that are not options: what reads them, and what they do.
VARIABLES = {
    "HELIOGRAPH_CONFIG": (
        "The configuration, where neither `--file` is given nor a `heliograph.yaml` is here."
    ),
    "HELIOGRAPH_CACHE": (
        "Folder of what can be had again: Kafka's jars. Else `$XDG_CACHE_HOME/heliograph`, else "
        "`~/.cache/heliograph`."
    ),
    "HELIOGRAPH_STATE": (
        "Folder of the local clusters that `clusters up` starts, their files and the list of "
        "them. Else `$XDG_STATE_HOME/heliograph`, else `~/.local/state/heliograph`. With "
        "another folder, other clusters are seen."
    ),
    "XDG_CACHE_HOME": "Where caches go; see `HELIOGRAPH_CACHE`.",
    "XDG_STATE_HOME": "Where state goes; see `HELIOGRAPH_STATE`.",
    "HELIOGRAPH_IVY_SETTINGS": (
        "An Ivy settings file, for those who get Kafka's jars from a registry of their own. "
        "Without it, Ivy asks the public one."
    ),
    "HELIOGRAPH_HOOK_": (
        "How the variables begin that a hook is given: `LINK`, `VERB`, `SOURCE`, `TARGET`, "
        "`TOPICS` (with commas between) and `PRIMARY`, the cluster that applications use when the "
        "verb is done; in a drill also `DRILL`, the link that it rehearses, and "
        "`LINK` is the scratch link then."
    ),
    "LOG_DIR": (
        "Folder where `mirror-maker -daemon` writes its output, as in Kafka's own scripts. Else "
        "`logs` in the folder of `HELIOGRAPH_STATE`."
    ),
    "JAVA_HOME": "The Java to use, 17 or newer. Else the first `java` on `PATH`.",
    "HELIOGRAPH_BROKER_OPTIONS": "More options for the JVM of each broker of a local cluster, with"
    " spaces between.",
    "JAVA_TOOL_OPTIONS": (
        "Read by Java itself, so also by every broker and by the download: "
        "`-Dhttps.proxyHost=… -Dhttps.proxyPort=…` gives it a proxy."
    ),
    "SPARK_HOME": (
        "The Spark to use, where it is not the installed PySpark. Starts slower, and what its JVM "
        "prints is seen."
    ),
    "HELIOGRAPH_JVM_LOG": "Set by `heliograph run` itself: where Spark's JVM writes.",
    "HELIOGRAPH_CRASH_POINT": (
        "Only for tests: a copier that passes this point of its code ends itself by SIGKILL."
    ),
    "HELIOGRAPH_CRASH_AFTER": "Only for tests: at which passing it does; the first unless told.",
    "NO_COLOR": "Set to anything: no colours, like `--no-color`.",
    "PYTHON": "Only for `make setup`: the Python to make the virtual environment with.",
}


def pages() -> dict[str, str]:
    """Return every page of the reference: file name and text."""
    written: dict[str, Callable[[], str]] = {
        "commands.md": commands_page,
        "settings.md": settings_page,
        "client-properties.md": properties_page,
        "rest.md": rest_page,
        "errors.md": errors_page,
        "kafka-errors.md": kafka_errors_page,
        "environment.md": environment_page,
    }
    return {name: f"{MARK}\n\n{write().rstrip()}\n" for name, write in written.items()}


def commands_page() -> str:
    """Every command, as the command line itself knows it."""
    text = "# Commands\n\nOptions that every command takes, before or after its name:\n\n"
    text += _option_table(_options(app))
    text += "\nEvery option but `--all` can also be set by its [environment variable]"
    text += "(environment.md); what is typed wins.\n\n## Exit codes\n\n"
    text += table(("code", "meaning"), ((str(code), words) for code, words in EXIT_CODES.items()))
    text += "\nErrors go to stderr and begin with a [stable code](errors.md).\n"
    shared = {option.opts[-1] for option in _options(app)}
    for context in walk():
        if context.parent is not None:
            text += f"\n{_command(context, shared)}"
    return text


def walk() -> Iterator[click.Context]:
    """Yield a context for every command, parents first."""
    # With its settings: a command remembers the names of its help option from its first context.
    yield from _below(click.Context(app, info_name="heliograph", **app.context_settings))


def _below(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name, command in sorted(context.command.commands.items()):
            yield from _below(click.Context(command, info_name=name, parent=context))


def _command(context: click.Context, shared: set[str]) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = f"## {context.command_path}\n\n```text\n{usage}\n```\n\n{_prose(command.help or '')}\n"
    own = [option for option in _options(command) if option.opts[-1] not in shared]
    return text + (f"\n{_option_table(own)}" if own else "")


def _options(command: click.Command) -> list[click.Option]:
    return [
        one for one in command.params if isinstance(one, click.Option) and one.name != "version"
    ]


def _prose(text: str) -> str:
    """Turn click's help into Markdown: what click would not wrap becomes a block of code."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b\n"):
            title, *lines = part.removeprefix("\b\n").splitlines()
            block = "\n".join(line.removeprefix("  ") for line in lines)
            parts.append(f"{title}\n\n```sh\n{block}\n```")
        else:
            parts.append(" ".join(part.split()))
    return "\n\n".join(parts)


def _option_table(options: Iterable[click.Option]) -> str:
    heads = ("option", "default", "environment", "meaning")
    return table(heads, ([*map(cell, _option_row(one))] for one in options))


def _option_row(option: click.Option) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if not option.is_flag:
        names += f" `{option.make_metavar(click.Context(app, **app.context_settings))}`"
    default = f"`{option.default}`" if isinstance(option.default, int) and option.default else ""
    named = variable(option)
    return names, default, f"`{named}`" if named else "", option.help or ""


def variable(option: click.Option) -> str:
    """Return the environment variable of an option; empty if it has none."""
    return option.envvar if isinstance(option.envvar, str) else ""


def settings_page() -> str:
    """What heliograph.yaml may hold."""
    rows = (
        (f"`{row.path}`", row.type, f"`{row.default}`" if row.default else "", cell(row.help))
        for row in settings()
    )
    return f"""\
# heliograph.yaml

Every setting. `heliograph init` prints a file that holds them all, with these explanations. A
cluster's section holds [client properties](client-properties.md).

{table(("setting", "type", "default", "meaning"), rows)}"""


def properties_page() -> str:
    """What a cluster's section of a configuration may hold."""
    defaults = _property_defaults()
    rows = (
        (
            f"`{name}`",
            f"`{defaults[name]}`" if name in defaults else "",
            "yes" if is_secret(name) else "",
            cell(words.removesuffix(_SECRET)),
        )
        for name, words in PROPERTIES.items()
    )
    return f"""\
# Client properties

How Heliograph connects to a cluster, under the names that Kafka's own Java clients use: a
`client.properties` can be pasted into a cluster's section of the configuration. A property that
is not in this table is refused, with the nearest name that is. All mistakes of a cluster are
reported at once.

{table(("property", "default", "secret", "meaning"), rows)}
## Secrets and references

A value that is `${{env:NAME}}` is read from the environment, one that is `${{file:PATH}}` from a
file (a line end at its end is not part of it). A reference is the whole value: nothing may stand
before or after it.

A secret must be a reference. It stays one until the moment it is used, so that no log, no error
and no Spark plan ever holds the value, and a rotated file is noticed. A secret in the open is
refused unless `allow_literal_secrets` is set for the cluster. In `sasl.jaas.config` either the
whole line or the password in it may be the reference.

A file that holds a secret or a private key is refused when every user of the machine can read
it: `chmod 600` helps. On a Spark cluster, variables and files must be there for the executors
too (`spark.executorEnv.NAME`).

## JKS and PKCS12

Certificates and keys are read as PEM. Java's own stores are refused, with the command that
converts them:

```sh
{_conversions()}
```

Then name the `.pem` file instead, and leave out `ssl.truststore.password` and
`ssl.keystore.password`.
"""


def is_secret(name: str) -> bool:
    """Tell whether the table of properties calls one a secret."""
    return PROPERTIES[name].endswith(_SECRET)


def _property_defaults() -> dict[str, str]:
    settings, tls = parse("any", {"bootstrap.servers": "any:9092"}), Tls()
    versions = ", ".join(
        f"TLSv{one.name[-3:].replace('_', '.')}" for one in (tls.oldest, tls.newest)
    )
    return {
        "security.protocol": settings.security_protocol,
        "ssl.enabled.protocols": versions,
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host else "",
        "client.id": settings.client_id,
        "request.timeout.ms": _ms(settings.request_timeout),
        "socket.connection.setup.timeout.ms": _ms(settings.connect_timeout),
        "metadata.max.age.ms": _ms(settings.metadata_max_age),
        "connections.max.idle.ms": _ms(settings.connections_max_idle),
        "send.buffer.bytes": "-1",
        "receive.buffer.bytes": "-1",
    }


def _ms(span: timedelta) -> str:
    return str(span // timedelta(milliseconds=1))


def _conversions() -> str:
    """Return the commands that Heliograph itself names when it refuses a store."""
    stores = {
        "truststore.jks": (Holds.AUTHORITIES, "JKS"),
        "keystore.jks": (Holds.CERTIFICATE_AND_KEY, "JKS"),
        "keystore.p12": (Holds.CERTIFICATE_AND_KEY, "PKCS12"),
    }
    told = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, (holds, kind) in stores.items():
            path = Path(name)
            path.touch()
            try:
                read_file("ssl", path, holds, kind)
            except ConfigError as refused:
                told.append(f"# {name}\n" + refused.message.partition("Convert it: ")[2])
    return "\n".join(told)


def errors_page() -> str:
    """Every error, as the tree has it."""
    rows = (
        (
            f"`{kind.code}`",
            f"`{kind.__name__}`",
            f"`{_parent(kind)}`" if _parent(kind) else "",
            cell(_flat(kind.__doc__ or "")),
            "yes" if kind.retriable else "no",
            str(exit_code(kind)),
        )
        for kind in error_classes()
    )
    heads = ("code", "class", "is a", "meaning", "heals", "exit code")
    others = ((f"`{code}`", cell(words), str(status)) for code, (status, words) in _others())
    return f"""\
# Errors

A message begins with a code that never changes: logs, JSON and metrics use it too. *Heals* says
whether the same request may succeed later without anybody's help. *Exit code* is what a command
leaves with that ends by the error. In Python all of them are in `heliograph.errors`.

{table(heads, rows)}
What a broker's own codes become is in [Kafka errors](kafka-errors.md). The command line has three
codes more:

{table(("code", "meaning", "exit code"), others)}"""


def error_classes() -> list[type[HeliographError]]:
    """Return the classes of ``heliograph.errors``, in its order."""
    found = (one for one in vars(errors).values() if isinstance(one, type))
    return [one for one in found if issubclass(one, HeliographError)]


def _others() -> Iterator[tuple[str, tuple[int, str]]]:
    yield from OTHER_CODES.items()


def _parent(kind: type[HeliographError]) -> str:
    return "" if kind is HeliographError else kind.__bases__[0].__name__


def kafka_errors_page() -> str:
    """Every code of Kafka, and what it becomes."""
    rows = (
        (
            str(code),
            f"`{fault.name}`",
            f"`{fault.kind.code}`",
            "yes" if fault.kind.retriable else "no",
            cell(fault.words),
        )
        for code, fault in sorted(FAULTS.items())
    )
    return f"""\
# Kafka errors

What Heliograph makes of each error code of a broker. A message names Kafka's code too, what was
being done, and what the broker itself said of it. A code that is not here comes from a broker
that is newer than this version, and becomes `request-refused`. The errors themselves are in
[Errors](errors.md).

{table(("code", "Kafka's name", "error", "heals", "meaning"), rows)}"""


def environment_page() -> str:
    """Every environment variable that is read."""
    places: dict[str, dict[str, list[str]]] = {}
    for context in walk():
        for option in _options(context.command):
            if not variable(option):
                continue
            by_option = places.setdefault(variable(option), {})
            by_option.setdefault(option.opts[-1], []).append(context.command_path)
    rows = (
        (f"`{name}`", f"`{option}`", _where(commands))
        for name, by_option in sorted(places.items())
        for option, commands in by_option.items()
    )
    own = ((f"`{name}`", cell(words)) for name, words in VARIABLES.items())
    return f"""\
# Environment variables

## Options

What is typed wins over the environment. For an option without a value, `1` means yes and `0` no.

{table(("variable", "option", "of"), rows)}
## Others

{table(("variable", "meaning"), own)}
A configuration may read any variable besides, as `${{env:NAME}}`: see
[client properties](client-properties.md#secrets-and-references).
"""


def _where(commands: list[str]) -> str:
    return "every command" if "heliograph" in commands else ", ".join(f"`{c}`" for c in commands)


def _flat(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(FOLDER, pages())
