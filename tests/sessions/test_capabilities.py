"""What an agent cannot do is refused with a sentence, and clients can learn it from the session."""

import pytest

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.agents import CAPABILITIES
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.errors import AgentRefused
from fairlead.model.ids import MessageId, RequestId, SessionId
from sessions.harness import ANN, SESSION, CoreHarness

PICTURE = ImageBlock({"type": "base64", "media_type": "image/png", "data": "aGk="})
CHILD = SessionId("5f0c1e8e-4d58-4a3a-9a3c-0d5f3a1f0009")


@pytest.fixture
def plain(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> CoreHarness:
    """A session whose agent can hold a conversation and nothing else."""
    monkeypatch.setattr(harness.kind, "capabilities", frozenset())
    return harness


@pytest.mark.parametrize(
    "command",
    [
        cmd.Rewind(session=SESSION, message=MessageId("m")),
        cmd.Fork(session=SESSION, child=CHILD),
        cmd.Steer(session=SESSION, content=(TextBlock("also"),)),
        cmd.SetThinking(session=SESSION, budget=1000),
        cmd.SetVariables(session=SESSION, variables={"A": "b"}),
        cmd.Send(session=SESSION, content=(TextBlock("look"), PICTURE)),
        cmd.StartHandover(session=SESSION, link="terminal"),
    ],
)
async def test_a_command_that_the_agent_cannot_follow_is_refused(plain: CoreHarness, command: cmd.Command) -> None:
    await plain.working("one")
    before = len(await plain.log())
    with pytest.raises(AgentRefused, match=f"The agent {plain.kind.name} cannot"):
        await plain.do(command)
    assert len(await plain.log()) == before, "nothing is logged"


async def test_a_changed_input_is_refused_and_the_request_stays_open(plain: CoreHarness) -> None:
    agent = await plain.working("one")
    await agent.call("c1", command="touch x")
    await agent.ask("r1", "c1", command="touch x")
    changed = cmd.AnswerPermission(
        session=SESSION, request=RequestId("r1"), behavior="allow", updated_input={"command": "touch y"}
    )
    report: q.PermissionReport = await plain.gateway.ask(ANN, q.ExplainPermission(request=RequestId("r1")))
    assert report.fixed_input
    with pytest.raises(AgentRefused, match="changed input"):
        await plain.do(changed)
    assert agent.answers == []
    await plain.do(cmd.AnswerPermission(session=SESSION, request=RequestId("r1"), behavior="allow"))
    assert len(agent.answers) == 1


async def test_the_session_and_the_list_of_agents_show_what_is_missing(plain: CoreHarness) -> None:
    await plain.working("one")
    view: q.SessionView = await plain.gateway.ask(ANN, q.GetSession(SESSION))
    assert view.cannot == tuple(sorted(CAPABILITIES))
    (agent,) = [agent for agent in await plain.gateway.ask(ANN, q.ListAgents()) if agent.default]
    assert agent.cannot == tuple(sorted(CAPABILITIES))


async def test_an_agent_that_can_do_everything_shows_nothing(harness: CoreHarness) -> None:
    await harness.working("one")
    view: q.SessionView = await harness.gateway.ask(ANN, q.GetSession(SESSION))
    assert view.cannot == ()
