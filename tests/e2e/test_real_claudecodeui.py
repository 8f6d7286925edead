"""The real CLI behind claudecodeui's chat: the demo agent's script, permissions, aborts, transcripts of others."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.claudecodeui.chat_harness import peer_at
from clients.claudecodeui.chat_scenario import PLAYED, allow, create, history, play
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, OLDEST, on_versions
from fairlead_testing.model_api import ScriptedModel


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", cli_cwd, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        yield opened


@on_versions()
@pytest.mark.rules("S003-006", "S003-028", "S003-039", "S003-043", "S003-044", "S003-056", "S003-066")
async def test_the_real_cli_plays_the_script_of_the_demo_agent(harness: GatewayHarness, model: ScriptedModel) -> None:
    gateway = harness.gateway
    assert await play(gateway.url, gateway.token, harness.http, harness.cwd) == PLAYED
    first, *_, last = (model.of(script)[0].messages for script in ("slow", "bash", "text"))
    assert first < last, "a later run knows the earlier ones"


@on_versions(NEWEST, first="2.1.186")
@pytest.mark.rules("S003-049", "S003-054", "S003-069")
async def test_work_that_wakes_up_and_permissions_found_again_after_a_reconnect(harness: GatewayHarness) -> None:
    name = await create(harness.http, harness.cwd)
    await work_that_wakes_up_after_a_run_is_a_run_of_its_own(harness, name)
    await permissions_are_denied_changed_and_found_again(harness, name)


async def work_that_wakes_up_after_a_run_is_a_run_of_its_own(harness: GatewayHarness, name: str) -> None:
    async with peer_at(harness.gateway.url, harness.gateway.token) as peer:
        await peer.send(name, "SCRIPT:background slowtool 1")
        # Whether the background work asks before or after the run ends depends on scheduling.
        both = ("permission_request", "complete")
        seen = [await peer.until(lambda frame: frame["kind"] in both) for _ in both]
        asked, first = sorted(seen, key=lambda frame: both.index(frame["kind"]))
        (pending,) = (await peer.subscribe(name))["pendingPermissions"]
        assert pending["requestId"] == asked["requestId"], "it outlives the run that it was asked in"
        await peer.say("chat.permission-response", requestId=asked["requestId"], allow=True)
        second = await peer.until("complete")
        assert first["seq"] < second["seq"]
        between = [frame for frame in peer.run(name) if first["seq"] < frame["seq"] < second["seq"]]
        assert any(frame.get("role") == "assistant" for frame in between)
        rows = (await history(harness.http, name))["messages"]
        assert len({row["id"] for row in rows}) == len(rows)
        assert sum(row.get("role") == "user" for row in rows) == 1


async def permissions_are_denied_changed_and_found_again(harness: GatewayHarness, name: str) -> None:
    url, token = harness.gateway.url, harness.gateway.token
    async with peer_at(url, token) as peer:
        await peer.send(name, f"SCRIPT:bash touch {harness.cwd / 'never'}")
        await peer.until("permission_request")
    async with peer_at(url, token) as peer:
        (pending,) = (await peer.subscribe(name))["pendingPermissions"]
        await peer.say("chat.permission-response", requestId=pending["requestId"], allow=False, message="no")
        result = await peer.until("tool_result")
        assert result["isError"] is True and "no" in result["content"]
        await peer.until("complete")
        assert not (harness.cwd / "never").exists()
        await peer.send(name, f"SCRIPT:bash touch {harness.cwd / 'one'}")
        await allow(peer, updatedInput={"command": f"touch {harness.cwd / 'two'}", "description": "x"})
        await peer.until("complete")
        assert (harness.cwd / "two").exists() and not (harness.cwd / "one").exists()


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one point."""


@on_versions(OLDEST, NEWEST)
async def test_what_is_attached_is_in_the_message_or_is_read_without_asking(harness: GatewayHarness) -> None:
    files = [
        ("files", ("dot.png", base64.b64decode(DOT), "image/png")),
        ("files", ("notes.md", b"words of a note", "text/markdown")),
        ("files", ("old.txt", "words of an old café".encode("latin-1"), "text/plain")),
    ]
    answer = await harness.http.post("/claudecodeui/api/assets/files", files=files)
    given = answer.json()["attachments"]
    async with peer_at(harness.gateway.url, harness.gateway.token) as peer:
        name = await create(harness.http, harness.cwd)
        prompt = f"SCRIPT:read {given[2]['path']}"
        await peer.send(name, prompt, {"attachments": given})
        await peer.until("complete")
        assert "permission_request" not in peer.run_kinds(name)
        (result,) = (frame for frame in peer.run(name) if frame["kind"] == "tool_result")
    assert result["isError"] is False and "words of an old" in result["content"]
    row = (await history(harness.http, name))["messages"][0]
    assert (row["content"], row["files"]) == (prompt, given[1:])
    assert [{**image, "data": ""} for image in row["images"]] == [{**given[0], "data": ""}]
    assert row["images"][0]["data"].startswith("data:image/")
