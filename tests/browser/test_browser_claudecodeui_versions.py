"""Versions of claudecodeui's app on our door, from the oldest that works to the newest: one conversation each."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser, Response

from browser.chromium import async_fixture, eventually
from browser.claudecodeui_app import AppDoor, AppHarness, Tab, dot_png, open_app
from browser.test_browser_claudecodeui import HELLO, WROTE, harness
from e2e import harness as cli_harness
from faults.gateway_process import GatewayProcess
from tools.cloudcli_app import OTHERS, VERSION

__all__ = ["harness"]

VERSIONS = sorted((VERSION, *OTHERS))
SETTINGS_ON_SERVER = "1.37.3"
"""From this version on the server stores the app's settings, and settings that the server lacks are lost."""
ELSEWHERE = "/api/providers/"
"""The app requests the models of agents that do not exist here, and accepts the error."""


OF_TODAY = cli_harness.chosen(VERSIONS, "", datetime.now(UTC).toordinal())
"""The newest version, and one other chosen by the day; `make test-long` runs them all."""


@async_fixture(
    params=[pytest.param(version, marks=() if version in OF_TODAY else pytest.mark.long) for version in VERSIONS]
)
async def each_version(chromium: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AppHarness]:
    gateway = GatewayProcess(tmp_path)
    async with AppDoor(gateway, request.param) as door, open_app(chromium, door) as opened:
        yield opened


async def remembered(tab: Tab, version: str) -> None:
    """Click *Allow & remember*, and wait until the app has saved it."""

    def kept(answer: Response) -> bool:
        return answer.request.method == "PATCH" and '"Write"' in (answer.request.post_data or "")

    if version < SETTINGS_ON_SERVER:
        await tab.choose("Allow & remember")
        return
    async with tab.page.expect_response(kept):
        await tab.choose("Allow & remember")


async def test_a_conversation_with_a_file_a_picture_and_a_permanently_allowed_tool(
    each_version: AppHarness, request: pytest.FixtureRequest
) -> None:
    harness, version = each_version, request.node.callspec.params["each_version"]
    source = harness.gateway.cwd / "src"
    source.mkdir()
    await asyncio.to_thread((source / "main.py").write_text, "print('hi')\n")
    tab = await harness.signed_in()
    tab.missed.clear()

    # A file mentioned by its name.
    await tab.write("SCRIPT:text see @mai")
    await tab.visible("main.py").wait_for()
    await tab.page.keyboard.press("Enter")
    await eventually(tab.written, lambda text: text == "SCRIPT:text see src/main.py ")
    await tab.page.keyboard.press("Enter")
    await tab.answered(f"{HELLO} see src/main.py")
    await tab.until(tab.ends, 1)

    # An image.
    await tab.attach(dot_png())
    await tab.say("SCRIPT:text seen")
    await tab.answered(f"{HELLO} see src/main.py", f"{HELLO} seen")
    await eventually(tab.pictures, lambda widths: widths == [1])
    await tab.until(tab.ends, 2)

    # A tool. The remembered permission applies in the next session too, in the project's folder.
    await tab.say("SCRIPT:write notes.txt")
    await remembered(tab, version)
    await tab.until(tab.ends, 3)
    tab.frames.clear()
    await tab.page.goto(harness.address)
    await tab.visible("New Session").first.wait_for()
    await tab.choose("New Session")
    await tab.say("SCRIPT:write more.txt")
    await eventually(tab.words, lambda texts: len(texts) == 1 and texts[0].startswith(WROTE))
    assert not any(frame.get("kind") == "permission_request" for frame in tab.frames)
    assert (harness.gateway.cwd / "more.txt").read_text() == "hello\nworld\n"
    assert [call for call in tab.missed if ELSEWHERE not in call] == []


async def test_a_tool_that_may_not_be_allowed_by_its_name_is_shown_as_such(harness: AppHarness) -> None:
    tab = await harness.signed_in()
    await tab.page.get_by_role("button", name="Settings", exact=True).first.click()
    await tab.choose("Permissions")
    await tab.page.get_by_placeholder("Write").fill("Bash")
    await tab.page.keyboard.press("Enter")
    await eventually(tab.allowed_tools, lambda tools: tools == ["Bash"])
    await tab.page.reload()
    await tab.visible("New Session").first.wait_for()
    await tab.say("SCRIPT:slow 240")
    note = tab.page.get_by_text("Bash: would allow every command")
    await note.wait_for()
    # The run continues, and can be stopped.
    await tab.until(tab.ticks, 2)
    await tab.stop()
    await tab.until(tab.ends, 1)
