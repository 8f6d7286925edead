"""An agent that a person starts by hand: expected, connected, gone; and variables for a running agent."""

import pytest

from fairlead.model import commands as cmd
from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning, BadRequest, Busy, NotAllowed
from fairlead.sessions.dependencies import CHILDREN
from sessions.harness import ANN, BOB, SESSION, CoreHarness, FakeInvitedAgent


async def invited(rig: CoreHarness) -> FakeInvitedAgent:
    reply = await rig.do(cmd.DialIn(session=SESSION), ANN)
    assert reply.data == {"url": "ws://here/x", "token": "secret", "command": "claude"}
    return rig.kind.guests[-1]


async def test_messages_wait_for_the_invited_agent_and_no_process_is_started(rig: CoreHarness) -> None:
    await rig.open()
    guest = await invited(rig)
    await rig.send("hello")
    with pytest.raises(Busy, match="dial in"):
        await rig.do(cmd.Control(session=SESSION, subtype="mcp_status"), ANN)
    assert rig.kind.agents == []
    agent = guest.come()
    assert await agent.prompted() == "hello"
    assert "agent.started" in await rig.kinds()
    assert await rig.store.documents.list(CHILDREN) == {}, "a person's own process is not ours to find again"
    await agent.text("Hi.")
    await agent.result()
    assert (await rig.kinds())[-1] == "turn.ended"


async def test_the_next_message_after_the_invited_agent_exits_starts_a_gateway_process(rig: CoreHarness) -> None:
    await rig.open()
    guest = await invited(rig)
    await rig.send("one")
    agent = guest.come()
    await agent.prompted()
    await agent.ready()
    await agent.result()
    await agent.die(Exit())
    await rig.send("two")
    ours = await rig.kind.launched()
    assert await ours.prompted() == "two"
    assert ours.launch.resume == SESSION


async def test_closing_cancels_the_invitation(rig: CoreHarness) -> None:
    await rig.open()
    guest = await invited(rig)
    await rig.do(cmd.Close(session=SESSION))
    assert guest.called_off
    await rig.send("hello")
    assert await (await rig.kind.launched()).prompted() == "hello"


async def test_a_second_invitation_replaces_the_first(rig: CoreHarness) -> None:
    await rig.open()
    first = await invited(rig)
    second = await invited(rig)
    assert (first.called_off, second.called_off) == (True, False)
    await rig.send("hello")
    assert await second.come().prompted() == "hello"


async def test_an_idle_process_is_replaced_and_a_working_one_is_not(rig: CoreHarness) -> None:
    agent = await rig.working()
    with pytest.raises(Busy):
        await rig.do(cmd.DialIn(session=SESSION), ANN)
    await agent.result()
    await invited(rig)
    assert agent.gone


async def test_an_agent_that_fails_on_arrival_leaves_the_session_free(rig: CoreHarness) -> None:
    await rig.open()
    guest = await invited(rig)
    await guest.cancel()
    await rig.send("hello")
    assert await (await rig.kind.launched()).prompted() == "hello"


async def test_only_named_variables_are_set_and_only_on_a_running_agent(rig: CoreHarness) -> None:
    await rig.open()
    with pytest.raises(AgentNotRunning):
        await rig.do(cmd.SetVariables(session=SESSION, variables={"TEAM": "blue"}), ANN)
    await rig.send("hello")
    agent = await rig.kind.launched()
    await agent.prompted()
    await rig.do(cmd.SetVariables(session=SESSION, variables={"TEAM": "blue"}), ANN)
    assert ("variables", {"TEAM": "blue"}) in agent.told
    with pytest.raises(NotAllowed, match="session_env"):
        await rig.do(cmd.SetVariables(session=SESSION, variables={"TEAM": "blue", "LD_PRELOAD": "x"}), ANN)
    with pytest.raises(BadRequest):
        await rig.do(cmd.SetVariables(session=SESSION, variables={}), ANN)


async def test_inviting_and_variables_are_for_admins(rig: CoreHarness) -> None:
    await rig.open()
    for command in (cmd.DialIn(session=SESSION), cmd.SetVariables(session=SESSION, variables={"TEAM": "x"})):
        with pytest.raises(NotAllowed):
            await rig.do(command, BOB)
