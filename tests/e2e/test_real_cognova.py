"""The real CLI behind Cognova's chat: streamed text, tools, permissions, interrupts, several turns and peers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clients.cognova.chat_harness import Peer, peer_at
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, on_versions
from fairlead_testing.cognova_client import CognovaClient
from fairlead_testing.model_api import ScriptedModel


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    passed = ["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"]
    config = settings(tmp_path / "data", cli_cwd, agent="claude", claude=str(claude), pass_env=passed)
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as opened:
        yield opened


async def stored(harness: GatewayHarness, conversation: str) -> Any:
    answer = await harness.http.get(f"/cognova/api/conversations/{conversation}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def texts(message: Any) -> str:
    return "".join(block.get("text", "") for block in message["content"])


async def allow(peer: Peer) -> None:
    asked = await peer.until("permission_request")
    await peer.say("chat:permission_response", requestId=asked["requestId"], allow=True)


@on_versions()
@pytest.mark.rules("S002-005", "S002-006", "S002-007", "S002-035", "S002-038", "S002-046", "S002-047", "S002-048")
@pytest.mark.rules("S002-055")
async def test_three_turns_with_a_tool(harness: GatewayHarness, model: ScriptedModel) -> None:
    async with peer_at(harness.gateway.url, harness.gateway.token) as peer:
        name = await peer.begin("SCRIPT:slow 20")
        await peer.until("text_delta")
        assert "chat:stream_end" not in {frame["type"] for frame in peer.frames}
        first = await peer.until("stream_end")
        made = harness.cwd / "made"
        await peer.send(f"SCRIPT:bash touch {made}", name)
        started = await peer.until("tool_start")
        assert started["toolName"] == "Bash"
        await allow(peer)
        ended = await peer.until("tool_end")
        assert (ended["toolUseId"], ended["isError"]) == (started["toolUseId"], False)
        assert made.exists()
        second = await peer.until("stream_end")
        await peer.send("SCRIPT:text bye", name)
        third = await peer.until("stream_end")
        assert peer.kinds().count("session_created") == 1
        shown = peer.client.conversations[name]
    seen = [str(model.of(script)[-1].conversation) for script in ("slow", "bash", "text")]
    prompts = ("SCRIPT:slow 20", "SCRIPT:bash touch", "SCRIPT:text bye")
    known = [[prompt in words for prompt in prompts] for words in seen]
    assert known == [[True, False, False], [True, True, False], [True, True, True]], "each has the turns before it"
    read = await stored(harness, name)
    answers = [message for message in read["messages"] if message["role"] == "assistant"]
    assert [texts(answer) for answer in answers] == [answer.text for answer in shown.answers]
    assert "bye" in shown.answers[2].text
    ends = [first, second, third]
    assert [(answer["costUsd"], answer["durationMs"]) for answer in answers] == [
        (end["costUsd"], end["durationMs"]) for end in ends
    ]
    assert all(end["costUsd"] > 0 and end["durationMs"] > 0 for end in ends)
    assert read["totalCostUsd"] == pytest.approx(sum(end["costUsd"] for end in ends))
    # The agent's own total grows from turn to turn: the last result includes all turns.
    assert third["costUsd"] < read["totalCostUsd"]
    assert (read["messageCount"], read["status"]) == (6, "idle")


@on_versions()
@pytest.mark.rules("S002-018", "S002-050", "S002-051", "S002-053")
async def test_interrupts_an_error_and_attachments_in_one_conversation(
    harness: GatewayHarness, model: ScriptedModel
) -> None:
    client = CognovaClient()
    async with peer_at(harness.gateway.url, harness.gateway.token, client) as peer:
        name = await peer.begin("SCRIPT:slow 600")
        await peer.until("text_delta")
        await peer.say("chat:interrupt", conversationId=name)
        await peer.until("interrupted")
        (answer,) = client.conversations[name].answers
        assert answer.status == "interrupted" and answer.text
        read = await stored(harness, name)
        assert texts(read["messages"][1]) == answer.text
        assert (read["status"], read["messageCount"]) == ("interrupted", 2)

        await peer.send("SCRIPT:slowtool 60", name)
        await allow(peer)
        await peer.until("permission_resolved")
        await peer.say("chat:interrupt", conversationId=name)
        await peer.until("interrupted")
        ended = [frame for frame in peer.frames if frame["type"] == "chat:tool_end"]
        assert [end["isError"] for end in ended] == [True]
        assert "chat:stream_end" not in {frame["type"] for frame in peer.frames}

        await peer.send("SCRIPT:text still here", name)
        await peer.until("stream_end")
        assert "still here" in client.conversations[name].answers[-1].text
        await an_error_of_the_api_is_reported_and_a_second_message_waits_its_turn(peer, name)
        await what_is_attached_reaches_the_model(harness, peer, name, model)


async def an_error_of_the_api_is_reported_and_a_second_message_waits_its_turn(peer: Peer, name: str) -> None:
    before = len(peer.kinds())
    await peer.send("SCRIPT:error 400", name)
    await peer.send("SCRIPT:text after", name)
    error = await peer.until("error")
    assert error["conversationId"] == name and "400" in error["message"]
    await peer.until("stream_end")
    await peer.until("stream_end")
    order = [kind for kind in peer.kinds()[before:] if kind in ("stream_start", "stream_end")]
    assert order == ["stream_start", "stream_end"] * 2
    assert "after" in peer.client.conversations[name].answers[-1].text


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one point."""


async def what_is_attached_reaches_the_model(
    harness: GatewayHarness, peer: Peer, name: str, model: ScriptedModel
) -> None:
    image = {"type": "base64", "media_type": "image/png", "data": DOT}
    notes = {"type": "text", "media_type": "text/plain", "data": "words of a note"}
    attached = {
        "attachments": [{"type": "image", "source": image}],
        "documents": [{"type": "document", "source": notes, "title": "notes"}],
    }
    await peer.send("SCRIPT:text seen", name, **attached)
    await peer.until("stream_end")
    assert "seen" in peer.client.conversations[name].answers[-1].text
    asked = model.of("text")[-1]
    blocks = [
        block
        for message in asked.since_last_answer
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    kinds = [block["type"] for block in blocks if block["type"] != "text"]
    assert kinds == ["image", "document"]
    assert "words of a note" in str(asked.since_last_answer)
    stored_kinds = [block["type"] for block in (await stored(harness, name))["messages"][-2]["content"]]
    assert stored_kinds == ["image", "document", "text"]


@on_versions(NEWEST)
async def test_a_peer_that_was_away_and_one_that_was_there(harness: GatewayHarness) -> None:
    client = CognovaClient()
    token = harness.gateway.token
    async with peer_at(harness.gateway.url, token) as there:
        async with peer_at(harness.gateway.url, token, client) as peer:
            name = await peer.begin("SCRIPT:slow 60")
            await there.say("chat:subscribe", conversationId=name, lastSeq=0)
            await peer.until("text_delta")
        await there.until("stream_end")
        async with peer_at(harness.gateway.url, token, client) as peer:
            sent: list[str] = []
            client.opened(sent.append)
            await peer.socket.send(sent[0])
            await peer.until("stream_end")
        assert client.conversations[name].answers == there.client.conversations[name].answers
        assert texts((await stored(harness, name))["messages"][1]) == client.conversations[name].answers[0].text
