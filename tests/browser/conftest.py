"""Fixtures for tests with a real browser: one browser for all tests of a process, and screenshots of failed tests.

All tests of this folder, and their fixtures, run on one event loop, which is the browser's.
"""

import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from browser.chromium import PICTURES, async_fixture, browsing, why_no_browser
from browser.claudecodeui_app import AppDoor
from faults.gateway_process import GatewayProcess

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and HERE in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.obj = pictured(item)


def pictured(item: pytest.Function) -> Callable[..., Awaitable[None]]:
    """Wrap the test so that it takes screenshots of its pages when it fails, before its fixtures close them."""
    test = item.obj

    @functools.wraps(test)
    async def run(**given: Any) -> None:
        try:
            await test(**given)
        except Exception:
            name = re.sub(r"[^\w-]", "-", item.name)
            browser = item.funcargs["chromium"]
            assert isinstance(browser, Browser)
            for number, page in enumerate(page for context in browser.contexts for page in context.pages):
                await page.screenshot(path=PICTURES / f"{name}-{number}.png")
            raise

    return run


@async_fixture(scope="session")
async def one_chromium() -> AsyncIterator[Browser]:
    if reason := why_no_browser():
        pytest.skip(reason)
    async with browsing() as browser:
        yield browser


@async_fixture
async def chromium(one_chromium: Browser) -> AsyncIterator[Browser]:
    """The browser, without the profiles of any other test."""
    yield one_chromium
    for context in one_chromium.contexts:
        await context.close()


@async_fixture(scope="session")
async def cloud_door(one_chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AppDoor]:
    """claudecodeui's app on a gateway with the demo agent, shared by all tests that only need their own user."""
    async with AppDoor(GatewayProcess(tmp_path_factory.mktemp("cloud"))) as door:
        yield door
