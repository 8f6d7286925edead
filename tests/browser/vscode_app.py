"""VS Code, unmodified, in a real browser: its own server with Fairlead as its agent host, and a person in its chat.
Its files come from a cache (tools/vscode_server.py); none is in this repository. The connection to the gateway goes
through a relay that a test can cut.
"""

import asyncio
import json
import re
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from playwright.async_api import Browser, Error, Locator, Page, expect

from e2e.cuttable_relay import Relay
from faults.gateway_process import TOKEN, GatewayProcess
from patience import PATIENCE
from tools.vscode_server import server_command

SETTINGS = {"chat.agentHost.enabled": True, "workbench.startupEditor": "none", "chat.tips.enabled": False}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class VsCodeHost:
    """A gateway with a door for VS Code's server, and that server. Both end with the gateway's folder."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        self.relay = Relay()
        self._door, self._port = free_port(), free_port()
        gateway.arguments = ("--door", f"ahp={self._door}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/?folder={quote(str(self.gateway.cwd))}"

    def answers(self) -> list[str]:
        """How each return of VS Code was answered: with a replay, or that the client is not known."""
        verdicts = re.findall(rb'"result":{"type":"(\w+)"|(initialize again)', bytes(self.relay.received))
        return [(kind or b"unknown").decode() for kind, _ in verdicts]

    async def __aenter__(self) -> "VsCodeHost":
        await self.gateway.start()
        await self.relay.listen()
        self.relay.aim((f"http://127.0.0.1:{self._door}",))
        await asyncio.to_thread(self._start)
        await self._reachable()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gateway.clean_up()
        self._server.wait()
        await self.relay.away()

    def _start(self) -> None:
        # HOME is inside the gateway's folder: when that is cleaned up, all its processes end.
        home = self.gateway.folder / "vscode"
        machine = home / "data" / "data" / "Machine"
        machine.mkdir(parents=True)
        (machine / "settings.json").write_text(json.dumps(SETTINGS))
        argv = [
            *server_command(),
            *("--host", "127.0.0.1", "--port", str(self._port), "--without-connection-token"),
            *("--accept-server-license-terms", "--telemetry-level", "off", "--server-data-dir", str(home / "data")),
            *("--agent-host-bridge-host", "127.0.0.1", "--agent-host-bridge-port", str(self.relay.port)),
            *("--agent-host-bridge-connection-token", TOKEN),
        ]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        with (home / "server.log").open("wb") as log:
            self._server = subprocess.Popen(argv, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    async def _reachable(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                assert self._server.poll() is None, (self.gateway.folder / "vscode" / "server.log").read_text()[-4000:]
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return


class VsCodeWindow:
    """One window of VS Code with its chat."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE * 1000)

    def seen(self, text: str) -> Locator:
        return self.page.get_by_text(text).locator("visible=true").first

    async def choose_fairlead(self) -> None:
        """Choose where a new chat runs. The entry is there as soon as the window is connected to the host."""
        where = self.page.get_by_text("Local", exact=True).locator("visible=true").first
        for _ in range(100):
            await where.click()
            try:
                await self.seen("Fairlead").click(timeout=2000)
            except Error:
                await self.page.keyboard.press("Escape")
            else:
                break
        await self.seen("Chat with Fairlead").wait_for()

    async def send(self, text: str) -> None:
        await self.page.locator(".interactive-input-editor:visible").first.click()
        await self.page.keyboard.type(text)
        await self.page.keyboard.press("Enter")

    async def trust(self) -> None:
        """VS Code asks before the first prompt in a folder."""
        await self.page.get_by_role("button", name="Trust Folder").first.click()

    async def allow(self) -> None:
        await self.page.locator(".monaco-button:visible", has_text="Allow").first.click()

    async def idle(self) -> None:
        """Wait until the button that stops a turn is gone, and the list shows no session at work."""
        working = self.page.get_by_text("Working...").locator("visible=true")
        for sign in (self.page.locator(".codicon-stop-circle:visible"), working):
            await expect(sign).to_have_count(0, timeout=PATIENCE * 1000)

    async def count(self, word: str) -> int:
        """How often a word stands in the answers of the chat."""
        answers = await self.page.locator(".interactive-response:visible").all_inner_texts()
        return sum(answer.split().count(word) for answer in answers)

    async def open_session(self, title: str) -> None:
        await self.page.get_by_label("Show Agent Sessions Sidebar").locator("visible=true").first.click()
        await self.seen(title).click()


@asynccontextmanager
async def vscode_window(browser: Browser, host: VsCodeHost) -> AsyncIterator[VsCodeWindow]:
    context = await browser.new_context(viewport={"width": 1400, "height": 800}, reduced_motion="reduce")
    page = await context.new_page()
    await page.goto(host.url, timeout=PATIENCE * 1000)
    yield VsCodeWindow(page)
    await context.close()
