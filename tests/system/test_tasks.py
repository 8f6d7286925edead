"""Background tasks: an error is logged or left to the caller, and closing waits for the end."""

import asyncio

import pytest

from fairlead.system.tasks import TaskSet, all_of
from patience import settled


async def fail() -> None:
    raise ValueError("not today")


async def test_an_error_is_logged_unless_a_caller_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSet()
    await asyncio.wait({tasks.spawn(fail(), awaited=True)})
    assert caplog.text == ""
    await asyncio.wait({tasks.spawn(fail())})
    assert "background work failed" in caplog.text and "not today" in caplog.text


async def test_closing_cancels_the_tasks_and_waits_for_them() -> None:
    tasks, cleaned = TaskSet(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    task = tasks.spawn(work())
    await asyncio.sleep(0)
    await tasks.close()
    assert cleaned.is_set() and task.cancelled()
    await tasks.close()


async def test_work_that_runs_together_ends_together() -> None:
    ended = asyncio.Event()

    async def slow() -> str:
        await settled()
        ended.set()
        return "slow"

    async def failing() -> str:
        raise ValueError("at once")

    async def quick() -> int:
        return 1

    assert await all_of(slow(), quick()) == ("slow", 1)
    ended.clear()
    with pytest.raises(ValueError, match="at once"):
        await all_of(failing(), slow(), quick())
    assert ended.is_set(), "nothing is left running"
