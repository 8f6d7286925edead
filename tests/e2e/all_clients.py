"""One session of a gateway, open at once in a client of each protocol."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import connect

from clients.acp.acp_harness import EVERYTHING, Editor, editor_at
from clients.claudecodeui.chat_harness import Peer as AppPeer
from clients.claudecodeui.chat_harness import peer_at as app_at
from clients.cognova.chat_harness import Peer, peer_at
from clients.direct.harness import DirectPeer, connect_peer
from clients.mylifedb.harness import Tab
from e2e.gateway_harness import GatewayHarness
from fairlead_testing.happy_client import HappyClient
from fairlead_testing.mylifedb_client import MyLifeDbClient
from patience import PATIENCE


class Listener:
    """Passes every frame of a socket to `take`; `until` waits for a condition on them."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take
        self._news = asyncio.Condition()

    async def listen(self, socket: Any) -> None:
        async for frame in socket:
            async with self._news:
                self._take(json.loads(frame))
                self._news.notify_all()

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(true)


@contextlib.asynccontextmanager
async def happy(harness: GatewayHarness) -> AsyncIterator[tuple[HappyClient, Listener]]:
    client = HappyClient()

    def take(frame: Any) -> None:
        if "content" in frame:
            assert client.receive(frame["meta"]["seq"], frame)

    listener = Listener(take)
    url = f"{harness.gateway.url.replace('http', 'ws', 1)}/v1/sessions/{harness.session}/envelopes"
    async with connect(url, additional_headers={"Authorization": f"Bearer {harness.gateway.token}"}) as socket:
        listening = asyncio.create_task(listener.listen(socket))
        try:
            yield client, listener
        finally:
            listening.cancel()
            await asyncio.wait({listening})


@contextlib.asynccontextmanager
async def mylifedb(harness: GatewayHarness) -> AsyncIterator[Tab]:
    url = f"{harness.gateway.url.replace('http', 'ws', 1)}/api/claude/sessions/{harness.session}/subscribe"
    headers = {"Authorization": f"Bearer {harness.gateway.token}"}
    async with connect(url, additional_headers=headers, max_size=None) as socket:
        tab = Tab(socket, MyLifeDbClient(), patience=PATIENCE)
        listening = asyncio.create_task(tab.listen())
        try:
            yield tab
        finally:
            await socket.close()
            await asyncio.wait({listening})


@contextlib.asynccontextmanager
async def cognova(harness: GatewayHarness) -> AsyncIterator[Peer]:
    async with peer_at(harness.gateway.url, harness.gateway.token) as peer:
        await peer.say("chat:subscribe", conversationId=harness.session)
        await peer.until("subscribed")
        yield peer


@contextlib.asynccontextmanager
async def claudecodeui(harness: GatewayHarness) -> AsyncIterator[AppPeer]:
    async with app_at(harness.gateway.url, harness.gateway.token) as peer:
        await peer.subscribe(harness.session)
        yield peer


@contextlib.asynccontextmanager
async def acp(harness: GatewayHarness) -> AsyncIterator[Editor]:
    async with editor_at(harness.gateway.url, harness.gateway.token) as editor:
        await editor.initialize(EVERYTHING)
        await editor.load(harness.session)
        yield editor


def happy_words(client: HappyClient) -> list[str]:
    return [part.get("text", "") for shown in client.state.shown for part in shown.content if part["type"] == "text"]


def over(client: HappyClient) -> list[str]:
    return [turn.status for turn in client.state.turns if turn.status]


@dataclass
class Clients:
    """A client of each protocol: `tab` is MyLifeDB's, `envelopes` Happy's (`hearing` waits for them), `peer` Cognova's,
    `app` claudecodeui's, `editor` has ACP.
    """

    tab: Tab
    envelopes: HappyClient
    hearing: Listener
    direct: DirectPeer
    peer: Peer
    app: AppPeer
    editor: Editor


@contextlib.asynccontextmanager
async def all_clients(harness: GatewayHarness) -> AsyncIterator[Clients]:
    async with (
        mylifedb(harness) as tab,
        happy(harness) as (envelopes, hearing),
        connect_peer(harness.gateway, harness.session) as direct,
        cognova(harness) as peer,
        claudecodeui(harness) as app,
        acp(harness) as editor,
    ):
        yield Clients(tab, envelopes, hearing, direct, peer, app, editor)


