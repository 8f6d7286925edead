"""The sender of a message can wait until it has left the queue, and gets an error if it could not be delivered."""

import asyncio

import pytest

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.content import TextBlock
from fairlead.model.errors import AgentFailed, AgentMissing
from fairlead.model.ids import MessageId
from patience import PATIENCE
from sessions.harness import ANN, SESSION, CoreHarness

FIRST = MessageId("aaaaaaaa-0000-0000-0000-000000000001")
SECOND = MessageId("aaaaaaaa-0000-0000-0000-000000000002")


async def send(harness: CoreHarness, message: MessageId) -> None:
    await harness.gateway.command(ANN, cmd.Send(session=SESSION, content=(TextBlock("hello"),), message=message))


def delivery(harness: CoreHarness, message: MessageId) -> "asyncio.Task[None]":
    return asyncio.ensure_future(harness.gateway.ask(ANN, q.WaitDelivered(SESSION, message)))


async def test_a_queued_message_is_delivered_when_its_turn_comes(harness: CoreHarness) -> None:
    agent = await harness.working("first")
    await send(harness, SECOND)
    waiting = delivery(harness, SECOND)
    assert await harness.gateway.ask(ANN, q.ReadQueue(SESSION)) and not waiting.done()
    await agent.result()
    await asyncio.wait_for(waiting, PATIENCE)


async def test_a_message_for_an_agent_that_cannot_start_fails_for_its_sender_and_later_callers(
    harness: CoreHarness,
) -> None:
    await harness.open()
    harness.kind.launch_when.clear()
    harness.kind.failures.append(AgentMissing("There is no claude."))
    await send(harness, FIRST)
    waiting = delivery(harness, FIRST)
    harness.kind.launch_when.set()
    with pytest.raises(AgentFailed, match=r"There is no claude\."):
        await asyncio.wait_for(waiting, PATIENCE)
    with pytest.raises(AgentFailed):
        await asyncio.wait_for(delivery(harness, FIRST), PATIENCE)


async def test_waiting_ends_when_the_message_is_withdrawn(harness: CoreHarness) -> None:
    await harness.working("first")
    await send(harness, SECOND)
    waiting = delivery(harness, SECOND)
    await asyncio.sleep(0)
    await harness.gateway.command(ANN, cmd.CancelMessage(session=SESSION, message=SECOND))
    await asyncio.wait_for(waiting, PATIENCE)
