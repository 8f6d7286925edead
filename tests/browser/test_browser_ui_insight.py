"""Usage statistics and settings in real browsers: numbers with their tables, devices, a QR code, trusted folders."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from browser.chromium import async_fixture, eventually
from browser.ui_harness import HOSTILE, PHONE, UiHarness, open_ui
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch) as made:
        yield made


def used(model: str, cost: float) -> dict[str, Any]:
    usage = {"inputTokens": 1200, "outputTokens": 300, "cacheReadInputTokens": 50, "costUSD": cost}
    return {"total_cost_usd": cost, "modelUsage": {model: usage}}


BRIGHTEST = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let most = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 128) most = Math.max(most, data[at], data[at + 1]);
  return most;
}"""


async def worked(harness: UiHarness, model: str = "opus", tool: str = "Bash") -> None:
    await harness.session("do it")
    agent = await harness.agent()
    await agent.call("c1", tool, command="ls")
    await agent.result_of("c1")
    limit = {"status": "allowed_warning", "rateLimitType": "five_hour", "resetsAt": 1_900_000_000, "utilization": 0.8}
    await agent.say({"type": "rate_limit_event", "rate_limit_info": limit, "uuid": "u1", "session_id": "s"})
    await agent.result(**used(model, 1.25))

    async def counted() -> Any:
        now = (await harness.http.get("/v1/sessions")).json()["sessions"][0]["updated"]
        asked = {"since": now - 86_400_000, "until": now + 86_400_000}
        return (await harness.http.get("/v1/insight", params=asked)).json()["turns"]

    await eventually(counted, bool)


async def test_usage_is_shown_as_charts_with_their_tables(harness: UiHarness) -> None:
    await worked(harness)
    device = await harness.device("Phone", PHONE, at="/app/insight")
    for width, height in (PHONE, (768, 900), (1400, 900)):
        await device.page.set_viewport_size({"width": width, "height": height})
        await device.page.emulate_media(color_scheme="light")
        tables = device.page.get_by_role("table")
        await expect(tables).to_have_count(5)
        await expect(device.page.locator(".chart canvas")).to_have_count(5)
        await expect(device.page.locator(".totals")).to_contain_text("$1.25")
        model = device.page.get_by_role("row", name="opus")
        await expect(model).to_contain_text("1.2K")
        await expect(device.page.get_by_role("row", name="Bash")).to_contain_text("1")
        await expect(device.page.get_by_role("row", name=str(harness.folder))).to_contain_text("$1.25")
        await expect(device.page.get_by_text("80 % used")).to_be_visible()
        await device.fits()
        await device.accessible()
        await device.page.emulate_media(color_scheme="dark")
        await device.accessible()
        # A canvas follows the colour theme too: its drawing is light on a dark background.
        chart = device.page.locator(".chart canvas").first
        await eventually(partial(chart.evaluate, BRIGHTEST), lambda seen: seen > 150)
    await device.page.get_by_label("Span").select_option("7")
    await expect(device.page.locator(".totals")).to_contain_text("$1.25")


async def test_hostile_names_of_models_and_tools_stay_names(harness: UiHarness) -> None:
    await worked(harness, model=HOSTILE[0], tool=HOSTILE[1])
    device = await harness.device(at="/app/insight")
    await expect(device.page.get_by_role("row", name="<img src=x")).to_be_visible()
    await expect(device.page.get_by_role("row", name="<script>")).to_be_visible()
    await device.unharmed()
    await device.accessible()


