"""An agent that a person starts by hand: expected, connected, gone; and variables for a running agent."""

import pytest

from fairlead.model import commands as cmd
from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning, BadRequest, Busy, NotAllowed
from fairlead.sessions.dependencies import CHILDREN
from sessions.harness import ANN, BOB, SESSION, CoreHarness, FakeInvitedAgent


async def invited(harness: CoreHarness) -> FakeInvitedAgent:
    reply = await harness.do(cmd.DialIn(session=SESSION), ANN)
    assert reply.data == {"url": "ws://here/x", "token": "secret", "command": "claude"}
    return harness.kind.guests[-1]


async def test_messages_wait_for_the_invited_agent_and_no_process_is_started(harness: CoreHarness) -> None:
    await harness.open()
    guest = await invited(harness)
    await harness.send("hello")
    with pytest.raises(Busy, match="dial in"):
        await harness.do(cmd.Control(session=SESSION, subtype="mcp_status"), ANN)
    assert harness.kind.agents == []
    agent = guest.come()
    assert await agent.prompted() == "hello"
    assert "agent.started" in await harness.kinds()
    assert await harness.store.documents.list(CHILDREN) == {}, "a person's own process is not ours to find again"
    await agent.text("Hi.")
    await agent.result()
    assert (await harness.kinds())[-1] == "turn.ended"


async def test_the_next_message_after_the_invited_agent_exits_starts_a_gateway_process(harness: CoreHarness) -> None:
    await harness.open()
    guest = await invited(harness)
    await harness.send("one")
    agent = guest.come()
    await agent.prompted()
    await agent.ready()
    await agent.result()
    await agent.die(Exit())
    await harness.send("two")
    ours = await harness.kind.launched()
    assert await ours.prompted() == "two"
    assert ours.launch.resume == SESSION


async def test_closing_cancels_the_invitation(harness: CoreHarness) -> None:
    await harness.open()
    guest = await invited(harness)
    await harness.do(cmd.Close(session=SESSION))
    assert guest.called_off
    await harness.send("hello")
    assert await (await harness.kind.launched()).prompted() == "hello"


async def test_a_second_invitation_replaces_the_first(harness: CoreHarness) -> None:
    await harness.open()
    first = await invited(harness)
    second = await invited(harness)
    assert (first.called_off, second.called_off) == (True, False)
    await harness.send("hello")
    assert await second.come().prompted() == "hello"


async def test_an_idle_process_is_replaced_and_a_working_one_is_not(harness: CoreHarness) -> None:
    agent = await harness.working()
    with pytest.raises(Busy):
        await harness.do(cmd.DialIn(session=SESSION), ANN)
    await agent.result()
    await invited(harness)
    assert agent.gone


async def test_an_agent_that_fails_on_arrival_leaves_the_session_free(harness: CoreHarness) -> None:
    await harness.open()
    guest = await invited(harness)
    await guest.cancel()
    await harness.send("hello")
    assert await (await harness.kind.launched()).prompted() == "hello"


async def test_only_named_variables_are_set_and_only_on_a_running_agent(harness: CoreHarness) -> None:
    await harness.open()
    with pytest.raises(AgentNotRunning):
        await harness.do(cmd.SetVariables(session=SESSION, variables={"TEAM": "blue"}), ANN)
    await harness.send("hello")
    agent = await harness.kind.launched()
    await agent.prompted()
    await harness.do(cmd.SetVariables(session=SESSION, variables={"TEAM": "blue"}), ANN)
    assert ("variables", {"TEAM": "blue"}) in agent.requests
    with pytest.raises(NotAllowed, match="session_env"):
        await harness.do(cmd.SetVariables(session=SESSION, variables={"TEAM": "blue", "LD_PRELOAD": "x"}), ANN)
    with pytest.raises(BadRequest):
        await harness.do(cmd.SetVariables(session=SESSION, variables={}), ANN)


async def test_inviting_and_variables_are_for_admins(harness: CoreHarness) -> None:
    await harness.open()
    for command in (cmd.DialIn(session=SESSION), cmd.SetVariables(session=SESSION, variables={"TEAM": "x"})):
        with pytest.raises(NotAllowed):
            await harness.do(command, BOB)
