"""The real CLI's sessions on the MyLifeDB socket, over stdio: the live records, and the transcript's records later."""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from clients.mylifedb.harness import Frame, Tab
from clients.mylifedb.test_mylifedb_socket import level
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import API_KEY, NEWEST, on_versions
from e2e.test_real_transcripts import by_hand
from fairlead.clients.mylifedb.kinds import has_kind, kinds_of
from fairlead_testing.mylifedb_client import MyLifeDbClient, build_tree
from fairlead_testing.threads import walk
from patience import PATIENCE

CONVERSATION = ("user", "assistant")
OURS = ("session_info", "todo_update", "typing", "ack", "error")


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    passed = ["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"]
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=passed)
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as opened:
        yield opened


@contextlib.asynccontextmanager
async def tab(harness: GatewayHarness, query: str = "", client: MyLifeDbClient | None = None) -> AsyncIterator[Tab]:
    url = harness.gateway.url.replace("http", "ws", 1) + f"/api/claude/sessions/{harness.session}/subscribe{query}"
    headers = {"Authorization": f"Bearer {harness.gateway.token}"}
    async with connect(url, additional_headers=headers, max_size=None, compression=None) as socket:
        opened = Tab(socket, client or MyLifeDbClient(), patience=PATIENCE)
        listening = asyncio.create_task(opened.listen())
        try:
            yield opened
        finally:
            await socket.close()
            await asyncio.wait({listening})


def transcript(harness: GatewayHarness, home: Path) -> list[bytes]:
    """The CLI's own file, at the path that the seed gives."""
    folder = re.sub(r"[^a-zA-Z0-9]", "-", str(harness.cwd))
    return (home / ".claude" / "projects" / folder / f"{harness.session}.jsonl").read_bytes().splitlines()


def conversation(frames: list[Frame]) -> list[tuple[Any, ...]]:
    """The fields that the wire's records and the transcript's share: uuid, type, order, content."""
    return [
        (frame["uuid"], frame["type"], frame["message"]["content"])
        for frame in frames
        if frame["type"] in CONVERSATION and not frame.get("isMeta")
    ]


async def copied(harness: GatewayHarness, uuid: str) -> None:
    """Wait until the transcript's copy of a record is in the log."""
    await harness.until(lambda line: line["type"] == "record" and line.get("of") == uuid)


@on_versions()
@pytest.mark.rules("S000-016", "S000-017", "S000-018", "S000-019", "S000-034", "S000-046", "S000-055", "S000-056")
@pytest.mark.rules("S000-064", "S000-129", "S000-146", "S000-186", "S000-188", "S000-189", "S000-214", "S000-237")
@pytest.mark.rules("S000-190")
async def test_a_turn_with_a_tool_live_and_from_the_transcript(
    harness: GatewayHarness, cli_home: Path, claude: Path, cli_env: dict[str, str]
) -> None:
    await harness.open()
    async with tab(harness) as peer:
        assert [line["type"] for line in await harness.log()] == ["session.opened"], "connecting starts no process"
        await peer.say(type="user_message", content=f"SCRIPT:bash touch {harness.cwd / 'made'}")
        asked = await peer.until("control_request")
        assert asked["request"]["tool_name"] == "Bash"
        assert peer.client.published[-1:] == [True], "at work"
        answer = {"subtype": "success", "response": {"behavior": "allow"}}
        await peer.say(type="control_response", request_id=asked["request_id"], response=answer)
        reply = await peer.until("control_response")
        assert reply == {"type": "control_response", "request_id": asked["request_id"], "behavior": "allow"}
        assert (await harness.until("permission.resolved"))["behavior"] == "allow", "and on the native socket"
        await peer.until("result")
        assert peer.client.published[-1:] == [False]
        live = peer.frames
    assert (harness.cwd / "made").exists()
    turns = [frame for frame in live if frame["type"] in CONVERSATION]
    assert turns[0]["message"] == {"role": "user", "content": f"SCRIPT:bash touch {harness.cwd / 'made'}"}
    assert [frame["type"] for frame in turns] == ["user", "assistant", "user", "assistant"]
    assert [frame["parentUuid"] for frame in turns] == [None, *(frame["uuid"] for frame in turns[:-1])]
    await copied(harness, turns[-1]["uuid"])
    rows = transcript(harness, cli_home)
    assert b'"stream_event"' not in b"".join(rows)
    async with tab(harness) as late:
        page = (await harness.http.get(f"/api/claude/sessions/{harness.session}/messages?page=0")).json()
        await late.until(lambda frame: len(late.frames) >= len(page["messages"]))
        assert conversation(late.frames) == conversation(live)
    by_uuid = {row["uuid"]: row for line in rows if (row := json.loads(line)).get("uuid")}
    for frame in late.frames:
        if frame["type"] in CONVERSATION:
            assert frame == by_uuid[frame["uuid"]], "history has the transcript's own record"
    assert conversation(list(by_uuid.values())) == conversation(live)
    # A person goes back to the call and continues from there, in the same session.
    await harness.do("close")
    await harness.until("session.closed")
    at = ("--resume", harness.session, "--resume-session-at", turns[1]["uuid"])
    await by_hand(claude, cli_env, harness.cwd, "SCRIPT:text instead", *at)
    async with tab(harness) as branched:
        other = await branched.until(lambda frame: "SCRIPT:text instead" in str(frame.get("message")))
        (parent,) = [node for node in walk(build_tree(branched.frames)) if node.uuid == turns[1]["uuid"]]
        assert [child.uuid for child in parent.children] == [turns[2]["uuid"], other["uuid"]]


