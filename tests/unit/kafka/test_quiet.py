"""kafka-python's DEBUG lines, which hold tokens and payloads, stay off."""

import logging

import pytest
from kafka.net.sasl.plain import SaslMechanismPlain

import heliograph.kafka


def test_a_root_logger_at_debug_shows_no_login(caplog: pytest.LogCaptureFixture) -> None:
    assert heliograph.kafka
    caplog.set_level(logging.DEBUG)
    logging.getLogger("kafka.net.connection").debug("token hunter2")
    plain = SaslMechanismPlain(sasl_plain_username="me", sasl_plain_password="hunter2")
    plain.auth_bytes()
    assert "hunter2" not in caplog.text


def test_the_whole_tree_is_held_and_other_loggers_are_not() -> None:
    for name in ("kafka", "kafka.admin.client", "kafka.net.sasl.scram"):
        assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)
    assert logging.getLogger("kafka").isEnabledFor(logging.WARNING)
