"""Fixtures for tests with a real browser: the browser itself, and pictures of what its pages showed at the end."""

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from browser.browsing import PICTURES, browsing, why_no_browser


@pytest.fixture
async def chromium(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    if reason := why_no_browser():
        pytest.skip(reason)
    name = re.sub(r"[^\w-]", "-", request.node.name)
    async with browsing() as browser:
        yield browser
        for number, page in enumerate(page for context in browser.contexts for page in context.pages):
            await page.screenshot(path=PICTURES / f"{name}-{number}.png")
