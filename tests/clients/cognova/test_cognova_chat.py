"""One client of the chat: its frames and their order, errors, interrupts, the queue, and attachments."""

import json
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from clients.cognova.chat_harness import ChatHarness, open_chat, stream
from fairlead.model.agents import Exit
from fairlead.model.errors import AgentMissing
from fairlead.model.ids import is_uuid
from fairlead.server.limits import ServerLimits

UNKNOWN = "99999999-9999-4999-8999-999999999999"
PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
NOTES = {"type": "text", "media_type": "text/plain", "data": "words"}


@pytest.mark.rules("S002-001", "S002-003", "S002-019", "S002-020")
async def test_the_first_frame_says_that_it_is_connected(chats: ChatHarness) -> None:
    for path in ("/_ws/chat", "/cognova/_ws/chat"):
        async with chats.peer(path=path) as peer:
            await peer.until("connected")
            assert peer.frames == [{"type": "chat:connected"}]


@pytest.mark.rules("S002-004")
async def test_the_path_chat_is_not_taken(chats: ChatHarness) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with chats.peer(path="/chat"):
            pass
    assert refused.value.response.status_code == 404


async def test_a_connection_needs_a_token_and_the_originals_header_carries_one(chats: ChatHarness) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with chats.peer(token="wrong"):
            pass
    assert refused.value.response.status_code == 401
    async with chats.peer(additional_headers={"X-API-Token": chats.gateway.admin}) as peer:
        await peer.until("connected")


@pytest.mark.rules("S002-010", "S002-011", "S002-014", "S002-021", "S002-022", "S002-024", "S002-025", "S002-028")
@pytest.mark.parametrize("none", [{}, {"conversationId": None}, {"conversationId": ""}])
async def test_a_message_without_a_conversation_begins_one(chats: ChatHarness, none: dict[str, Any]) -> None:
    async with chats.peer() as peer:
        await peer.say("chat:send", message="Help me", **none)
        agent = await chats.agent()
        await agent.text("Gladly.")
        await agent.result(total_cost_usd=0.035, duration_ms=8200)
        end = await peer.until("stream_end")
        assert peer.kinds() == ["connected", "session_created", "stream_start", "text_delta", "stream_end"]
        created = peer.frames[1]
        assert created == {"type": "chat:session_created", "conversationId": created["conversationId"]}
        assert is_uuid(created["conversationId"])
        assert {frame["conversationId"] for frame in peer.frames[1:]} == {created["conversationId"]}
        assert (end["costUsd"], end["durationMs"]) == (0.035, 8200)
        assert json.loads(agent.written[0].raw)["message"]["content"] == "Help me"


