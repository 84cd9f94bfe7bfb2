"""One running ``heliograph run`` for all tests of a module that do not need one of their own.

Its link copies every topic whose name begins with its own; leases are short, so that each test
sees many of them. A test that ends it pays for the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.engine import Driver, Link, make_link, running


@pytest.fixture(scope="module")
def shared_link(tmp_path_factory: pytest.TempPathFactory, source: Any, target: Any) -> Link:
    """The link that the shared driver runs."""
    folder = tmp_path_factory.mktemp("shared")
    return make_link(folder, source, target, more="limits: {tasks: 2}")


@pytest.fixture(scope="module")
def get_driver(
    tmp_path_factory: pytest.TempPathFactory, shared_link: Link
) -> Iterator[Callable[[], Driver]]:
    with ExitStack() as stack:
        started: list[Driver] = []

        def get() -> Driver:
            if not started or not started[-1].is_alive:
                folder: Path = tmp_path_factory.mktemp("driver")
                started.append(stack.enter_context(running(shared_link, folder, lease_s=2)))
            return started[-1]

        yield get


@pytest.fixture
def driver(get_driver: Callable[[], Driver]) -> Driver:
    """A driver of the shared link that runs."""
    return get_driver()


@pytest.fixture
def shared_topic(shared_link: Link, topic_name: str) -> str:
    """The name of a topic that the shared link copies as soon as it exists."""
    return f"{shared_link.name}-{topic_name}"
