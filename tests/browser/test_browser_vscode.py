"""VS Code without an extension is a client of Fairlead: its own agents view on our door, in a real browser."""

import os
from pathlib import Path

import pytest
from playwright.async_api import Browser

from browser.vscode_app import VsCodeHost, vscode_window
from faults.gateway_process import GatewayProcess
from tools.vscode_server import why_no_server

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "vscode.png"
"""Written with FAIRLEAD_WRITE=1."""


@pytest.mark.slow
async def test_vs_code_starts_a_session_confirms_a_tool_and_goes_on_after_a_cut(
    chromium: Browser, tmp_path: Path
) -> None:
    if reason := why_no_server():
        pytest.skip(reason)
    async with VsCodeHost(GatewayProcess(tmp_path)) as host, vscode_window(chromium, host) as window:
        gateway = host.gateway
        phone = await gateway.create(title="From the phone")
        async with gateway.http() as http:
            await http.post(f"/v1/sessions/{phone}/messages", json={"text": "SCRIPT:think"})

        # A new session, a permission, a streamed answer.
        await window.choose_fairlead()
        await window.send("SCRIPT:bash")
        await window.trust()
        await window.allow()
        await window.seen("The tool said: hi").wait_for()
        await window.idle()

        # A session of another client is in the list, with its history.
        await window.open_session("From the phone")
        await window.seen("I thought about it.").wait_for()
        await window.idle()
        if os.environ.get("FAIRLEAD_WRITE"):
            await window.page.screenshot(path=PICTURE)

        # The socket is cut in the middle of an answer. VS Code gets exactly the actions that it has not seen, and the
        # session that was made meanwhile.
        await window.send("SCRIPT:slow 12")
        await window.seen("tick tick").wait_for()
        await host.relay.away()
        await gateway.create(title="Made meanwhile")
        await host.relay.listen()
        await window.seen(" ".join(["tick"] * 12)).wait_for()
        await window.idle()
        assert await window.count("tick") == 12
        assert host.answers() == ["replay"]
        await window.seen("Made meanwhile").wait_for()
        # A turn of another client, too, ends here.
        async with gateway.http() as http:
            await http.post(f"/v1/sessions/{phone}/messages", json={"text": "SCRIPT:text from the phone"})
        await window.seen("Hello from the scripted model. from the phone").wait_for()
        await window.idle()

        # A prompt that is sent while there is no connection arrives once.
        await host.relay.away()
        await window.send("SCRIPT:text at last")
        await host.relay.listen()
        await window.seen("Hello from the scripted model. at last").wait_for()
        assert host.answers() == ["replay", "replay"]
        assert await window.count("tick") == 12
        log = await gateway.stored(phone)
        prompts = [event["content"][0]["text"] for event in log if event["type"] == "user.message"]
        assert prompts == ["SCRIPT:think", "SCRIPT:slow 12", "SCRIPT:text from the phone", "SCRIPT:text at last"]
        confirmed = [event for event in await all_events(gateway) if event["type"] == "permission.resolved"]
        assert [(event["behavior"], event["how"]) for event in confirmed] == [("allow", "person")]


async def all_events(gateway: GatewayProcess) -> list[dict[str, object]]:
    async with gateway.http() as http:
        sessions = (await http.get("/v1/sessions")).json()["sessions"]
    return [event for session in sessions for event in await gateway.stored(session["session"])]
