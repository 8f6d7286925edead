"""A real browser for tests: the Chromium of this machine, driven over a pipe, with loopback as its only network."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from e2e.harness import why_not_isolated
from patience import PATIENCE
from tools.browser import browser_arguments, browser_path, xterm_files

PICTURES = Path(__file__).resolve().parents[2] / "build" / "browser"
"""Screenshots of a failed test's pages, for a person to look at. Never committed."""

async_fixture = functools.partial(pytest_asyncio.fixture, loop_scope="session")
"""A fixture on the event loop of the browser, which outlives a test."""

Seen = TypeVar("Seen")


def why_no_browser() -> str | None:
    """Why a browser test cannot run here, or None."""
    if browser_path() is None:
        return "there is no Chromium: `make clis` installs it, or `apt-get install chromium-headless-shell`"
    missing = [str(path) for path in xterm_files() if not path.exists()]
    return f"{missing[0]} is missing: `make clis` fetches it" if missing else why_not_isolated()


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        program = browser_path()
        browser = await playwright.chromium.launch(
            executable_path=program, args=browser_arguments(), timeout=PATIENCE * 1000
        )
        try:
            yield browser
        finally:
            await browser.close()


async def eventually(look: Callable[[], Awaitable[Seen]], holds: Callable[[Seen], object]) -> Seen:
    """Poll `look` until the result fits, and return it; when patience ends, return the last result."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not holds(seen := await look()):
        assert asyncio.get_running_loop().time() < deadline, f"it did not come to be; there is {str(seen)[:4000]}"
        # Each poll is work for three processes.
        await asyncio.sleep(0.1)
    return seen
