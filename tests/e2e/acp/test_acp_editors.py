"""Unmodified ACP clients against the gateway: the Python library and acpx run `fairlead acp`, the SDK opens `/acp`.

The agent is the demo agent. Another client of the gateway is the phone, which answers a request of an editor."""

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema as types

from e2e.acp.acp_harness import why_not_here
from e2e.acp.acpx import PERMISSION_DENIED, Acpx
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import program_folders, why_not_isolated
from patience import PATIENCE
from tools.acp_clients import ACP_CLIENTS

FAIRLEAD = [sys.executable, "-c", "from fairlead.cli.main import main; main()", "acp"]
FORMS = types.ElicitationCapabilities(form=types.ElicitationFormCapabilities())


def environment(home: Path, data: Path) -> dict[str, str]:
    """The whole environment of a client and of the command that it starts."""
    path = ":".join(program_folders())
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "NO_COLOR": "1", "FAIRLEAD_DATA": str(data)}


@pytest.fixture
async def harness(tmp_path: Path, cli_home: Path, cli_cwd: Path) -> AsyncIterator[GatewayHarness]:
    if reason := why_not_isolated():
        pytest.skip(reason)
    config = settings(tmp_path / "data", cli_cwd, agent="demo", claude_homes=[str(cli_home / ".claude")])
    async with open_gateway(config, environment(cli_home, tmp_path / "data"), cli_cwd) as opened:
        yield opened


@pytest.fixture
def env(tmp_path: Path, cli_home: Path) -> dict[str, str]:
    return environment(cli_home, tmp_path / "data")


# --- the Python library


class LibraryClient:
    """An editor on the Python library. `choice`: the kind of option that it picks; empty: it leaves a request open."""

    def __init__(self) -> None:
        self.choice = "allow_once"
        self.updates: list[Any] = []
        self.titles: list[str] = []
        self.asked = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **more: Any
    ) -> types.RequestPermissionResponse:
        self.titles.append(tool_call.title)
        self.asked.set()
        if not self.choice:
            await asyncio.Event().wait()
        option = next(option for option in options if option.kind == self.choice)
        outcome = types.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return types.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, *given: Any, **more: Any) -> Any:
        return types.AcceptElicitationResponse(action="accept", content={"question0": "Blue"})

    def kinds(self) -> set[str]:
        return {update.session_update for update in self.updates}

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.updates if update.session_update == kind)


async def test_every_call_of_the_python_library(harness: GatewayHarness, env: dict[str, str], cli_cwd: Path) -> None:
    editor, cwd = LibraryClient(), str(cli_cwd)
    client: Any = editor
    # The library counts elicitation, which is stable, as unstable.
    more: dict[str, Any] = {"env": env, "cwd": cwd, "use_unstable_protocol": True}
    starting = acp.spawn_agent_process(client, FAIRLEAD[0], *FAIRLEAD[1:], **more)
    async with asyncio.timeout(PATIENCE), starting as (agent, process):
        hello = await agent.initialize(
            acp.PROTOCOL_VERSION, client_capabilities=types.ClientCapabilities(elicitation=FORMS)
        )
        assert hello.agent_info is not None and hello.agent_info.name == "fairlead"
        made = await agent.new_session(cwd=cwd, mcp_servers=[])
        session = made.session_id

        async def prompt(text: str) -> str:
            editor.updates.clear()
            return (await agent.prompt(session, [acp.text_block(text)])).stop_reason

        assert await prompt("SCRIPT:think") == "end_turn"
        assert editor.text("agent_thought_chunk") and editor.text()
        assert await prompt("SCRIPT:write allowed.txt") == "end_turn"
        assert (cli_cwd / "allowed.txt").exists() and editor.titles == ["Write allowed.txt"]
        assert {"tool_call", "tool_call_update", "usage_update"} <= editor.kinds()
        editor.choice = "reject_once"
        assert await prompt("SCRIPT:write denied.txt") == "end_turn"
        assert not (cli_cwd / "denied.txt").exists()
        assert await prompt("SCRIPT:question") == "end_turn" and "Blue" in editor.text()
        assert await prompt("SCRIPT:todo") == "end_turn" and "plan" in editor.kinds()
        assert await prompt("SCRIPT:subagent text") == "end_turn"

        # A phone answers: the library knows no withdrawn request, and the turn goes on all the same.
        await harness.watch(session, after=None)
        editor.choice = ""
        editor.asked.clear()
        running = asyncio.create_task(prompt("SCRIPT:bash touch phone"))
        await editor.asked.wait()
        await harness.answer(await harness.until("permission.asked"))
        assert await running == "end_turn" and (cli_cwd / "phone").exists()

        harness.scene()
        running = asyncio.create_task(prompt("SCRIPT:slow 4000"))
        await harness.until("text.delta")
        await agent.cancel(session)
        assert await running == "cancelled"

        editor.updates.clear()
        loaded = await agent.load_session(cwd=cwd, session_id=session, mcp_servers=[])
        assert loaded.modes is not None and "SCRIPT:think" in editor.text("user_message_chunk")
        await agent.set_session_mode(session, "plan")
        changed = await agent.set_config_option("mode", session, "default")
        assert [option.id for option in changed.config_options][:2] == ["mode", "model"]
        listed = await agent.list_sessions(cwd=cwd)
        assert [found.session_id for found in listed.sessions] == [session]
        await agent.resume_session(session, cwd)
        await agent.close_session(session)
        with pytest.raises(acp.RequestError):
            await agent.prompt(session, [acp.text_block("too late")])
        await agent.close()
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


