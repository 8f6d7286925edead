"""A client or a plugin that does not read: queued data is bounded, no other connection is delayed, nothing is lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection

from clients.claudecodeui.test_ccui_plugins import PluginSocketHarness, open_harness, receive
from fairlead.plugins.ws_proxy import CLOSE_SECONDS, PLUGIN_BACKLOG_BYTES, UNSENT_BYTES, WebSocketProxy
from fairlead_testing.clock import ManualClock
from plugins.harness import ends, until, write_plugin

pytestmark = pytest.mark.process

COUNT, SIZE = 600, 100_000
"""60 MB: more than the system's buffers between both ends hold."""
READ = 256 * 1024
"""The number of bytes that one read of a socket may still return after it was paused."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def harness(tmp_path: Path, clock: ManualClock) -> AsyncIterator[PluginSocketHarness]:
    write_plugin(tmp_path)
    async with open_harness(tmp_path, clock=clock) as made:
        await made.plugins.runs()
        try:
            yield made
        finally:
            # Without this the plugin would not end, and the manual clock does not advance.
            (made.plugin / "hear").touch()


def bridge_of(harness: PluginSocketHarness) -> WebSocketProxy:
    (bridge,) = harness.plugins.plugins._bridges
    return bridge


async def echoes(socket: ClientConnection) -> None:
    for number in range(50):
        await socket.send(f"{number}")
        assert await receive(socket) == f"{number}"


async def test_a_client_that_does_not_read(harness: PluginSocketHarness) -> None:
    async with harness.join() as lazy:
        bridge = bridge_of(harness)
        wire = bridge._wire
        assert wire is not None
        lazy.transport.pause_reading()
        await lazy.send(f"flood {COUNT} {SIZE}")
        await until(lambda: wire.backlog() > UNSENT_BYTES)
        async with harness.join() as other:
            await echoes(other)
        assert wire.backlog() <= UNSENT_BYTES + SIZE + 16, "it stays there"
        assert not (harness.plugin / "flooded").exists(), "and the plugin waits"
        lazy.transport.resume_reading()
        for number in range(COUNT):
            message = await receive(lazy)
            assert message.startswith(f"{number} ") and len(message) == SIZE
        await until((harness.plugin / "flooded").exists)


async def test_a_plugin_that_does_not_read(harness: PluginSocketHarness) -> None:
    async with harness.join() as socket:
        bridge = bridge_of(harness)
        talking = await deafen(harness, socket)
        await until(lambda: bridge.waiting > PLUGIN_BACKLOG_BYTES)
        async with harness.join() as other:
            await echoes(other)
        assert bridge.waiting <= PLUGIN_BACKLOG_BYTES + READ + SIZE + 100 * 64, "it stays there"
        assert not talking.done(), "and the client waits"
        (harness.plugin / "hear").touch()
        for number in range(COUNT):
            assert (await receive(socket)).startswith(f"{number} ")
        await talking


async def test_a_client_that_leaves_a_stalled_plugin_is_dropped_after_a_timeout(
    harness: PluginSocketHarness, clock: ManualClock
) -> None:
    async with harness.join() as socket:
        bridge = bridge_of(harness)
        talking = await deafen(harness, socket)
        await until(lambda: bridge.waiting > PLUGIN_BACKLOG_BYTES)
        talking.cancel()
        socket.transport.abort()
    # A paused socket notices its end only when it is written to: here the test replaces the keepalive ping.
    wire = bridge._wire
    if wire is not None:
        wire.close(1011, "no answer to a ping")
    await until(lambda: bridge._left is not None)
    assert harness.plugins.plugins._bridges == {bridge}, "the plugin may still hear what was said"
    await clock.advance(CLOSE_SECONDS)
    await until(lambda: not harness.plugins.plugins._bridges)


async def test_the_gateway_stops_although_neither_side_reads(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    async with open_harness(tmp_path) as harness:
        await harness.plugins.runs()
        async with harness.join() as socket:
            talking = await deafen(harness, socket)
            await until(lambda: bridge_of(harness).waiting > PLUGIN_BACKLOG_BYTES)
            await harness.plugins.plugins.stop()
            assert not harness.plugins.plugins._bridges
            talking.cancel()
    assert ends(made) == []


async def deafen(harness: PluginSocketHarness, socket: ClientConnection) -> "asyncio.Task[None]":
    """Stop the plugin from reading, and start a task in which the client sends a lot of data."""
    await socket.send("deaf")
    await until((harness.plugin / "deaf").exists)

    async def send_all() -> None:
        for number in range(COUNT):
            await socket.send(f"{number} ".ljust(SIZE, "x"))

    return asyncio.create_task(send_all())
