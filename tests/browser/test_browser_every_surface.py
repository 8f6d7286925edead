"""One live session of the real CLI on every surface at the same time: the Python SDK that started it through the shim,
VS Code, the web UI, an ACP editor and a MyLifeDB client. Each says something, each answers a permission, all see it."""

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, expect
from typer.testing import CliRunner
from websockets.asyncio.client import connect

from browser.vscode_app import VsCodeHost, VsCodeWindow, vscode_window
from clients.acp.acp_harness import EVERYTHING, Editor, editor_at
from clients.mylifedb.harness import Tab
from e2e.harness import NEWEST, cli_env, why_not_installed
from e2e.shim.caller import Caller, calling, trust
from fairlead.cli.main import app
from fairlead_testing.model_api import ScriptedModel
from fairlead_testing.mylifedb_client import MyLifeDbClient
from faults.gateway_process import TOKEN, GatewayProcess
from patience import PATIENCE
from tools.agent_sdks import python_program
from tools.clis import program_path
from tools.vscode_server import why_no_server

expect.set_options(timeout=PATIENCE * 1000)

PROGRAM = Path(__file__).resolve().parents[1] / "e2e" / "shim" / "shared_session_sdk.py"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "every-surface.png"
"""Written with FAIRLEAD_WRITE=1."""


HIDE_FOLDER = """(folder) => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) walk.currentNode.data = walk.currentNode.data.replace(folder, "~/project");
}"""
"""The picture shows no folder of the machine on which it was made."""


class Surfaces:
    def __init__(
        self, session: str, sdk: Caller, vscode: VsCodeWindow, web: Page, editor: Editor, tab: Tab, folder: Path
    ) -> None:
        self.session, self.folder = session, folder
        self.sdk, self.vscode, self.web, self.editor, self.tab = sdk, vscode, web, editor, tab

    async def say(self, surface: str, text: str) -> None:
        match surface:
            case "sdk":
                await tell(self.sdk, text)
            case "vscode":
                await self.vscode.send(text)
            case "web":
                message = self.web.get_by_role("textbox", name="Message")
                await message.fill(text)
                await message.press("Enter")
            case "editor":
                await self.editor.prompt(self.session, text)
            case "mylifedb":
                await self.tab.say(type="user_message", content=text)

    async def all_see(self, text: str) -> None:
        """Wait until the answer with this text is on every surface."""
        await self.sdk.until(lambda line: text in line.get("text", ""))
        await self.sdk.until(lambda line: "result" in line)
        await self.vscode.seen(text).wait_for()
        await self.vscode.idle()
        await expect(self.web.locator(".agent-text", has_text=text).first).to_be_visible()
        await self.editor.until(lambda: text in str(self.editor.received[-40:]))
        await self.tab.until(lambda frame: frame["type"] == "assistant" and text in str(frame))
        await self.tab.until("result")

    async def settle(self, surface: str) -> None:
        """A command waits for permission on all surfaces; it is answered on one, and no surface asks any more."""
        made = self.folder / f"by-{surface}"
        await tell(self.sdk, f"SCRIPT:bash touch {made.name}")
        await self.sdk.until(lambda line: "asked" in line)
        allow = self.web.get_by_role("button", name="Allow once")
        in_vscode = self.vscode.page.locator(".monaco-button:visible", has_text="Allow")
        await in_vscode.first.wait_for()
        await allow.first.wait_for()
        card = await self.editor.request(self.session)
        asked = await self.tab.until("control_request")
        match surface:
            case "sdk":
                await tell(self.sdk, "allow")
            case "vscode":
                await self.vscode.allow()
            case "web":
                await allow.first.click()
            case "editor":
                await self.editor.choose(self.session, "allow")
            case "mylifedb":
                answer = {"subtype": "success", "response": {"behavior": "allow"}}
                await self.tab.say(type="control_response", request_id=asked["request_id"], response=answer)
        if surface != "sdk":
            await self.sdk.until(lambda line: "withdrawn" in line)
        await self.sdk.until(lambda line: "result" in line)
        await expect(allow).to_have_count(0)
        await expect(in_vscode).to_have_count(0)
        await self.editor.until(lambda: card["id"] not in self.editor.of(self.session).requests)
        assert (await self.tab.until("control_response"))["behavior"] == "allow"
        await self.tab.until("result")
        assert made.exists()


async def tell(program: Caller, line: str) -> None:
    stdin = program.process.stdin
    assert stdin is not None
    stdin.write(line.encode() + b"\n")
    await stdin.drain()


