"""The server for an agent's command hooks: each is handled once, held as long as needed, and ends with the agent."""

import asyncio
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from agents.claude_driver.hook_harness import SESSION, HookHarness, decided, open_hook_harness, tool_use
from fairlead.agents.claude.kind import ClaudeKind
from fairlead.agents.claude.stdio.tool_hooks import deny
from fairlead.agents.claude.tui import hook_server
from fairlead.agents.claude.tui.hook_server import EVENTS, HookEndpoint, HookServer, command
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.config import load
from fairlead.model.errors import AgentNotRunning
from fairlead.model.ids import SessionId
from fairlead.system.clock import SystemClock
from fairlead.wiring.agents import agent_kinds
from fairlead_testing.clock import ManualClock
from local_http import local_client
from patience import settled

TLS = Path(__file__).parents[2] / "server" / "tls"
ALLOW = msgspec.convert({"hookSpecificOutput": {"hookEventName": "PreToolUse"}}, HookAnswer)


class FakeTokens:
    def __init__(self) -> None:
        self.valid: dict[str, str] = {}

    def issue(self, session: str) -> str:
        self.valid[session] = f"token {len(self.valid)}"
        return self.valid[session]

    def revoke(self, session: str) -> None:
        self.valid.pop(session, None)


class HeldHandler:
    """A handler that answers when the test provides an answer."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []
        self.ended: list[str] = []
        self.answers: asyncio.Queue[HookAnswer | Exception] = asyncio.Queue()

    async def __call__(self, given: Mapping[str, Any]) -> HookAnswer:
        self.given.append(given)
        try:
            answer = await self.answers.get()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tokens() -> FakeTokens:
    return FakeTokens()


@pytest.fixture
def server(tokens: FakeTokens, clock: ManualClock) -> HookServer:
    return HookServer(tokens, "http://127.0.0.1:7433", clock)


@pytest.fixture
def held() -> HeldHandler:
    return HeldHandler()


@pytest.fixture
def endpoint(server: HookServer, held: HeldHandler) -> HookEndpoint:
    return server.open(SESSION, {"pre-tool-use": held, "stop": held})


def take(endpoint: HookEndpoint, key: str = "k", event: str = "pre-tool-use") -> asyncio.Task[bytes]:
    return asyncio.create_task(endpoint.answer_hook(event, key, tool_use()))


# --- settings and environment for the CLI ---------------------------------------------------------------------


def test_the_settings_register_a_hook_for_each_handler_and_hold_no_secret(
    endpoint: HookEndpoint, tokens: FakeTokens
) -> None:
    settings = json.loads(endpoint.settings())
    assert list(settings["hooks"]) == ["PreToolUse", "Stop"]
    assert tokens.valid[SESSION] not in endpoint.settings()
    assert endpoint.variables["FAIRLEAD_HOOK_TOKEN"] == tokens.valid[SESSION]
    assert endpoint.variables["FAIRLEAD_HOOK_URL"] == f"http://127.0.0.1:7433/v1/hooks/{SESSION}"
    own = settings["hooks"]["PreToolUse"][0]
    assert own["matcher"] == "*"
    assert own["hooks"][0]["timeout"] <= 2_147_483, "one more second is no wait at all"
    assert "statusMessage" not in own["hooks"][0]
    told = json.loads(endpoint.settings(status="fairlead permit 1111"))["hooks"]
    assert told["PreToolUse"][0]["hooks"][0]["statusMessage"] == "fairlead permit 1111"
    assert "statusMessage" not in told["Stop"][0]["hooks"][0]


def test_a_project_can_neither_name_another_gateway_nor_turn_hooks_off(endpoint: HookEndpoint) -> None:
    """Command-line settings take precedence over the project's (verified with the real CLI in tests/e2e)."""
    settings = json.loads(endpoint.settings())
    assert settings["disableAllHooks"] is False
    url = f"http://127.0.0.1:7433/v1/hooks/{SESSION}"
    assert settings["env"] == {"FAIRLEAD_HOOK_URL": url, "FAIRLEAD_HOOK_CERT": ""}


@pytest.mark.parametrize("event", EVENTS)
def test_the_command_uses_this_installation_and_ignores_the_project(event: str) -> None:
    words = shlex.split(command(event))
    assert words[:6] == [sys.executable, "-P", "-E", "-m", "fairlead.cli.hook", event]
    assert words[6:] == (["||", "exit", "2"] if event == "pre-tool-use" else [])


def test_a_path_with_spaces_and_quotes_is_one_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/it's here/$(python)")
    assert shlex.split(command("stop"))[0] == "/opt/it's here/$(python)"


def test_an_unknown_hook_event_raises_value_error(server: HookServer, held: HeldHandler) -> None:
    with pytest.raises(ValueError, match="no such hooks"):
        server.open(SESSION, {"pre-tool": held})


