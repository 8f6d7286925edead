"""The harness of the ACP agents itself: each real agent does what the scripted model says, over plain pipes.

What differs between the agents is in these tests, because Fairlead must be right for all of them. Those that start an
agent run in `make test-long`: test_acp_gateway.py shows the same through the gateway.
"""

import asyncio
import json
from pathlib import Path

import pytest

from e2e.acp.acp_client import AcpClient, AcpError
from e2e.acp.acp_harness import Agent, an_hour_later, each_agent, prepared
from e2e.harness import API_KEY
from fairlead_testing.acp_models import AcpModel
from fairlead_testing.acp_scripts import GREETING

AFTER_REJECTION = {"gemini": "end_turn", "opencode": "end_turn", "codex": "cancelled"}
"""Why a turn ends in which a permission was rejected: Codex stops as if the turn were cancelled."""


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    """Where the agent's stderr goes."""
    return tmp_path / "stderr.txt"


@pytest.mark.long
@each_agent
async def test_an_agent_answers_and_asks_before_it_acts(
    agent: Agent, acp_model: AcpModel, cli_cwd: Path, errors: Path
) -> None:
    async with AcpClient(agent, cli_cwd, errors) as acp:
        assert (await acp.initialize())["protocolVersion"] == 1
        session = await acp.new_session()

        assert await acp.prompt(session, "SCRIPT:text good morning") == "end_turn"
        assert acp.text() == f"{GREETING} good morning"

        assert await acp.prompt(session, "SCRIPT:shell touch allowed") == "end_turn"
        (asked,) = acp.asked
        assert (asked["toolCall"]["kind"], asked["toolCall"]["title"]) == ("execute", "touch allowed")
        assert {option["kind"] for option in asked["options"]} == {"allow_once", "allow_always", "reject_once"}
        assert (cli_cwd / "allowed").exists()
        assert acp.of("tool_call_update")[-1]["status"] == "completed"
        assert acp.text().endswith("Done.")

        acp.permission = "reject_once"
        assert await acp.prompt(session, "SCRIPT:shell touch rejected") == AFTER_REJECTION[agent.name]
        assert len(acp.asked) == 2
        assert await acp.prompt(session, "SCRIPT:text after that") == "end_turn"
        assert acp.text().endswith("after that")

    assert names(cli_cwd) == ["allowed"]
    assert acp.junk == []
    assert {request.agent for request in acp_model.of("shell")} == {agent.name}
    assert [request.path for request in acp_model.requests if request.dialect == "other"] == []


@pytest.mark.long
@each_agent
async def test_an_agent_shows_a_file_before_it_writes_it(
    agent: Agent, acp_model: AcpModel, cli_cwd: Path, errors: Path
) -> None:
    file = cli_cwd / "notes.txt"
    async with AcpClient(agent, cli_cwd, errors) as acp:
        await acp.initialize()
        session = await acp.new_session()

        assert await acp.prompt(session, f"SCRIPT:write {file}") == "end_turn"
        assert file.read_text() == "hello\nworld\n"
        assert await acp.prompt(session, f"SCRIPT:edit {file}") == "end_turn"
        assert file.read_text() == "goodbye\nworld\n"
        assert await acp.prompt(session, "SCRIPT:think") == "end_turn"
        assert "think about this carefully" in acp.text("agent_thought_chunk")

    assert [asked["toolCall"]["kind"] for asked in acp.asked] == ["edit", "edit"]
    # Codex shows it in the call, the others in the permission request.
    shown = [*acp.of("tool_call"), *(asked["toolCall"] for asked in acp.asked)]
    diffs = [part for call in shown for part in call.get("content") or [] if part["type"] == "diff"]
    texts = [(diff["path"], diff["oldText"] or "", diff["newText"]) for diff in diffs]
    assert texts == [(str(file), "", "hello\nworld\n"), (str(file), "hello\nworld\n", "goodbye\nworld\n")]
    assert "hello" in acp_model.of("edit")[1].results[0], "the model has read the file before"


@pytest.mark.long
@each_agent
async def test_a_cancelled_or_failed_prompt_leaves_the_session_usable(
    agent: Agent, acp_model: AcpModel, cli_cwd: Path, errors: Path
) -> None:
    async with AcpClient(agent, cli_cwd, errors) as acp:
        await acp.initialize()
        session = await acp.new_session()

        running = asyncio.create_task(acp.prompt(session, "SCRIPT:slow 10000"))
        await acp.wait_until(lambda: "tick" in acp.text() or running.done())
        await acp.notify("session/cancel", sessionId=session)
        assert await running == "cancelled"

        if agent.name == "codex":
            # It reports the error as if the model had said it.
            assert await acp.prompt(session, "SCRIPT:fail") == "end_turn"
            assert "refuses this" in acp.text()
        else:
            with pytest.raises(AcpError, match="refuses this"):
                await acp.prompt(session, "SCRIPT:fail")

        assert await acp.prompt(session, "SCRIPT:text after that") == "end_turn"
        assert acp.text().endswith(f"{GREETING} after that")
    assert len(acp_model.of("text")) == 1


@pytest.mark.long
@each_agent
async def test_a_session_goes_on_in_a_second_process(
    agent: Agent, acp_model: AcpModel, cli_home: Path, cli_cwd: Path, errors: Path
) -> None:
    async with AcpClient(agent, cli_cwd, errors) as acp:
        await acp.initialize()
        session = await acp.new_session()
        assert await acp.prompt(session, "SCRIPT:text remember me") == "end_turn"

    an_hour_later(cli_home)
    async with AcpClient(agent, cli_cwd, errors) as acp:
        able = (await acp.initialize())["agentCapabilities"]
        resume = "resume" in able.get("sessionCapabilities", {})
        assert resume == (agent.name != "gemini")
        method = "session/resume" if resume else "session/load"
        await acp.call(method, sessionId=session, cwd=str(cli_cwd), mcpServers=[])
        assert await acp.prompt(session, "SCRIPT:text again") == "end_turn"
        assert acp.text().endswith(f"{GREETING} again")
        replayed = [update["content"]["text"] for update in acp.of("user_message_chunk")]
        assert ("SCRIPT:text remember me" in replayed) == (not resume)

    assert "remember me" in json.dumps(acp_model.of("text")[-1].body), "the model sees the first turn"


@each_agent
def test_the_environment_of_an_agent_is_built_from_nothing(agent_name: str, tmp_path: Path) -> None:
    url = "http://127.0.0.1:1"
    agent = prepared(agent_name, tmp_path, url)
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert agent.env["HOME"] == str(tmp_path)
    assert not {name for name in agent.env if name.startswith(("ANTHROPIC_", "AWS_", "OPENAI_", "XDG_", "NODE_"))}
    assert API_KEY in "".join([*agent.env.values(), *written])
    assert any(url in text for text in [*agent.env.values(), *written])
    assert not any("https://" in text for text in [*agent.env.values(), *written])
