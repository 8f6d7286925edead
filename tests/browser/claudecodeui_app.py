"""claudecodeui's own app, unmodified, in a real browser on our door: what a person does there and what they see.

Rule: everything is done as a person does it, by the app's own fields, keys and buttons. Its files come from a cache
(tools/cloudcli_app.py); none is in this repository.
"""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    FilePayload,
    Locator,
    Page,
    Request,
    Response,
    StorageState,
    WebSocket,
)

from browser.chromium import eventually
from fairlead.agents.claude.tui import screen
from fairlead.terminals.api import Screen, Size
from fairlead.testing.claudecodeui_shell_client import ClaudeCodeUiShellClient
from faults.gateway_process import GatewayProcess
from patience import PATIENCE
from tools.cloudcli_app import VERSION, app_folder

PASSWORD = "correct horse battery"

COMPOSER = "textarea[data-slot=prompt-input-textarea]"

NO_BLUR = """
const sheet = new CSSStyleSheet();
sheet.replaceSync("*, ::before, ::after, ::backdrop { backdrop-filter: none !important; }");
document.adoptedStyleSheets.push(sheet);
"""
"""What lies behind the app's panels is blurred again for each frame, which is a quarter of all its CPU time here."""

COUNT_ENDS = """
window.handledEnds = 0;
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      // After every listener of the app.
      if (String(data).includes('"kind":"complete"')) setTimeout(() => { window.handledEnds += 1; });
    });
  }
};
"""

Frame = dict[str, Any]


def dot_png() -> tuple[str, str, bytes]:
    """A picture of one point: its name, its type and its bytes."""
    head = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return "dot.png", "image/png", base64.b64decode(head)


def why_no_app(version: str = VERSION) -> str | None:
    folder = app_folder(version)
    return None if folder.exists() else f"claudecodeui's app is not in {folder}: `make clis` fetches it"


