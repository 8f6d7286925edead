"""Health checks and the audit log in a real browser, for admins alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from browser.chromium import async_fixture
from browser.ui_harness import HOSTILE, PHONE, UiHarness, open_ui
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch) as made:
        yield made


async def test_an_admin_sees_the_health_and_who_did_what(harness: UiHarness) -> None:
    session = await harness.session("do it")
    await harness.http.patch(f"/v1/sessions/{session}", json={"title": HOSTILE[0]})
    await harness.http.post("/v1/tokens", json={"name": HOSTILE[1], "scopes": ["view"]})
    await harness.http.delete(f"/v1/sessions/{session}")
    device = await harness.device("Phone", PHONE, at="/app/settings")
    await device.page.get_by_role("link", name="Health and audit log").click()
    page = device.page
    await expect(page.get_by_role("status").filter(has_text="The gateway is ready")).to_be_visible()
    await expect(page.locator(".checks li", has_text="Database")).to_contain_text("OK")
    rows = page.locator(".audit-table tbody tr")
    await expect(rows.filter(has_text="session.delete")).to_contain_text(session[:8])
    await expect(rows.filter(has_text="token.create")).to_contain_text("<script>")
    await expect(rows.filter(has_text="gateway.start")).to_contain_text("The gateway")
    for width, height in (PHONE, (768, 900), (1400, 900)):
        await page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            await device.fits()
            await device.accessible()
    await page.get_by_label("Show").select_option("session.delete")
    await expect(rows).to_have_count(1)
    await page.get_by_label("Show").select_option("")
    await page.get_by_label("Session id").fill(session)
    await page.keyboard.press("Enter")
    await expect(rows.filter(has_text="gateway.start")).to_have_count(0)
    await expect(rows.filter(has_text="session.create")).to_have_count(1)
    await page.get_by_label("User").fill("nobody")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No entries match.")).to_be_visible()
    await device.unharmed()


async def test_older_entries_are_shown_on_request(harness: UiHarness) -> None:
    for number in range(120):
        await harness.http.post("/v1/users", json={"name": f"user{number}"})
    device = await harness.device(at="/app/operation")
    rows = device.page.locator(".audit-table tbody tr")
    await expect(rows).to_have_count(100)
    await device.page.get_by_role("button", name="Show older entries").click()
    await expect(rows.filter(has_text="gateway.start")).to_have_count(1)
    await expect(device.page.get_by_role("button", name="Show older entries")).to_have_count(0)


async def test_others_do_not_see_it(harness: UiHarness) -> None:
    viewer = await harness.device("Viewer", scopes=("view", "chat", "approve"), at="/app/operation")
    await expect(viewer.page.get_by_text("its credential lacks the scope “admin”")).to_be_visible()
    await viewer.open("/app/settings")
    await expect(viewer.page.get_by_role("heading", name="Settings")).to_be_visible()
    await expect(viewer.page.get_by_role("link", name="Health and audit log")).to_have_count(0)
