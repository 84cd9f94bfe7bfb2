"""Every Kafka error has one of ours."""

import pickle

import pytest
from kafka import errors as foreign

from heliograph.errors import (
    ConfigError,
    DeadlinePassed,
    HeliographError,
    LoginRefused,
    LogTruncated,
    NotAuthorized,
    NotReady,
    OffsetOutOfRange,
    OutcomeUnknown,
    ProtocolBroken,
    RecordsRefused,
    RequestRefused,
    Superseded,
    TopicMissing,
    TopicRecreated,
    Unreachable,
)
from heliograph.kafka.faults import FAULTS, error_for, from_kafka_python, is_retriable
from heliograph.kafka.secret import Secret

# org.apache.kafka.common.protocol.Errors of Kafka 4.3.0 has these without a hole.
KAFKA_4_3 = range(-1, 134)


def test_every_code_of_kafka_4_3_is_mapped_and_no_other() -> None:
    assert sorted(FAULTS) == [code for code in KAFKA_4_3 if code != 0]


def test_every_code_that_kafka_python_knows_is_mapped() -> None:
    assert set(foreign.kafka_errors) - {0, None} <= set(FAULTS)


def test_names_are_kafkas_own_and_differ() -> None:
    names = [fault.name for fault in FAULTS.values()]
    assert len(set(names)) == len(names)
    # Below this, kafka-python has older names.
    for code in range(45, 128):
        assert FAULTS[code].name == foreign.for_code(code).message


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        (Superseded, [47, 90]),
        (OutcomeUnknown, [45, 46, 59]),
        (RecordsRefused, [2, 10, 18, 32, 43, 76, 87]),
        (OffsetOutOfRange, [1]),
        (TopicMissing, [3]),
        (TopicRecreated, [100, 103]),
        (NotAuthorized, [29, 30, 31, 53, 65]),
        (LoginRefused, [33, 34, 58]),
        (NotReady, [5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 74, 75, 78, 106, 129]),
        (RequestRefused, [-1, 17, 35, 37, 38, 40, 42, 44, 54, 68, 69, 84, 128]),
    ],
)
def test_codes_become_the_class_that_says_what_to_do(
    kind: type[HeliographError], codes: list[int]
) -> None:
    for code in codes:
        error = error_for(code, cluster="paris", doing="trying")
        assert type(error) is kind, code
        assert is_retriable(code) == getattr(kind, "retriable", False)


def test_a_message_says_what_happened_while_doing_what_and_where() -> None:
    error = error_for(36, cluster="paris", doing="creating topic orders", detail="it\n exists")
    assert str(error) == (
        "topic-exists: cluster paris: TOPIC_ALREADY_EXISTS (36) while creating topic orders: "
        "there is a topic of this name already (the broker says: it exists)"
    )


@pytest.mark.parametrize(
    ("code", "acl"),
    [
        (29, "ACL on the topic; grant Read"),
        (30, "ACL on the group; grant Describe"),
        (31, "ACL on the cluster; grant Describe"),
        (53, "ACL on the transactional id; grant Write"),
    ],
)
def test_a_missing_acl_is_named(code: int, acl: str) -> None:
    assert acl in str(error_for(code, cluster="p", doing="x"))


def test_refused_records_carry_the_code() -> None:
    error = error_for(10, cluster="p", doing="writing")
    assert isinstance(error, RecordsRefused)
    assert error.kafka_code == 10


def test_a_superseded_writer_learns_the_cluster_too() -> None:
    assert "cluster paris" in str(error_for(47, cluster="paris", doing="writing orders-0"))


def test_a_code_of_the_future_is_named_by_its_number() -> None:
    error = error_for(9999, cluster="p", doing="x")
    assert type(error) is RequestRefused
    assert "9999" in str(error)
    assert not is_retriable(9999)


def test_success_is_not_an_error() -> None:
    with pytest.raises(ValueError, match="success"):
        error_for(0, cluster="p", doing="x")


def test_errors_survive_a_pickle() -> None:
    for code in FAULTS:
        error = error_for(code, cluster="p", doing="x")
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def _all_client_errors() -> list[type[Exception]]:
    found = [foreign.KafkaError]
    for kind in found:
        found += [sub for sub in kind.__subclasses__() if sub not in found]
    return found


def test_every_exception_of_kafka_python_becomes_ours() -> None:
    for kind in _all_client_errors():
        made = kind({}) if kind is foreign.LogTruncationError else kind("why")
        ours = from_kafka_python(made, "paris", "asking")
        assert isinstance(ours, HeliographError), kind
        assert "paris" in str(ours), kind
        assert "asking" in str(ours), kind


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (foreign.KafkaTimeoutError("late"), DeadlinePassed),
        (foreign.KafkaConnectionError("gone"), Unreachable),
        (foreign.NodeNotReadyError(1), Unreachable),
        (foreign.CorrelationIdError("7"), ProtocolBroken),
        (foreign.KafkaConfigurationError("no"), ConfigError),
        (foreign.LogTruncationError({}), LogTruncated),
        (foreign.SaslAuthenticationFailedError("no"), LoginRefused),
        (foreign.IncompatibleBrokerVersion("old"), RequestRefused),
        (foreign.for_code(133)("new"), NotReady),
        (foreign.for_code(9999)("newer"), RequestRefused),
        (RuntimeError("no controller"), RequestRefused),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_exceptions_become_the_class_that_fits(
    theirs: Exception, ours: type[HeliographError]
) -> None:
    assert type(from_kafka_python(theirs, "paris", "asking")) is ours


def test_no_secret_gets_into_a_translated_error() -> None:
    secret = Secret.literal("sasl.password", "hunter2")
    error = from_kafka_python(
        foreign.SaslAuthenticationFailedError("bad password hunter2"), "p", "x", [secret]
    )
    assert "hunter2" not in str(error)
    assert "***" in str(error)


def test_our_own_errors_pass_through() -> None:
    error = Unreachable("x", cluster="p")
    assert from_kafka_python(error, "p", "x") is error
