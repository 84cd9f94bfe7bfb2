"""Java's lists of patterns, and what Python makes of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.migrate.patterns import dotted_names, literally, read_patterns, split_list
from heliograph.model.selection import matches


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("a,new.*,foo", ("a", "new.*", "foo")),
        ("(a,b)", ("(a|b)",)),
        ("[ab],c", ("[ab]", "c")),
        ("a,a", ("a",)),
        (r"orders\.v\d+", (r"orders\.v\d+",)),
        ("a++", ("a++",)),
        ("(?:a|b)", ("(?:a|b)",)),
        ("", ()),
        (" , ", ()),
    ],
)
def test_a_list_keeps_its_meaning(text: str, patterns: tuple[str, ...]) -> None:
    assert read_patterns(split_list(text)) == patterns


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (r"\p{Lower}+", "[A-Za-z]"),
        (r"\P{L}", "[A-Za-z]"),
        ("[a-z&&[^b]]", "&&"),
        (r"\Qa.b\E", "backslash"),
        ("(?<name>a)", "named group"),
        ("(?i)orders", "(?i:…)"),
        ("a{1,3}", "comma"),
        ("[a[bc]]", "one list of letters"),
        (r"\R", "not a regular expression of Python"),
        ("(a", "not a regular expression of Python"),
    ],
)
def test_what_python_lacks_is_refused_with_a_remedy(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(hint)):
        read_patterns(split_list(text))


def test_names_with_dots_are_told() -> None:
    assert dotted_names(["a", "a.b", "a.*"]) == ["a.b"]


@given(st.text("ab.,()|*\\-", max_size=12), st.text("ab.-", min_size=1, max_size=6))
def test_a_list_matches_what_mirrormaker_matches(text: str, topic: str) -> None:
    """The joined expression is what Java compiles; these signs mean the same to Python."""
    items = split_list(text)
    try:
        joined = re.compile("|".join(items))
        patterns = read_patterns(items)
    except (re.error, ValueError):
        return
    there = bool(items) and joined.fullmatch(topic) is not None
    here = matches(patterns, topic)
    # A name's dots are dots, which is told; everything else must agree.
    assert here == there or (there and bool(dotted_names(patterns)))


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_a_literal_matches_itself_alone(text: str, other: str) -> None:
    assert re.fullmatch(literally(text), text)
    assert (re.fullmatch(literally(text), other) is not None) == (text == other)
