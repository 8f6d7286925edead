"""Conversations over REST: under the prefix, in the original's shapes and errors."""

from pathlib import Path
from typing import Any

import pytest

from clients.cognova.chat_harness import ChatHarness, open_chat
from fairlead.clients.cognova import PROTOCOL
from fairlead.model.commands import ArchiveSession, Steer
from fairlead.model.content import TextBlock
from fairlead.model.ids import SessionId, is_uuid
from sessions.harness import SESSION, CoreHarness

UNKNOWN = "99999999-9999-4999-8999-999999999999"
PATH = "/cognova/api/conversations"
FIELDS = (
    *("id", "sessionId", "sdkSessionId", "title", "summary", "status", "totalCostUsd", "isMain"),
    *("startedAt", "endedAt", "messageCount"),
)
NOT_FOUND = {"statusCode": 404, "statusMessage": "Conversation not found", "message": "Conversation not found"}


async def talked(chats: ChatHarness, text: str, number: int, cost: float = 0.25) -> str:
    async with chats.peer() as peer:
        name = await peer.begin(text)
        agent = await chats.agent(number)
        await agent.text(f"You said {text}.")
        await agent.result(total_cost_usd=cost)
        await peer.until("stream_end")
    return name


async def test_conversations_are_listed_by_start_time_newest_first(chats: ChatHarness) -> None:
    assert await chats.get("") == []
    names = []
    for number, text in enumerate(("one", "two"), 1):
        names.append(await talked(chats, text, number))
        await chats.core.clock.advance(1)
    async with chats.peer() as peer:
        await peer.send("more", names[0])
        agent = chats.core.kind.agents[0]
        await agent.prompted()
        listed = await chats.get("")
        assert [(one["id"], one["status"], one["messageCount"]) for one in listed] == [
            (names[1], "idle", 2),
            (names[0], "streaming", 3),
        ]
        assert listed[1]["endedAt"] is None
        await agent.text("More.")
        await agent.result(total_cost_usd=0.4)
        await peer.until("stream_end")
    first, second = await chats.get("")
    assert tuple(first) == FIELDS
    assert (second["messageCount"], second["totalCostUsd"], second["status"]) == (4, 0.4, "idle")
    assert (first["title"], first["isMain"], first["summary"], first["sessionId"]) == ("two", False, None, names[1])
    assert first["sdkSessionId"] and first["startedAt"].endswith("Z") and first["endedAt"].endswith("Z")
    await chats.core.do(ArchiveSession(session=SessionId(names[0])))
    assert [one["id"] for one in await chats.get("")] == [names[1]]


@pytest.mark.rules("S002-009")
async def test_a_conversation_has_its_messages_in_order(chats: ChatHarness) -> None:
    name = await talked(chats, "one", 1)
    one = await chats.get(f"/{name}")
    assert tuple(one) == (*FIELDS, "messages", "lastSeq")
    asked, answered = one["messages"]
    assert (
        tuple(asked)
        == tuple(answered)
        == (*("id", "conversationId", "role", "content", "source", "costUsd", "durationMs", "createdAt"),)
    )
    assert is_uuid(asked["id"]) and asked["conversationId"] == answered["conversationId"] == name
    assert (asked["role"], asked["content"]) == ("user", [{"type": "text", "text": "one"}])
    assert (asked["source"], asked["costUsd"], asked["durationMs"]) == ("web", None, None)
    assert (answered["role"], answered["content"]) == ("assistant", [{"type": "text", "text": "You said one."}])
    assert (answered["costUsd"], answered["durationMs"]) == (0.25, 5)
    assert asked["createdAt"] < answered["createdAt"]


