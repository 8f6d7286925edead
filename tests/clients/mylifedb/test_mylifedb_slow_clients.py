"""Slow clients: nothing is dropped for a slow client, and no other client waits for it."""

from pathlib import Path

from clients.mylifedb.harness import MyLifeDbGateway, open_gateway
from clients.mylifedb.test_mylifedb_socket import prompt, stream
from fairlead.clients.mylifedb.fold import NAME
from fairlead.server.limits import ServerLimits
from sessions.harness import SESSION

BIG = 200_000
"""Size of a record in bytes; a few of them exceed the buffers between two sockets."""


async def test_a_throttled_client_receives_an_error_and_stays_connected(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ServerLimits(commands_per_s=2)) as gateway:
        await gateway.core.open()
        async with gateway.tab() as tab:
            for _ in range(20):
                await tab.say(type="typing", isTyping=True)
            assert "messages a second" in (await tab.until("error"))["error"]
            assert tab.close_code is None


async def test_a_client_that_does_not_read_gets_everything_when_it_does(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as fast, gateway.tab() as slow:
        agent = await prompt(gateway, fast, "hello")
        await fast.until("user")
        await slow.until("user")
        slow.socket.transport.pause_reading()
        feed = gateway.core.registry.views.get(SESSION, NAME).feed
        for number in range(80):
            await agent.text(f"{number}:" + "x" * BIG)
        await fast.until(lambda frame: "79:xx" in str(frame)[:2000])
        assert len([watcher for watcher in feed._watchers() if watcher.live]) == 1, "the other one lags"
        await stream(agent, "Half ", "a ")
        await fast.until(lambda frame: frame["type"] == "stream_event" and "a " in str(frame))
        slow.socket.transport.resume_reading()
        await slow.until(lambda frame: frame["type"] == "stream_event" and "Half a " in str(frame))
        await stream(agent, "sentence", start=False)
        for tab in (fast, slow):
            await tab.until(lambda frame: frame["type"] == "stream_event" and "sentence" in str(frame))
            assert tab.client.state.streaming_text == "Half a sentence"
        rows = [frame for frame in fast.frames if frame["type"] != "stream_event"]
        assert [frame for frame in slow.frames if frame["type"] != "stream_event"] == rows
