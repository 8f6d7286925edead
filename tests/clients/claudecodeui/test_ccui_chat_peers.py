"""Several sockets, lost connections and restarts: attached sockets, replay, and reported gaps."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.chat_harness import ChatHarness, open_chat
from clients.cognova.chat_harness import stream
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead.model.ids import SessionId
from fairlead_testing.claudecodeui_client import ClaudeCodeUiClient
from sessions.harness import SESSION, CoreHarness, FakeAgent

UNKNOWN = "99999999-9999-4999-8999-999999999999"


async def turn(chats: ChatHarness, name: SessionId, number: int = 1, words: str = "hi") -> FakeAgent:
    """A whole run."""
    await chats.core.send("go", name)
    agent = await chats.core.kind.launched(number)
    await agent.prompted()
    await agent.ready()
    await agent.text(words, f"m-{words}")
    await agent.result()
    return agent


def _rows(name: str, *frames: Any) -> Any:
    client = ClaudeCodeUiClient()
    for frame in frames:
        client.apply(frame)
    return client.sessions[name].rows


@pytest.mark.rules("S003-045", "S003-065", "S003-068")
@pytest.mark.rules("S003-026", "S003-027")
async def test_each_session_of_a_subscribe_is_acknowledged_even_unknown_ones(chats: ChatHarness) -> None:
    one, two = await chats.session(1), await chats.session(2)
    async with chats.peer() as peer:
        entries: list[Any] = [{"sessionId": one}, {"sessionId": f" {two} ", "lastSeq": "x"}, {"sessionId": UNKNOWN}]
        await peer.say("chat.subscribe", sessions=[*entries, {"sessionId": "odd"}, 7, {}, {"sessionId": " "}, None])
        for _ in range(4):
            await peer.until("chat_subscribed")
        acks = {frame["sessionId"]: frame for frame in peer.frames}
        assert set(acks) == {one, two, UNKNOWN, "odd"}
        for frame in acks.values():
            assert tuple(frame) == (
                *["kind", "sessionId", "isProcessing", "lastSeq", "pendingPermissions", "timestamp"],
            )
            assert (frame["isProcessing"], frame["lastSeq"], frame["pendingPermissions"]) == (False, 0, [])
        await peer.say("chat.subscribe")
        await peer.say("chat.subscribe", sessions={})
        await peer.settled()
        assert peer.kinds().count("chat_subscribed") == 4


@pytest.mark.rules("S003-046", "S003-047", "S003-066", "S003-068", "S003-063")
async def test_every_attached_socket_gets_every_event(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as one, chats.peer() as two, chats.peer() as three:
        await one.send(name, "go")
        agent = await chats.agent()
        await stream(agent, "Hel", "lo.")
        await one.until(lambda frame: frame["kind"] == "stream_end" and "content" in frame)
        ack = await two.subscribe(name)
        assert ack["isProcessing"] is True
        last = [frame["seq"] for frame in one.run() if frame["kind"] == "stream_end"][-1]
        ack = await three.subscribe(name, last)
        assert ack["lastSeq"] >= one.run()[-1]["seq"]
        await agent.text("Done.", "m2")
        await agent.result()
        for peer in (one, two, three):
            await peer.until("complete")
        assert three.run() == [frame for frame in one.run() if frame["seq"] > last]
        pieces = ("stream_delta", "stream_end", "text")
        rest = [[frame for frame in peer.run() if frame["kind"] not in pieces] for peer in (one, two)]
        assert rest[0] == rest[1]
        assert two.client.sessions[name].rows == one.client.sessions[name].rows
        assert (await two.subscribe(name))["isProcessing"] is False


@pytest.mark.rules("S003-047")
async def test_a_new_subscriber_gets_the_current_run_but_no_finished_runs(chats: ChatHarness) -> None:
    """A page that has loaded its history subscribes with 0."""
    name = await chats.session()
    agent = await turn(chats, name, words="one")
    async with chats.peer() as idle:
        ack = await idle.subscribe(name)
        assert ack["lastSeq"] > 0
        await idle.settled()
        assert idle.run() == []
        await chats.core.send("more", name)
        await agent.prompted()
        await agent.text("two", "m2")
        await idle.until("text")
        # A value that is not a number counts as 0, and so does a missing one.
        for entry in ({}, {"lastSeq": None}, {"lastSeq": "7"}, {"lastSeq": True}, {"lastSeq": -1}):
            async with chats.peer() as late:
                await late.say("chat.subscribe", sessions=[{"sessionId": name, **entry}])
                assert (await late.until("chat_subscribed"))["isProcessing"] is True
                assert (await late.until("text"))["content"] == "two", entry
        await agent.result()
        await idle.until("complete")
        assert [frame["content"] for frame in idle.run() if frame["kind"] == "text"] == ["two"]


@pytest.mark.rules("S003-060", "S003-047")
async def test_sequence_numbers_grow_over_runs_so_that_a_remembered_one_stays_valid(chats: ChatHarness) -> None:
    """The original restarts at 1 with each run: a client that remembers the last number of run 1 loses the first frames
    of run 2."""
    name = await chats.session()
    agent = await turn(chats, name, words="one")
    async with chats.peer() as peer:
        await peer.subscribe(name, 1)
        first = await peer.until("complete")
        assert first["seq"] == peer.client.sessions[name].seq
    for words in ("two", "three"):
        await chats.core.send(words, name)
        await agent.prompted()
        await agent.text(words, f"m-{words}")
        await agent.result()
    async with chats.peer() as back:
        await back.subscribe(name, first["seq"])
        await back.until("complete")
        await back.until("complete")
        assert [frame["content"] for frame in back.run() if frame["kind"] == "text"] == ["two", "three"]
        assert all(frame["seq"] > first["seq"] for frame in back.run())
    assert len(chats.core.kind.agents) == 1, "one process for all turns; the original starts one for each"


@pytest.mark.rules("S003-064", "S003-047", "S003-060", "S003-005")
async def test_a_restart_of_the_gateway_loses_no_event_and_no_number(tmp_path: Path) -> None:
    client = ClaudeCodeUiClient()
    async with open_chat(tmp_path) as chats:
        name = await chats.session()
        async with chats.peer(client) as peer:
            await peer.send(name, "go")
            agent = await chats.agent()
            await stream(agent, "Hel", "lo.")
            await peer.until("stream_delta")
        place = client.sessions[name].seq
        await agent.text("Done.", "m2")
        await agent.result()
    async with open_chat(tmp_path) as chats, chats.peer(client) as peer:
        await peer.subscribe(name, place)
        end = await peer.until("complete")
        assert end["success"] is True
        assert [row["content"] for row in client.sessions[name].rows] == ["Hello.", "Done."]
        rows = (await chats.messages(name))["messages"]
        assert [row["id"] for row in rows if row["role"] == "assistant"] == [
            row["id"] for row in client.sessions[name].rows
        ]
        assert all(frame["seq"] > place for frame in peer.run())
        await peer.send(name, "more")
        agent = await chats.agent()
        await agent.text("On.", "m3")
        await agent.result()
        assert (await peer.until("complete"))["seq"] > end["seq"]
        numbers = [frame["seq"] for frame in peer.run()]
        assert numbers == sorted(set(numbers))


@pytest.mark.rules("S003-054", "S003-057")
async def test_a_run_whose_gateway_died_gets_one_complete_at_its_real_end(tmp_path: Path) -> None:
    killed = await CoreHarness(tmp_path).start()
    agent = await killed.working()
    await agent.text("Working.", "m1")
    await killed.crash()
    again = CoreHarness(tmp_path)
    again.kind.follow_until.clear()
    async with open_chat(tmp_path, core=again) as chats, chats.peer() as peer:
        ack = await peer.subscribe(SESSION)
        assert ack["isProcessing"] is True
        assert (await peer.until("text"))["content"] == "Working."
        again.kind.follow_until.set()
        end = await peer.until("complete")
        assert (end["exitCode"], end["success"], end["aborted"]) == (1, False, False)
        assert peer.kinds().count("complete") == 1
        async with chats.peer() as late:
            assert (await late.subscribe(SESSION))["isProcessing"] is False


@pytest.mark.rules("S003-067")
async def test_a_sequence_number_that_never_existed_is_reported_as_a_gap(chats: ChatHarness) -> None:
    name = await chats.session()
    agent = await turn(chats, name)
    async with chats.peer() as peer:
        await peer.subscribe(name, 10**9)
        error = await peer.until("protocol_error")
        assert (error["code"], error["sessionId"]) == ("REPLAY_GAP", name)
        assert peer.client.sessions[name].gaps == 1
        # The socket receives the following frames, and REST has everything that it missed.
        await chats.core.send("more", name)
        await agent.prompted()
        await agent.text("next", "m2")
        await peer.until("text")
    assert [row["content"] for row in (await chats.messages(name))["messages"]] == ["go", "hi", "more", "next"]


async def test_a_connection_may_end_between_two_frames_of_one_event(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "go")
        agent = await chats.agent()
        await stream(agent, "Hel", "lo.")
        await agent.result()
        await peer.until("complete")
        whole = peer.run()
    for cut in range(1, len(whole)):
        async with chats.peer() as back:
            await back.subscribe(name, whole[cut - 1]["seq"])
            await back.until("complete")
            numbers = [frame["seq"] for frame in (*whole[:cut], *back.run())]
            assert numbers == sorted(set(numbers))
            assert _rows(name, *whole[:cut], *back.run()) == _rows(name, *whole)


async def test_subscribing_again_after_a_run_reports_the_changed_session_once(chats: ChatHarness) -> None:
    """On this frame the app reads history again, and only then drops its own rows of the streamed text."""
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "go")
        agent = await chats.agent()
        await stream(agent, "Hel", "lo.")
        await peer.subscribe(name)
        await peer.settled()
        assert peer.kinds()[-2:] == ["chat_subscribed", "protocol_error"], "nothing while it runs"
        await agent.result()
        await peer.until("complete")
        await peer.subscribe(name)
        update = await peer.until("session_upserted")
        assert update["sessionId"] == name
        await peer.subscribe(name)
        await peer.settled()
        assert peer.kinds()[-2:] == ["chat_subscribed", "protocol_error"], "and not again"


async def test_subscribing_again_on_the_same_socket_sends_nothing_twice(chats: ChatHarness) -> None:
    """The app subscribes two or three times for each page that it opens, and would append repeated pieces of a text."""
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "go")
        agent = await chats.agent()
        await stream(agent, "Hel", whole=False)
        await peer.until("stream_delta")
        for _ in range(3):
            assert (await peer.subscribe(name))["isProcessing"] is True
        await agent.result(subtype="error_during_execution", is_error=True, result=None)
        await peer.until("complete")
        numbers = [frame["seq"] for frame in peer.run()]
        assert numbers == sorted(set(numbers))


@pytest.mark.rules("S003-062", "S003-065", "S003-136", "S003-137")
async def test_sessions_do_not_mix(chats: ChatHarness) -> None:
    one, two = await chats.session(1), await chats.session(2)
    async with chats.peer() as peer, chats.peer() as other:
        await peer.send(one, "a")
        first = await chats.agent(1)
        await other.send(two, "b")
        second = await chats.agent(2)
        await first.text("1", "m1")
        await second.text("2", "m2")
        # An error is sent only to the socket that caused it.
        await peer.send("99999999-9999-4999-8999-999999999999", "nobody")
        assert (await peer.until("protocol_error"))["code"] == "SESSION_NOT_FOUND"
        await first.result()
        await second.result()
        await peer.until("complete")
        await other.until("complete")
        assert "protocol_error" not in other.kinds()
        assert {frame["sessionId"] for frame in peer.run()} == {one}
        assert {frame["sessionId"] for frame in other.run()} == {two}
        async with chats.peer() as late:
            await late.subscribe(two, 1)
            await late.until("complete")
            assert late.run() == other.run(), "nor is there anything of the other in a replay"
        async with chats.peer() as both:
            place = other.run()[0]["seq"]
            entries = [{"sessionId": one, "lastSeq": 1}, {"sessionId": two, "lastSeq": place}]
            await both.say("chat.subscribe", sessions=entries)
            for _ in entries:
                await both.until("complete")
            assert both.run(one) == peer.run()
            assert both.run(two) == other.run()[1:], "each from its own place"


@pytest.mark.rules("S003-048")
async def test_a_subscribe_at_any_moment_of_a_stream_neither_misses_nor_repeats_frames(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "go")
        agent = await chats.agent()

        acknowledged = 0
        all_there = asyncio.Event()

        async def send_all() -> None:
            number = 0
            # The stream continues until all subscribers have joined, however slow they are.
            while number < 40 or not all_there.is_set():
                await stream(agent, f"a{number} ", f"b{number}", message=f"m{number}")
                number += 1
                await asyncio.sleep(0)
            await agent.result()

        async def come(wait: int) -> list[Any]:
            nonlocal acknowledged
            async with chats.peer() as late:
                for _ in range(wait):
                    await asyncio.sleep(0)
                ack = await late.subscribe(name)
                assert ack["isProcessing"] is True
                acknowledged += 1
                if acknowledged == 6:
                    all_there.set()
                await late.until("complete")
                ours = [frame for frame in late.frames if frame["kind"] != "session_upserted"]
                assert ours[0]["kind"] == "chat_subscribed", "the acknowledgement is first"
                numbers = [frame["seq"] for frame in late.run()]
                assert numbers == sorted(set(numbers))
                return [row["content"] for row in late.client.sessions[name].rows]

        _, *seen = await asyncio.gather(send_all(), *(come(wait * 7) for wait in range(6)))
        await peer.until("complete")
        whole = [row["content"] for row in peer.client.sessions[name].rows]
        assert len(whole) >= 40
        assert seen == [whole] * 6


@pytest.mark.rules("S003-064")
async def test_a_stalled_reader_does_not_delay_the_others_and_costs_little_memory(chats: ChatHarness) -> None:
    """5,000 events of 100 kB are half a gigabyte: the original keeps them all in memory, this gateway does not queue
    them for a slow reader."""
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "go")
        agent = await chats.agent()
        async with chats.peer(max_queue=1) as slow:
            await slow.subscribe(name)
            slow.socket.transport.pause_reading()
            for number in range(60):
                await agent.text(f"{number}" + "x" * 100_000, f"m{number}")
            await agent.result()
            await peer.until("complete")
            waiting = [
                watcher.sink.backlog()
                for session in [chats.core.registry.feed(name)]
                for watcher in session._watchers()
            ]
            assert max(waiting) < 4 << 20
            slow.socket.transport.resume_reading()
            await slow.until("complete")
            assert [row["id"] for row in slow.client.sessions[name].rows] == [
                row["id"] for row in peer.client.sessions[name].rows
            ]


def test_sequence_numbers_fit_into_a_javascript_number() -> None:
    """JavaScript represents every frame number of an entry exactly, even after 10**13 entries."""
    assert 10**13 * FRAMES < 2**53


async def test_only_the_viewed_session_is_streamed_and_the_others_send_whole_texts(chats: ChatHarness) -> None:
    """The app joins all pieces that it receives into one text, regardless of their session."""
    one, two = await chats.session(1), await chats.session(2)
    async with chats.peer() as peer:
        await peer.send(one, "a")
        first = await chats.agent(1)
        await stream(first, "He", "llo.")
        await peer.until(lambda frame: frame["kind"] == "stream_end" and "content" in frame)
        await stream(first, "Half", message="m2", whole=False)
        await peer.until("stream_delta")
        await peer.send(two, "b")
        second = await chats.agent(2)
        await stream(second, "Two.")
        await peer.until(lambda frame: frame["sessionId"] == two and frame.get("content") == "Two." and "role" in frame)
        await first.text("Half of it.", "m2")
        await stream(first, "Unseen.", message="m3")
        await first.result()
        await peer.until(lambda frame: frame["sessionId"] == one and frame["kind"] == "complete")
        seen = next(frame["seq"] for frame in peer.run(one) if frame.get("content") == "Half")
        after = [frame["kind"] for frame in peer.run(one) if frame["seq"] > seen]
        assert after == ["text", "text", "complete"]
        # The session is viewed again: it is streamed again from the next run on.
        await peer.send(one, "c")
        await first.prompted()
        await chats.core.all_live()
        await stream(first, "Back", ".", message="m4")
        await first.result()
        await peer.until(lambda frame: frame["sessionId"] == one and frame["kind"] == "complete")
        assert peer.run_kinds(one)[-4:] == ["stream_delta", "stream_delta", "stream_end", "complete"]
        numbers = [frame["seq"] for frame in peer.run(one)]
        assert numbers == sorted(set(numbers))


async def test_a_client_may_request_streams_of_several_sessions(chats: ChatHarness) -> None:
    one, two = await chats.session(1), await chats.session(2)
    async with chats.peer() as peer, chats.peer() as quiet:
        await peer.say("chat.subscribe", sessions=[{"sessionId": one, "stream": True}])
        await peer.until("chat_subscribed")
        await quiet.say("chat.subscribe", sessions=[{"sessionId": one, "stream": False}])
        await quiet.until("chat_subscribed")
        await peer.subscribe(two)
        await chats.core.send("go", one)
        agent = await chats.agent()
        await stream(agent, "He", "llo.")
        await agent.result()
        await peer.until("complete")
        await quiet.until("complete")
        assert peer.run_kinds() == ["stream_delta", "stream_delta", "stream_end", "complete"]
        assert [frame["kind"] for frame in quiet.run()] == ["text", "complete"]
