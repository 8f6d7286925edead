"""MCP on a whole gateway: agents with their own tokens, other users, scopes, depth."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fairlead import wiring
from fairlead.config import Config
from laws.two_users import TwoUserGateway
from patience import PATIENCE

pytestmark = pytest.mark.process

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))


def config(folder: Path, **more: Any) -> Config:
    fields = {"port": 0, "data": f"{folder}/data", "agent": "demo", "roots": (str(folder),), "claude_homes": ()}
    return Config(**{**fields, "allow": ("Bash(printenv:*)",), **more})


class McpCaller:
    """Calls tools with one token, as a legacy client does."""

    def __init__(self, gateway: TwoUserGateway, token: str, path: str = "/mcp?allow=send") -> None:
        self.gateway = gateway
        self.headers = {"authorization": f"Bearer {token}"}
        self.path = path

    async def request(self, method: str, **params: Any) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.gateway.http.post(self.path, json=body, headers=self.headers, timeout=PATIENCE)

    async def tools(self) -> list[str]:
        return [tool["name"] for tool in (await self.request("tools/list")).json()["result"]["tools"]]

    async def call(self, tool: str, **arguments: Any) -> str:
        result = (await self.request("tools/call", name=tool, arguments=arguments)).json()["result"]
        assert not result["isError"], result
        return str(result["content"][0]["text"])

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = (await self.request("tools/call", name=tool, arguments=arguments)).json()["result"]
        assert result["isError"], result
        return str(result["content"][0]["text"])

    async def answer_of(self, session: str) -> str:
        """Wait until the session has finished, however long that takes on this machine."""
        async with asyncio.timeout(PATIENCE):
            while "still works" in (answer := await self.call("wait_for_turn", session=session, seconds=5)):
                pass
        return answer

    async def start(self, message: str) -> str:
        return found_id(await self.call("start_session", message=message))


def found_id(text: str) -> str:
    found = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)
    assert found, text
    return found[0]


async def token_of(gateway: TwoUserGateway, who: str, session: str) -> str:
    """The token that the session's agent has in its environment, which it prints."""
    await gateway.post(who, f"/v1/sessions/{session}/messages", {"text": "SCRIPT:bash printenv FAIRLEAD_SESSION_TOKEN"})
    await gateway.rested(who, session)
    history = await gateway.get(who, f"/v1/sessions/{session}/messages")
    return str(re.findall(r"fl_[a-z2-7]{8}_[a-z2-7]{52}", str(history))[-1])


async def source_in(gateway: TwoUserGateway, session: str) -> dict[str, Any]:
    """The source of the first message of a session."""
    page = await gateway.get("admin", f"/v1/sessions/{session}/events?limit=1000")
    return dict(next(event for event in page["events"] if event["type"] == "message.queued"))


