"""The subscribe socket over the real server and core: connecting, history, live frames, and reconnecting."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from clients.mylifedb.harness import MyLifeDbGateway, Tab, open_gateway
from fairlead.model.agents import Exit
from fairlead.model.commands import Delete
from fairlead.model.errors import AgentMissing, Unavailable
from fairlead.model.ids import SessionId
from fairlead_testing.mylifedb_client import MyLifeDbClient
from patience import PATIENCE
from sessions.harness import SESSION, FakeAgent

OTHER = SessionId("22222222-2222-4222-8222-222222222222")


async def talked(gateway: MyLifeDbGateway, turns: int = 2) -> FakeAgent:
    """Open a session and play some turns in it."""
    await gateway.core.open()
    for number in range(turns):
        await gateway.core.send(f"prompt {number}")
        agent = await gateway.core.kind.launched()
        await agent.prompted()
        if not number:
            await agent.ready()
        await agent.text(f"answer {number}")
        await agent.result()
        await gateway.core.until(lambda: gateway.core.loaded().core.interpreter.turn is None)
    return agent


async def stream(agent: FakeAgent, *texts: str, start: bool = True, block: int = 0) -> None:
    """Stream pieces of one text block of the message `msg_s`."""
    head = {"type": "stream_event", "session_id": SESSION, "parent_tool_use_id": None}
    events: list[dict[str, Any]] = []
    if start:
        message = {"id": "msg_s", "type": "message", "role": "assistant", "model": "opus", "content": [], "usage": {}}
        events.append({"type": "message_start", "message": message})
        events.append({"type": "content_block_start", "index": block, "content_block": {"type": "text", "text": ""}})
    for text in texts:
        delta = {"type": "text_delta", "text": text}
        events.append({"type": "content_block_delta", "index": block, "delta": delta})
    await agent.say(*({**head, "uuid": agent._uuid("stream"), "event": event} for event in events))


async def level(tab: Tab) -> None:
    """Wait until earlier requests are answered: an unknown mode is answered at once and only to the sender."""
    mark = f"mark-{len(tab.frames)}"
    request = {"subtype": "set_permission_mode", "mode": "none-such"}
    await tab.say(type="control_request", request_id=mark, request=request)
    await tab.until(lambda frame: frame.get("request_id") == mark)


# --- connecting


@pytest.mark.rules("S000-197", "S000-198", "S000-211", "S000-212")
@pytest.mark.parametrize("session", [OTHER, "no-uuid", SESSION[:-1]])
async def test_an_unknown_session_is_404_before_the_upgrade(gateway: MyLifeDbGateway, session: str) -> None:
    headers = {"authorization": f"Bearer {gateway.admin}"}
    with pytest.raises(InvalidStatus) as refused:
        async with connect(gateway.address(session=session), additional_headers=headers, proxy=None):
            pass
    assert refused.value.response.status_code == 404
    assert refused.value.response.body == b'{"error":"Session not found"}'


@pytest.mark.rules("S000-220", "S000-221")
async def test_the_upgrade_needs_a_credential_and_nothing_more(
    gateway: MyLifeDbGateway,
) -> None:
    await gateway.core.open()
    for headers in ({}, {"authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(gateway.address(), additional_headers=headers, proxy=None):
                pass
        assert refused.value.response.status_code == 401
    async with gateway.tab() as tab:
        await level(tab)


async def test_the_token_may_be_in_the_query(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 1)
    token = await gateway.token("view")
    async with connect(gateway.address(f"?access_token={token}"), proxy=None) as socket:
        assert b'"type":"user"' in (await asyncio.wait_for(socket.recv(decode=False), PATIENCE))


@pytest.mark.rules("S000-222")
async def test_a_foreign_origin_is_refused_whatever_the_token(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    headers = {"authorization": f"Bearer {gateway.admin}", "origin": "https://elsewhere.example"}
    with pytest.raises(InvalidStatus) as refused:
        async with connect(gateway.address(), additional_headers=headers, proxy=None):
            pass
    assert refused.value.response.status_code == 403


@pytest.mark.rules("S000-002", "S000-011", "S000-012", "S000-150", "S000-200", "S000-202")
async def test_every_client_gets_all_history_in_order_without_asking(gateway: MyLifeDbGateway) -> None:
    await talked(gateway)
    async with gateway.tab() as first, gateway.tab() as second:
        for tab in (first, second):
            await tab.until(lambda frame: frame["type"] == "result")
            await tab.until(lambda frame: frame["type"] == "result")
            assert tab.kinds() == ["user", "system", "assistant", "result", "user", "assistant", "result"]
        assert first.frames == second.frames
        assert [message.content for message in first.client.state.messages if message.role == "user"] == [
            "prompt 0",
            "prompt 1",
        ]
        sent = len(first.frames)
        await level(first)
        assert len(first.frames) == sent + 1, "nothing new was said, and nothing but the answer is sent"


@pytest.mark.rules("S000-005", "S000-006", "S000-198")
async def test_a_session_without_history_sends_nothing_until_the_first_message(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        await level(tab)
        assert tab.kinds() == ["control_response"]
        agent = await prompt(gateway, tab, "hello")
        await agent.text("Hi.")
        await tab.until("assistant")
        assert tab.kinds_seen == {str}


@pytest.mark.rules("S000-004")
async def test_each_socket_gets_only_its_own_session(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 1)
    await gateway.core.open(OTHER)
    async with gateway.tab() as one, gateway.tab(session=OTHER) as other:
        await one.until("result")
        history = len(one.frames)
        await gateway.core.send("for the other", OTHER)
        await gateway.core.send("for this one")
        said = await other.until("user")
        assert said["message"]["content"] == "for the other"
        assert (await one.until("user"))["message"]["content"] == "for this one"
        await level(one)
        await level(other)
        assert "for this one" not in str(other.frames) and "prompt 0" not in str(other.frames)
        assert "for the other" not in str(one.frames[history:])


@pytest.mark.rules("S000-146")
async def test_connecting_starts_no_process(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        await level(tab)
        assert gateway.core.kind.agents == []


async def prompt(gateway: MyLifeDbGateway, tab: Tab, text: str, number: int = 1) -> FakeAgent:
    await tab.say(type="user_message", content=text)
    agent = await gateway.core.kind.launched(number)
    await agent.prompted()
    return agent


# --- live


@pytest.mark.rules("S000-016", "S000-017", "S000-018", "S000-020", "S000-037", "S000-038", "S000-201")
async def test_a_message_is_echoed_with_the_agents_uuid_and_answered(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab, gateway.tab() as other:
        for number, text in enumerate(("first", "zweite: ü ☃ 🚢"), 1):
            agent = await prompt(gateway, tab, text)
            echo = await tab.until("user")
            handed = agent.written[-1].raw
            assert echo["uuid"].encode() in handed
            assert echo["message"] == {"role": "user", "content": text}
            await agent.text(f"answer {number}")
            assert (await tab.until("assistant"))["parentUuid"] == echo["uuid"]
            await agent.result()
            await tab.until("result")
        await other.until(lambda frame: frame["type"] == "result")
        await other.until(lambda frame: frame["type"] == "result")
        assert other.frames == tab.frames


@pytest.mark.rules("S000-009")
async def test_a_message_is_accepted_while_the_server_is_sending(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        agent = await prompt(gateway, tab, "hello")
        await stream(agent, "Half ")
        await tab.until("stream_event")
        await tab.say(type="user_message", content="meanwhile", id="m-1")
        await tab.until("ack")
        await stream(agent, "a sentence", start=False)
        await tab.until(lambda frame: "a sentence" in str(frame.get("event")))
        assert tab.client.state.streaming_text == "Half a sentence", "and the answer goes on"


@pytest.mark.rules("S000-104", "S000-127", "S000-130")
async def test_stream_events_are_forwarded_and_not_part_of_history(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    texts = [f"piece {number} " for number in range(200)]
    async with gateway.tab() as tab:
        agent = await prompt(gateway, tab, "hello")
        await tab.until("user")
        await stream(agent, *texts)
        await tab.until(lambda frame: frame["type"] == "stream_event" and "piece 199" in str(frame))
        assert tab.client.state.streaming_text == "".join(texts)
        await agent.text("".join(texts), "msg_s")
        await tab.until("assistant")
        assert tab.client.state.streaming_text == ""
        await agent.result()
        await tab.until("result")
    async with gateway.tab() as late:
        await late.until("result")
        assert "stream_event" not in late.kinds()


@pytest.mark.rules("S000-128", "S000-130")
async def test_a_client_connecting_mid_message_receives_the_text_so_far(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        agent = await prompt(gateway, tab, "hello")
        await stream(agent, "Half ", "a ")
        await tab.until(lambda frame: "a " in str(frame.get("event")))
        async with gateway.tab() as late:
            await late.until("stream_event")
            await gateway.core.clock.advance(0.24)
            await stream(agent, "sentence", start=False)
            for both in (tab, late):
                await both.until(lambda frame: "sentence" in str(frame.get("event")))
            assert tab.client.state.streaming_text == late.client.state.streaming_text == "Half a sentence"


@pytest.mark.rules("S000-013", "S000-148", "S000-151")
async def test_messages_during_the_history_burst_arrive_once_and_in_order(gateway: MyLifeDbGateway) -> None:
    agent = await talked(gateway, 3)
    await gateway.core.send("more")
    await agent.prompted()

    async def saying() -> None:
        for number in range(100):
            await agent.text(f"line {number}")

    talking = asyncio.create_task(saying())
    async with contextlib.AsyncExitStack() as stack:
        tabs = [await stack.enter_async_context(gateway.tab(ready=False)) for _ in range(8)]
        await talking
        await agent.result()
        for tab in tabs:
            await tab.until(lambda frame: frame["type"] == "assistant" and "line 99" in str(frame))
            await tab.until("result")
            assert len(tab.uuids()) == len(set(tab.uuids()))
        assert all(tab.frames == tabs[0].frames for tab in tabs)
        contents = [frame["message"]["content"] for frame in tabs[0].frames if frame["type"] == "assistant"]
        texts = [content[0]["text"] for content in contents]
        assert texts == [*(f"answer {number}" for number in range(3)), *(f"line {number}" for number in range(100))]


@pytest.mark.rules("S000-155", "S000-156", "S000-203", "S000-204", "S000-205")
async def test_a_turn_continues_without_its_client_and_a_reconnect_shows_everything_once(
    gateway: MyLifeDbGateway,
) -> None:
    await gateway.core.open()
    client = MyLifeDbClient()
    async with gateway.tab(client=client) as tab:
        agent = await prompt(gateway, tab, "hello")
        await tab.until("user")
    await agent.text("said to nobody")
    await agent.result()
    async with gateway.tab(client=client) as tab:
        await tab.until("result")
        assert [message.content for message in client.state.messages] == ["hello", "said to nobody"]
        await prompt(gateway, tab, "again")
        await tab.until(lambda frame: frame.get("message") == {"role": "user", "content": "again"})
        await agent.text("answered")
        await tab.until("assistant")
    assert [message.content for message in client.state.messages][2:] == ["again", "answered"]


@pytest.mark.rules("S000-152", "S000-153", "S000-154")
async def test_a_client_that_leaves_leaves_nothing_behind(gateway: MyLifeDbGateway) -> None:
    await talked(gateway)
    await gateway.core.until(lambda: not gateway.app.dispatcher.tasks._tasks)
    tasks = len(asyncio.all_tasks())
    for _ in range(30):
        async with gateway.tab():
            pass
    feed = gateway.core.registry.feed(SESSION)
    await gateway.core.until(lambda: not feed.names)
    await gateway.core.until(lambda: len(asyncio.all_tasks()) <= tasks + 1)


# --- resuming from a position


@pytest.mark.rules("S000-226", "S000-227")
async def test_resuming_from_a_uuid_sends_only_later_records(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 3)
    async with gateway.tab() as tab:
        for _ in range(3):
            await tab.until("result")
        everything = tab.frames
    uuid = everything[3]["uuid"]
    async with gateway.tab(f"?fromUuid={uuid}") as tab:
        for _ in range(2):
            await tab.until("result")
        assert tab.frames == [{"type": "resume", "verdict": "ok", "fromUuid": uuid}, *everything[4:]]
    async with gateway.tab(f"?fromUuid={OTHER}") as tab:
        for _ in range(3):
            await tab.until("result")
        assert tab.frames == [{"type": "resume", "verdict": "gap", "fromUuid": OTHER}, *everything]


@pytest.mark.rules("S000-226", "S000-227")
async def test_a_subscribe_frame_restarts_the_replay(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 2)
    async with gateway.tab() as tab:
        await tab.until("result")
        await tab.until("result")
        everything = list(tab.frames)
        uuid = everything[-2]["uuid"]
        await tab.say(type="subscribe", fromUuid=uuid)
        assert await tab.until("resume") == {"type": "resume", "verdict": "ok", "fromUuid": uuid}
        assert await tab.until("result") == everything[-1]
        await tab.say(type="subscribe", fromUuid=7)
        await tab.say(type="subscribe")
        await level(tab)
        assert tab.frames[len(everything) + 2 :] == [tab.frames[-1]], "nothing else was said"


@pytest.mark.rules("S000-217")
async def test_the_last_records_only(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 3)
    async with gateway.tab("?last=2") as tab:
        await tab.until("result")
        await level(tab)
        assert tab.kinds() == ["assistant", "result", "control_response"]
    async with gateway.tab("?last=-1") as tab:
        for _ in range(3):
            await tab.until("result")


# --- spellings


@pytest.mark.rules("S000-219")
async def test_messagepack_sends_the_same_content_in_binary_frames(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 1)
    async with gateway.tab() as tab, gateway.tab(subprotocols=[Subprotocol("msgpack")]) as packed:
        await tab.until("result")
        await packed.until("result")
        assert packed.frames == tab.frames
        assert (tab.kinds_seen, packed.kinds_seen) == ({str}, {bytes})
        await packed.say(type="user_message", content="packed")
        await packed.until(lambda frame: frame.get("message") == {"role": "user", "content": "packed"})
        await packed.socket.send('{"type":"user_message","content":"text is not heard here"}')
        await level(tab)
    assert "not heard" not in str(tab.frames)


@pytest.mark.rules("S000-007")
async def test_text_frames_of_a_client_are_read_and_binary_frames_ignored(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    message = {"type": "user_message", "content": "not heard"}
    async with gateway.tab() as tab:
        await tab.socket.send(msgspec.json.encode(message))
        await tab.socket.send(msgspec.msgpack.encode(message))
        await level(tab)
        await tab.socket.send('{"type":"user_message","content":"heard"}')
        assert (await tab.until("user"))["message"]["content"] == "heard"
    assert "not heard" not in str(await gateway.core.log())


@pytest.mark.rules("S000-225")
async def test_compression_where_it_is_offered_and_asked_for(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 1)
    async with gateway.tab("?compress=1", compression="deflate") as tab:
        assert "permessage-deflate" in tab.extensions
        await tab.until("result")
        text = "much the same " * 5000
        await tab.say(type="user_message", content=text)
        assert (await tab.until("user"))["message"]["content"] == text
    async with gateway.tab(compression="deflate") as tab:
        assert not tab.extensions


@pytest.mark.rules("S000-044", "S000-045")
@pytest.mark.parametrize(
    "bad",
    [
        "",
        "{",
        "[]",
        "7",
        '"text"',
        "{}",
        '{"type":7}',
        '{"type":"ping"}',
        '{"type":"user_message"}',
        '{"type":"user_message","content":7}',
        '{"type":"user_message","content":""}',
        '{"type":"control_request"}',
        '{"type":"control_request","request_id":"x","request":{"subtype":"none"}}',
        '{"type":"control_response","request_id":"x"}',
        '{"type":"control_response","request_id":"x","response":{"response":{"behavior":"maybe"}}}',
        '{"type":"tool_result","tool_use_id":7,"content":"x"}',
        '{"type":"typing","isTyping":"yes"}',
        '{"type":"ack","uuid":7}',
        b"\x00\x01",
    ],
)
async def test_a_frame_that_means_nothing_is_ignored(gateway: MyLifeDbGateway, bad: str | bytes) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        await tab.socket.send(bad)
        await level(tab)
        assert tab.kinds() == ["control_response"]
    assert (await gateway.core.kinds()) == ["session.opened"]


# --- errors


@pytest.mark.rules("S000-095", "S000-096")
async def test_an_undeliverable_message_is_reported_only_to_its_sender(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    gateway.core.kind.failures.append(AgentMissing("There is no claude."))
    async with gateway.tab() as tab, gateway.tab() as other:
        await tab.say(type="user_message", content="hello")
        assert await tab.until("error") == {"type": "error", "error": "Failed to send message to session"}
        assert tab.client.notices == ["Failed to send message to session"]
        for both in (tab, other):
            await both.until("result")
            assert not both.client.state.working
        await level(other)
        assert "error" not in other.kinds()


@pytest.mark.rules("S000-097")
async def test_clients_of_a_deleted_session_receive_not_found(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 1)
    async with gateway.tab() as tab:
        await tab.until("result")
        await gateway.core.do(Delete(session=SESSION))
        assert await tab.until("error") == {"type": "error", "error": "Session not found"}
        assert await tab.closed() == 1011


@pytest.mark.rules("S000-098")
async def test_a_store_fault_is_an_error_frame_and_the_socket_stays_open(
    gateway: MyLifeDbGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.core.open()

    async def full(*args: Any, **kwargs: Any) -> int:
        raise Unavailable("The disk is full.")

    async with gateway.tab() as tab:
        await level(tab)
        with monkeypatch.context() as patched:
            patched.setattr(gateway.core.store, "append", full)
            await tab.say(type="user_message", content="hello")
            await tab.until("error")
        await prompt(gateway, tab, "once more")
        await tab.until("user")


async def test_a_client_without_the_scope_may_read_and_gets_an_error_when_it_sends(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 1)
    token = await gateway.token("view")
    async with gateway.tab(token=token) as tab:
        await tab.until("result")
        await tab.say(type="user_message", content="hello")
        assert await tab.until("error") == {"type": "error", "error": "Failed to send message to session"}
        await tab.say(type="typing", isTyping=True)
    assert "hello" not in str(await gateway.core.log())


async def test_an_agent_that_dies_ends_the_turn_for_every_client(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        agent = await prompt(gateway, tab, "hello")
        await stream(agent, "Half ")
        await agent.die(Exit(code=1))
        ended = await tab.until("result")
        assert (ended["subtype"], ended["is_error"]) == ("error_during_execution", True)
        assert not tab.client.state.working and tab.client.state.streaming_text == ""


# --- the log


async def test_sent_frames_are_logged_per_client_with_counts(
    gateway: MyLifeDbGateway, caplog: pytest.LogCaptureFixture
) -> None:
    await talked(gateway, 1)
    caplog.set_level("DEBUG", "fairlead")
    async with gateway.tab() as tab:
        await tab.until("result")
        await level(tab)
        await prompt(gateway, tab, "more")
        await tab.until("user")
    await gateway.core.until(lambda: any(line.message == "disconnect" for line in caplog.records))
    logged = {line.message: vars(line) for line in caplog.records if line.name.startswith("fairlead.")}
    assert [
        name for name in ("connect", "subscribe", "history sent", "new sent", "disconnect") if name not in logged
    ] == []
    sent = logged["history sent"]
    assert (sent["session"], sent["who"], sent["entries"], sent["levelname"]) == (SESSION, "owner (ann)", 4, "INFO")
    assert logged["new sent"]["up_to"] == 5
    assert gateway.admin not in caplog.text


async def test_a_session_is_found_by_its_agents_own_id_too(gateway: MyLifeDbGateway) -> None:
    agent = await talked(gateway, 1)
    await gateway.core.send("more")
    await agent.prompted()
    init = {"type": "system", "subtype": "init", "uuid": "i-2", "session_id": OTHER, "model": "opus", "cwd": "/"}
    await agent.say({**init, "permissionMode": "default", "tools": [], "mcp_servers": [], "slash_commands": []})
    await gateway.core.until(lambda: gateway.core.loaded().core.state.agent_session == OTHER)
    async with gateway.tab(session=OTHER) as tab, gateway.tab() as ours:
        await agent.text("to both")
        for both in (tab, ours):
            await both.until(lambda frame: "to both" in str(frame))
        assert tab.frames == ours.frames


# --- another gateway


async def test_a_restarted_gateway_continues_from_the_clients_position(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        agent = await talked(gateway, 2)
        await gateway.core.send("more")
        await agent.prompted()
        async with gateway.tab() as tab:
            await tab.until(lambda frame: frame.get("message") == {"role": "user", "content": "more"})
            before = list(tab.frames)
        await agent.ask("R1", "toolu_1", "Write", file_path="/x", content="y")
    async with open_gateway(tmp_path) as gateway:
        async with gateway.tab(f"?fromUuid={before[-1]['uuid']}") as tab:
            assert (await tab.until("resume"))["verdict"] == "ok"
            await tab.until("control_cancel_request")
            assert (await tab.until("result"))["is_error"] is True
            assert tab.client.state.requests == {}
            after = tab.frames[1:]
        async with gateway.tab() as tab:
            await tab.until(lambda frame: frame == after[-1])
            assert tab.frames == [*before, *after]