@pytest.mark.rules("S002-013", "S002-015", "S002-023", "S002-029", "S002-055")
async def test_further_messages_continue_the_conversation(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("one")
        agent = await chats.agent()
        await agent.text("1")
        await agent.result(total_cost_usd=0.03)
        await peer.until("stream_end")
        for total, text in ((0.04, "two"), (0.06, "three")):
            await peer.send(text, name.upper())
            assert await agent.prompted() == text
            await agent.text(text)
            await agent.result(total_cost_usd=total)
            await peer.until("stream_end")
        assert peer.kinds()[2:] == ["stream_start", "text_delta", "stream_end"] * 3
        costs = [frame["costUsd"] for frame in peer.frames if frame["type"] == "chat:stream_end"]
        assert costs == [0.03, 0.01, 0.02]
        assert len(chats.core.kind.agents) == 1
    assert (await chats.get(f"/{name}"))["totalCostUsd"] == 0.06


BAD = [
    ({"type": "chat:send"}, "Message is required", None),
    ({"type": "chat:send", "message": 7}, "Message is required", None),
    ({"type": "chat:send", "message": " \n"}, "Message is required", None),
    ({"type": "chat:send", "conversationId": UNKNOWN}, "Message is required", UNKNOWN),
    ({"type": "chat:send", "message": "x", "conversationId": "../etc"}, "Invalid conversation id", None),
    ({"type": "chat:send", "message": "x", "conversationId": 7}, "Invalid conversation id", None),
    ({"type": "chat:send", "message": "x", "conversationId": UNKNOWN}, "Conversation not found", UNKNOWN),
    ({"type": "chat:interrupt"}, "Invalid conversation id", None),
    ({"type": "chat:interrupt", "conversationId": UNKNOWN}, "No active session to interrupt", UNKNOWN),
    ({"type": "chat:subscribe", "conversationId": "x"}, "Invalid conversation id", None),
    ({"type": "chat:subscribe", "conversationId": UNKNOWN}, "Conversation not found", UNKNOWN),
    ({"type": "chat:subscribe", "conversationId": UNKNOWN, "lastSeq": 640}, "Conversation not found", UNKNOWN),
    ({"type": "chat:subscribe", "conversationId": UNKNOWN, "lastSeq": -1}, "lastSeq must be a whole number", UNKNOWN),
    ({"type": "chat:subscribe", "conversationId": UNKNOWN, "lastSeq": "1"}, "lastSeq must be a whole number", UNKNOWN),
    ({"type": "chat:permission_response", "requestId": "r"}, "requestId and allow are required", None),
    ({"type": "chat:permission_response", "requestId": "r", "allow": "no"}, "requestId and allow are required", None),
    ({"type": "chat:permission_response", "requestId": "r", "allow": True}, "There is no pending request r.", None),
]


@pytest.mark.rules("S002-012", "S002-052", "S002-054")
async def test_a_bad_frame_is_answered_and_the_connection_stays_open(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        await peer.until("connected")
        for frame, message, conversation in BAD:
            await peer.socket.send(json.dumps(frame))
            named = {} if conversation is None else {"conversationId": conversation}
            assert await peer.until(lambda one: True) == {"type": "chat:error", **named, "message": message}, frame
        assert peer.client.errors.count("Invalid conversation id") == 4
        await peer.settled()


async def test_invalid_json_is_answered_and_unknown_messages_are_ignored(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        await peer.until("connected")
        for junk in ("not json", "{", b"\xff\xfe", "[" * 100_000):
            await peer.socket.send(junk)
            assert await peer.until(lambda one: True) == {"type": "chat:error", "message": "Invalid message format"}
        for quiet in ("[]", "null", "7", '{"type":"chat:dance"}', '{"type":7}', "{}"):
            await peer.socket.send(quiet)
        await peer.settled()
        assert peer.kinds() == ["connected", *["error"] * 4, "pong"]


ATTACHED = [
    ({"attachments": [{"type": "image", "source": PNG}]}, "look", ["image", "text"], "look"),
    ({"attachments": [{"type": "image", "source": PNG}]}, "", ["image"], "Image message"),
    ({"documents": [{"type": "document", "source": PDF}]}, "", ["document"], "File attachment"),
    (
        {
            "documents": [{"type": "document", "source": NOTES, "title": "notes"}],
            "attachments": [{"type": "image", "source": PNG}],
        },
        "both",
        ["image", "document", "text"],
        "both",
    ),
]


@pytest.mark.parametrize(("given", "message", "kinds", "title"), ATTACHED)
async def test_images_and_documents_go_to_the_agent_before_the_text(
    chats: ChatHarness, given: dict[str, Any], message: str, kinds: list[str], title: str
) -> None:
    async with chats.peer() as peer:
        name = await peer.begin(message, **given)
        agent = await chats.agent()
        content = json.loads(agent.written[0].raw)["message"]["content"]
        assert [block["type"] for block in content] == kinds
        sources = [given[part][0]["source"] for part in ("attachments", "documents") if part in given]
        assert [block["source"] for block in content if "source" in block] == sources
        await agent.result()
        await peer.until("stream_end")
    stored = await chats.get(f"/{name}")
    assert stored["title"] == title
    assert stored["messages"][0]["content"] == content
    assert [block.get("title") for block in content if block["type"] == "document"] == (
        ["notes"] if message == "both" else [None] if "documents" in given else []
    )


@pytest.mark.parametrize(
    "given",
    [
        {"attachments": {}},
        {"attachments": ["x"]},
        {"attachments": [{"type": "document", "source": PNG}]},
        {"attachments": [{"type": "image", "source": {**PNG, "media_type": "image/svg+xml"}}]},
        {"attachments": [{"type": "image", "source": {**PNG, "data": "not base64!"}}]},
        {"attachments": [{"type": "image", "source": {**PNG, "type": "url"}}]},
        {"documents": [{"type": "document", "source": {**PDF, "media_type": "text/html"}}]},
        {"documents": [{"type": "document", "source": {**PDF, "data": ""}}]},
        {"documents": [{"type": "document", "source": {**NOTES, "data": 7}}]},
        {"documents": [{"type": "document", "source": NOTES, "title": 7}]},
        {"documents": [None]},
    ],
)
async def test_a_bad_attachment_is_refused_and_starts_no_conversation(
    chats: ChatHarness, given: dict[str, Any]
) -> None:
    async with chats.peer() as peer:
        await peer.send("look", **given)
        assert (await peer.until("error"))["message"].startswith(("Invalid attachment", "Invalid document"))
    assert await chats.get("") == []


async def test_a_title_is_the_first_hundred_characters(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("ä" * 150)
        await chats.agent()
    assert (await chats.get(f"/{name}"))["title"] == "ä" * 100


@pytest.mark.rules("S002-016", "S002-017", "S002-049", "S002-050", "S002-051")
async def test_an_interrupt_ends_the_conversation_that_it_names_and_keeps_its_text(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        one = await peer.begin("one")
        first = await chats.agent(1)
        two = await peer.begin("two")
        second = await chats.agent(2)
        await stream(first, "Once ", "upon", whole=False)
        await peer.until(lambda frame: frame.get("delta") == "upon")
        await peer.say("chat:interrupt", conversationId=one)
        await chats.interrupted(first)
        interrupted = await peer.until("interrupted")
        assert (tuple(interrupted), interrupted["conversationId"]) == (("type", "conversationId", "seq"), one)
        assert second.requests == []
        await second.text("done")
        await second.result()
        assert (await peer.until("stream_end"))["conversationId"] == two
        await peer.say("chat:interrupt", conversationId=one)
        error = await peer.until("error")
        assert error == {
            "type": "chat:error",
            "conversationId": one,
            "message": "No active session to interrupt",
        }
    kept = await chats.get(f"/{one}")
    assert kept["messages"][1]["content"] == [{"type": "text", "text": "Once upon"}]
    assert (kept["status"], kept["messageCount"]) == ("interrupted", 2)
    assert (await chats.get(f"/{two}"))["status"] == "idle"


async def test_an_interrupt_reaches_the_agent_while_it_is_silent(chats: ChatHarness) -> None:
    """A long tool call produces no output: the interrupt does not wait for the agent's next message."""
    async with chats.peer() as peer:
        name = await peer.begin("sleep")
        agent = await chats.agent()
        await agent.call("toolu_1", "Bash", command="sleep 1000")
        await peer.until("tool_start")
        await peer.say("chat:interrupt", conversationId=name)
        await chats.interrupted(agent)
        await peer.until("interrupted")
        ended, interrupted = peer.frames[-2:]
        assert (ended["type"], ended["toolUseId"], ended["isError"]) == ("chat:tool_end", "toolu_1", True)
        assert interrupted["type"] == "chat:interrupted"


async def test_an_interrupt_of_background_work_alone_is_answered(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("go")
        agent = await chats.agent()
        task = {"task_id": "b1", "description": "the docs", "is_backgrounded": True, "session_id": name}
        await agent.say({"type": "system", "subtype": "task_started", "uuid": agent._uuid("task"), **task})
        await agent.result()
        await peer.until("stream_end")
        await peer.say("chat:interrupt", conversationId=name)
        assert await peer.until("interrupted") == {"type": "chat:interrupted", "conversationId": name}
        await chats.core.until(lambda: ("interrupt", None) in agent.requests)


async def test_an_interrupt_during_the_agents_start_withdraws_the_message(chats: ChatHarness) -> None:
    chats.core.kind.launch_when.clear()
    async with chats.peer() as peer:
        name = await peer.begin("hello")
        await peer.say("chat:interrupt", conversationId=name)
        assert await peer.until("interrupted") == {"type": "chat:interrupted", "conversationId": name}
        chats.core.kind.launch_when.set()
        await peer.send("again", name)
        agent = await chats.core.kind.launched()
        assert await agent.prompted() == "again"
        assert len(agent.written) == 1


@pytest.mark.rules("S002-015")
async def test_a_second_message_waits_for_its_turn_and_starts_no_second_run(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("one")
        agent = await chats.agent()
        for text in ("two", "three"):
            await peer.send(text, name)
        await chats.core.until(lambda: len(chats.core.state(name).queue) == 2)
        assert len(agent.written) == 1
        await agent.text("1")
        await agent.result()
        for text in ("two", "three"):
            assert await agent.prompted() == text
            await agent.text(text)
            await agent.result()
        for _ in range(3):
            await peer.until("stream_end")
        assert peer.kinds()[2:] == ["stream_start", "text_delta", "stream_end"] * 3
        assert [answer.text for answer in peer.client.conversations[name].answers] == ["1", "two", "three"]
        assert len(chats.core.kind.agents) == 1


@pytest.mark.rules("S002-041", "S002-042")
@pytest.mark.parametrize("length", [0, 1, 4999, 5000, 5001, 100_000])
async def test_a_result_is_truncated_in_the_frame_and_complete_in_the_log(chats: ChatHarness, length: int) -> None:
    result = "😀" * length
    async with chats.peer() as peer:
        name = await peer.begin("read")
        agent = await chats.agent()
        await agent.call("toolu_1", "Read")
        await agent.result_of("toolu_1", result)
        assert (await peer.until("tool_end"))["result"] == result[:5000]
        await agent.result()
        await peer.until("stream_end")
    answer = (await chats.get(f"/{name}"))["messages"][1]
    assert answer["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": result,
        "is_error": False,
    }


@pytest.mark.rules("S002-053")
async def test_an_agent_that_dies_leaves_no_conversation_streaming(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("one")
        agent = await chats.agent()
        await agent.call("toolu_1")
        await peer.until("tool_start")
        await agent.die(Exit(code=3, stderr="out of memory"))
        error = await peer.until("error")
        assert (error["conversationId"], error["message"]) == (name, "the agent exited with code 3: out of memory")
        await peer.until("stream_end")
        assert peer.kinds()[-3:] == ["tool_end", "error", "stream_end"]
        assert (await chats.get(f"/{name}"))["status"] == "error"
        await peer.send("two", name)
        agent = await chats.agent(2)
        await agent.result()
        await peer.until("stream_end")
    assert (await chats.get(f"/{name}"))["status"] == "idle"


@pytest.mark.rules("S002-053")
async def test_an_agent_that_cannot_be_started_is_reported_once(chats: ChatHarness) -> None:
    chats.core.kind.failures.append(AgentMissing("There is no claude here: install it."))
    async with chats.peer() as peer:
        name = await peer.begin("one")
        await peer.until("stream_end")
        errors = [frame for frame in peer.frames if frame["type"] == "chat:error"]
        assert [(error["conversationId"], error["message"]) for error in errors] == [
            (name, "There is no claude here: install it.")
        ]


async def test_a_permission_is_answered_here_or_elsewhere_once(chats: ChatHarness) -> None:
    view = await chats.gateway.token("view")
    async with chats.peer() as peer, chats.peer() as other, chats.peer(token=view) as guest:
        name = await peer.begin("make")
        agent = await chats.agent()
        await agent.call("toolu_1", command="make")
        await agent.ask("req-1", "toolu_1", command="make")
        asked = await peer.until("permission_request")
        assert (asked["requestId"], asked["toolName"], asked["input"]) == ("req-1", "Bash", {"command": "make"})
        for late in (other, guest):
            await late.say("chat:subscribe", conversationId=name)
            assert (await late.until("permission_request"))["requestId"] == "req-1"
        await guest.say("chat:permission_response", requestId="req-1", allow=True)
        assert "scope" in (await guest.until("error"))["message"]
        await other.say("chat:permission_response", requestId="req-1", allow=False, message="not now")
        settled = await peer.until("permission_resolved")
        assert (settled["requestId"], settled["allow"], settled["by"]) == ("req-1", False, "owner (ann)")
        await other.until("permission_resolved")
        assert other.client.conversations[name].requests == {}
        await chats.core.until(lambda: bool(agent.answers))
        ((request, decision),) = agent.answers
        assert (request, decision.behavior, decision.message) == ("req-1", "deny", "not now")
        await peer.say("chat:permission_response", requestId="req-1", allow=True)
        assert (await peer.until("error"))["message"] == "There is no pending request req-1."
        assert len(agent.answers) == 1


async def test_the_scope_view_is_not_enough_to_begin_or_send(chats: ChatHarness) -> None:
    view = await chats.gateway.token("view")
    async with chats.peer() as peer, chats.peer(token=view) as guest:
        name = await peer.begin("one")
        await chats.agent()
        for where in (None, name):
            await guest.send("mine", where)
            assert "scope chat" in (await guest.until("error"))["message"]
        await guest.say("chat:interrupt", conversationId=name)
        assert "scope chat" in (await guest.until("error"))["message"]
    assert len(await chats.get("")) == 1


async def test_two_messages_at_once_keep_their_order_and_an_interrupt_ends_the_first(chats: ChatHarness) -> None:
    async with chats.peer() as first:
        name = await first.begin("one")
        agent = await chats.agent()
        await agent.result()
        await first.until("stream_end")
    async with chats.peer() as peer:
        for text in ("two", "three"):
            await peer.send(text, name)
        assert await agent.prompted() == "two"
        await peer.say("chat:interrupt", conversationId=name)
        await chats.interrupted(agent)
        await peer.until("interrupted")
        assert await agent.prompted() == "three"
        await agent.result()
        await peer.until("stream_end")
        assert peer.kinds()[1:] == ["stream_start", "interrupted", "stream_start", "stream_end"]


async def test_too_many_frames_are_reported_and_too_large_ones_close_only_their_sender(chats: ChatHarness) -> None:
    folder = chats.core.folder / "second"
    folder.mkdir()
    async with open_chat(folder, ServerLimits(commands_per_s=1, message_bytes=10_000)) as few, few.peer() as other:
        async with few.peer() as peer:
            for _ in range(100):
                await peer.say("ping")
            assert "chat:error" in {(await peer.until(lambda one: True))["type"] for _ in range(101)}
            await peer.send("x" * 20_000)
            assert await peer.closed() == 1009
        await other.until("connected")