@on_versions(NEWEST)
@pytest.mark.rules("S000-103", "S000-105")
async def test_without_partial_messages_no_piece_is_sent(harness: GatewayHarness) -> None:
    await harness.open(settings={"partial": False})
    async with tab(harness) as peer:
        await peer.say(type="user_message", content="SCRIPT:text whole")
        await peer.until("result")
        assert "stream_event" not in peer.kinds() and "assistant" in peer.kinds()


@on_versions(NEWEST)
@pytest.mark.rules("S000-155", "S000-156", "S000-203", "S000-204", "S000-205")
@pytest.mark.rules("S000-092", "S000-104", "S000-109", "S000-110", "S000-111", "S000-112", "S000-113", "S000-115")
@pytest.mark.rules("S000-119", "S000-125", "S000-145")
async def test_a_tab_leaves_and_is_back_and_then_sees_thinking_and_tools(harness: GatewayHarness) -> None:
    await harness.open()
    client = MyLifeDbClient()
    async with tab(harness, client=client) as peer:
        await peer.say(type="user_message", content="SCRIPT:long 40")
        await peer.until(lambda frame: frame["type"] == "stream_event")
    await harness.until("turn.ended")
    async with tab(harness, client=client) as peer:
        await peer.until("result")
        await peer.say(type="user_message", content="SCRIPT:text again")
        await peer.until("result")
        assert [message.role for message in client.state.messages] == ["user", "assistant", "user", "assistant"]
        assert len({message.id for message in client.state.messages}) == 4
        await a_streamed_answer_with_thinking(peer)
        await an_interrupted_tool_and_a_failing_one(harness, peer)


async def a_streamed_answer_with_thinking(peer: Tab) -> None:
    before = len(peer.frames)
    await peer.say(type="user_message", content="SCRIPT:think")
    await peer.until("result")
    frames = peer.frames[before:]
    events = [frame["event"] for frame in frames if frame["type"] == "stream_event"]
    order = [event["type"] for event in events]
    assert (order[0], order[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert order.count("content_block_start") == order.count("content_block_stop") == 2
    thinking, text = (frame["message"]["content"][0] for frame in frames if frame["type"] == "assistant")
    assert (thinking["type"], text["type"]) == ("thinking", "text")
    streamed = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    assert streamed == text["text"]
    kinds = [frame["type"] for frame in frames]
    assert kinds.index("assistant") > kinds.index("stream_event")
    assert peer.client.texts[-1] == text["text"] and peer.client.state.streaming_text == ""


async def an_interrupted_tool_and_a_failing_one(harness: GatewayHarness, peer: Tab) -> None:
    await peer.say(type="user_message", content="SCRIPT:slowtool 60")
    await harness.answer(await harness.until("permission.asked"))
    await harness.until("permission.resolved")
    request = {"subtype": "interrupt"}
    await peer.say(type="control_request", request_id="interrupt_1", request=request)
    ended = await peer.until("result")
    assert ended["subtype"] == "error_during_execution"
    assert "[Request interrupted by user for tool use]" in str(peer.frames)
    assert not peer.client.state.working
    await peer.say(type="user_message", content="SCRIPT:bash false")
    await harness.answer(await harness.until("permission.asked"))
    await peer.until("result")
    results = [block for frame in peer.frames if frame["type"] == "user" for block in blocks(frame)]
    assert results[-1]["is_error"] is True


def blocks(frame: Frame) -> list[dict[str, Any]]:
    content = frame["message"]["content"]
    return [block for block in content if block["type"] == "tool_result"] if isinstance(content, list) else []


@pytest.fixture
def agreed(cli_home: Path, cli_cwd: Path) -> None:
    """A HOME in which a person has already given the answers that a terminal would ask for."""
    answers = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []},
        "projects": {os.path.realpath(cli_cwd): {"hasTrustDialogAccepted": True}},
    }
    (cli_home / ".claude.json").write_text(json.dumps(answers))