class Tab:
    """One tab with the app. `frames` is what its chat socket was sent, `shell` what its terminal shows, `missed` the
    calls that were answered with an error, `complaints` the errors in its console."""

    def __init__(self, page: Page, user: str) -> None:
        self.page = page
        self.user = user
        self.frames: list[Frame] = []
        self.missed: list[str] = []
        self.complaints: list[str] = []
        self.shell = ClaudeCodeUiShellClient()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("websocket", self._listen)
        page.on("response", self._answered)
        page.on("console", self._complained)

    def _listen(self, opened: WebSocket) -> None:
        if "/shell?" in opened.url:
            opened.on("framesent", lambda data: self._sized(json.loads(data)))
            opened.on("framereceived", lambda data: self.shell.receive(json.loads(data)))
        else:
            opened.on("framereceived", lambda data: self.frames.append(json.loads(data)))

    def _sized(self, frame: Frame) -> None:
        if frame["type"] in ("init", "resize"):
            self.shell.resize(frame["cols"], frame["rows"])

    def _answered(self, answer: Response) -> None:
        if answer.status >= 400:
            self.missed.append(f"{answer.status} {answer.request.method} {urlsplit(answer.url).path}")

    def _complained(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    # --- doing

    async def sign_in(self, password: str = PASSWORD) -> None:
        await self.page.fill("#username", self.user)
        await self.page.fill("#password", password)
        await self.page.keyboard.press("Enter")

    async def choose(self, words: str) -> None:
        """Click on what bears these words."""
        await self.visible(words).first.click()

    async def say(self, text: str) -> None:
        await self.page.fill(COMPOSER, text)
        await self.page.keyboard.press("Enter")

    async def write(self, text: str) -> None:
        """Key by key, and not sent."""
        await self.page.locator(COMPOSER).click()
        await self.page.keyboard.type(text)

    async def attach(self, *files: tuple[str, str, bytes]) -> None:
        """Name, type and bytes of each, as chosen from the disk."""
        chosen: list[FilePayload] = [{"name": name, "mimeType": kind, "buffer": data} for name, kind, data in files]
        await self.page.locator("input[type=file]").first.set_input_files(chosen)

    async def saved(self, name: str) -> bytes:
        """The file of this name, saved to the disk."""
        async with self.page.expect_download() as saving:
            await self.choose(name)
        path = await (await saving.value).path()
        return await asyncio.to_thread(path.read_bytes)

    async def stop(self) -> None:
        await self.page.keyboard.press("Escape")

    # --- seeing

    async def written(self) -> str:
        """What stands in the composer."""
        return await self.page.locator(COMPOSER).input_value()

    async def allowed_tools(self) -> list[str]:
        """What the app has put away of its settings."""
        kept: list[str] = await self.page.evaluate(
            "() => JSON.parse(localStorage.getItem('claude-settings') ?? '{}').allowedTools ?? []"
        )
        return kept

    def visible(self, words: str) -> Locator:
        return self.page.get_by_text(words, exact=True).locator("visible=true")

    async def answers(self) -> list[str]:
        """What the assistant has said, a text each."""
        return await self._said("assistant")

    async def words(self) -> list[str]:
        """What the assistant has said, without its calls."""
        return [text for text in await self.answers() if text]

    async def prompts(self) -> list[str]:
        """What the person has said."""
        return await self._said("user")

    async def pictures(self) -> list[int]:
        """How wide the pictures really are that the person has sent; 0 is one that is not to be seen."""
        widths: list[int] = await self.page.locator(".chat-message.user img").evaluate_all(
            "images => images.map(image => image.naturalWidth)"
        )
        return widths

    async def _said(self, by: str) -> list[str]:
        # Not what is painted of them: a tab in the background paints nothing.
        return [text.strip() for text in await self.page.locator(f".chat-message.{by} .prose").all_text_contents()]

    async def answered(self, *texts: str) -> None:
        """Exactly these, in this order: nothing is there twice."""
        await eventually(self.answers, lambda seen: seen == list(texts))

    async def prompted(self, *texts: str) -> None:
        """The person has said exactly these, each once."""
        await eventually(self.prompts, lambda seen: seen == list(texts))

    def told(self) -> str:
        """The last whole text of the assistant that this tab was sent."""
        texts = [frame["content"] for frame in self.frames if frame.get("role") == "assistant"]
        return str(texts[-1]).strip()

    async def ticks(self) -> int:
        """How far the last answer has come that ticks."""
        said = await self.answers()
        return said[-1].count("tick") if said else 0

    async def ends(self) -> int:
        """How many runs this tab has been told the end of."""
        return sum(frame.get("kind") == "complete" for frame in self.frames)

    async def handled_ends(self) -> int:
        """How many of them the app has dealt with since the page was loaded."""
        return int(await self.page.evaluate("window.handledEnds"))

    async def until(self, look: Callable[[], Awaitable[int]], least: int) -> int:
        return await eventually(look, lambda seen: seen >= least)

    async def shows(self, text: str) -> None:
        """On the screen of the terminal, which the app paints on a canvas."""
        await eventually(self._screen, lambda lines: any(text in line for line in lines))

    async def asks(self) -> None:
        """The program in the terminal waits at its prompt, in which nothing stands."""

        def prompts(lines: tuple[str, ...]) -> bool:
            size = Size(self.shell.screen.columns, self.shell.screen.rows)
            return screen.read(Screen(lines, 0, 0, size, 0, pasting=True)).state == "prompt"

        await eventually(self._screen, prompts)

    async def _screen(self) -> tuple[str, ...]:
        return self.shell.screen.lines()


class AppDoor:
    """`fairlead serve --door claudecodeui=PORT,static=DIR`: a gateway, with the app on a port of its own."""

    def __init__(self, gateway: GatewayProcess, version: str = VERSION) -> None:
        self.gateway = gateway
        self.version = version
        self.users = 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        gateway.arguments = ("--door", f"claudecodeui={self.port},static={app_folder(version)}")

    async def __aenter__(self) -> "AppDoor":
        if reason := why_no_app(self.version):
            pytest.skip(reason)
        await self.gateway.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gateway.clean_up()

    async def new_user(self) -> str:
        """Somebody of whom the gateway has not heard before; their name."""
        self.users += 1
        name = f"ann{self.users}"
        async with self.gateway.http() as http:
            scopes = ["view", "chat", "approve", "terminal"]
            answer = await http.post("/v1/users", json={"name": name, "password": PASSWORD, "scopes": scopes})
            assert answer.status_code == 201, answer.text
        return name

    async def token_of(self, user: str) -> str:
        """What the app keeps of somebody who has signed in."""
        async with self.gateway.http() as http:
            given = {"username": user, "password": PASSWORD}
            answer = await http.post(f"{self.address}/api/auth/login", json=given, headers={"authorization": ""})
            assert answer.status_code == 200, answer.text
            return str(answer.json()["token"])


class AppHarness:
    """A door, a user of their own, and a browser in front of it."""

    def __init__(self, browser: Browser, door: AppDoor, user: str) -> None:
        self.browser = browser
        self.gateway = door.gateway
        self.address = door.address
        self.user = user
        self.strangers: list[Request] = []
        """What pages wanted from elsewhere."""
        self._door = door
        self._stopped: list[Request] = []

    async def person(self, token: str = "") -> BrowserContext:
        """A browser profile of its own, which keeps the token of a visit before."""
        kept: StorageState = {"cookies": [], "origins": []}
        if token:
            kept["origins"] = [{"origin": self.address, "localStorage": [{"name": "auth-token", "value": token}]}]
        # What is drawn costs CPU time here: nothing moves by itself, and a pixel stands for four.
        context = await self.browser.new_context(
            viewport={"width": 1280, "height": 900},
            device_scale_factor=0.5,
            reduced_motion="reduce",
            storage_state=kept,
        )
        await context.add_init_script(NO_BLUR)
        await context.add_init_script(COUNT_ENDS)
        context.on("request", self._asked)
        context.on("requestfailed", self._failed)
        return context

    async def tab(self, context: BrowserContext, path: str = "/") -> Tab:
        tab = Tab(await context.new_page(), self.user)
        await tab.page.goto(f"{self.address}{path}")
        return tab

    async def known_person(self) -> BrowserContext:
        """A browser profile of somebody who has signed in before."""
        return await self.person(await self._door.token_of(self.user))

    async def signed_in(self) -> Tab:
        tab = await self.tab(await self.known_person())
        await tab.visible("New Session").first.wait_for()
        return tab

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self.strangers.append(request)

    def _failed(self, request: Request) -> None:
        if request.failure == "csp":
            self._stopped.append(request)

    def nothing_left(self) -> None:
        """The page's own policy has stopped every request that would have left the door."""
        assert [request.url for request in self.strangers if request not in self._stopped] == []


@asynccontextmanager
async def open_house(browser: Browser, door: AppDoor) -> AsyncIterator[AppHarness]:
    house = AppHarness(browser, door, await door.new_user())
    yield house
    house.nothing_left()
