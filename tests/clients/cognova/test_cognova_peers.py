"""Several peers of a conversation, and a peer that was away: each peer sees all of it, each frame once."""

from pathlib import Path
from typing import Any

import pytest

from clients.cognova.chat_harness import ChatHarness, open_chat, stream
from clients.cognova.chat_offline import frames_of
from fairlead.clients.cognova.chat_frames import ENCODER
from fairlead.model.errors import FairleadError
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead.model.gateway import Cursor
from fairlead_testing.cognova_client import CognovaClient
from sessions.harness import ANN, SESSION, CoreHarness, FakeAgent


async def all_live(chats: ChatHarness, agent: FakeAgent) -> Any:
    """The session's hub, when its three peers have caught up: a peer that still catches up may get a block whole."""
    feed: Any = chats.core.registry.feed(agent.launch.session)
    await chats.core.until(lambda: [watcher.live for watcher in feed._watchers()] == [True] * 3)
    return feed


async def test_every_peer_sees_the_same_stream_and_other_users_see_nothing(chats: ChatHarness) -> None:
    async with chats.peer() as sender, chats.peer() as subscriber, chats.peer() as second, chats.peer() as stranger:
        name = await sender.begin("one")
        agent = await chats.agent()
        await subscriber.say("chat:subscribe", conversationId=name)
        ack = await subscriber.until("subscribed")
        assert (ack["verdict"], ack["status"]) == ("ok", "streaming")
        await second.send("two", name)
        await chats.core.until(lambda: len(chats.core.state(name).queue) == 1)
        await all_live(chats, agent)
        await stream(agent, "a", "b")
        await agent.result()
        await agent.prompted()
        await stream(agent, "c", message="m2")
        await agent.result()
        for peer in (sender, subscriber, second):
            for _ in range(2):
                await peer.until("stream_end")
        frames = sender.stream()
        assert frames[0]["type"] == "chat:stream_start"
        assert subscriber.stream() == second.stream() == frames[1:]
        await stranger.settled()
        assert stranger.kinds() == ["connected", "pong"]
        numbers = [frame["seq"] for frame in frames]
        assert numbers == sorted(set(numbers))


async def test_each_entry_is_encoded_once_for_all_peers(chats: ChatHarness) -> None:
    async with chats.peer() as one, chats.peer() as two, chats.peer() as three:
        name = await one.begin("hello")
        agent = await chats.agent()
        for peer in (two, three):
            await peer.say("chat:subscribe", conversationId=name)
            await peer.until("subscribed")
        feed = await all_live(chats, agent)
        encoded, head = feed.encoded, feed.head
        await stream(agent, *"0123456789")
        await agent.result()
        for peer in (one, two, three):
            await peer.until("stream_end")
        assert feed.encoded - encoded == feed.head - head


@pytest.mark.parametrize("away", ["in the middle", "until its end"])
async def test_a_returning_peer_gets_exactly_the_frames_it_missed(chats: ChatHarness, away: str) -> None:
    client = CognovaClient()
    async with chats.peer() as there:
        async with chats.peer(client) as peer:
            name = await peer.begin("tell")
            agent = await chats.agent()
            await there.say("chat:subscribe", conversationId=name, lastSeq=0)
            await there.until("subscribed")
            await chats.core.all_live()
            await stream(agent, "Once ", "upon ", whole=False)
            await peer.until(lambda frame: frame.get("delta") == "upon ")
            await there.until(lambda frame: frame.get("delta") == "upon ")
        body = {"type": "stream_event", "session_id": agent.launch.session, "parent_tool_use_id": None}
        for number, piece in enumerate(("a ", "time")):
            event = {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": piece},
            }
            await agent.say(body | {"uuid": f"e{number}", "event": event})
            if away == "in the middle":
                break
        if away == "until its end":
            await agent.text("Once upon a time", "m1")
            await agent.call("toolu_1", "Read")
            await agent.result_of("toolu_1", "x")
            await agent.result()
            await there.until("stream_end")
        else:
            await there.until(lambda frame: frame.get("delta") == "a ")
        async with chats.peer(client) as peer:
            await peer.until("connected")
            sent: list[str] = []
            client.opened(sent.append)
            await peer.socket.send(sent[0])
            ack = await peer.until("subscribed")
            assert ack["verdict"] == "ok"
            if away == "in the middle":
                await peer.until(lambda frame: frame.get("delta") == "a ")
                await agent.text("Once upon a time", "m1")
                await agent.result()
            await peer.until("stream_end")
            (answer,) = client.conversations[name].answers
            assert (answer.text, answer.status) == ("Once upon a time", "complete")
            if away == "until its end":
                deltas = [frame["delta"] for frame in peer.frames if frame["type"] == "chat:text_delta"]
                assert deltas == ["a time"]
            await chats.core.until(lambda: not there.client.conversations[name].streaming)
        assert there.client.conversations[name].answers == client.conversations[name].answers


