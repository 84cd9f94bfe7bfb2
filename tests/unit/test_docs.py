"""The documentation agrees with the code, and the tree names no machine of ours."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from heliograph import errors
from heliograph.cli.app import OTHER_CODES
from heliograph.errors import ConfigError
from heliograph.kafka.properties import PROPERTIES, parse
from scripts import reference

ROOT = Path(__file__).parents[2]
COMMANDS = list(reference.walk())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_VARIABLE = re.compile(r"""\b(HELIOGRAPH_[A-Z][A-Z_]*)|environ(?:\.get)?[\[(]"([A-Z_]+)["]""")

_REGISTRIES = "maven|pypi|pythonhosted|npmjs|sonatype|crates|goproxy"
_TELLTALES = (
    # A registry, by address or by bare host name.
    re.compile(rf'https?://[^ /"]*({_REGISTRIES}|debian)'),
    re.compile(rf"\b[\w.-]*({_REGISTRIES})[\w.-]*\.(org|com|io|dev)\b"),
    # A folder of somebody's machine.
    re.compile(r"(?<![\w.~}])/(home|Users|root|work)/\w"),
)


def path(context: click.Context) -> str:
    return context.command_path


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_a_page_of_the_reference_is_up_to_date(name: str) -> None:
    found = reference.FOLDER / name
    assert found.exists() and found.read_text() == reference.pages()[name], "run: make docs"


def test_the_reference_holds_no_page_that_nothing_writes() -> None:
    assert {one.name for one in reference.FOLDER.iterdir()} == set(reference.pages())


def test_every_page_of_the_reference_says_that_it_is_generated() -> None:
    for text in reference.pages().values():
        assert text.splitlines()[0] == reference.MARK


@pytest.mark.parametrize("kind", reference.error_classes())
def test_an_error_has_a_code_and_words_of_its_own(kind: type[errors.HeliographError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", vars(kind).get("code", "")), "no code of its own"
    assert vars(kind).get("__doc__"), "no docstring"
    assert re.search(rf"\b{kind.__name__}\b", errors.__doc__ or ""), "not in the module's tree"


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in reference.error_classes()]
    codes += OTHER_CODES
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("context", COMMANDS, ids=path)
def test_a_command_and_its_options_have_help(context: click.Context) -> None:
    command = context.command
    assert (command.help or "").strip()
    # Cut short in a list of commands, it would make its reader guess.
    if context.parent:
        assert not command.get_short_help_str(65).endswith("..."), "its first line is too long"
    for one in command.params:
        if isinstance(one, click.Option):
            assert (one.help or "").strip(), one.opts


@pytest.mark.parametrize("context", COMMANDS, ids=path)
def test_an_option_has_a_variable_that_means_one_option_only(context: click.Context) -> None:
    for one in context.command.params:
        if isinstance(one, click.Option) and one.name != "version":
            named = reference.variable(one)
            # What takes in everything must be typed: an environment never implies it.
            assert named.startswith("HELIOGRAPH_") is ("--all" not in one.opts), one.opts
            assert named not in reference.VARIABLES


def test_every_variable_that_is_read_is_documented() -> None:
    page = reference.pages()["environment.md"]
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "scripts" / "setup"]
    found = {
        name
        for source in sources
        for match in _VARIABLE.finditer(source.read_text())
        for name in match.groups()
        if name
    }
    assert {"HELIOGRAPH_CACHE", "JAVA_HOME"} <= found
    assert [name for name in sorted(found) if f"`{name}`" not in page] == []


CONTEXTS = (
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
    {"security.protocol": "SSL"},
)
_JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
)


def is_refused_in_the_open(name: str) -> bool:
    """Ask the parser itself, wherever the property has a meaning."""
    value = _JAAS if name == "sasl.jaas.config" else "literal"
    for context in CONTEXTS:
        with pytest.raises(ConfigError) as refused:
            # Never complete, so that there always is something to refuse.
            parse("c", context | {name: value} | {"no.such.property": ""})
        if f"{name} holds a secret in the open" in refused.value.message:
            return True
    return False


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_properties_called_secret_are_those_refused_in_the_open(name: str) -> None:
    assert reference.is_secret(name) == is_refused_in_the_open(name)


def links(page: Path) -> Iterator[str]:
    for found in _LINK.finditer(_FENCED.sub("", page.read_text())):
        if not re.match(r"[a-z]+:", found.group(1)):
            yield found.group(1)


def anchors(page: Path) -> set[str]:
    """Return what GitHub makes of a page's headings."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_relative_link_points_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{link} points nowhere"
        assert not anchor or anchor in anchors(there), f"{link}: no such heading"


def test_the_tree_names_no_registry_and_no_machine_of_ours() -> None:
    found = []
    for name in tree():
        try:
            text = (ROOT / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            # Not text, or deleted and not committed yet.
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(telltale.search(line) for telltale in _TELLTALES):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []


def tree() -> list[str]:
    """Return the files that are committed, or would be."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: it may hold files of other tools")
    command = [git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in said.split("\0") if name]


@pytest.mark.parametrize(
    "line",
    [
        "index-url = https://" + "pypi.example/simple",
        "https://repo1.ma" + "ven.org/ma" + "ven2",
        "see files.pytho" + "nhosted.org for it",
        "cd /" + "home/somebody/heliograph",
        'ROOT = "/' + 'Users/somebody"',
    ],
)
def test_a_telltale_is_caught(line: str) -> None:
    assert any(telltale.search(line) for telltale in _TELLTALES)


@pytest.mark.parametrize(
    "line",
    ["org.apache.maven", "~/work/x", "$HOME/work/x", "docs.python.org", "the crates", "a/work/b"],
)
def test_what_is_no_telltale_is_not(line: str) -> None:
    assert not any(telltale.search(line) for telltale in _TELLTALES)
