"""The official Python SDK, unmodified, over our transport: turns, permissions, interrupt, and a session continued."""

from pathlib import Path

from e2e.sdk.conftest import RunInSdk
from fairlead.client import connect
from fairlead.model import events as ev
from fairlead.wiring import GatewayInfo


async def test_sessions_of_the_sdk_are_in_the_gateway(
    gateway: GatewayInfo, project: Path, run_in_sdk: RunInSdk
) -> None:
    lines = await run_in_sdk("transport_program.py", gateway.url, gateway.token, str(project))
    hello, made, denied, cut, asked, again, both, *refused = lines
    assert "hello" in hello["text"]
    assert [line["result"] for line in (hello, made, denied, again)] == ["success"] * 4
    assert cut["result"] == "error_during_execution"
    assert asked == {"asked": ["touch made", "touch denied"], "ready": False}
    assert (project / "made").exists()
    assert not (project / "denied").exists()
    assert both == {"both": True}
    assert len(refused) == 2, "a wrong token and an unknown session"
    async with connect(gateway.url, gateway.token) as client:
        ends = [line.event async for line in client.session(again["session"]).events()]
    assert len([event for event in ends if isinstance(event, ev.TurnEnded)]) == 5
