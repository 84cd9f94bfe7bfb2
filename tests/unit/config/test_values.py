"""Values as text: what is written reads back the same, what is wrong says why."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.config import values
from heliograph.config.values import Address

MS = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("500ms", 500 * MS),
        ("5s", 5000 * MS),
        ("2m", 120_000 * MS),
        ("1h", 3_600_000 * MS),
        ("1d", timedelta(days=1)),
        ("10 s", 10_000 * MS),
        ("off", None),
    ],
)
def test_a_time_has_a_unit(text: str, span: timedelta | None) -> None:
    assert values.parse_span(text) == span


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5", "has no unit. Did you mean 5s?"),
        ("0s", "must be more than nothing"),
        ("999999999d", "at most 3650d"),
        ("5 parsecs", "is not a time"),
        ("5S", "is not a time"),
        ("1.5s", "is not a whole number"),
        ("-5s", "is not a whole number"),
        ("\u0665s", "is not a whole number"),
        ("9" * 5000 + "s", "is not a whole number"),
        ("false", "is not a whole number"),
        ("", "is not a whole number"),
    ],
)
def test_a_wrong_time_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        values.parse_span(text)


@given(st.integers(1, 3650 * 86_400_000))
def test_every_time_reads_back_the_same(milliseconds: int) -> None:
    span = milliseconds * MS
    assert values.parse_span(values.show_span(span)) == span


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("50MB", 50_000_000),
        ("1GiB", 2**30),
        ("1048576", 2**20),
        ("3 kB", 3000),
        ("3KB", 3000),
        ("2KiB", 2048),
        ("1TB", 10**12),
        ("7B", 7),
        ("off", None),
    ],
)
def test_a_size_is_bytes(text: str, size: int | None) -> None:
    assert values.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0", "would let nothing through"),
        ("50Mb", "has no known unit"),
        ("50 MB/s", "is not a whole number"),
        ("-1", "is not a whole number"),
    ],
)
def test_a_wrong_size_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        values.parse_size(text)


@given(st.integers(1, 10**15 - 1))
def test_every_size_reads_back_the_same(size: int) -> None:
    assert values.parse_size(values.show_size(size)) == size


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01 00:00:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("1767225600000", datetime(2026, 1, 1, tzinfo=UTC)),
        ("1767225600123", datetime(2026, 1, 1, microsecond=123_000, tzinfo=UTC)),
        ("earliest", "earliest"),
        ("latest", "latest"),
    ],
)
def test_a_start_is_in_utc(text: str, moment: datetime | str) -> None:
    assert values.parse_start(text) == moment
    assert values.parse_start(values.show_start(moment)) == moment


@pytest.mark.parametrize(
    "text", ["newest", "1767225600", "20260101", "9" * 15, "9" * 16, "-5", "0001-01-01T00:00+23:00"]
)
def test_a_start_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no time|not a time"):
        values.parse_start(text)


@given(st.datetimes(datetime(1974, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC)))
def test_every_start_reads_back_the_same(moment: datetime) -> None:
    assert values.parse_start(values.show_start(moment)) == moment


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("same", "{topic}"),
        ("prefix", "{source}.{topic}"),
        ("{source}-{topic}", "{source}-{topic}"),
        ("mirror_{topic}", "mirror_{topic}"),
    ],
)
def test_a_naming_becomes_a_template(text: str, template: str) -> None:
    assert values.parse_naming(text) == template
    assert values.parse_naming(values.show_naming(template)) == template


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{source}", r"lacks \{topic\}"),
        ("sam", r"lacks \{topic\}.*Did you mean same\?"),
        ("", r"lacks \{topic\}"),
        ("{topic}.{target}", "placeholder other than"),
        ("{topic!r}", "placeholder other than"),
        ("{topic:>9}", "placeholder other than"),
        ("{topic.__class__}", "placeholder other than"),
        ("{}{topic}", "placeholder other than"),
        ("{topic", "brace"),
        ("topic}", "brace"),
        ("{{{topic}", "Kafka refuses|brace"),
        ("{source}/{topic}", "would name a mirror 'paris/orders', which Kafka refuses"),
        ("x" * 250 + "{topic}", "Kafka refuses"),
    ],
)
def test_a_naming_that_cannot_name_mirrors_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        values.parse_naming(text)


@pytest.mark.parametrize("text", ["orders", r"payments\..*", "a{1,3}", "[a-c]x|y", "(?i)orders"])
def test_a_topic_is_a_name_or_a_pattern(text: str) -> None:
    assert values.parse_topic_pattern(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(", "missing"),
        ("*", "nothing to repeat"),
        (r"\p{Lu}+", r"bad escape \\p"),
        (r"\Qa.b\E", r"bad escape \\Q"),
        ("[a-z&&[^b]]", "means something else in Python"),
        ("a{99999999999}", "too large"),
        ("(" * 5000 + ")" * 5000, "too large"),
        ("", "matches nothing"),
        ("orders, payments", "write a list"),
        ("orders payments", "write a list"),
    ],
)
def test_a_pattern_that_python_would_not_take_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        values.parse_topic_pattern(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8040", Address("127.0.0.1", 8040)),
        ("[::1]:0", Address("::1", 0)),
        ("helio.example:65535", Address("helio.example", 65535)),
    ],
)
def test_an_address_reads_back_the_same(text: str, address: Address) -> None:
    assert values.parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["8040", "::1:8040", "host:", "host:65536", "http://host:80"])
def test_a_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not host:port|port above"):
        values.parse_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "local",
        "local[4]",
        "local[4,8]",
        "local[*]",
        "local-cluster[2,1,1024]",
        "yarn",
        "spark://host:7077",
        "k8s://https://host",
    ],
)
def test_a_spark_master_is_known(text: str) -> None:
    assert values.parse_master(text) == text


@pytest.mark.parametrize("text", ["locl", "local[", "mesos://host", "spark://"])
def test_another_spark_master_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no Spark master"):
        values.parse_master(text)
