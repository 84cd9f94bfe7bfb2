"""Short words for imports in tests: a file's text in, settings out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from heliograph.config.load import load
from heliograph.config.settings import Config, LinkConfig
from heliograph.errors import ConfigError
from heliograph.migrate.draft import Imported
from heliograph.migrate.entries import read_properties
from heliograph.migrate.mm1 import Flags, import_mm1
from heliograph.migrate.mm2 import import_mm2

CLUSTERS = """\
clusters = A, B
A.bootstrap.servers = a-1:9092, a-2:9092
B.bootstrap.servers = b-1:9092
"""
BASE = f"{CLUSTERS}A->B.enabled = true\n"
CONSUMER = "bootstrap.servers=a:9092\ngroup.id=mirror\nauto.offset.reset=earliest\n"
PRODUCER = "bootstrap.servers=b:9092\n"


def mm2(text: str, targets: Sequence[str] = ()) -> Imported:
    """Import, and make sure that our own reader takes the result."""
    found = import_mm2(read_properties(text), name="mm2.properties", targets=targets)
    load(found.text)
    return found


def mm2_link(added: str) -> LinkConfig:
    """Return the only link of a file with these keys more."""
    (link,) = load(mm2(BASE + added).text).links.values()
    return link


def mm2_refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        mm2(text)
    return told(refused.value)


def told(error: ConfigError) -> list[str]:
    return error.message.split("\n  - ")[1:]


def mm1(consumer: str = "", producer: str = "", **flags: Any) -> Imported:
    fields = flags if {"whitelist", "blacklist", "include"} & flags.keys() else flags | INCLUDE
    found = import_mm1(
        read_properties(CONSUMER + consumer, "consumer.config: "),
        read_properties(PRODUCER + producer, "producer.config: "),
        Flags(**fields),
    )
    load(found.text)
    return found


INCLUDE: dict[str, Any] = {"include": "orders"}


def mm1_link(consumer: str = "", producer: str = "", **flags: Any) -> LinkConfig:
    (link,) = load(mm1(consumer, producer, **flags).text).links.values()
    return link


def config(found: Imported) -> Config:
    return load(found.text)


def mm1_refused(consumer: str = "", producer: str = "", **flags: Any) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        mm1(consumer, producer, **flags)
    return told(refused.value)