@asynccontextmanager
async def web_page(browser: Browser, gateway: GatewayProcess, session: str) -> AsyncIterator[Page]:
    async with gateway.http() as http:
        link = (await http.post("/v1/login-codes", json={"name": "Desk", "scopes": ["admin"]})).json()["url"]
    context = await browser.new_context(viewport={"width": 1000, "height": 800}, reduced_motion="reduce")
    page = await context.new_page()
    await page.goto(f"{gateway.url}/app/s/{session}#{urlsplit(link).fragment}")
    await page.get_by_role("textbox", name="Message").wait_for()
    yield page
    await context.close()


@asynccontextmanager
async def mylifedb_tab(gateway: GatewayProcess, session: str) -> AsyncIterator[Tab]:
    url = f"{gateway.url.replace('http', 'ws', 1)}/api/claude/sessions/{session}/subscribe"
    async with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, max_size=None) as socket:
        tab = Tab(socket, MyLifeDbClient(), patience=PATIENCE)
        listening = asyncio.create_task(tab.listen())
        try:
            yield tab
        finally:
            await socket.close()
            await asyncio.wait({listening})


@pytest.mark.slow
@pytest.mark.cli(NEWEST)
async def test_one_session_on_every_surface(chromium: Browser, tmp_path: Path) -> None:
    if reason := why_no_server() or why_not_installed(NEWEST):
        pytest.skip(reason)
    if not python_program().exists():
        pytest.skip("the Python SDK is not fetched: python -m tools.agent_sdks")
    home = tmp_path / "home"
    home.mkdir()
    shim = tmp_path / "shim"
    assert CliRunner().invoke(app, ["shim", "install", "--path", str(shim)]).exit_code == 0
    async with ScriptedModel() as model:
        env = cli_env(home, model.url)
        claude = program_path(NEWEST)
        gateway = GatewayProcess(tmp_path, agent="claude", claude=claude, pass_env="IS_SANDBOX")
        gateway.env = env
        async with VsCodeHost(gateway) as host:
            async with gateway.http() as http:
                await trust(http, gateway.cwd)
            ours: dict[str, Any] = {"DATA": gateway.data, "TOKEN": TOKEN, "CLAUDE": claude, "SHIM": "require"}
            env |= {f"FAIRLEAD_{name}": str(value) for name, value in ours.items()}
            argv = [str(python_program()), str(PROGRAM), str(shim / "claude"), str(gateway.cwd)]
            async with calling(argv, {**env, "FAIRLEAD_SHIM_WAIT_MS": "60000"}, gateway.cwd) as sdk:
                await everyone_takes_part(chromium, host, sdk)


async def write_picture(browser: Browser, screens: list[bytes]) -> None:
    """The screens side by side, for the documentation."""
    images = "".join(f'<img src="data:image/png;base64,{b64encode(screen).decode()}">' for screen in screens)
    page = await browser.new_page(viewport={"width": 1480, "height": 500})
    await page.set_content(f"<style>body{{margin:8px;display:flex;gap:8px}}img{{height:484px}}</style>{images}")
    await page.screenshot(path=PICTURE)
    await page.close()


async def everyone_takes_part(chromium: Browser, host: VsCodeHost, sdk: Caller) -> None:
    gateway = host.gateway
    await tell(sdk, "SCRIPT:text one session")
    session = (await sdk.until(lambda line: "session" in line))["session"]
    await sdk.until(lambda line: "result" in line)
    async with (
        vscode_window(chromium, host) as vscode,
        web_page(chromium, gateway, session) as web,
        editor_at(gateway.url, TOKEN) as editor,
        mylifedb_tab(gateway, session) as tab,
    ):
        await editor.initialize(EVERYTHING)
        await editor.load(session)
        await tab.until("result")
        await vscode.choose_fairlead()
        # VS Code asks for the trust of the folder with the first prompt; before that it shows no list of sessions.
        await vscode.send("SCRIPT:text trusted")
        await vscode.trust()
        await vscode.seen("Hello from the scripted model. trusted").wait_for()
        await vscode.open_session("SCRIPT:text one session")
        await vscode.seen("Hello from the scripted model. one session").wait_for()
        surfaces = Surfaces(session, sdk, vscode, web, editor, tab, gateway.cwd)
        for surface in ("sdk", "vscode", "web", "editor", "mylifedb"):
            await surfaces.say(surface, f"SCRIPT:text said by {surface}")
            await surfaces.all_see(f"said by {surface}")
        if os.environ.get("FAIRLEAD_WRITE"):
            await web.evaluate(HIDE_FOLDER, str(gateway.cwd))
            await write_picture(chromium, [await vscode.page.screenshot(), await web.screenshot()])
        for surface in ("sdk", "vscode", "web", "editor", "mylifedb"):
            await surfaces.settle(surface)
    log = await gateway.stored(session)
    assert [line["status"] for line in log if line["type"] == "turn.ended"] == ["completed"] * 11
    assert len([line for line in log if line["type"] == "agent.started"]) == 1
