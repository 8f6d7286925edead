"""The real CLI on claudecodeui's terminal: a session of ours continues there, and elsewhere afterwards."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from clients.claudecodeui.shell_harness import ShellClient
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import LAST_DIAL_IN, NEWEST, OLDEST, on_versions
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE


@pytest.fixture
async def harness(
    claude: Path, agreed: None, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    passed = ["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"]
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=passed)
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as opened:
        yield opened


@contextlib.asynccontextmanager
async def shell(harness: GatewayHarness) -> AsyncIterator[ShellClient]:
    url = harness.gateway.url.replace("http", "ws", 1) + f"/shell?token={harness.gateway.token}"
    async with connect(url, compression=None, proxy=None, max_size=None) as socket:
        client = ShellClient(socket)
        client.screen.resize(110, 36)
        yield client


async def claude_there(client: ShellClient, harness: GatewayHarness, session: str | None) -> None:
    fields = {"sessionId": session, "hasSession": session is not None, "provider": "claude", "isPlainShell": False}
    await client.begin(harness.cwd, **fields)


async def leave(client: ShellClient) -> None:
    """Exit as a person does: press Enter once the typed text is on the screen."""
    await client.type("/exit")
    await client.wait_for_text("/exit")
    await client.type("\r")
    await client.until(lambda: client.exit_codes)


@on_versions(LAST_DIAL_IN, NEWEST)
@pytest.mark.rules("S003-098", "S003-105", "S003-106")
async def test_a_session_goes_on_in_the_shell_and_then_elsewhere(harness: GatewayHarness, model: ScriptedModel) -> None:
    await while_a_turn_runs_there_is_no_second_writer(harness, model)
    async with shell(harness) as client:
        await claude_there(client, harness, harness.session)
        await client.until(lambda: "Resuming Claude session" in client.text)
        # The conversation that began over stdio is on the screen.
        await client.wait_for_text("SCRIPT:text one")
        assert harness.session in client.text
        await harness.until("handover.settled")
        await client.type("SCRIPT:text two")
        await client.wait_for_text("SCRIPT:text two")
        await client.type("\r")
        assert (await harness.until("turn.ended"))["status"] == "completed"
        asked = next(request for request in model.of("text") if (request.kind, request.argument) == ("messages", "two"))
        # The same conversation: it contains the first prompt and its answer.
        assert asked.messages >= 3
        await leave(client)
        assert client.exit_codes == [0]
    await harness.until(
        lambda line: line["type"] == "session.changed" and line["settings"].get("link", "stdio") == "stdio"
    )
    assert (await harness.turn("SCRIPT:text three"))["status"] == "completed"
    assert [text.split()[-1] for text in harness.texts()] == ["one", "two", "three"]
    assert len(harness.all("text.delta")) > 0


@on_versions(NEWEST)
@pytest.mark.rules("S003-100", "S003-105", "S003-106")
async def test_a_session_that_is_not_there_becomes_a_new_one(harness: GatewayHarness) -> None:
    async with shell(harness) as client:
        await claude_there(client, harness, "33333333-3333-4333-8333-333333333333")
        await client.until(lambda: "could not be resumed" in client.text)
        await client.until(lambda: "Starting new Claude session in:" in client.text)
        await client.wait_for_text("for shortcuts")
        await client.type("SCRIPT:text hello")
        await client.wait_for_text("SCRIPT:text hello")
        await client.type("\r")
        (listed,) = (await harness.http.get("/v1/sessions")).json()["sessions"]
        await harness.watch(listed["session"])
        assert (await harness.until("turn.ended"))["status"] == "completed"
        await leave(client)


async def while_a_turn_runs_there_is_no_second_writer(harness: GatewayHarness, model: ScriptedModel) -> None:
    model.hold()
    await harness.open("SCRIPT:text one")
    await model.wait_for(lambda request: request.argument == "one", timeout=PATIENCE)
    async with shell(harness) as client:
        await claude_there(client, harness, harness.session)
        await client.until(lambda: client.errors)
        assert "a running turn" in client.errors[0]
        model.release()
        assert (await harness.until("turn.ended"))["status"] == "completed"
        assert len(harness.all("agent.started")) == 1
        assert len((await harness.http.get("/v1/sessions")).json()["sessions"]) == 1


@on_versions(OLDEST, NEWEST)
@pytest.mark.rules("S003-103", "S003-109", "S003-112")
async def test_signing_in_announces_its_page_whole(harness: GatewayHarness, claude: Path) -> None:
    """The URL is printed over several lines, in colours, after the text that announces it."""
    async with shell(harness) as client:
        command = f"BROWSER=false {claude} setup-token"
        await client.begin(harness.cwd, initialCommand=command)
        await client.until(lambda: client.urls)
        ((url, opens),) = client.urls
        assert opens and url.startswith("https://claude.") and "&code_challenge_method=S256&state=" in url
        assert not any(url in line for line in client.screen.lines())
        async with shell(harness) as again:
            await again.begin(harness.cwd, initialCommand=command)
            await again.until(lambda: again.urls)
            # A login starts over, with another state.
            assert again.urls[0][1] and again.urls[0][0] != url
            await client.until(lambda: client.exit_codes)
