"""Sessions of the real CLI in real browsers: a whole life, two people who answer at once, a gateway that dies in
mid-stream, a phone that is offline for a while.
"""

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from browser.chromium import eventually
from browser.ui_gateway import Gateway, shown_texts, told_texts
from browser.ui_harness import HOSTILE, PHONE, open_ui
from e2e.harness import NEWEST, cli_env, why_not_installed
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE
from tools.clis import program_path

expect.set_options(timeout=PATIENCE * 1000)


@pytest.mark.slow
@pytest.mark.cli(NEWEST)
async def test_a_life_with_the_real_cli(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not_installed(NEWEST):
        pytest.skip(reason)
    home = tmp_path / "home"
    home.mkdir()
    async with ScriptedModel() as model:
        config = {"agent": "claude", "claude": str(program_path(NEWEST)), "pass_env": ("IS_SANDBOX",)}
        env = cli_env(home, model.url)
        async with open_ui(chromium, tmp_path, monkeypatch, scripted=False, env=env, **config) as harness:
            desktop = await harness.device(at="/app/new")
            page = desktop.page
            await page.get_by_label("First message").fill("SCRIPT:write notes.txt")
            await page.get_by_role("button", name="Start session").click()
            await page.get_by_role("button", name="Allow once").click()
            ended = page.locator(".turn-end")
            await expect(ended).to_have_count(1)
            assert (harness.folder / "notes.txt").read_text() == "hello\nworld\n"
            await expect(page.locator(".call.change .diff")).to_contain_text("hello")
            await expect(ended).to_contain_text("out")

            message = page.get_by_role("textbox", name="Message")
            for number, text in enumerate(("SCRIPT:edit notes.txt", "SCRIPT:subagent text inside"), 2):
                await message.fill(text)
                await message.press("Enter")
                if "edit" in text:
                    await page.get_by_role("button", name="Allow once").click()
                await expect(ended).to_have_count(number)
            assert (harness.folder / "notes.txt").read_text() == "goodbye\nworld\n"
            await expect(page.locator(".call.agent")).to_contain_text("completed")
            await desktop.accessible()

            await message.fill("SCRIPT:slow 2000")
            await message.press("Enter")
            await expect(page.locator(".agent-text", has_text="tick tick")).to_be_visible()
            await page.get_by_role("button", name="Interrupt").click()
            await expect(ended.last).to_contain_text("Interrupted")

            await page.get_by_role("button", name="Session menu").click()
            await page.get_by_role("menuitem", name="Stop agent").click()
            await page.reload()
            await message.fill("SCRIPT:echo")
            await message.press("Enter")
            await expect(page.locator(".agent-text", has_text="messages.")).to_be_visible()
            # The commands of this CLI, completed.
            await message.press_sequentially("/comp")
            await expect(page.get_by_role("option").first).to_contain_text("/compact")


# Each half is also tested with the demo agent, in every run: test_browser_ui_approvals.py and
# test_browser_ui_steady.py.
@pytest.mark.long
@pytest.mark.cli(NEWEST)
async def test_two_answer_at_once_and_a_gateway_killed_in_mid_stream_loses_nothing(
    chromium: Browser, tmp_path: Path
) -> None:
    if reason := why_not_installed(NEWEST):
        pytest.skip(reason)
    (tmp_path / "work").mkdir()
    async with ScriptedModel() as model:
        env = {**cli_env(tmp_path, model.url), "FAIRLEAD_PASS_ENV": "IS_SANDBOX"}
        gateway = Gateway(tmp_path, env=env, agent="claude", claude=program_path(NEWEST))
        await gateway.start()
        try:
            desktop, phone = await gateway.page(chromium, "Desk"), await gateway.page(chromium, "Phone")
            made = await gateway.http.post("/v1/sessions", json={"text": "SCRIPT:write notes.txt"})
            session = made.json()["session"]
            for page in (desktop, phone):
                await page.goto(f"{gateway.url}/app/s/{session}")
            buttons = [page.get_by_role("button", name="Allow once") for page in (desktop, phone)]
            for button in buttons:
                await expect(button).to_be_enabled()
            handles = [await button.element_handle() for button in buttons]
            await asyncio.gather(*(handle.evaluate("(one) => one.click()") for handle in handles))
            for page in (desktop, phone):
                await expect(page.locator(".turn-end")).to_have_count(1)
            (settled,) = [event for event in await gateway.log(session) if event["type"] == "permission.resolved"]
            for page in (desktop, phone):
                await expect(page.locator(".call.change")).to_contain_text(f"by {settled['by']}")

            message = desktop.get_by_role("textbox", name="Message")
            await message.fill("SCRIPT:slow 60")
            await message.press("Enter")
            ticks = desktop.locator(".agent-text", has_text="tick tick")
            await expect(ticks).to_be_visible()
            await desktop.reload()
            await expect(ticks).to_be_visible()
            await gateway.end(signal.SIGKILL)
            await expect(desktop.locator(".follow-status")).to_contain_text("Offline")
            await gateway.start()
            for page in (desktop, phone):
                await expect(page.locator(".turn-end")).to_have_count(2)
                await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
            texts = told_texts(await gateway.log(session))
            # The CLI outlived its gateway: its whole output is in its transcript, and so in the log.
            assert texts[-1] == " ".join(["tick"] * 60)
            for page in (desktop, phone):
                assert await eventually(partial(shown_texts, page), lambda shown: shown == texts)
        finally:
            await gateway.end(signal.SIGTERM)
            await gateway.http.aclose()


@pytest.mark.parametrize("agent", ["demo", pytest.param("claude", marks=[pytest.mark.long, pytest.mark.cli(NEWEST)])])
async def test_a_phone_by_keyboard_offline_and_back_and_with_hostile_text(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """All of this is the page's own behaviour: the demo agent shows it as well as the CLI does, and sooner."""
    if agent == "claude" and (reason := why_not_installed(NEWEST)):
        pytest.skip(reason)
    home = tmp_path / "home"
    home.mkdir()
    async with ScriptedModel() as model:
        config = {"agent": agent, "claude": str(program_path(NEWEST)), "pass_env": ("IS_SANDBOX",)}
        env = cli_env(home, model.url)
        async with open_ui(chromium, tmp_path, monkeypatch, scripted=False, env=env, **config) as harness:
            session = await harness.session("SCRIPT:write notes.txt")
            # With a keyboard: on a touch device Enter inserts a new line.
            phone = await harness.device("Phone", PHONE, at=f"/app/s/{session}")
            page, keys = phone.page, phone.page.keyboard
            allow = page.get_by_role("button", name="Allow once")
            await expect(allow).to_be_enabled()
            await phone.fits()
            await phone.accessible()
            await allow.focus()
            await keys.press("Enter")
            ended = page.locator(".turn-end")
            await expect(ended).to_have_count(1)

            await page.get_by_role("textbox", name="Message").focus()
            await keys.type("SCRIPT:slow 40")
            await keys.press("Enter")
            await expect(page.locator(".agent-text", has_text="tick tick")).to_be_visible()
            await phone.context.set_offline(True)
            await page.evaluate("dispatchEvent(new Event('offline'))")
            await expect(page.locator(".follow-status")).to_contain_text("Offline")
            await phone.context.set_offline(False)
            await expect(ended).to_have_count(2)
            await eventually(partial(shown_texts, page), lambda shown: shown[-1] == " ".join(["tick"] * 40))

            await page.get_by_role("textbox", name="Message").focus()
            await keys.insert_text("SCRIPT:text " + " ".join(HOSTILE[:4]))
            await keys.press("Enter")
            await expect(ended).to_have_count(3)
            await expect(page.locator(".agent-text").last).to_contain_text("<script>window.pwned='script'</script>")
            await phone.unharmed()
            await phone.fits()
            await phone.accessible()
            phone.problems = [text for text in phone.problems if "ERR_INTERNET_DISCONNECTED" not in text]
