"""A browser signs in on the doors of MyLifeDB and Cognova by HTTP Basic and chats there, and no other page can use it.

The front ends of the two are not on any registry, so the pages here are small ones that do the same: `pages/`.
claudecodeui's app, which signs in by itself, has separate tests (test_browser_claudecodeui.py).
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, Page

from browser.chromium import async_fixture, eventually
from fairlead.config import load
from fairlead.wiring import running
from local_http import local_client
from patience import PATIENCE

PAGES = Path(__file__).parent / "pages"
ANN = {"username": "ann", "password": "correct horse"}
HELLO = "Hello from the scripted model."


@dataclass
class Signed:
    """A gateway with one door, whose user is ann."""

    browser: Browser
    name: str
    url: str
    token: str
    admin: httpx2.AsyncClient

    async def page(self, **credentials: str) -> Page:
        """Open a page in a separate profile of a person who types these credentials when the browser asks."""
        given: dict[str, Any] = {"http_credentials": {**credentials, "origin": self.url}} if credentials else {}
        context = await self.browser.new_context(**given)
        context.set_default_timeout(PATIENCE * 1000)
        return await context.new_page()


@asynccontextmanager
async def door_of(browser: Browser, folder: Path, name: str) -> AsyncIterator[Signed]:
    site, root = folder / "site", folder / "root"
    root.mkdir()
    site.mkdir()
    shutil.copy(PAGES / f"{name}.html", site / "index.html")
    given = {"data": str(folder / "data"), "port": 0, "roots": [str(root)], "agent": "demo"}
    door = {name: {"port": 0, "static": str(site)}}
    env = {"HOME": str(root), "PATH": os.environ.get("PATH", os.defpath)}
    async with running(load({"HOME": str(root)}, {**given, "door": door}).config, env) as gateway:
        own = {"authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=gateway.url, headers=own) as admin:
            made = await admin.post("/v1/users", json={"name": ANN["username"], "password": ANN["password"]})
            assert made.status_code == 201, made.text
            yield Signed(browser, name, gateway.doors[0].url, gateway.token, admin)


@async_fixture(params=["mylifedb", "cognova"])
async def door(request: pytest.FixtureRequest, chromium: Browser, tmp_path: Path) -> AsyncIterator[Signed]:
    async with door_of(chromium, tmp_path, request.param) as found:
        yield found


async def shows_lines(page: Page, *lines: str) -> None:
    await eventually(page.locator("#said li").all_text_contents, lambda seen: seen == list(lines))


@pytest.mark.rules("S000-201")
async def test_a_signed_in_user_can_chat_and_other_users_see_nothing(door: Signed) -> None:
    wrong = await door.page(username="ann", password="wrong horse")
    found = await wrong.goto(door.url)
    assert found is not None and found.status == 401
    assert await wrong.locator("#said").count() == 0
    anonymous = await door.page()
    # A browser without a person to ask shows nothing at all, or the refusal.
    with contextlib.suppress(Exception):
        await anonymous.goto(door.url)
    assert await anonymous.locator("#said").count() == 0

    # A token is accepted in place of the password.
    bearer = await door.page(username="whoever", password=door.token)
    await bearer.goto(door.url)
    await shows_lines(bearer, "connected")

    page = await door.page(**ANN)
    await page.goto(door.url)
    await shows_lines(page, "connected")
    await page.fill("#text", "SCRIPT:text by a browser")
    await page.keyboard.press("Enter")
    await shows_lines(page, "connected", f"{HELLO} by a browser")
    heard = page.locator("#heard li")
    await eventually(heard.all_text_contents, lambda seen: {"updated", "1 conversations"} & set(seen))
    assert await page.context.cookies() == []
    # After a password change, pages opened with the old password are closed.
    changed = await door.admin.put("/v1/users/ann/password", json={"password": "battery staple"})
    assert changed.status_code < 300, changed.text
    await shows_lines(page, "connected", f"{HELLO} by a browser", "closed 4401")


@asynccontextmanager
async def stranger() -> AsyncIterator[str]:
    """A page on another port of the same host, which serves only an empty document."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<!doctype html><title>Another page</title>"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


ASKING = """
async ([door, path, socket]) => {
  const ended = (thing, ...names) => new Promise((done) => names.forEach((name) =>
    thing.addEventListener(name, () => done(name))));
  const image = new Image();
  const script = document.createElement("script");
  const frame = document.createElement("iframe");
  const told = [ended(image, "load", "error"), ended(script, "load", "error"), ended(frame, "load")];
  image.src = script.src = frame.src = door + path;
  document.documentElement.append(script, frame);
  const plain = { method: "POST", mode: "no-cors", credentials: "include", body: "{}" };
  told.push(fetch(door + path, plain).then(() => "opaque", () => "error"));
  told.push(ended(new WebSocket(door.replace("http", "ws") + socket), "open", "error"));
  return Promise.all(told);
}
"""


async def test_pages_of_other_ports_cannot_use_the_remembered_credentials(
    chromium: Browser, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fairlead.gate")
    async with door_of(chromium, tmp_path, "cognova") as door, stranger() as elsewhere:
        page = await door.page(**ANN)
        await page.goto(door.url)
        await shows_lines(page, "connected")
        before = (await door.admin.get("/v1/sessions")).json()
        other = await page.context.new_page()
        await other.goto(elsewhere)
        caplog.clear()
        path = "/api/conversations"
        image, script, _, _, socket = await other.evaluate(ASKING, [door.url, path, "/_ws/chat"])
        assert (image, script, socket) == ("error", "error", "error")
        form = f"""<form method="post" enctype="text/plain" action="{door.url}{path}"><input name="title"></form>"""
        await other.evaluate("form => { document.documentElement.innerHTML = form; }", form)
        async with other.expect_navigation():
            await other.evaluate("document.querySelector('form').submit()")
        assert "cross_site" in await other.content() or "foreign_origin" in await other.content()
        refused = [
            (vars(record)["kind"], vars(record)["status"]) for record in caplog.records if "kind" in vars(record)
        ]
        expected = [("GET", 403)] * 3 + [("POST", 403)] * 2 + [("websocket", 403)]
        assert sorted(refused) == expected, "a picture, a script, a frame, a fetch, a form and a socket"
        assert (await door.admin.get("/v1/sessions")).json() == before
        # A link is different: the page that it opens is the door's own.
        await other.goto(elsewhere)
        await other.evaluate("url => { document.documentElement.innerHTML = `<a href=${url}>there</a>`; }", door.url)
        await other.click("a")
        await shows_lines(other, "connected")
