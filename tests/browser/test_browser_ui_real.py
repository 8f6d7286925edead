"""A life of the real CLI's session in a real browser: begun, allowed, edited, a subagent, interrupted, resumed."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from browser.browsing import PATIENCE
from browser.ui_house import ui_house
from e2e.harness import NEWEST, cli_env, why_not_installed
from fairlead.testing.model_api import ScriptedModel
from tools.clis import program_path

expect.set_options(timeout=PATIENCE * 1000)


@pytest.mark.cli(NEWEST)
async def test_a_life_with_the_real_cli(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not_installed(NEWEST):
        pytest.skip(reason)
    home = tmp_path / "home"
    home.mkdir()
    async with ScriptedModel() as model:
        config = {"agent": "claude", "claude": str(program_path(NEWEST)), "pass_env": ("IS_SANDBOX",)}
        env = cli_env(home, model.url)
        async with ui_house(chromium, tmp_path, monkeypatch, said=False, env=env, **config) as house:
            desk = await house.device()
            page = desk.page
            await desk.open("/app/new")
            await page.get_by_label("First message").fill("SCRIPT:write notes.txt")
            await page.get_by_role("button", name="Begin").click()
            await page.get_by_role("button", name="Allow once").click()
            ended = page.locator(".turn-end")
            await expect(ended).to_have_count(1)
            assert (house.folder / "notes.txt").read_text() == "hello\nworld\n"
            await expect(page.locator(".call.change .diff")).to_contain_text("hello")
            await expect(ended).to_contain_text("out")

            message = page.get_by_role("textbox", name="Message")
            for number, text in enumerate(("SCRIPT:edit notes.txt", "SCRIPT:subagent text inside"), 2):
                await message.fill(text)
                await message.press("Enter")
                if "edit" in text:
                    await page.get_by_role("button", name="Allow once").click()
                await expect(ended).to_have_count(number)
            assert (house.folder / "notes.txt").read_text() == "goodbye\nworld\n"
            await expect(page.locator(".call.agent")).to_contain_text("completed")
            await desk.accessible()

            await message.fill("SCRIPT:slow 2000")
            await message.press("Enter")
            await expect(page.locator(".said", has_text="tick tick")).to_be_visible()
            await page.get_by_role("button", name="Interrupt").click()
            await expect(ended.last).to_contain_text("Interrupted")

            await page.get_by_role("button", name="This session").click()
            await page.get_by_role("menuitem", name="End the agent's process").click()
            await page.reload()
            await message.fill("SCRIPT:echo")
            await message.press("Enter")
            await expect(page.locator(".said", has_text="messages.")).to_be_visible()
            # The commands that this CLI has, completed.
            await message.press_sequentially("/comp")
            await expect(page.get_by_role("option").first).to_contain_text("/compact")
