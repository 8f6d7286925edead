"""An ACP agent of the settings as a kind of agent."""

import json
import sys
from pathlib import Path

import pytest

from agents.claude_driver.harness import MemorySink
from fairlead.agents.acp.kind import AcpKind
from fairlead.agents.acp.trust import PROJECT_SETTINGS, project_settings
from fairlead.agents.stdio_kind import StdioSettings
from fairlead.config import AgentConfig, Config
from fairlead.model.agents import Launch
from fairlead.model.commands import Link, Settings
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.errors import AgentMissing, AgentNotRunning, AgentRefused, BadRequest
from fairlead.model.ids import MessageId, SessionId
from fairlead.system.clock import SystemClock
from fairlead.wiring.agents import agent_kinds, choose_agent

SESSION = SessionId("5f0c1e8e-4d58-4a3a-9a3c-0d5f3a1f0001")
PICTURE = ImageBlock({"type": "base64", "media_type": "image/png", "data": "aGk="})
ANSWERS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    able = {"promptCapabilities": json.loads(sys.argv[1])}
    result = {"protocolVersion": 1, "agentCapabilities": able, "sessionId": "s1"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}), flush=True)
"""
PRINTS_ITS_ENVIRONMENT = "import os, sys; sys.stderr.write(str(sorted(os.environ)))"


def kind(*command: str, env: tuple[str, ...] = ()) -> AcpKind:
    host = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "SECRET": "x", "KEY": "y", "FAIRLEAD_TOKEN": "z"}
    return AcpKind(StdioSettings(name="mine", command=command, host=host, pass_env=env), SystemClock())


def launch(cwd: Path, *, trusted: bool = False, link: Link = "stdio") -> Launch:
    return Launch(session=SESSION, cwd=str(cwd), settings=Settings(link=link), trusted=trusted)


async def test_a_missing_program_is_reported_with_its_setting(tmp_path: Path) -> None:
    missing = kind("no-such-agent")
    assert "[agents.mine]" in (await missing.info()).problem
    with pytest.raises(AgentMissing, match="no-such-agent is not installed"):
        await missing.launch(launch(tmp_path), MemorySink())


async def test_only_stdio_is_offered(tmp_path: Path) -> None:
    links: tuple[Link, ...] = ("terminal", "dial-in")
    for link in links:
        with pytest.raises(BadRequest, match="stdio only"):
            await kind("cat").launch(launch(tmp_path, link=link), MemorySink())
    with pytest.raises(BadRequest, match="stdio only"):
        await kind("cat").invite(launch(tmp_path), MemorySink())


@pytest.mark.process
async def test_the_environment_has_only_named_variables(tmp_path: Path) -> None:
    agent = kind(sys.executable, "-c", PRINTS_ITS_ENVIRONMENT, env=("KEY", "FAIRLEAD_TOKEN"))
    with pytest.raises(AgentNotRunning) as failed:
        await agent.launch(launch(tmp_path), MemorySink())
    assert "'HOME', 'KEY'" in failed.value.message
    assert "SECRET" not in failed.value.message and "FAIRLEAD_TOKEN" not in failed.value.message


@pytest.mark.parametrize("name", PROJECT_SETTINGS)
def test_the_settings_of_a_project_are_found_up_to_its_root(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "repository" / "src" / "deep"
    inside.mkdir(parents=True)
    assert project_settings(str(inside)) == ""
    (tmp_path / name).mkdir()
    assert project_settings(str(inside)) == "", "not in a repository: only the folder itself counts"
    (tmp_path / "repository" / ".git").mkdir()
    assert project_settings(str(inside)) == "", "above the root of the repository"
    (tmp_path / "repository" / name).mkdir()
    assert project_settings(str(inside)) == str(tmp_path / "repository" / name)


@pytest.mark.process
async def test_an_agent_does_not_start_with_settings_that_no_person_has_trusted(tmp_path: Path) -> None:
    """A project could let the agent act without asking."""
    (tmp_path / "opencode.json").write_text('{"permission": "allow"}')
    with pytest.raises(BadRequest, match="fairlead trust"):
        await kind("cat").launch(launch(tmp_path), MemorySink())
    with pytest.raises(AgentNotRunning):  # it starts, and ends at once
        await kind("true").launch(launch(tmp_path, trusted=True), MemorySink())


@pytest.mark.process
@pytest.mark.parametrize("able", [True, False])
async def test_pictures_are_sent_only_to_an_agent_that_accepts_them(tmp_path: Path, able: bool) -> None:
    mine = kind(sys.executable, "-c", ANSWERS, json.dumps({"image": able}))
    agent = await mine.launch(launch(tmp_path), MemorySink())
    try:
        assert b"look" in mine.prompt([TextBlock("look")], MessageId("m1"), "s1").raw
        if able:
            assert b"image/png" in mine.prompt([PICTURE], MessageId("m2"), "s1").raw
        else:
            with pytest.raises(AgentRefused, match="cannot see pictures"):
                mine.prompt([PICTURE], MessageId("m2"), "s1")
    finally:
        await agent.stop("the test is over")


async def test_names_of_agents_are_checked(tmp_path: Path) -> None:
    taken = Config(data=str(tmp_path), agents={"claude": AgentConfig(command=("cat",))})
    with pytest.raises(BadRequest, match=r"agents\.claude: that name is taken"):
        agent_kinds(taken, {}, SystemClock())
    unknown = Config(data=str(tmp_path), agent="cobol")
    with pytest.raises(BadRequest, match="there is no agent 'cobol'"):
        await choose_agent(unknown, agent_kinds(unknown, {}, SystemClock()))
