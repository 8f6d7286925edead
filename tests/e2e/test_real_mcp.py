"""Fairlead as an MCP server, judged by others: the official Python client, and the real Claude Code as an agent."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import on_versions, why_not_isolated
from fairlead.system.user_folders import default_data
from fairlead.wiring import running
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE
from tools.mcp_client import packages_folder

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
ROOT = Path(__file__).resolve().parents[2]
JUDGE = Path(__file__).with_name("mcp_judge.py")
TOOLS = ["list_sessions", "search_sessions", "read_session", "start_session", "send_message", "wait_for_turn"]
AUTO = "2026-07-28"
HANDSHAKE = "2025-11-25"


async def output_of(*argv: str, env: dict[str, str], cwd: Path) -> str:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *argv, env=env, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), PATIENCE)
    finally:
        if child.returncode is None:
            child.kill()
    assert child.returncode == 0, (out.decode(), err.decode())
    return out.decode()


@pytest.mark.process
async def test_the_official_client_over_http_and_stdio_with_and_without_a_handshake(tmp_path: Path) -> None:
    packages = packages_folder()
    reason = why_not_isolated() or ("" if packages.exists() else f"{packages} is missing: make test fetches it")
    if reason:
        pytest.skip(reason)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(packages)}
    config = settings(tmp_path / "data", tmp_path, agent="demo")
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        for transport, mode, version in (
            ("http", "auto", AUTO),
            ("stdio", "auto", AUTO),
            ("http", "legacy", HANDSHAKE),
            ("stdio", "legacy", HANDSHAKE),
        ):
            # -S: without the packages of our own environment.
            judge = (sys.executable, "-S", str(JUDGE), transport, mode, gateway.url, gateway.token, FAIRLEAD)
            found = json.loads(await output_of(*judge, env=env, cwd=tmp_path))
            check(found, version)


def check(found: dict[str, Any], version: str) -> None:
    session = found["session"]
    assert (found["version"], found["server"], found["tools"]) == (version, "fairlead", TOOLS)
    assert "Hello from the scripted model. from the judge" in found["waited"]["text"]
    assert "I see 2 messages" in found["waited again"]["text"] and session in found["sent"]["text"]
    assert found["listed"]["text"].startswith(session)
    assert "[From an agent outside this gateway, whose session is unknown" in found["read"]["text"]
    assert found["bad arguments"]["error"] and found["no session"]["error"] and found["no tool"] == -32602


@on_versions()
async def test_claude_code_inside_and_outside_a_session(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path, model: ScriptedModel, agreed: None
) -> None:
    """Inside, the gateway knows the session; outside, the agent says that its session is unknown."""
    server = {"command": FAIRLEAD, "args": ["mcp", "--allow", "send"]}
    config = settings(
        default_data(cli_env),
        tmp_path,
        agent="claude",
        claude=str(claude),
        pass_env=["IS_SANDBOX"],
        mcp={"fairlead": server},
        agent_access="send",
    )
    async with open_gateway(config, cli_env, cli_cwd) as harness:
        await harness.open(settings={"mcp_servers": ["fairlead"]})
        await it_lists_sessions_and_sees_its_own(harness, model)
        harness.scene()
        await it_starts_a_session_that_names_it(harness, model)
        await an_agent_outside_is_marked_as_unknown(harness, claude, cli_env, cli_cwd)


async def call(harness: GatewayHarness, tool: str, **arguments: Any) -> None:
    """Let the model call a tool, and a person permit it."""
    await harness.send(f"SCRIPT:mcp mcp__fairlead__{tool} {json.dumps(arguments)}")
    asked = await harness.until("permission.asked")
    assert asked["tool"] == f"mcp__fairlead__{tool}"
    await harness.answer(asked)
    assert (await harness.until("turn.ended"))["status"] == "completed"


async def it_lists_sessions_and_sees_its_own(harness: GatewayHarness, model: ScriptedModel) -> None:
    await call(harness, "list_sessions")
    said = str(model.of("mcp")[-1].since_last_answer)
    assert harness.session in said and "this is your own session" in said


async def it_starts_a_session_that_names_it(harness: GatewayHarness, model: ScriptedModel) -> None:
    await call(harness, "start_session", message="hello from another session", agent="demo")
    said = str(model.of("mcp")[-1].since_last_answer)
    made = said.split("Started session ")[1][:36]
    page = (await harness.http.get(f"/v1/sessions/{made}/events?limit=500")).json()
    queued = next(line for line in page["events"] if line["type"] == "message.queued")
    assert queued["source"] == {"session": harness.session}
    assert f"[From the agent of session {harness.session}, depth 1 of 2." in queued["content"][0]["text"]


async def an_agent_outside_is_marked_as_unknown(
    harness: GatewayHarness, claude: Path, cli_env: dict[str, str], cli_cwd: Path
) -> None:
    """It is set up with the command of the README; the server finds the gateway by the data folder in HOME."""
    env = {**cli_env, "PATH": f"{Path(FAIRLEAD).parent}:{cli_env['PATH']}"}
    command = "mcp add fairlead -- fairlead mcp"
    assert f"claude {command}`" in (ROOT / "README.md").read_text()
    await output_of(str(claude), *command.split(), "--allow", "send", env=env, cwd=cli_cwd)
    sent = {"session": harness.session, "message": "hello from outside"}
    prompt = f"SCRIPT:mcp mcp__fairlead__send_message {json.dumps(sent)}"
    said = await output_of(
        str(claude), "-p", prompt, "--allowedTools", "mcp__fairlead__send_message", env=env, cwd=cli_cwd
    )
    assert f"Sent to session {harness.session}" in said
    queued = await harness.until(lambda line: line["type"] == "message.queued" and "source" in line)
    assert queued["source"] == {} and "whose session is unknown" in queued["content"][0]["text"]
    assert queued["by"].startswith("agent outside the gateway, ")
    await harness.until("turn.ended")