# --- acpx


async def test_acpx_runs_turns_and_lists_sessions(
    harness: GatewayHarness, env: dict[str, str], tmp_path: Path, cli_cwd: Path
) -> None:
    if reason := why_not_here("acpx"):
        pytest.skip(reason)
    acpx = Acpx(f"exec {FAIRLEAD[0]} -c '{FAIRLEAD[2]}' acp", env, cli_cwd, tmp_path)
    code, out = await acpx.run("--format", "json", "--approve-all", "exec", "SCRIPT:write allowed.txt")
    messages = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert code == 0 and messages[-1]["result"] == {"stopReason": "end_turn"}, out
    assert (cli_cwd / "allowed.txt").exists()

    code, out = await acpx.run("--deny-all", "exec", "SCRIPT:write denied.txt")
    assert code == PERMISSION_DENIED and "end_turn" in out and "failed" in out, out
    assert not (cli_cwd / "denied.txt").exists()

    code, out = await acpx.run("exec", "SCRIPT:todo")
    assert code == 0 and "[in_progress] Write it down" in out, out

    code, out = await acpx.run("exec", "SCRIPT:error 400")
    assert code != 0, out

    code, out = await acpx.run("--format", "json", "sessions", "list")
    assert code == 0 and "SCRIPT:write allowed.txt" in out, out


# --- the SDK over a WebSocket


async def test_the_sdk_over_a_websocket(
    harness: GatewayHarness, env: dict[str, str], tmp_path: Path, cli_cwd: Path
) -> None:
    modules = ACP_CLIENTS.folder / "node_modules"
    if not modules.exists() or not shutil.which("node"):
        pytest.skip(f"the SDK is not at {modules}: `python -m tools.acp_clients` fetches it")
    script = Path(__file__).with_name("sdk_client.mjs")
    address = harness.gateway.url.replace("http", "ws", 1) + "/acp"
    node = await asyncio.create_subprocess_exec(
        *(shutil.which("node") or "node", str(script), str(modules), address, harness.gateway.token, str(cli_cwd)),
        cwd=cli_cwd,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    assert node.stdout is not None and node.stderr is not None
    seen: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            async for line in node.stdout:
                report = json.loads(line)
                seen[report["what"]] = report["value"]
                if report["what"] == "waiting":
                    await harness.watch(seen["new"]["sessionId"])
                    asked = await harness.until(
                        lambda event: event["type"] == "permission.asked" and "phone" in str(event["input"])
                    )
                    await harness.answer(asked)
        assert await node.wait() == 0, (await node.stderr.read()).decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            node.kill()
    session = seen["new"]["sessionId"]
    assert seen["initialize"]["agentInfo"]["name"] == "fairlead"
    assert {"default", "acceptEdits", "plan"} <= {*seen["new"]["modes"]}
    assert seen["write"]["stopReason"] == "end_turn" and (cli_cwd / "sdk.txt").exists()
    assert seen["form"]["question0"]["oneOf"][1]["const"] == "Blue" and "Blue" in seen["question"]["text"]
    assert seen["denied"] == {"stopReason": "end_turn"} and not (cli_cwd / "denied.txt").exists()
    assert seen["withdrawn"] and seen["phone"] == {"stopReason": "end_turn"} and (cli_cwd / "phone").exists()
    assert seen["waiting"] == "touch phone"
    assert seen["cancelled"] == {"stopReason": "cancelled"}
    assert seen["load"]["users"] == 5 and seen["load"]["live"]
    assert "touch phone" in seen["load"]["calls"]
    assert (seen["options"]["mode"], seen["list"]) == ("acceptEdits", [[session, str(cli_cwd)]])
    assert (seen["close"], seen["refused"]) == ({}, -32002)
