"""GET messages: pages from the end, calls with their results, the same rows as live, and unknown sessions."""

import pytest

from clients.claudecodeui.chat_harness import ChatHarness
from clients.cognova.chat_harness import stream
from fairlead.clients.claudecodeui.rest import history_pages


async def talked(chats: ChatHarness, turns: int = 3) -> str:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "first")
        agent = await chats.agent()
        for number in range(turns):
            if number:
                await peer.send(name, f"say {number}")
                await agent.prompted()
            await stream(agent, f"text {number}", message=f"m{number}")
            await agent.call(f"toolu_{number}", command="ls")
            await agent.result_of(f"toolu_{number}", f"file {number}")
            await agent.result()
            await peer.until("complete")
    return name


async def test_a_page_is_counted_from_the_end(chats: ChatHarness) -> None:
    name = await talked(chats)
    whole = await chats.messages(name)
    assert (whole["total"], whole["hasMore"], whole["offset"], whole["limit"]) == (9, False, 0, None)
    rows = whole["messages"]
    assert [row["kind"] for row in rows] == ["text", "text", "tool_use"] * 3
    assert [row.get("content") for row in rows[:3]] == ["first", "text 0", None]
    assert [row["toolResult"]["content"] for row in rows if row["kind"] == "tool_use"] == ["file 0", "file 1", "file 2"]
    assert all(row["sessionId"] == name for row in rows)
    for limit in (1, 4, 9, 20):
        for offset in (0, 2, 8, 9, 30):
            page = await chats.messages(name, f"?limit={limit}&offset={offset}")
            end = max(9 - offset, 0)
            start = max(end - limit, 0)
            assert page["messages"] == rows[start:end], (limit, offset)
            assert (page["total"], page["hasMore"]) == (9, start > 0)
            assert (page["limit"], page["offset"]) == (limit, offset)
    none = await chats.messages(name, "?limit=0")
    assert (none["messages"], none["hasMore"]) == ([], True)
    odd = await chats.messages(name, "?limit=x&offset=-1")
    assert odd["messages"] == rows


async def test_a_long_history_is_read_in_pieces_and_an_answer_has_a_size_limit(
    chats: ChatHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await talked(chats)
    rows = (await chats.messages(name))["messages"]
    monkeypatch.setattr(history_pages, "STRIDE", 2)
    assert (await chats.messages(name))["messages"] == rows
    monkeypatch.setattr(history_pages, "MOST", 10)
    cut = await chats.messages(name)
    assert (cut["messages"], cut["hasMore"], cut["total"]) == (rows[-2:], True, 9)


async def test_live_and_stored_rows_are_the_same(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "go")
        agent = await chats.agent()
        await stream(agent, "Hel", "lo.")
        await agent.call("toolu_1", command="ls")
        await agent.result_of("toolu_1", "x")
        await agent.result()
        await peer.until("complete")
        stored = (await chats.messages(name))["messages"]
        live = {row["id"]: row for row in peer.client.sessions[name].rows}
        for row in stored[1:]:
            # A live call has a later timestamp.
            left = ("seq", "toolResult", "timestamp" if row["kind"] == "tool_use" else "")
            sent, kept = ({k: v for k, v in one.items() if k not in left} for one in (live[row["id"]], row))
            assert sent == kept
            assert ("toolResult" in row) == (row["kind"] == "tool_use")
        peer.client.loaded(name, stored)
        assert [row["kind"] for row in peer.client.sessions[name].merged] == ["text", "text", "tool_use"]


async def test_unknown_sessions_are_not_found(chats: ChatHarness) -> None:
    unknown = "99999999-9999-4999-8999-999999999999"
    assert (await chats.messages(unknown))["code"] == "SESSION_NOT_FOUND"
    assert (await chats.messages("a.b"))["code"] == "SESSION_NOT_FOUND"
    assert (await chats.messages("a" * 121))["code"] == "INVALID_SESSION_ID"
    assert (await chats.messages("a$b"))["success"] is False
