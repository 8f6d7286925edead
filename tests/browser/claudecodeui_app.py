"""claudecodeui's own app, unmodified, in a real browser on our door: a person's actions there and what they see.

Rule: every action is done as a person does it, with the app's own fields, keys and buttons. Its files come from a cache
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
from fairlead_testing.claudecodeui_shell_client import ClaudeCodeUiShellClient
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
"""The app blurs everything behind its panels again for each frame, which is a quarter of its CPU time here."""

Frame = dict[str, Any]


def dot_png() -> tuple[str, str, bytes]:
    """An image of one pixel: its name, its type and its bytes."""
    head = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return "dot.png", "image/png", base64.b64decode(head)


def why_no_app(version: str = VERSION) -> str | None:
    folder = app_folder(version)
    return None if folder.exists() else f"claudecodeui's app is not in {folder}: `make clis` fetches it"


class Tab:
    """One tab with the app.

    `frames` are the frames that its chat socket received, `shell` is its terminal's output, `missed` are the calls that
    were answered with an error, `complaints` the errors in its console.
    """

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

    # --- acting

    async def sign_in(self, password: str = PASSWORD) -> None:
        await self.page.fill("#username", self.user)
        await self.page.fill("#password", password)
        await self.page.keyboard.press("Enter")

    async def choose(self, words: str) -> None:
        """Click on the element with these words."""
        await self.visible(words).first.click()

    async def say(self, text: str) -> None:
        await self.page.fill(COMPOSER, text)
        await self.page.keyboard.press("Enter")

    async def write(self, text: str) -> None:
        """Type key by key, without sending."""
        await self.page.locator(COMPOSER).click()
        await self.page.keyboard.type(text)

    async def attach(self, *files: tuple[str, str, bytes]) -> None:
        """Name, type and bytes of each file, as chosen from the disk."""
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
        """The text in the composer."""
        return await self.page.locator(COMPOSER).input_value()

    async def allowed_tools(self) -> list[str]:
        """The allowed tools that the app has saved in its settings."""
        kept: list[str] = await self.page.evaluate(
            "() => JSON.parse(localStorage.getItem('claude-settings') ?? '{}').allowedTools ?? []"
        )
        return kept

    def visible(self, words: str) -> Locator:
        return self.page.get_by_text(words, exact=True).locator("visible=true")

    async def answers(self) -> list[str]:
        """The texts of the assistant, one per message."""
        return await self._texts_of("assistant")

    async def words(self) -> list[str]:
        """The texts of the assistant, without its calls."""
        return [text for text in await self.answers() if text]

    async def prompts(self) -> list[str]:
        """The texts of the person."""
        return await self._texts_of("user")

    async def pictures(self) -> list[int]:
        """The real widths of the images that the person has sent; 0 is an image that cannot be seen."""
        widths: list[int] = await self.page.locator(".chat-message.user img").evaluate_all(
            "images => images.map(image => image.naturalWidth)"
        )
        return widths

    async def _texts_of(self, by: str) -> list[str]:
        # Not the painted text: a tab in the background paints nothing.
        return [text.strip() for text in await self.page.locator(f".chat-message.{by} .prose").all_text_contents()]

    async def answered(self, *texts: str) -> None:
        """Wait for exactly these texts, in this order: none appears twice."""
        await eventually(self.answers, lambda seen: seen == list(texts))

    async def prompted(self, *texts: str) -> None:
        """Wait until the person has sent exactly these texts, each once."""
        await eventually(self.prompts, lambda seen: seen == list(texts))

    def last_answer(self) -> str:
        """The last whole text of the assistant that this tab received."""
        texts = [frame["content"] for frame in self.frames if frame.get("role") == "assistant"]
        return str(texts[-1]).strip()

    async def ticks(self) -> int:
        """How many ticks the last ticking answer has so far."""
        answers = await self.answers()
        return answers[-1].count("tick") if answers else 0

    async def ends(self) -> int:
        """How many ends of runs this tab has received."""
        return sum(frame.get("kind") == "complete" for frame in self.frames)

    async def until(self, look: Callable[[], Awaitable[int]], least: int) -> int:
        return await eventually(look, lambda seen: seen >= least)

    async def shows(self, text: str) -> None:
        """Wait for the text on the screen of the terminal, which the app paints on a canvas."""
        await eventually(self._screen, lambda lines: any(text in line for line in lines))

    async def asks(self) -> None:
        """Wait until the program in the terminal waits at its empty prompt."""

        def prompts(lines: tuple[str, ...]) -> bool:
            size = Size(self.shell.screen.columns, self.shell.screen.rows)
            return screen.read(Screen(lines, 0, 0, size, 0)).state == "prompt"

        await eventually(self._screen, prompts)

    async def _screen(self) -> tuple[str, ...]:
        return self.shell.screen.lines()


class AppDoor:
    """`fairlead serve --door claudecodeui=PORT,static=DIR`: a gateway, with the app on a separate port."""

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
        """Create a user that is new to the gateway; return their name."""
        self.users += 1
        name = f"ann{self.users}"
        async with self.gateway.http() as http:
            scopes = ["view", "chat", "approve", "terminal"]
            answer = await http.post("/v1/users", json={"name": name, "password": PASSWORD, "scopes": scopes})
            assert answer.status_code == 201, answer.text
        return name

    async def token_of(self, user: str) -> str:
        """The token that the app stores for a signed-in user."""
        async with self.gateway.http() as http:
            given = {"username": user, "password": PASSWORD}
            answer = await http.post(f"{self.address}/api/auth/login", json=given, headers={"authorization": ""})
            assert answer.status_code == 200, answer.text
            return str(answer.json()["token"])


class AppHarness:
    """A door, a separate user, and a browser in front of it."""

    def __init__(self, browser: Browser, door: AppDoor, user: str) -> None:
        self.browser = browser
        self.gateway = door.gateway
        self.address = door.address
        self.user = user
        self.strangers: list[Request] = []
        """Addresses outside the door that pages requested."""
        self._door = door
        self._stopped: list[Request] = []

    async def person(self, token: str = "") -> BrowserContext:
        """A separate browser profile, which keeps the token of an earlier visit."""
        kept: StorageState = {"cookies": [], "origins": []}
        if token:
            kept["origins"] = [{"origin": self.address, "localStorage": [{"name": "auth-token", "value": token}]}]
        # Drawing costs CPU time here: nothing is animated, and one pixel stands for four.
        context = await self.browser.new_context(
            viewport={"width": 1280, "height": 900},
            device_scale_factor=0.5,
            reduced_motion="reduce",
            storage_state=kept,
        )
        await context.add_init_script(NO_BLUR)
        context.on("request", self._asked)
        context.on("requestfailed", self._failed)
        return context

    async def tab(self, context: BrowserContext, path: str = "/") -> Tab:
        tab = Tab(await context.new_page(), self.user)
        await tab.page.goto(f"{self.address}{path}")
        return tab

    async def known_person(self) -> BrowserContext:
        """A browser profile of a user who has signed in before."""
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
        """Check that the page's own policy has blocked every request that would have left the door."""
        assert [request.url for request in self.strangers if request not in self._stopped] == []


@asynccontextmanager
async def open_app(browser: Browser, door: AppDoor) -> AsyncIterator[AppHarness]:
    harness = AppHarness(browser, door, await door.new_user())
    yield harness
    harness.nothing_left()
