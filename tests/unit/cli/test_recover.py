"""Consent to what can lose records: a question that is answered, or not."""

import io
import sys

import pytest

from heliograph.cli.recover import consent
from heliograph.errors import Unsafe


class Terminal(io.StringIO):
    """Somebody at a terminal, who has typed something."""

    def isatty(self) -> bool:
        return True


def test_yes_is_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    consent("Fail over 2 topics now?")


def test_no_is_a_refusal_and_no_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    with pytest.raises(Unsafe, match="nobody agreed, so nothing was done"):
        consent("Fail over 2 topics now?")


def test_nobody_to_ask_is_no_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(Unsafe, match="With --yes nobody is asked"):
        consent("Fail over 2 topics now?")