async def test_sessions_agents_reach_their_users_sessions_and_go_two_deep(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    async with wiring.running(config(tmp_path, agent_access="send"), env) as running:
        gateway = TwoUserGateway(running.url, running.token)
        for name in ("anna", "bert"):
            await gateway.add(name)
        berts = (await gateway.post("bert", "/v1/sessions", {"title": "berts secret"}))["session"]
        first = (await gateway.post("anna", "/v1/sessions", {"title": "annas first"}))["session"]
        secret = await token_of(gateway, "anna", first)
        agent = McpCaller(gateway, secret)

        # What it sees: its user's sessions, and its own one by name; not another user's.
        listed = await agent.call("list_sessions")
        assert "annas first" in listed and "this is your own session" in listed and "berts" not in listed
        assert berts not in await agent.call("search_sessions", words="berts secret")
        assert await agent.refused("read_session", session=berts) == f"There is no session {berts}."
        assert await agent.refused("send_message", session=berts, message="x") == f"There is no session {berts}."
        assert "your own session" in await agent.refused("send_message", session=first, message="x")
        assert "your own session" in await agent.refused("wait_for_turn", session=first)
        # An admin's token is an agent's too here: it sees the sessions of its user alone.
        assert "anna" not in await McpCaller(gateway, running.token).call("list_sessions")

        # Two sessions deep, each marked with the one before it, and no further.
        second = await agent.start("SCRIPT:text hello")
        assert "Hello from the scripted model" in await agent.answer_of(second)
        queued = await source_in(gateway, second)
        assert queued["source"] == {"session": first} and queued["by"] == f"agent of session {first[:8]}"
        assert queued["content"][0]["text"].startswith(f"[From the agent of session {first}, depth 1 of 2.")
        assert f"(agent of session {first[:8]})" in await agent.call("read_session", session=second)
        deeper = McpCaller(gateway, await token_of(gateway, "anna", second))
        third = await deeper.start("SCRIPT:text deep")
        assert (await source_in(gateway, third))["source"] == {"session": second, "depth": 2}
        await gateway.rested("anna", third)
        deepest = McpCaller(gateway, await token_of(gateway, "anna", third))
        for tool, more in (("start_session", {}), ("send_message", {"session": first})):
            assert "at most 2 sessions deep" in await deepest.refused(tool, message="on and on", **more)
        assert (await gateway.get("anna", f"/v1/sessions/{second}"))["summary"]["owner"] == "anna"

        # The token opens nothing else, and ends with its agent.
        for method, path in (("GET", "/v1/sessions"), ("POST", f"/v1/sessions/{first}/interrupt"), ("GET", "/v1/me")):
            assert (await gateway.http.request(method, path, headers=agent.headers)).status_code == 401
        assert (await gateway.http.get("/mcp", headers=agent.headers)).status_code == 405
        assert (await gateway.http.delete("/mcp", headers=agent.headers)).status_code == 405
        await gateway.post("anna", f"/v1/sessions/{first}/share", {"user": "bert"})
        assert "no access to other sessions" in await agent.refused("list_sessions")
        await gateway.post("anna", f"/v1/sessions/{first}/close")
        assert (await agent.request("tools/list")).status_code == 401
        await gateway.http.aclose()


async def in_a_session_the_pipe_uses_the_sessions_token(gateway: TwoUserGateway, token: str) -> None:
    """Even if a person's token is there, so that an agent is never taken for one outside; and it says what to set."""
    env = {"PATH": "/usr/bin:/bin", "FAIRLEAD_URL": gateway.url, "FAIRLEAD_TOKEN": gateway.tokens["admin"]}
    env |= {"FAIRLEAD_SESSION_URL": gateway.url, "FAIRLEAD_SESSION_TOKEN": token}
    pipe = asyncio.subprocess.PIPE
    line = json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}).encode() + b"\n"
    # An agent that starts its servers with an environment of their own does not hide its session.
    stripped = f"env -i FAIRLEAD_URL=$FAIRLEAD_URL FAIRLEAD_TOKEN=$FAIRLEAD_TOKEN {FAIRLEAD} mcp; exit $?"
    for argv in ((FAIRLEAD, "mcp"), ("sh", "-c", stripped)):
        child = await asyncio.create_subprocess_exec(*argv, env=env, stdin=pipe, stdout=pipe)
        out, _ = await asyncio.wait_for(child.communicate(line), PATIENCE)
        answer = json.loads(out)
        assert answer["id"] == 4 and "the setting agent_access" in answer["error"]["message"], argv
        assert child.returncode == 0


async def test_scopes_limit_people_and_the_setting_limits_agents(tmp_path: Path) -> None:
    async with wiring.running(config(tmp_path), {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as running:
        gateway = TwoUserGateway(running.url, running.token)
        await gateway.add("viewer", ("view",), "anna")
        await gateway.add("talker", ("view", "chat"), "anna")
        await gateway.add("silent", ("approve",), "anna")
        viewer, talker = (McpCaller(gateway, gateway.tokens[name]) for name in ("viewer", "talker"))
        reading = ["list_sessions", "search_sessions", "read_session"]
        assert await viewer.tools() == reading and len(await talker.tools()) == 6
        assert await McpCaller(gateway, gateway.tokens["talker"], "/mcp").tools() == reading
        session = await talker.start("SCRIPT:question")
        assert "waits for a person" in await talker.answer_of(session)
        refused = (await viewer.request("tools/call", name="send_message", arguments={})).json()
        assert refused["error"]["code"] == -32602 and (await source_in(gateway, session))["source"] == {}
        assert "A person is asked a question" in await viewer.call("read_session", session=session)
        silent = await McpCaller(gateway, gateway.tokens["silent"]).request("tools/list")
        assert silent.status_code == 403 and "scope view" in silent.json()["error"]["message"]
        # By default the agents of sessions have a token, which names them, and may do nothing with it.
        other = (await gateway.post("talker", "/v1/sessions", {}))["session"]
        own = await McpCaller(gateway, await token_of(gateway, "talker", other)).request("tools/list")
        assert own.status_code == 403 and own.json()["jsonrpc"] == "2.0"
        await in_a_session_the_pipe_uses_the_sessions_token(gateway, await token_of(gateway, "talker", other))
        origin = {"origin": "http://evil.example", **talker.headers}
        assert (await gateway.http.post("/mcp", json={}, headers=origin)).status_code == 403
        assert (await gateway.http.post("/mcp", content=b"x" * (2 << 20), headers=talker.headers)).status_code == 413
        await gateway.http.aclose()
