"""What queries and bodies may hold."""

from collections.abc import Callable
from typing import Any

import pytest

from heliograph.web.fields import Field, read_json, read_query
from heliograph.web.problems import Refused

FIELDS = (
    Field("topics", "pattern", "Which."),
    Field("dry_run", "boolean", "Whether.", False),
    Field("seconds", "seconds", "How long.", 60.0),
)


def wrong(read: Callable[[], Any]) -> str:
    with pytest.raises(Refused) as refused:
        read()
    assert (refused.value.problem.status, refused.value.problem.code) == (422, "bad-input")
    return refused.value.problem.message


def test_no_body_takes_every_default() -> None:
    assert read_json(FIELDS, b"") == {"topics": None, "dry_run": False, "seconds": 60.0}
    assert read_query(FIELDS, []) == read_json(FIELDS, b" {} ")


def test_values_are_what_was_meant() -> None:
    body = b'{"topics": "pay.*", "dry_run": true, "seconds": 5}'
    assert read_json(FIELDS, body) == {"topics": "pay.*", "dry_run": True, "seconds": 5.0}
    query = [("topics", "pay.*"), ("dry_run", "true"), ("seconds", "5")]
    assert read_query(FIELDS, query) == read_json(FIELDS, body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[" * 10_000, "the body is not JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"topic": "a"}', "there is no 'topic' here. Did you mean topics?"),
        (b'{"topics": null}', "topics: must be a text"),
        (b'{"topics": ["a"]}', "topics: must be a text"),
        (b'{"topics": "a("}', "topics: 'a(' is not a regular expression of Python"),
        (b'{"topics": ""}', "topics: '' matches nothing"),
        (b'{"topics": "%s"}' % (b"a" * 1001), "is longer than 1000 characters"),
        (b'{"dry_run": 1}', "dry_run: is neither true nor false"),
        (b'{"seconds": -1}', "seconds: is not a number of seconds"),
        (b'{"seconds": true}', "seconds: is not a number of seconds"),
        (b'{"seconds": NaN}', "seconds: is not a number of seconds"),
        (b'{"seconds": 1e400}', "seconds: is not a number of seconds"),
    ],
)
def test_what_is_wrong_is_told(body: bytes, message: str) -> None:
    assert message in wrong(lambda: read_json(FIELDS, body))


def test_every_mistake_is_told_at_once_and_nothing_may_be_given_twice() -> None:
    told = wrong(lambda: read_json(FIELDS, b'{"x": 1, "topics": 2}'))
    assert "'x'" in told and "topics: must" in told
    assert wrong(lambda: read_query(FIELDS, [("seconds", "1")] * 2)) == "given twice: seconds"


def test_a_route_without_fields_takes_none() -> None:
    assert "Known: none at all" in wrong(lambda: read_json((), b'{"a": 1}'))
