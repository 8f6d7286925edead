"""How the CLI waits and retries over dial-in, as the seed describes it: its own timing, observed on the wire."""

import asyncio

import pytest

from e2e.cuttable_relay import Relay
from e2e.dialin_harness import by_hand, dialing, grows
from e2e.gateway_harness import GatewayHarness
from e2e.harness import LAST_DIAL_IN, OLDEST, on_versions


@on_versions(LAST_DIAL_IN, first=LAST_DIAL_IN, last=LAST_DIAL_IN)
@pytest.mark.long
@pytest.mark.rules("S004-271", "S004-272", "S004-273")
async def test_it_tries_again_after_1_2_4_8_16_and_then_every_30_seconds(harness: GatewayHarness, relay: Relay) -> None:
    await harness.open("SCRIPT:text one")
    await harness.until("turn.ended")
    relay.slam = True
    relay.tries.append(asyncio.get_running_loop().time())
    await relay.cut()
    grows(await relay.tried(8, 240), 1, 30)
    relay.slam = False
    await relay.connections(2)
    assert (await harness.turn("SCRIPT:text two"))["status"] == "completed"


@on_versions(OLDEST, last=OLDEST)
@pytest.mark.long
@pytest.mark.rules("S004-284", "S004-285", "S004-286", "S004-287")
@pytest.mark.parametrize("passed", [{"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}])
async def test_a_post_is_tried_ten_times_after_half_a_second_and_up_to_eight(
    harness: GatewayHarness, relay: Relay
) -> None:
    await harness.open("SCRIPT:text one")
    await harness.until("turn.ended")
    relay.fail = 500
    await harness.send("SCRIPT:text two")
    gaps = await relay.tried(11, 240)
    grows(gaps[:9], 0.5, 8)
    refused = relay.bodies[-11:]
    assert refused[:10] == refused[:1] * 10
    assert refused[10] != refused[0], "after ten tries it goes on to what it says next"
    relay.fail = 0


@on_versions(OLDEST, last=OLDEST)
@pytest.mark.rules("S004-287")
@pytest.mark.parametrize("passed", [{"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}])
async def test_a_post_that_is_refused_for_its_own_sake_is_not_tried_again(
    harness: GatewayHarness, relay: Relay
) -> None:
    await harness.open("SCRIPT:text one")
    await harness.until("turn.ended")
    relay.fail = 400
    await harness.send("SCRIPT:text two")
    await relay.tried(4)
    assert len(set(relay.bodies[-4:])) == 4, "each is another message"
    relay.fail = 0


@dialing
@pytest.mark.long
@pytest.mark.rules("S004-018", "S004-250")
async def test_one_that_is_connected_and_silent_is_kept(
    harness: GatewayHarness, cli_env: dict[str, str], relay: Relay
) -> None:
    await harness.open(settings={"link": "stdio"})
    process = await by_hand(harness, cli_env, "variable")
    try:
        await relay.connections(1)
        await asyncio.sleep(90)
        assert (await harness.turn("SCRIPT:text at last"))["status"] == "completed"
        assert len(relay.sockets()) == 1
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