async def test_a_phone_is_signed_in_by_a_code_once_and_can_be_revoked(harness: UiHarness, chromium: Browser) -> None:
    desktop = await harness.device("Ann's desk", at="/app/settings")
    await desktop.accessible()
    await desktop.page.get_by_role("button", name="Add a phone").click()
    await desktop.page.get_by_label("What it is called").fill("Ann's phone")
    async with desktop.page.expect_response("**/v1/login-codes") as answering:
        await desktop.page.get_by_role("button", name="Show the code").click()
    link = await (await answering.value).json()
    await expect(desktop.page.get_by_alt_text("QR code of the login link")).to_be_visible()
    drawn = partial(desktop.page.locator(".qr img").evaluate, "(image) => image.naturalWidth")
    await eventually(drawn, lambda width: width > 0)
    await desktop.accessible()
    context = await chromium.new_context(viewport={"width": PHONE[0], "height": PHONE[1]})
    context.set_default_timeout(PATIENCE * 1000)
    page = await context.new_page()
    await page.goto(link["url"])
    await page.get_by_role("navigation", name="Pages").wait_for()
    assert "login" not in page.url, "the code is gone from the address"
    other = await (await chromium.new_context()).new_page()
    other.set_default_timeout(PATIENCE * 1000)
    await other.goto(link["url"])
    await expect(other.get_by_role("alert")).to_contain_text("not valid any more")
    await desktop.page.get_by_role("button", name="Close").click()
    await expect(desktop.page.locator(".rows li", has_text="Ann's phone")).to_contain_text("view, chat, approve")
    await desktop.page.get_by_role("button", name="Revoke Ann's phone").click()
    await desktop.accessible()
    await desktop.page.get_by_role("button", name="Revoke", exact=True).click()
    await expect(page.get_by_label("Login link")).to_be_visible()
    await expect(desktop.page.locator(".rows li", has_text="Ann's phone")).to_have_count(0)
    for one in (page, other):
        await one.context.close()


async def test_a_folder_is_trusted_after_its_commands_were_shown(harness: UiHarness) -> None:
    settings = harness.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    hook = {"hooks": [{"type": "command", "command": f"echo {HOSTILE[0]}"}]}
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [hook]}, "env": {"EVIL": HOSTILE[1]}}))
    phone = await harness.device("Phone", PHONE, has_touch=True, at="/app/settings")
    await phone.page.get_by_role("textbox", name="Folder").fill("/etc")
    await phone.page.get_by_role("button", name="Show what it would run").click()
    await expect(phone.page.locator(".wrong")).to_contain_text("outside")
    # A person who starts a session there is warned, and led to the same report.
    await phone.open("/app/new")
    await phone.page.get_by_role("combobox", name="Folder").fill(str(harness.folder))
    await phone.accessible()
    await phone.page.get_by_role("link", name="Look at what they would run").click()
    report = phone.page.locator(".report")
    await expect(report).to_contain_text("echo <img src=x")
    await expect(report).to_contain_text("EVIL")
    await phone.unharmed()
    await phone.accessible()
    await phone.fits()
    # Changed between the report and the approval: the report no longer matches the file.
    settings.write_text("{}")
    await phone.page.get_by_role("button", name="Trust this folder as shown").click()
    await expect(phone.page.locator(".toast")).to_contain_text("have changed")
    assert (await harness.http.get("/v1/trust")).json() == {"folders": []}
    await expect(report).not_to_contain_text("EVIL")
    await phone.page.get_by_role("button", name="Trust this folder as shown").click()
    await expect(phone.page.locator(".rows li", has_text=str(harness.folder))).to_be_visible()
    await phone.page.get_by_role("button", name=f"Trust {harness.folder} no more").click()
    await expect(phone.page.locator(".rows li", has_text=str(harness.folder))).to_have_count(0)


async def test_the_keyboard_reaches_everything_has_a_help_sheet_and_colours_are_saved(harness: UiHarness) -> None:
    desktop = await harness.device(at="/app/settings")
    keys = desktop.page.keyboard
    await keys.press("?")
    sheet = desktop.page.get_by_role("dialog", name="Keyboard")
    await expect(sheet).to_contain_text("Waiting")
    await desktop.accessible()
    await keys.press("Escape")
    await expect(sheet).to_have_count(0)
    for letter, heading in (
        ("w", "Waiting for you"),
        ("n", "Notices"),
        ("i", "Insight"),
        ("t", "Shells"),
        ("e", "Settings"),
    ):
        await keys.press("g")
        await keys.press(letter)
        await expect(desktop.page.get_by_role("heading", level=1, name=heading)).to_be_visible()
    await desktop.page.get_by_role("textbox", name="Folder").focus()
    await keys.type("g?w")
    await expect(desktop.page.get_by_role("textbox", name="Folder")).to_have_value("g?w")

    await desktop.page.get_by_label("Colours").select_option("dark")
    await desktop.page.reload()
    await expect(desktop.page.locator("html")).to_have_attribute("data-theme", "dark")
    await desktop.accessible()
