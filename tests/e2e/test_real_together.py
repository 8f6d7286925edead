"""One live session of the real CLI, open at once in a client of each protocol: all see the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.all_clients import Clients, all_clients, happy_words, over
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, OLDEST, on_versions


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        yield opened


@on_versions(NEWEST)
async def test_a_permission_that_is_answered_on_one_is_seen_as_answered_on_all(harness: GatewayHarness) -> None:
    await harness.open()
    requests: list[str] = []
    async with all_clients(harness) as clients:
        for answering in ("native", "mylifedb", "direct", "cognova", "claudecodeui"):
            harness.scene()
            await answered_on_one(harness, clients, answering, requests)


async def answered_on_one(harness: GatewayHarness, clients: Clients, answering: str, earlier: list[str]) -> None:
    """The requests of the `earlier` turns were settled before; this turn adds one."""
    target = harness.cwd / answering
    tab, envelopes, hearing = clients.tab, clients.envelopes, clients.hearing
    direct, peer, app = clients.direct, clients.peer, clients.app
    await harness.send(f"SCRIPT:bash touch {target}")
    asked = await harness.until("permission.asked")
    shown = await tab.until("control_request")
    await direct.until(lambda client: client.pending)
    await hearing.until(lambda: any(str(target) in str(item.content) for item in envelopes.state.shown))
    chatted = await peer.until("permission_request")
    in_app = await app.until("permission_request")
    requests = {
        shown["request_id"],
        asked["request"],
        *direct.client.pending,
        chatted["requestId"],
        in_app["requestId"],
    }
    assert len(requests) == 1
    match answering:
        case "native":
            await harness.answer(asked)
        case "mylifedb":
            answer = {"subtype": "success", "response": {"behavior": "allow"}}
            await tab.say(type="control_response", request_id=asked["request"], response=answer)
        case "direct":
            direct.client.respond_to_permission(asked["request"], "allow")
            await direct.flush()
        case "cognova":
            await peer.say("chat:permission_response", requestId=asked["request"], allow=True)
        case "claudecodeui":
            await app.say("chat.permission-response", requestId=asked["request"], allow=True)
    resolved = await harness.until("permission.resolved")
    assert (resolved["request"], resolved["behavior"]) == (asked["request"], "allow")
    assert (await tab.until("control_response"))["behavior"] == "allow"
    assert (await direct.result())["subtype"] == "success"
    assert direct.client.pending == {}
    await tab.until("result")
    assert (await harness.until("turn.ended"))["status"] == "completed"
    earlier.append(asked["request"])
    await hearing.until(lambda: len(over(envelopes)) == len(earlier))
    assert over(envelopes) == ["completed"] * len(earlier)
    await peer.until("stream_end")
    settled = await app.until("permission_cancelled")
    assert (settled["requestId"], settled["reason"], settled["allow"]) == (asked["request"], "answered", True)
    assert (await app.until("complete"))["success"] is True
    (conversation,) = peer.client.conversations.values()
    assert (conversation.requests, conversation.settled) == ({}, earlier)
    assert target.exists()
    (words,) = harness.texts()
    # The model answers the same in each turn: each client has the text once per turn.
    assert happy_words(envelopes).count(words) == len(earlier)
    assert words in conversation.answers[-1].text and len(conversation.answers) == len(earlier)
    rows = app.client.sessions[harness.session].rows
    assert [row["content"] for row in rows if row["kind"] == "text"].count(words) == len(earlier)
    for messages in (tab.frames, direct.client.messages):
        answers = [message for message in messages if message["type"] == "assistant"]
        texts = [block.get("text") for message in answers for block in message["message"]["content"]]
        assert texts.count(words) == len(earlier)
    assert {line["call"] for line in harness.all("tool.called")} == set(conversation.answers[-1].tools)
    calls = {line["call"] for line in (*harness.earlier, *harness.events) if line["type"] == "tool.called"}
    assert calls == set(envelopes.state.results)
    assert calls == {row["toolId"] for row in rows if row["kind"] == "tool_result"}
    assert envelopes.state.calls == {}


@on_versions(OLDEST, NEWEST)
async def test_each_of_them_says_something_and_all_hear_it(harness: GatewayHarness) -> None:
    await harness.open()
    async with all_clients(harness) as clients:
        tab, envelopes, hearing = clients.tab, clients.envelopes, clients.hearing
        direct, peer, app = clients.direct, clients.peer, clients.app
        await harness.turn("SCRIPT:text native")
        await tab.say(type="user_message", content="SCRIPT:text mylifedb")
        await harness.until("turn.ended")
        await direct.prompt("SCRIPT:text direct")
        await harness.until("turn.ended")
        message = {
            "localId": "one",
            "content": {"role": "user", "content": {"type": "text", "text": "SCRIPT:text happy"}},
        }
        posted = await harness.http.post(f"/v3/sessions/{harness.session}/messages", json={"messages": [message]})
        assert posted.status_code == 200, posted.text
        await harness.until("turn.ended")
        await peer.send("SCRIPT:text cognova", harness.session)
        await harness.until("turn.ended")
        await app.send(harness.session, "SCRIPT:text claudecodeui")
        await harness.until("turn.ended")
        await hearing.until(lambda: len(over(envelopes)) == 6)
        names = ["native", "mylifedb", "direct", "happy", "cognova", "claudecodeui"]
        assert [text.split()[-1] for text in harness.texts()] == names
        for name in names:
            assert any(name in word for word in happy_words(envelopes))
        await tab.until(lambda frame: frame["type"] == "assistant" and "claudecodeui" in str(frame["message"]))
        received = [str(frame["message"]) for frame in tab.frames if frame["type"] == "assistant"]
        assert [next(name for name in names if name in words) for words in received] == names
        await direct.until(lambda client: len([m for m in client.messages if m["type"] == "result"]) == 6)
        for _ in names:
            await peer.until("stream_end")
            await app.until("complete")
        (conversation,) = peer.client.conversations.values()
        assert [answer.text.split()[-1] for answer in conversation.answers] == names
        texts = [row["content"] for row in app.client.sessions[harness.session].rows if row["kind"] == "text"]
        assert [text.split()[-1] for text in texts] == names
        raw = await harness.raw()
        assert len([line for line in raw if line["type"] == "turn.ended"]) == 6
