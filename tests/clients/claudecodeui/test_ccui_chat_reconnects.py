"""A session under its agent's id and in the agent's next process; a run whose socket is lost."""

import pytest

from clients.claudecodeui.chat_harness import ChatHarness
from fairlead.model.agents import Exit


@pytest.mark.rules("S003-005", "S003-031", "S003-033", "S003-034", "S003-061")
async def test_a_session_is_also_found_by_its_agents_id_and_answers_with_ours(chats: ChatHarness) -> None:
    name = await chats.session()
    native = "0a0a0a0a-0000-4000-8000-00000000000a"
    async with chats.peer() as live:
        await live.send(name, "go")
        agent = await chats.agent()
        init = {"type": "system", "subtype": "init", "uuid": "0a0a0a0a-0000-4000-8000-00000000000b", "tools": []}
        await agent.say({**init, "session_id": native})
        await agent.text("hi", "m1")
        await agent.result(session_id=native, seq=1)
        assert (await live.until("complete"))["seq"] > live.run()[0]["seq"] > 1, "the number is ours too"
        await chats.core.until(lambda: chats.core.state(name).agent_session == native)
        async with chats.peer() as peer:
            assert (await peer.subscribe(native, 1))["sessionId"] == name
            end = await peer.until("complete")
            assert end["actualSessionId"] == name
            assert peer.run() == live.run() and native not in str(peer.run())
        # The agent's next process gets the agent's id, independent of ours.
        await agent.die(Exit(code=0))
        await live.send(name, "more")
        again = await chats.core.kind.launched(2)
        assert (again.launch.session, again.launch.resume) == (name, native)
        await again.prompted()
        await again.result(session_id=native)
        await live.until("complete")
        assert {frame["sessionId"] for frame in live.frames} == {name}


@pytest.mark.rules("S003-135", "S003-046")
async def test_a_run_continues_after_its_socket_is_lost_and_streams_to_the_next_one(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as there:
        await there.subscribe(name)
        async with chats.peer() as lost:
            await lost.send(name, "go")
            agent = await chats.agent()
            await agent.text("one", "m1")
            last = (await lost.until("text"))["seq"]
        async with chats.peer() as back:
            assert (await back.subscribe(name, last))["isProcessing"] is True
            await agent.text("two", "m2")
            assert (await back.until("text"))["content"] == "two"
            await agent.result()
            await back.until("complete")
            await there.until("complete")
            assert [*(frame for frame in lost.run() if frame["seq"] <= last), *back.run()] == there.run()
            assert agent.requests == [], "nobody interrupted it"
