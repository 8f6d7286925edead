"""A commit whose caller is cancelled: the state follows the store's result, and the session continues."""

import asyncio
from typing import Any

import pytest

from fairlead.model import commands as cmd
from fairlead.model.content import TextBlock
from fairlead.model.errors import Unavailable
from sessions.harness import SESSION, CoreHarness


class Slow:
    """The store's `append`, which has stored the batch and does not return yet."""

    def __init__(self, harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored, self.release = asyncio.Event(), asyncio.Event()
        self.failure: Exception | None = None
        self._append = harness.store.append
        monkeypatch.setattr(harness.store, "append", self)

    async def __call__(self, *given: Any) -> Any:
        if self.failure is None:
            done = await self._append(*given)
        self.stored.set()
        await self.release.wait()
        if self.failure is not None:
            raise self.failure
        return done


async def cut_off(harness: CoreHarness, slow: Slow) -> asyncio.Task[cmd.Reply]:
    """Send a message and cancel the sender before the answer."""
    sending = asyncio.create_task(harness.send("one"))
    await slow.stored.wait()
    for _ in range(2):
        sending.cancel()
        await asyncio.sleep(0)
    assert not sending.done()
    slow.release.set()
    await asyncio.wait({sending})
    return sending


async def test_a_stored_commit_counts_although_its_caller_is_gone(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.open()
    assert (await cut_off(harness, Slow(harness, monkeypatch))).cancelled()
    agent = await harness.kind.launched()
    assert await agent.prompted() == "one"
    await agent.result()
    await harness.send("two")
    assert await agent.prompted() == "two"


async def test_a_commit_that_was_not_stored_does_not_count(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.open()
    slow = Slow(harness, monkeypatch)
    slow.failure = Unavailable("full")
    assert (await cut_off(harness, slow)).cancelled()
    slow.failure = None
    assert harness.state().queue == ()
    await harness.do(cmd.Send(session=SESSION, content=(TextBlock("two"),)))
    assert await (await harness.kind.launched()).prompted() == "two"
