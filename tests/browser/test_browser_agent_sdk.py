"""The official browser SDK, unmodified, in a page of another origin: over its socket and over its durable stream."""

import functools
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from browser.chromium import async_fixture, eventually
from faults.gateway_process import TOKEN, GatewayProcess
from patience import PATIENCE
from tools.agent_sdks import typescript_program

PAGES = Path(__file__).with_name("pages")
HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "browser-sdk.md"
SCRIPT = typescript_program().with_name("browser-sdk.js")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The files of the page."""
    if not SCRIPT.exists():
        pytest.skip(f"{SCRIPT} is missing: `make clis` fetches it")
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "browser-sdk.js").symlink_to(SCRIPT)
    (folder / "index.html").symlink_to(PAGES / "agent-sdk.html")
    return folder


@pytest.fixture
def origin(site: Path) -> Iterator[str]:
    """A web server with the page and the SDK, on another port than the gateway."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@async_fixture
async def gateway(origin: str, tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with GatewayProcess(tmp_path, origins=origin) as started:
        # After a restart the page finds it at the same address.
        started.settings["port"] = int(started.url.rpartition(":")[2])
        yield started


class SdkPage:
    def __init__(self, page: Page) -> None:
        self.page = page

    async def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.page.evaluate("window.seen")
        assert found["error"] is None, found["error"]
        return found

    async def results(self, count: int) -> dict[str, Any]:
        """Wait for this many ends of turns."""
        return await eventually(self.seen, lambda seen: len(of_type(seen, "result")) == count)

    async def send(self, text: str) -> None:
        await self.page.evaluate("text => send(text)", text)


def of_type(seen: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [message for message in seen["messages"] if message["type"] == kind]


def texts(seen: dict[str, Any]) -> list[str]:
    blocks = [block for message in of_type(seen, "assistant") for block in message["message"]["content"]]
    return [
        block["text"].removeprefix("Hello from the scripted model. ") for block in blocks if block["type"] == "text"
    ]


async def open_page(chromium: Browser, origin: str, options: dict[str, Any]) -> SdkPage:
    page = await (await chromium.new_context()).new_page()
    page.set_default_timeout(PATIENCE * 1000)
    await page.goto(f"{origin}/index.html")
    await page.wait_for_function("window.ready")
    await page.evaluate("options => start(options)", options)
    return SdkPage(page)


async def test_the_socket(chromium: Browser, origin: str, gateway: GatewayProcess) -> None:
    session = await gateway.create()
    url = f"{gateway.url.replace('http', 'ws', 1)}/v1/sessions/ws/{session}/subscribe?token={TOKEN}"
    page = await open_page(chromium, origin, {"websocket": {"url": url}})
    await page.send("SCRIPT:text hello")
    assert texts(await page.results(1)) == ["hello"]
    await page.send("SCRIPT:write from-a-page.txt")
    assert (await page.results(2))["asked"] == ["Write"]
    assert (gateway.cwd / "from-a-page.txt").exists()


async def test_the_page_of_the_how_to(chromium: Browser, origin: str, gateway: GatewayProcess, site: Path) -> None:
    """As it is printed there, except for the session, the token and the gateway's address."""
    (html,) = re.findall(r"```html\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    session = await gateway.create()
    for printed, real in (("SESSION", session), ("fl_...", TOKEN), ("http://127.0.0.1:7433", gateway.url)):
        assert printed in html
        html = html.replace(printed, real)
    (site / "how-to.html").write_text(html)
    page = await (await chromium.new_context()).new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    await page.goto(f"{origin}/how-to.html")
    await page.fill("#prompt", "SCRIPT:write how-to.txt")
    await page.click("#send")
    await page.get_by_text("File created successfully").wait_for(timeout=PATIENCE * 1000)
    assert (gateway.cwd / "how-to.txt").exists()


async def test_the_durable_stream(chromium: Browser, origin: str, gateway: GatewayProcess) -> None:
    """A turn, a permission, a request of the page; then all that happens while the page is away and the gateway is
    killed reaches it once and in order."""
    session = await gateway.create()
    base = f"{gateway.url}/v1/code/sessions/{session}/events"
    headers = {"Authorization": f"Bearer {TOKEN}", "anthropic-client-platform": "web"}
    sse = {"streamUrl": f"{base}/stream", "sendUrl": base, "sessionId": session, "headers": headers}
    page = await open_page(chromium, origin, {"sse": sse})
    await page.send("SCRIPT:text hello")
    seen = await page.results(1)
    assert texts(seen) == ["hello"] and of_type(seen, "stream_event")
    (prompt,) = of_type(seen, "user")
    assert prompt["message"]["content"] == "SCRIPT:text hello"
    statuses = [status.removeprefix("DELIVERY_STATUS_") for name, status in seen["deliveries"]]
    assert statuses == ["RECEIVED", "PROCESSING", "PROCESSED"]
    assert {name for name, _ in seen["deliveries"]} == {prompt["uuid"]}

    await page.page.evaluate("query.setPermissionMode('acceptEdits')")
    await page.page.evaluate("query.setPermissionMode('default')")
    await page.send("SCRIPT:write from-a-page.txt")
    assert (await page.results(2))["asked"] == ["Write"]
    assert (gateway.cwd / "from-a-page.txt").exists()

    assert await page.page.evaluate("suspend()")
    async with gateway.http() as http:
        await http.post(f"/v1/sessions/{session}/messages", json={"text": "SCRIPT:text while away"})

        async def turns() -> int:
            return [event["type"] for event in await gateway.stored(session)].count("turn.ended")

        await eventually(turns, lambda count: count == 3)
    assert await page.page.evaluate("resume()")
    await page.results(3)
    await gateway.kill()
    await gateway.start()
    await page.send("SCRIPT:text after a restart")
    seen = await page.results(4)

    assert [text for text in texts(seen) if text in ("hello", "while away", "after a restart")] == [
        "hello",
        "while away",
        "after a restart",
    ]
    assert len(of_type(seen, "user")) == 5, "four prompts and the result of a tool"
    assert seen["numbers"] == sorted(set(seen["numbers"])) and not seen["truncated"]
    assert max(Counter(message["uuid"] for message in seen["messages"] if "uuid" in message).values()) == 1
    dropped = await page.page.evaluate("dropped()")
    assert dropped == {}, dropped