def test_with_tls_the_hooks_get_the_certificate_of_the_gateway(tokens: FakeTokens, tmp_path: Path) -> None:
    given = {"data": str(tmp_path / "data"), "tls_cert": str(TLS / "cert.pem"), "tls_key": str(TLS / "key.pem")}
    kinds = agent_kinds(load({"HOME": "/h"}, given).config, {}, SystemClock(), tokens, "https://127.0.0.1:7433")
    claude = kinds["claude"]
    assert isinstance(claude, ClaudeKind)
    server = claude._hooks
    assert server is not None
    endpoint = server.open(SESSION, {})
    assert endpoint.variables["FAIRLEAD_HOOK_URL"].startswith("https://127.0.0.1:7433/v1/hooks/")
    assert endpoint.variables["FAIRLEAD_HOOK_CERT"] == str((TLS / "cert.pem").resolve())
    assert json.loads(endpoint.settings())["env"]["FAIRLEAD_HOOK_CERT"] == endpoint.variables["FAIRLEAD_HOOK_CERT"]


# --- handling ---------------------------------------------------------------------------------------------------


async def test_the_answer_of_the_handler_is_the_answer_of_the_hook(endpoint: HookEndpoint, held: HeldHandler) -> None:
    held.answers.put_nowait(deny("no"))
    assert decided(json.loads(await take(endpoint))) == ("deny", "no")
    assert held.given == [tool_use()]


async def test_a_hook_is_never_decided_by_a_timeout(
    endpoint: HookEndpoint, held: HeldHandler, clock: ManualClock
) -> None:
    waiting = take(endpoint)
    await settled()
    await clock.advance(20 * 24 * 3600)
    assert not waiting.done()
    held.answers.put_nowait(ALLOW)
    assert await waiting == msgspec.json.encode(ALLOW)


async def test_a_hook_that_comes_back_is_handled_once(
    endpoint: HookEndpoint, held: HeldHandler, clock: ManualClock
) -> None:
    first = take(endpoint)
    await settled()
    first.cancel()
    await settled()
    await clock.advance(hook_server.GONE_SECONDS - 1)
    second, third = take(endpoint), take(endpoint)
    await settled()
    await clock.advance(1000)
    held.answers.put_nowait(deny("once"))
    assert await second == await third
    assert await take(endpoint) == await second, "its answer was lost on the way: it gets it again"
    assert len(held.given) == 1


async def test_another_call_is_handled_separately(endpoint: HookEndpoint, held: HeldHandler) -> None:
    first, second = take(endpoint, "a"), take(endpoint, "b")
    await settled()
    assert len(held.given) == 2
    held.answers.put_nowait(deny("1"))
    held.answers.put_nowait(deny("2"))
    assert {decided(json.loads(await hook))[1] for hook in (first, second)} == {"1", "2"}


async def test_a_hook_that_does_not_come_back_is_cancelled(
    endpoint: HookEndpoint, held: HeldHandler, clock: ManualClock
) -> None:
    waiting = take(endpoint)
    await settled()
    waiting.cancel()
    await settled()
    await clock.advance(hook_server.GONE_SECONDS)
    assert held.ended == ["cancelled"]
    assert decided(json.loads(await take(endpoint)))[0] == "deny", "should it come all the same"
    assert len(held.given) == 1


async def test_a_hook_is_not_cancelled_while_one_request_still_waits(
    endpoint: HookEndpoint, held: HeldHandler, clock: ManualClock
) -> None:
    first, second = take(endpoint), take(endpoint)
    await settled()
    first.cancel()
    await settled()
    await clock.advance(1000)
    assert not held.ended
    held.answers.put_nowait(ALLOW)
    await second


@pytest.mark.parametrize(("event", "behavior"), [("pre-tool-use", "deny"), ("stop", "")])
async def test_a_failing_handler_denies_a_tool_and_answers_other_events_with_nothing(
    endpoint: HookEndpoint, held: HeldHandler, event: str, behavior: str, caplog: pytest.LogCaptureFixture
) -> None:
    held.answers.put_nowait(RuntimeError("broken"))
    answer = json.loads(await take(endpoint, event=event))
    assert (decided(answer)[0] if answer else "") == behavior
    assert "a hook failed" in caplog.text


async def test_without_a_handler_tools_are_denied_and_notifications_accepted(server: HookServer) -> None:
    endpoint = server.open(SESSION, {})
    assert decided(json.loads(await take(endpoint)))[0] == "deny"
    assert json.loads(await take(endpoint, "n", "notification")) == {}


async def test_too_many_concurrent_hooks_are_denied(endpoint: HookEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_server, "MOST_OPEN", 2)
    waiting = [take(endpoint, str(n)) for n in range(2)]
    await settled()
    assert decided(json.loads(await take(endpoint, "one more")))[0] == "deny"
    await endpoint.close("over")
    await asyncio.gather(*waiting)