async def answered_on_one(
    harness: GatewayHarness, clients: Clients, answering: str, earlier: list[str], script: str = "bash"
) -> None:
    """A permission is answered on one client, and settled on all. The requests of the `earlier` turns were settled
    before; this turn adds one. `script`: the script of the model that runs a command.
    """
    target = harness.cwd / answering
    tab, envelopes, hearing = clients.tab, clients.envelopes, clients.hearing
    direct, peer, app, editor = clients.direct, clients.peer, clients.app, clients.editor
    await harness.send(f"SCRIPT:{script} touch {target}")
    asked = await harness.until("permission.asked")
    shown = await tab.until("control_request")
    await direct.until(lambda client: client.pending)
    await hearing.until(lambda: any(str(target) in str(item.content) for item in envelopes.state.shown))
    chatted = await peer.until("permission_request")
    in_app = await app.until("permission_request")
    card = await editor.request(harness.session)
    requests = {
        shown["request_id"],
        asked["request"],
        *direct.client.pending,
        chatted["requestId"],
        in_app["requestId"],
        card["id"].partition("/")[2],
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
        case "acp":
            await editor.choose(harness.session, "allow")
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
    shown_in_editor = editor.of(harness.session)
    await editor.until_status(harness.session, asked["call"], "completed")
    assert shown_in_editor.requests == {}
    (conversation,) = peer.client.conversations.values()
    assert (conversation.requests, conversation.settled) == ({}, earlier)
    assert target.exists()
    (words,) = harness.texts()
    # The model answers the same in each turn: each client has the text once per turn.
    assert happy_words(envelopes).count(words) == len(earlier)
    assert words in conversation.answers[-1].text and len(conversation.answers) == len(earlier)
    rows = app.client.sessions[harness.session].rows
    assert [row["content"] for row in rows if row["kind"] == "text"].count(words) == len(earlier)
    await editor.until(lambda: shown_in_editor.text().count(words) == len(earlier))
    for messages in (tab.frames, direct.client.messages):
        answers = [message for message in messages if message["type"] == "assistant"]
        texts = [block.get("text") for message in answers for block in message["message"]["content"]]
        assert texts.count(words) == len(earlier)
    assert {line["call"] for line in harness.all("tool.called")} == set(conversation.answers[-1].tools)
    calls = {line["call"] for line in (*harness.earlier, *harness.events) if line["type"] == "tool.called"}
    assert calls == set(envelopes.state.results) == set(shown_in_editor.calls)
    assert calls == {row["toolId"] for row in rows if row["kind"] == "tool_result"}
    assert envelopes.state.calls == {}


async def each_sends_a_prompt(harness: GatewayHarness, clients: Clients) -> None:
    """A client of each protocol sends a prompt, and all of them show all answers."""
    tab, envelopes, hearing = clients.tab, clients.envelopes, clients.hearing
    direct, peer, app, editor = clients.direct, clients.peer, clients.app, clients.editor
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
    prompt = await editor.prompt(harness.session, "SCRIPT:text acp")
    await harness.until("turn.ended")
    assert await editor.answer_to(prompt) == {"stopReason": "end_turn"}
    names = ["native", "mylifedb", "direct", "happy", "cognova", "claudecodeui", "acp"]
    await hearing.until(lambda: len(over(envelopes)) == len(names))
    assert [text.split()[-1] for text in harness.texts()] == names
    for name in names:
        assert any(name in word for word in happy_words(envelopes))
    await tab.until(lambda frame: frame["type"] == "assistant" and names[-1] in str(frame["message"]))
    received = [str(frame["message"]) for frame in tab.frames if frame["type"] == "assistant"]
    assert [next(name for name in names if name in words) for words in received] == names
    await direct.until(lambda client: len([m for m in client.messages if m["type"] == "result"]) == len(names))
    for _ in names:
        await peer.until("stream_end")
        await app.until("complete")
    (conversation,) = peer.client.conversations.values()
    assert [answer.text.split()[-1] for answer in conversation.answers] == names
    texts = [row["content"] for row in app.client.sessions[harness.session].rows if row["kind"] == "text"]
    assert [text.split()[-1] for text in texts] == names
    shown = editor.of(harness.session)
    said = [message.text for message in shown.messages if message.kind == "agent_message_chunk"]
    assert [text.split()[-1] for text in said] == names
    assert shown.text("user_message_chunk").count("SCRIPT:") == len(names) - 1, "its own prompt is not repeated"