async def test_the_rest_of_an_entry_follows_its_first_frame(chats: ChatHarness) -> None:
    """A failed answer ends with two frames; a connection may end between them."""
    async with chats.peer() as peer:
        name = await peer.begin("fail")
        agent = await chats.agent()
        await agent.result(subtype="success", is_error=True, result="API Error: 500")
        end = await peer.until("stream_end")
        error = peer.frames[-2]
        assert (error["type"], error["seq"] + 1) == ("chat:error", end["seq"])
    async with chats.peer() as peer:
        await peer.say("chat:subscribe", conversationId=name, lastSeq=error["seq"])
        await peer.until("subscribed")
        await peer.until("stream_end")
        await peer.settled()
        assert [frame for frame in peer.frames if "seq" in frame] == [end]


@pytest.mark.rules("S002-008", "S002-009")
async def test_a_conversation_survives_a_restart_and_a_peer_continues_it(tmp_path: Path) -> None:
    client = CognovaClient()
    core = CoreHarness(tmp_path)
    async with open_chat(tmp_path, core=core) as chats, chats.peer(client) as peer:
        name = await peer.begin("one")
        agent = await chats.agent()
        await stream(agent, "fir", "st")
        await agent.call("toolu_1", "Read")
        await agent.result_of("toolu_1", "x" * 9000)
        await agent.result()
        await peer.until("stream_end")
        before = await chats.get(f"/{name}")
    async with open_chat(tmp_path, core=core) as chats:
        after = await chats.get(f"/{name}")
        assert after["messages"] == before["messages"]
        assert [message["role"] for message in after["messages"]] == ["user", "assistant"]
        assert len(after["messages"][1]["content"][2]["content"]) == 9000
        async with chats.peer(client) as peer:
            sent: list[str] = []
            client.opened(sent.append)
            await peer.socket.send(sent[0])
            assert (await peer.until("subscribed"))["verdict"] == "ok"
            await peer.send("two", name)
            agent = await chats.agent(2)
            await agent.text("second")
            await agent.result()
            await peer.until("stream_end")
        assert [answer.text for answer in client.conversations[name].answers] == ["first", "second"]
        assert (await chats.get(f"/{name}"))["messageCount"] == 4