async def test_stored_answers_are_bounded_in_bytes(
    endpoint: HookEndpoint, held: HeldHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_server, "KEPT_BYTES", 5000)
    for number in range(20):
        held.answers.put_nowait(deny("x" * 1000))
        await take(endpoint, str(number))
    assert sum(map(len, endpoint._answered.values())) <= 5000
    held.answers.put_nowait(deny("x" * 100_000))
    large = await take(endpoint, "large")
    assert list(endpoint._answered.values()) == [large], "the last one is always kept"


# --- the agent's end ----------------------------------------------------------------------------------------------


async def test_closing_the_endpoint_ends_all_open_hooks(
    endpoint: HookEndpoint, held: HeldHandler, server: HookServer, tokens: FakeTokens
) -> None:
    tool, stop = take(endpoint, "a"), take(endpoint, "b", "stop")
    await settled()
    await endpoint.close("The agent has ended.")
    assert decided(json.loads(await tool)) == ("deny", "The agent has ended.")
    assert json.loads(await stop) == {}
    assert held.ended == ["cancelled", "cancelled"]
    assert SESSION not in tokens.valid
    assert decided(json.loads(await take(endpoint, "late")))[0] == "deny"
    with pytest.raises(AgentNotRunning):  # the hook tries again, and its token is not valid any more
        await server._run(None, hook_server.RunHook(SESSION, "stop", "k", {}))  # type: ignore[arg-type]  # the caller is not used


async def test_closing_at_once_leaves_nothing_behind(endpoint: HookEndpoint, held: HeldHandler) -> None:
    waiting = take(endpoint)
    await asyncio.sleep(0)
    await endpoint.close("over")
    assert decided(json.loads(await waiting)) == ("deny", "over")


async def test_the_end_of_an_agent_leaves_the_next_one_alone(
    server: HookServer, endpoint: HookEndpoint, held: HeldHandler, tokens: FakeTokens
) -> None:
    second = server.open(SESSION, {"stop": held})
    await endpoint.close("over")
    assert tokens.valid[SESSION] == second.variables["FAIRLEAD_HOOK_TOKEN"]


# --- over HTTP ----------------------------------------------------------------------------------------------------


def client(harness: HookHarness, endpoint: HookEndpoint) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {endpoint.variables['FAIRLEAD_HOOK_TOKEN']}"}
    return local_client(base_url=f"{harness.url}/v1/hooks", headers=headers)


async def test_requests_that_are_not_hooks_are_rejected(held: HeldHandler) -> None:
    async with open_hook_harness() as harness:
        endpoint = harness.open({"pre-tool-use": held})
        async with client(harness, endpoint) as http:
            for path, body, status in (
                (f"{SESSION}/nothing", {}, 404),
                (f"{SESSION}/pre-tool-use", [], 400),
                (f"{SESSION}/stop", {}, 400),
                (f"{SESSION}/pre-tool-use", {"tool_use_id": 5}, 400),
                (f"{SessionId('6a1f0b6e-5f5c-4c55-9a44-000000000002')}/stop", {}, 401),
            ):
                assert (await http.post(path, json=body)).status_code == status, path
        assert held.given == []
        await endpoint.close("over")


async def test_the_same_call_id_with_another_input_is_handled_separately(held: HeldHandler) -> None:
    """Otherwise the id of an allowed call would allow any other call."""
    async with open_hook_harness() as harness:
        endpoint = harness.open({"pre-tool-use": held})
        async with client(harness, endpoint) as http:
            for command_line, word in (("ls", "fine"), ("rm -rf /", "never")):
                held.answers.put_nowait(deny(word))
                body = tool_use("toolu_1", command=command_line)
                answer = await http.post(f"{SESSION}/pre-tool-use", json=body)
                assert decided(answer.json())[1] == word
        await endpoint.close("over")


async def test_a_connection_that_breaks_is_noticed(held: HeldHandler, clock: ManualClock) -> None:
    async with open_hook_harness(clock) as harness:
        endpoint = harness.open({"pre-tool-use": held})
        async with client(harness, endpoint) as http:
            asking = asyncio.create_task(http.post(f"{SESSION}/pre-tool-use", json=tool_use()))
            while not held.given:
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait({asking})
        while not clock.waiting:
            await asyncio.sleep(0.01)
        await clock.advance(hook_server.GONE_SECONDS)
        assert held.ended == ["cancelled"]
        await endpoint.close("over")


async def test_a_stopping_server_releases_waiting_hooks(held: HeldHandler) -> None:
    async with open_hook_harness() as harness:
        endpoint = harness.open({"pre-tool-use": held})
        async with client(harness, endpoint) as http:
            asking = asyncio.create_task(http.post(f"{SESSION}/pre-tool-use", json=tool_use()))
            while not held.given:
                await asyncio.sleep(0.01)
            await harness.stop()
            answer = await asking
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
        await endpoint.close("over")
