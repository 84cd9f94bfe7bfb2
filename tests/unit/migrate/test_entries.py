"""Property files are read as Java reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.migrate.entries import Entry, newest, read_properties


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a : b", "a", "b"),
        ("a b c", "a", "b c"),
        ("  a\t=\tb  ", "a", "b"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("a==b", "a", "=b"),
        (r"a\=b=c", "a=b", "c"),
        (r"A-\>B.x=1", "A->B.x", "1"),
        ("A->B.topics = x", "A->B.topics", "x"),
        (r"a=\u0041\t\\.", "a", "A\t\\."),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\\\nc=d", "a", "b\\"),
        ("a=b\\\n# no comment", "a", "b# no comment"),
        ("# x\n! y\n\na=b", "a", "b"),
        ("a=b\r\nc=d", "a", "b"),
        ("a=b\\", "a", "b"),
    ],
)
def test_a_line_is_read_as_java_reads_it(text: str, name: str, value: str) -> None:
    first = read_properties(text)[0]
    assert (first.name, first.value) == (name, value)


def test_a_key_knows_its_line_also_behind_one_that_goes_on() -> None:
    entries = read_properties("# head\na = 1,\\\n  2\nb = 3\n")
    assert [(entry.name, entry.line) for entry in entries] == [("a", 2), ("b", 4)]
    assert entries[0].place == "a (line 2)"


def test_the_last_of_a_key_wins() -> None:
    assert newest(read_properties("a=1\na=2"))["a"].value == "2"


def test_a_value_is_in_no_repr() -> None:
    assert "hunter2" not in repr(read_properties("sasl.password=hunter2"))


@pytest.mark.parametrize(
    "line", ["hunter2", "MIIEvQIBADANBgkqhkiG9w0=", "hun.ter2", 'password="hunter2";', "hun ter2"]
)
def test_what_may_be_a_part_of_a_secret_is_named_by_its_line(line: str) -> None:
    (entry,) = read_properties(f"\n{line}")
    assert entry.guarded == "line 2"


def test_a_key_that_cannot_be_one_is_named() -> None:
    assert Entry("fetch.min.bytes", "1", 3).guarded == "fetch.min.bytes"
    assert Entry("x.y", "1", 3, "consumer.config: x.y").guarded == "consumer.config: x.y"


_NAMES = st.text("abcXYZ.->_0123456789", min_size=1, max_size=20)
_VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=40)


@given(st.dictionaries(_NAMES, _VALUES, max_size=5))
def test_what_is_written_with_escapes_reads_back(pairs: dict[str, str]) -> None:
    text = "".join(f"{name}={_escaped(value)}\n" for name, value in pairs.items())
    read = {entry.name: entry.value for entry in read_properties(text)}
    assert read == {name: value.strip() for name, value in pairs.items()}


def _escaped(value: str) -> str:
    return "".join(f"\\u{ord(sign):04x}" for sign in value)