async def test_an_unknown_position_is_a_gap_and_everything_is_sent_again(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("one")
        agent = await chats.agent()
        await stream(agent, "fir", "st")
        await agent.result()
        await peer.until("stream_end")
        for place in ({"lastSeq": 10**12}, {"lastSeq": 64, "logId": "another"}):
            await peer.say("chat:subscribe", conversationId=name, **place)
            ack = await peer.until("subscribed")
            assert (ack["verdict"], ack["lastSeq"]) == ("gap", 0)
            await peer.until("stream_end")
            (answer,) = peer.client.conversations[name].answers
            assert answer.text == "first"


async def test_a_subscription_continues_where_the_rest_answer_ends(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("tell")
        agent = await chats.agent()
        await stream(agent, "Once ", "upon ", whole=False)
        await peer.until(lambda frame: frame.get("delta") == "upon ")
        read = await chats.get(f"/{name}")
        assert read["messages"][1]["content"] == [{"type": "text", "text": "Once upon "}]
        assert read["status"] == "streaming"
        await agent.text("Once upon a time", "m1")
        await agent.result()
        await peer.until("stream_end")
        async with chats.peer() as late:
            await late.say("chat:subscribe", conversationId=name, lastSeq=read["lastSeq"])
            await late.until("stream_end")
            assert [frame["delta"] for frame in late.frames if "delta" in frame] == ["a time"]


async def test_subscribing_twice_sends_nothing_twice(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name = await peer.begin("one")
        agent = await chats.agent()
        await stream(agent, "a", "b", whole=False)
        for _ in range(3):
            await peer.say("chat:subscribe", conversationId=name)
            ack = await peer.until("subscribed")
            assert "lastSeq" not in ack
        await agent.text("ab", "m1")
        await agent.result()
        await peer.until("stream_end")
        assert [frame["delta"] for frame in peer.frames if "delta" in frame] == ["a", "b"]


async def test_a_deleted_conversation_is_not_found_and_other_peers_stay_connected(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        names = []
        for number, text in enumerate(("one", "two"), 1):
            names.append(await peer.begin(text))
            agent = await chats.agent(number)
            await agent.result()
            await peer.until("stream_end")
        async with chats.gateway.http() as http:
            assert (await http.delete(f"/cognova/api/conversations/{names[0]}")).status_code == 200
        await peer.send("more", names[0])
        assert (await peer.until("error"))["message"] == "Conversation not found"
        await peer.send("more", names[1])
        await agent.prompted()
        await agent.result()
        assert (await peer.until("stream_end"))["conversationId"] == names[1]


class SlowSink:
    """A socket that accepts nothing while it is full."""

    def __init__(self) -> None:
        self.data = b""
        self.full = 0

    def send(self, data: bytes) -> None:
        self.data += data

    def backlog(self) -> int:
        return self.full

    def fail(self, error: FairleadError) -> None:
        raise AssertionError(error)


@pytest.mark.parametrize("read_before", [0, 1, 2, 3])
async def test_a_slow_reader_misses_nothing_and_gets_nothing_twice(tmp_path: Path, read_before: int) -> None:
    """It falls behind in the middle of a text whose pieces are gone from the log when it reads again."""
    core = await CoreHarness(tmp_path).start()
    agent = await core.working()
    sink = SlowSink()
    watch = await core.gateway.watch(ANN, SESSION, Cursor(0), ENCODER, sink)
    watch.start()
    await core.until(lambda: watch.live)
    pieces = ["Once ", "upon ", "a ", "time"]
    await stream(agent, *pieces[:read_before], whole=False)
    await core.until(lambda: len([f for f in frames_of(sink.data) if "delta" in f]) == read_before)
    sink.full = 2 << 20
    body = {"type": "stream_event", "session_id": SESSION, "parent_tool_use_id": None}
    for number, piece in enumerate(pieces[read_before:]):
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        await agent.say(body | {"uuid": f"late-{number}", "event": delta})
    await agent.text("Once upon a time", "m1")
    await agent.result()
    await core.until(lambda: not watch.live)
    sink.full = 0
    watch.drained()
    await core.until(lambda: b"stream_end" in sink.data)
    frames = frames_of(sink.data)
    assert "".join(frame["delta"] for frame in frames if "delta" in frame) == "Once upon a time"
    numbers = [frame["seq"] for frame in frames]
    assert numbers == sorted(set(numbers)) and all(number >= FRAMES for number in numbers)
    watch.close()
    await core.stop()
