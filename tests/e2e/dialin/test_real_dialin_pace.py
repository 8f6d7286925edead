"""How the CLI waits and tries again over dial-in, as the seed says: its own pace, watched on the wire."""

import asyncio

import pytest

from e2e.desk import Desk
from e2e.dialed import by_hand, dialing
from e2e.harness import LAST_DIAL_IN, OLDEST, on_versions
from e2e.relay import Relay


def grows(gaps: list[float], first: float, most: float) -> None:
    """Each wait is twice the one before, up to the longest; a busy machine only adds to it. A quarter is jitter."""
    for number, gap in enumerate(gaps):
        wanted = min(first * 2**number, most)
        assert 0.7 * wanted <= gap <= 1.4 * wanted + 2, (number, gaps)


@on_versions(LAST_DIAL_IN, first=LAST_DIAL_IN, last=LAST_DIAL_IN)
@pytest.mark.long
@pytest.mark.rules("S004-271", "S004-272", "S004-273")
async def test_it_tries_again_after_1_2_4_8_16_and_then_every_30_seconds(desk: Desk, relay: Relay) -> None:
    await desk.open("SCRIPT:text one")
    await desk.until("turn.ended")
    relay.slam = True
    relay.tries.append(asyncio.get_running_loop().time())
    await relay.cut()
    grows(await relay.tried(8, 240), 1, 30)
    relay.slam = False
    await relay.connections(2)
    assert (await desk.turn("SCRIPT:text two"))["status"] == "completed"


@on_versions(OLDEST, last=OLDEST)
@pytest.mark.long
@pytest.mark.rules("S004-284", "S004-285", "S004-286", "S004-287")
@pytest.mark.parametrize("passed", [{"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}])
async def test_a_post_is_tried_ten_times_after_half_a_second_and_up_to_eight(desk: Desk, relay: Relay) -> None:
    await desk.open("SCRIPT:text one")
    await desk.until("turn.ended")
    relay.fail = True
    await desk.send("SCRIPT:text two")
    grows(await relay.tried(10, 240), 0.5, 8)
    relay.fail = False


@dialing
@pytest.mark.long
@pytest.mark.rules("S004-018")
async def test_one_that_is_connected_and_silent_is_kept(desk: Desk, cli_env: dict[str, str], relay: Relay) -> None:
    await desk.open(settings={"link": "stdio"})
    process = await by_hand(desk, cli_env, "variable")
    try:
        await relay.connections(1)
        await asyncio.sleep(90)
        assert (await desk.turn("SCRIPT:text at last"))["status"] == "completed"
        assert len(relay.sockets()) == 1
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
