"""The real CLI behind the gateway, driven and watched by direct clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clients.direct.harness import DirectPeer, connect_peer
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import dials_in, on_versions


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path, version: str
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        opened.settings = {"link": "dial-in" if dials_in(version) else "stdio"}
        yield opened


@on_versions()
@pytest.mark.rules("S004-027", "S004-028", "S004-310", "S004-311", "S004-313", "S004-314", "S004-315")
async def test_one_leaves_and_is_back_and_two_direct_clients_drive_one_session(harness: GatewayHarness) -> None:
    await harness.open()
    await one_leaves_in_mid_turn_and_the_session_goes_on(harness)
    await two_direct_clients_drive_one_session(harness)


async def one_leaves_in_mid_turn_and_the_session_goes_on(harness: GatewayHarness) -> None:
    async with connect_peer(harness.gateway, harness.session) as peer:
        await peer.prompt("SCRIPT:slow 30")
        await peer.until(lambda client: "tick" in str(client.messages[-1:]))
    assert (await harness.until("turn.ended"))["status"] == "completed"
    async with connect_peer(harness.gateway, harness.session) as peer:
        await peer.until(lambda client: client.init)
        await peer.prompt("SCRIPT:text back")
        assert (await peer.result())["subtype"] == "success"


async def two_direct_clients_drive_one_session(harness: GatewayHarness) -> None:
    target = harness.cwd / "made"
    async with (
        connect_peer(harness.gateway, harness.session) as one,
        connect_peer(harness.gateway, harness.session) as two,
    ):
        await one.prompt(f"SCRIPT:bash touch {target}")
        await asyncio.gather(one.until(lambda client: client.pending), two.until(lambda client: client.pending))
        (name,) = one.client.pending
        assert one.client.pending == two.client.pending
        two.client.respond_to_permission(name, "allow")
        await two.flush()
        results = await asyncio.gather(one.result(), two.result())
        assert [result["subtype"] for result in results] == ["success", "success"]
        assert target.exists()
        await one.prompt("SCRIPT:slow 200")
        for peer in (one, two):
            await peer.until(lambda client: "tick" in str(client.messages[-1]))
        one.client.send_interrupt("stop")
        await one.flush()
        await asyncio.gather(one.result(), two.result())
        # The answer may arrive after the result that it causes.
        await one.until(lambda client: "stop" in client.answers)
        assert one.client.answers["stop"]["subtype"] == "success"
        assert "stop" not in two.client.answers
        await harness.until(lambda line: line["type"] == "turn.ended" and line["status"] == "cancelled")
        (init, *first), (init_of_two, *second) = shared(one), shared(two)
        assert init == init_of_two
        # One connected earlier: newer versions send more after a result, so it may have the end of the turn before.
        assert first[-len(second) :] == second


def shared(peer: DirectPeer) -> list[str]:
    """The messages that every client receives, up to the last result read: newer versions send more after it."""
    frames = [frame for frame in peer.frames if "control_response" not in frame]
    last = max(number for number, frame in enumerate(frames) if json.loads(frame)["type"] == "result")
    return frames[: last + 1]