async def test_a_conversation_is_created_renamed_and_deleted(chats: ChatHarness) -> None:
    async with chats.gateway.http() as http:
        made = (await http.post(PATH, json={"title": "Plans"})).json()["data"]
        assert (made["title"], made["messageCount"], made["status"], made["endedAt"]) == ("Plans", 0, "idle", None)
        one = f"{PATH}/{made['id']}"
        renamed = await http.put(one, json={"title": "Better plans"})
        assert renamed.json()["data"]["title"] == "Better plans"
        assert (await http.get(one)).json()["data"]["messages"] == []
        unnamed = (await http.post(PATH)).json()["data"]
        assert unnamed["title"] == ""
        for _ in range(2):
            deleted = await http.delete(one)
            assert (deleted.status_code, deleted.json()) == (200, {"data": {"success": True}})
        gone = await http.get(one)
        assert (gone.status_code, gone.json()) == (404, NOT_FOUND)
    async with chats.peer() as peer:
        await peer.send("hello", unnamed["id"])
        agent = await chats.agent()
        await agent.result()
        await peer.until("stream_end")
        assert "session_created" not in peer.kinds()


BAD: list[tuple[str, str, Any, int, str]] = [
    ("GET", f"/{UNKNOWN}", None, 404, "Conversation not found"),
    ("GET", "/nonsense", None, 404, "Conversation not found"),
    ("PUT", f"/{UNKNOWN}", {"title": "x"}, 404, "Conversation not found"),
    ("PUT", "/nonsense", {"title": "x"}, 404, "Conversation not found"),
    ("PUT", f"/{UNKNOWN}", {"title": "  "}, 400, "Title is required"),
    ("PUT", f"/{UNKNOWN}", {"title": 7}, 400, ""),
    ("POST", "", [], 400, ""),
    ("POST", "", {"title": "x" * 201}, 400, "A title has at most 200 characters."),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "message"), BAD)
async def test_errors_have_the_shape_of_the_original(
    chats: ChatHarness, method: str, path: str, body: Any, status: int, message: str
) -> None:
    async with chats.gateway.http() as http:
        answer = await http.request(method, PATH + path, json=body)
    error = answer.json()
    assert (answer.status_code, tuple(error)) == (status, ("statusCode", "statusMessage", "message"))
    assert error["statusCode"] == status and (not message or error["message"] == message)


async def test_deleting_an_unknown_conversation_succeeds(chats: ChatHarness) -> None:
    async with chats.gateway.http() as http:
        for name in (UNKNOWN, "nonsense"):
            answer = await http.delete(f"{PATH}/{name}")
            assert (answer.status_code, answer.json()) == (200, {"data": {"success": True}})


async def test_the_originals_header_carries_the_token_and_scopes_are_checked(chats: ChatHarness) -> None:
    view = await chats.gateway.token("view")
    name = await talked(chats, "one", 1)
    async with chats.gateway.http() as http:
        del http.headers["authorization"]
        assert (await http.get(PATH)).status_code == 401
        assert (await http.get(PATH, headers={"X-API-Token": view})).status_code == 200
        assert (await http.delete(f"{PATH}/{name}", headers={"X-API-Token": view})).status_code == 403
        assert (await http.get("/api/conversations", headers={"Authorization": f"Bearer {view}"})).status_code == 404


async def test_a_steering_message_is_stored_after_the_running_answer(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("one")
        agent = await chats.agent()
        await agent.text("Working.")
        await chats.core.do(Steer(session=SessionId(name), content=(TextBlock("faster"),)))
        await agent.text("Faster it is.")
        await agent.result()
        await peer.until("stream_end")
    one = await chats.get(f"/{name}")
    assert [(message["role"], len(message["content"])) for message in one["messages"]] == [
        ("user", 1),
        ("assistant", 2),
        ("user", 1),
    ]
    assert one["messageCount"] == 3


def test_the_chat_is_part_of_the_protocol() -> None:
    assert "/_ws/chat" in {socket.path for socket in PROTOCOL.sockets}
    assert PROTOCOL.prefix == "/cognova"


async def test_no_conversation_stays_streaming_after_the_gateway_died(tmp_path: Path) -> None:
    core = await CoreHarness(tmp_path).start()
    agent = await core.working()
    await agent.text("Half of it.")
    await core.crash()
    async with open_chat(tmp_path, core=core) as chats:
        await core.until(lambda: core.registry.loaded(SESSION) is None or core.state().turn is None)
        one = await chats.get(f"/{SESSION}")
        assert (one["status"], one["messageCount"]) == ("error", 2)
        assert one["messages"][1]["content"] == [{"type": "text", "text": "Half of it."}]
