"""The sample plugin in claudecodeui's published app: its tab, its page and its server, as a person sees them."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import Browser, Page

from browser.chromium import async_fixture, eventually
from browser.claudecodeui_app import AppDoor, AppHarness, open_app
from faults.gateway_process import GatewayProcess
from patience import PATIENCE
from plugins.harness import BOARD


@async_fixture
async def harness(chromium: Browser, tmp_path: Path) -> AsyncIterator[AppHarness]:
    """With the sample enabled, and a session."""
    shutil.copytree(BOARD, tmp_path / "plugins" / "board", ignore=shutil.ignore_patterns("__pycache__"))
    gateway = GatewayProcess(tmp_path, plugins=tmp_path / "plugins")
    async with AppDoor(gateway) as door, open_app(chromium, door) as harness:
        async with gateway.http() as http:
            (shown,) = (await http.get("/v1/plugins")).json()["plugins"]
            await http.post("/v1/plugins/board", json={"digest": shown["digest"]})

            async def state() -> str:
                return str((await http.get("/v1/plugins")).json()["plugins"][0]["state"])

            await eventually(state, lambda seen: seen == "running")
        yield harness


async def open_board(harness: AppHarness) -> Page:
    page = await (await harness.known_person()).new_page()
    page.set_default_timeout(PATIENCE * 1000)
    await page.goto(f"{harness.address}/")
    await page.get_by_text("New Session", exact=True).locator("visible=true").first.click()
    await page.get_by_role("tab", name="Board").click()
    return page


async def test_the_board_is_a_tab_of_the_app_shared_by_two_people(harness: AppHarness) -> None:
    one, two = await open_board(harness), await open_board(harness)
    await one.get_by_placeholder("Write on the board").fill("<b>hello</b>")
    await one.keyboard.press("Enter")
    for page in (one, two):
        await page.locator("li", has_text="<b>hello</b>").wait_for()
