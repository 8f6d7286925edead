"""A gateway with its web UI, and people's devices that look at it: each is a separate browser profile, signed in by a
link as a person is. The pages' complaints are collected, and there must be none.
"""

import asyncio
import atexit
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request

from browser.chromium import eventually
from fairlead import wiring
from fairlead.agents.context import WiredKind
from fairlead.config import Config
from fairlead.model.agents import AgentInfo
from fairlead.model.web.requests import ServiceCall
from fairlead.server.webui import BUILT, WebUi
from local_http import local_client
from patience import PATIENCE
from sessions.harness import FakeAgent, FakeKind

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
DESKTOP = (1400, 900)
PHONE = (320, 640)
_AXE_RUN = """
async () => {
  // A colour that is on its way to another one is neither: even the shortest transition lasts until the next frame, and
  // what inherits the colour begins its own then.
  const ends = (one) => one.effect.getComputedTiming().endTime !== Infinity;
  for (let moving; (moving = document.getAnimations().filter(ends)).length > 0; )
    await Promise.allSettled(moving.map((one) => one.finished));
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(
    (one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
}
"""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture, in base64."""

HOSTILE = (
    "<img src=x onerror=\"window.pwned='img'\">",
    "<script>window.pwned='script'</script>",
    '"><svg onload="window.pwned=\'svg\'">',
    "javascript:window.pwned='js'",
    "{{constructor.constructor('window.pwned=1')()}}",
    "\x1b]8;;javascript:window.pwned='osc8'\x07link\x1b]8;;\x07",
    "\x1b]52;c;cHduZWQ=\x07clip",
    "\u202egnp.exe",
    "</title></style><iframe src=javascript:window.pwned=1>",
)
"""Hostile text for a tool, a file name or a title, which must never be interpreted as markup."""


class ScriptedKind(FakeKind):
    """An agent of the gateway that is scripted by the test."""

    name = "demo"

    async def info(self) -> AgentInfo:
        return AgentInfo(name=self.name, ways={"stdio": "yes", "terminal": "yes"})

    def handlers(self) -> Mapping[type[ServiceCall[Any]], Any]:
        return {}

    def replace(self, real: WiredKind) -> "ScriptedKind":
        """Take the place of an agent that has files on this machine."""
        self.transcripts = real.transcripts
        self.describe_folder = real.describe_folder
        self.private_files = real.private_files
        return self


class Device:
    """One browser profile on one page. `problems` are the messages of the console and of the content policy."""

    def __init__(self, page: Page, name: str, base: str) -> None:
        self.page = page
        self.name = name
        self.base = base
        self.problems: list[str] = []
        self.strayed: list[str] = []
        page.context.set_default_timeout(PATIENCE * 1000)
        page.on("console", self._console)
        page.on("pageerror", self._error)
        self._received = asyncio.Event()
        page.on("websocket", lambda opened: opened.on("framereceived", lambda _: self._received.set()))

    async def connected(self) -> None:
        """Wait until the page's socket has received a frame."""
        async with asyncio.timeout(PATIENCE):
            await self._received.wait()

    @property
    def context(self) -> BrowserContext:
        return self.page.context

    async def open(self, path: str) -> None:
        await self.page.goto(self.base + path)
        await self.page.get_by_role("heading", level=1).first.wait_for()

    async def accessible(self) -> None:
        """Check that axe finds no problem on the current page."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE.read_text())
        found: list[str] = await self.page.evaluate(_AXE_RUN)
        assert found == [], f"{self.page.url}: {found}"

    async def fits(self) -> None:
        """Check that nothing is wider than the window."""
        wide: bool = await self.page.evaluate(
            "[document.documentElement, document.querySelector('.page')].some((e) => e.scrollWidth > e.clientWidth + 1)"
        )
        assert not wide, f"{self.page.url} has to be scrolled sideways at {self.page.viewport_size}"

    async def unharmed(self) -> None:
        assert await self.page.evaluate("window.pwned") is None
        assert await self.page.locator("iframe, img[src='x']").count() == 0

    def _console(self, message: ConsoleMessage) -> None:
        # The browser also logs a call that is rejected on purpose; that is not the page's mistake.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def _error(self, error: Error) -> None:
        self.problems.append(str(error))


class UiHarness:
    def __init__(self, browser: Browser, running: wiring.GatewayInfo, folder: Path, kind: ScriptedKind | None) -> None:
        self.running = running
        self.folder = folder
        self.kind = kind
        self.devices: list[Device] = []
        self._browser = browser
        headers = {"authorization": f"Bearer {running.token}"}
        self.http = local_client(base_url=running.url, headers=headers)

    async def device(
        self, name: str = "Desk", size: tuple[int, int] = DESKTOP, *, scopes: tuple[str, ...] = ("admin",), **more: Any
    ) -> Device:
        """Sign in by a link, and open the page `at`."""
        user, at = more.pop("user", ""), more.pop("at", "/app")
        if user:
            await self.http.post("/v1/users", json={"name": user})
        body = {"name": name, "scopes": list(scopes), "user": user}
        link = (await self.http.post("/v1/login-codes", json=body)).json()["url"]
        # Nothing is animated: this machine draws every frame of an animation with its CPU.
        shown: Any = {"viewport": {"width": size[0], "height": size[1]}, "reduced_motion": "reduce"}
        context = await self._browser.new_context(**shown, **more)
        made = Device(await context.new_page(), name, self.running.url)

        def asked(request: Request) -> None:
            if not request.url.startswith((self.running.url, "data:", "blob:")):
                made.strayed.append(request.url)

        # Only an observer: a browser whose requests are routed keeps no cache.
        context.on("request", asked)
        self.devices.append(made)
        # The code in the fragment works on every page.
        await made.open(f"{at}#{urlsplit(link).fragment}")
        assert await made.page.evaluate("localStorage.getItem('fairlead.key')"), "it is signed in before it is drawn"
        return made

    async def session(self, text: str, title: str = "", **more: Any) -> str:
        body = {"cwd": str(self.folder), "text": text, "title": title, **more}
        return str((await self.http.post("/v1/sessions", json=body)).json()["session"])

    async def agent(self, number: int = 1) -> FakeAgent:
        """The n-th agent, working on its first prompt."""
        assert self.kind is not None
        agent = await self.kind.launched(number)
        await agent.prompted()
        await agent.ready()
        return agent

    async def asked(self, number: int = 1) -> list[dict[str, Any]]:
        """Wait until this many requests wait for a person."""

        async def waiting() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await self.http.get("/v1/permissions")).json()["permissions"]
            return found

        return await eventually(waiting, lambda found: len(found) >= number)

    async def events(self, session: str, kind: str) -> list[dict[str, Any]]:
        page = (await self.http.get(f"/v1/sessions/{session}/events", params={"limit": 1000})).json()
        return [event for event in page["events"] if event["type"] == kind]

    async def happened(self, session: str, kind: str) -> dict[str, Any]:
        """The first event of that kind, once there is one."""

        async def look() -> list[dict[str, Any]]:
            return await self.events(session, kind)

        return (await eventually(look, bool))[0]

    def well(self) -> None:
        """Check that no page complained, and that every request went to the gateway."""
        for device in self.devices:
            assert device.problems == [], (device.name, device.problems)
            assert device.strayed == [], (device.name, device.strayed)


@cache
def built_once() -> Path:
    """A copy of the built UI for this run: a build in the meantime removes no file under a page."""
    assert (BUILT / "index.html").exists(), "the web UI is not built: `python -m tools.web` builds it"
    copy = Path(tempfile.mkdtemp(prefix="fairlead-ui-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    return Path(shutil.copytree(BUILT, copy / "dist"))


@asynccontextmanager
async def open_ui(
    browser: Browser,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    scripted: bool = True,
    env: Mapping[str, str] | None = None,
    **config: Any,
) -> AsyncIterator[UiHarness]:
    """`scripted`: the agent is scripted by the test; otherwise it is the demo agent. `env` is the gateway's own."""
    ui = WebUi(built_once())
    monkeypatch.setattr("fairlead.wiring.gateway.WebUi", lambda: ui)
    assert AXE.exists(), "axe-core is not there: `npm ci` in web/ fetches it"
    kind = ScriptedKind() if scripted else None
    if kind is not None:
        real = wiring.agents.agent_kinds

        def scripted_kinds(*given: Any, **named: Any) -> dict[str, ScriptedKind]:
            return dict.fromkeys(("demo", "claude"), kind.replace(real(*given, **named)["claude"]))

        monkeypatch.setattr("fairlead.wiring.agents.agent_kinds", scripted_kinds)
    work = folder / "work"
    work.mkdir()
    given = {
        "port": 0,
        "data": str(folder / "data"),
        "agent": "demo",
        "roots": (str(work),),
        "claude_homes": (),
        "shell": "/bin/sh",
        **config,
    }
    own = env or {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath)}
    async with wiring.running(Config(**given), own) as running:
        made = UiHarness(browser, running, work, kind)
        try:
            yield made
            made.well()
        finally:
            for device in made.devices:
                # Before the gateway ends: how a page reacts to a missing gateway is tested elsewhere.
                await device.context.close()
            await made.http.aclose()
            await asyncio.sleep(0)
