"""A session whose agent uses a different id than the gateway is found by either id, and answers with the gateway's."""

import pytest

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from sessions.harness import ANN, SESSION, CoreHarness
from sessions.test_queries import Seqs, Wire

AGENTS = SessionId("77777777-7777-4777-8777-777777777777")


async def renamed(harness: CoreHarness) -> None:
    """Let the agent continue under a new id."""
    agent = await harness.working()
    init = {"type": "system", "subtype": "init", "uuid": "i-2", "session_id": AGENTS, "model": "opus", "cwd": "/"}
    await agent.say({**init, "permissionMode": "default", "tools": [], "mcp_servers": [], "slash_commands": []})
    await agent.result()
    await harness.until(lambda: harness.loaded().core.state.agent_session == AGENTS)


async def test_queries_and_commands_take_either_id(harness: CoreHarness) -> None:
    await renamed(harness)
    view: q.SessionView = await harness.gateway.ask(ANN, q.GetSession(AGENTS))
    assert view.summary.session == SESSION
    reply = await harness.do(cmd.Rename(session=AGENTS, title="Found"))
    assert reply.session == SESSION
    assert (await harness.gateway.ask(ANN, q.GetSession(SESSION))).summary.title == "Found"


async def test_watching_takes_either_id(harness: CoreHarness) -> None:
    await renamed(harness)
    watch = await harness.gateway.watch(ANN, AGENTS, Cursor(0), Seqs(), Wire())
    watch.start()
    await harness.until(lambda: watch.live)
    assert watch.feed.session == SESSION
    watch.close()


@pytest.mark.rules("S003-106")
async def test_a_terminal_continues_with_the_agents_own_id(harness: CoreHarness) -> None:
    await renamed(harness)
    await harness.do(cmd.StartHandover(session=SESSION, link="terminal"))
    on_screen = await harness.kind.launched(2)
    assert (on_screen.launch.settings.link, on_screen.launch.resume) == ("terminal", AGENTS)
