"""No click crashes claudecodeui's app on our door: its buttons and tabs are clicked, each once, as they are found."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from browser.chromium import async_fixture
from browser.claudecodeui_app import AppDoor, AppHarness, open_app
from browser.click_everything import Clicker
from browser.test_browser_claudecodeui import HELLO
from faults.gateway_process import GatewayProcess


@async_fixture
async def harness(chromium: Browser, tmp_path: Path) -> AsyncIterator[AppHarness]:
    """On a separate gateway, because the buttons may do anything there."""
    async with AppDoor(GatewayProcess(tmp_path)) as door, open_app(chromium, door) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("most", [32, pytest.param(120, marks=pytest.mark.long)])
async def test_no_click_kills_the_app(harness: AppHarness, most: int) -> None:
    """At most `most` clicks. The panels' own tabs and the settings come first; in total there are some fifty."""
    tab = await harness.signed_in()
    await tab.say("SCRIPT:text hello")
    await tab.answered(f"{HELLO} hello")
    clicker = Clicker(tab.page, leave=frozenset({"Logout", "Log out", "Sign out"}))
    await clicker.click_all(most)
    assert clicker.died == []
    assert {"Chat", "Shell", "Files", "Source Control", "Settings", "Plugins"} <= set(clicker.clicked)
    # A button that needs text first.
    await clicker.reload()
    await tab.page.get_by_role("button", name="Settings", exact=True).first.click()
    await tab.page.get_by_role("button", name="Plugins", exact=True).click()
    await tab.page.get_by_placeholder("my-plugin").fill("https://example.invalid/some/plugin")
    async with tab.page.expect_response(lambda answer: "/api/plugins/install" in answer.url):
        await tab.page.get_by_role("button", name="Install", exact=True).first.click()
    await clicker.settled()
    assert clicker.failed == []
    assert await clicker.is_alive()
    # The state that the app stored meanwhile does not keep it from starting again.
    await tab.page.reload()
    await tab.visible("New Session").first.wait_for()