@on_versions(NEWEST)
@pytest.mark.usefixtures("agreed")
@pytest.mark.rules("S000-016", "S000-018", "S000-019", "S000-043")
async def test_a_session_in_a_terminal_shows_the_transcripts_own_records(
    harness: GatewayHarness, cli_home: Path
) -> None:
    made = await harness.http.post("/api/claude/sessions", json={"workingDir": str(harness.cwd), "mode": "cli"})
    await harness.watch(made.json()["id"])
    async with tab(harness) as peer:
        await peer.say(type="user_message", content="SCRIPT:text typed: é ☃")
        answer = await peer.until("assistant")
        await peer.until("result")
        turns = [frame for frame in peer.frames if frame["type"] in CONVERSATION and not frame.get("isMeta")]
        assert [frame["type"] for frame in turns] == ["user", "assistant"], "the message is there once"
        assert turns[0]["message"]["content"] == "SCRIPT:text typed: é ☃"
        rows = {row["uuid"]: row for line in transcript(harness, cli_home) if (row := json.loads(line)).get("uuid")}
        for frame in turns:
            assert frame == rows[frame["uuid"]]
        assert peer.client.published[-1:] == [False]
        url = harness.gateway.url.replace("http", "ws", 1) + f"/api/claude/sessions/{harness.session}/ws"
        headers = {"Authorization": f"Bearer {harness.gateway.token}"}
        async with connect(url, additional_headers=headers, compression=None) as raw, asyncio.timeout(PATIENCE):
            word, screen = answer["message"]["content"][0]["text"].split()[0].encode(), b""
            while word not in screen:  # output that was not drawn yet when we attached is drawn first
                screen += await raw.recv(decode=False)


@on_versions(NEWEST, first=NEWEST)
async def test_a_page_for_an_old_cli_is_clean_with_the_newest_one(harness: GatewayHarness) -> None:
    await harness.open()
    async with tab(harness) as whole, tab(harness, "?records=2.1.37") as old:
        for number, script in enumerate(("text hello", f"bash touch {harness.cwd / 'made'}"), 1):
            await old.say(type="user_message", content=f"SCRIPT:{script}")
            if number == 2:
                asked = await old.until("control_request")
                answer = {"subtype": "success", "response": {"behavior": "allow"}}
                await old.say(type="control_response", request_id=asked["request_id"], response=answer)
            await old.until("result")
            await whole.until("result")
            # Wait for the records after the CLI's result and for the transcript's rows of the turn.
            last = next(frame for frame in reversed(whole.frames) if frame["type"] == "assistant")
            await copied(harness, last["uuid"])
            await whole.until(lambda frame: frame["type"] == "command_lifecycle" and frame["state"] == "completed")
            await level(old)
        kinds = {next(iter(kinds_of(json.dumps(frame).encode()))) for frame in old.frames}
        newer = {kind for frame in whole.frames if (kind := next(iter(kinds_of(json.dumps(frame).encode()))))} - kinds
    assert "command_lifecycle" in newer
    assert all(has_kind((2, 1, 37), json.dumps(frame).encode()) for frame in old.frames if frame["type"] not in OURS)
    frames = [frame for frame in old.frames if "error" not in frame and frame["type"] not in (*OURS, "stream_event")]
    records = [frame["type"] for frame in frames]
    assert records[-1] == "result", records
    assert records[records.index("result") + 1] == "user", "and the next turn begins behind it"
