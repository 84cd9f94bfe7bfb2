"""What blocks does so in threads: bounded, and shared where many ask the same."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from heliograph.web.problems import Refused
from heliograph.web.threads import Shared, Threads

WITHIN_S = 10.0


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not is_so():
            await asyncio.sleep(0.001)


def test_so_many_run_some_wait_and_more_are_refused() -> None:
    async def scene() -> None:
        gate, running = threading.Event(), []
        threads = Threads(2, 1)

        def call() -> int:
            running.append(1)
            gate.wait(WITHIN_S)
            return len(running)

        asked = [asyncio.create_task(threads.run(call)) for _ in range(3)]
        await until(lambda: len(running) == 2)
        with pytest.raises(Refused) as refused:
            await threads.run(call)
        assert refused.value.problem.status == 503
        gate.set()
        await asyncio.gather(*asked)
        assert len(running) == 3

    asyncio.run(scene())


def test_an_error_is_the_callers_and_frees_the_thread() -> None:
    async def scene() -> None:
        threads = Threads(1, 1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await threads.run(lambda: 1 // 0)

    asyncio.run(scene())


def test_a_caller_that_leaves_does_not_free_its_thread() -> None:
    async def scene() -> None:
        gate, running = threading.Event(), []

        def call() -> None:
            running.append(1)
            gate.wait(WITHIN_S)

        threads = Threads(1, 1)
        left = asyncio.create_task(threads.run(call))
        await until(lambda: bool(running))
        left.cancel()
        later = asyncio.create_task(threads.run(call))
        await asyncio.sleep(0.01)
        assert len(running) == 1
        gate.set()
        await later

    asyncio.run(scene())


def test_those_who_wait_share_a_call_that_began_after_they_came() -> None:
    async def scene() -> None:
        gate, begun = threading.Event(), []

        def call() -> int:
            begun.append(1)
            gate.wait(WITHIN_S)
            return len(begun)

        shared = Shared(call)
        first = asyncio.create_task(shared())
        await until(lambda: bool(begun))
        others = [asyncio.create_task(shared()) for _ in range(5)]
        await asyncio.sleep(0)
        gate.set()
        assert await first == 1
        assert await asyncio.gather(*others) == [2] * 5
        assert shared.last == 2

    asyncio.run(scene())


def test_nobody_takes_an_older_answer_for_one_that_failed() -> None:
    async def scene() -> None:
        answers = iter([1, 0, 2])

        def call() -> float:
            return 1 / next(answers)

        shared = Shared(call)
        assert await shared() == 1.0
        found = await asyncio.gather(shared(), shared(), return_exceptions=True)
        assert isinstance(found[0], ZeroDivisionError) and found[1] == 0.5

    asyncio.run(scene())
