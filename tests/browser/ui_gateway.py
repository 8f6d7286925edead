"""`fairlead serve` as a separate process under the web UI, and its log next to the texts that a page shows."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx2
from playwright.async_api import Browser, Page

from browser.chromium import eventually
from local_http import local_client
from patience import PATIENCE
from server.fakes import free_port

TOKEN = "a-token-for-this-test-alone-0123456789"


class Gateway:
    """A gateway that can be killed and started again on the same folder."""

    def __init__(self, folder: Path, *, env: Mapping[str, str] | None = None, **options: object) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = local_client(base_url=self.url, headers={"authorization": f"Bearer {TOKEN}"})
        own = {"PATH": os.environ["PATH"], "HOME": str(folder), "FAIRLEAD_ON_STOP": "end"}
        self._env = {**own, **(env or {}), "FAIRLEAD_TOKEN": TOKEN}
        self._options = options
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        given = {"port": self.port, "data": self.folder / "data", "roots": self.folder / "work", **self._options}
        options = [text for name, value in given.items() for text in (f"--{name}", str(value))]
        self._process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("fairlead")), "serve", *options, env=self._env, cwd=self.folder,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

        async def healthy() -> bool:
            with contextlib.suppress(httpx2.TransportError):
                return (await self.http.get("/health")).status_code == 200
            return False

        await eventually(healthy, bool)

    async def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(how)
        await self._process.wait()

    async def page(self, browser: Browser, name: str = "Desk") -> Page:
        """A separate device, signed in."""
        link = (await self.http.post("/v1/login-codes", json={"name": name})).json()["url"]
        page = await (await browser.new_context(reduced_motion="reduce")).new_page()
        page.set_default_timeout(PATIENCE * 1000)
        await page.goto(link)
        await page.get_by_role("navigation", name="Pages").wait_for()
        return page

    async def log(self, session: str) -> list[dict[str, Any]]:
        page = (await self.http.get(f"/v1/sessions/{session}/events", params={"limit": 1000})).json()
        events: list[dict[str, Any]] = page["events"]
        return events


async def shown_texts(page: Page) -> list[str]:
    found: list[str] = await page.locator(".agent-text").all_inner_texts()
    return [" ".join(text.split()) for text in found]


def told_texts(log: Iterable[dict[str, Any]]) -> list[str]:
    blocks: dict[tuple[str, int], str] = {}
    for event in log:
        # A block that was cut off has only its deltas.
        if event["type"] in ("text", "text.delta"):
            place = event["message"], event["block"]
            before = blocks.get(place, "") if event["type"] == "text.delta" else ""
            blocks[place] = before + event["text"]
    return [" ".join(text.split()) for text in blocks.values()]
