"""Sharing a session by hand: it appears in the other user's list and disappears again, while both are looking."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, Locator, expect

from browser.chromium import async_fixture
from browser.ui_harness import PHONE, Device, UiHarness, open_ui
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

USER = ("view", "chat", "approve")
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch, scripted=False) as made:
        yield made


def row(device: Device, title: str) -> Locator:
    return device.page.locator(".session-row", has_text=title)


def menu_item(device: Device, name: str) -> Locator:
    return device.page.get_by_role("menuitem", name=name)


def sharing(device: Device) -> Locator:
    return device.page.get_by_role("dialog", name="Share this session")


async def begin(device: Device, text: str) -> str:
    """Start a session as the device's user; return its id."""
    page = device.page
    await page.get_by_role("button", name="New session").first.click()
    await page.get_by_label("First message").fill(text)
    await page.get_by_role("button", name="Start session").click()
    await expect(page.locator(".turn-end")).to_have_count(1)
    return page.url.rsplit("/", 1)[-1]


async def open_dialog(device: Device) -> Locator:
    await device.page.get_by_role("button", name="Session menu").click()
    await menu_item(device, "Share…").click()
    field = sharing(device).get_by_label("Share with a user")
    await expect(field).to_be_focused()
    return field


@pytest.mark.slow
async def test_a_shared_session_is_in_the_others_list_until_its_owner_or_an_admin_unshares_it(
    harness: UiHarness,
) -> None:
    ann = await harness.device("Ann's desk", scopes=USER, user="ann")
    bob = await harness.device("Bob's desk", scopes=USER, user="bob")
    await begin(bob, "SCRIPT:text of bob")
    session = await begin(ann, "SCRIPT:text of ann")
    await expect(row(ann, "of ann")).to_have_count(1)
    await expect(row(ann, "of bob")).to_have_count(0)
    await expect(row(bob, "of bob")).to_have_count(1)
    await expect(row(bob, "of ann")).to_have_count(0)

    field = await open_dialog(ann)
    await expect(sharing(ann)).to_contain_text("The owner is ann (you).")
    await expect(sharing(ann)).to_contain_text("Not shared")
    await ann.accessible()
    await field.fill("bbo")
    await field.press("Enter")
    await expect(sharing(ann).get_by_role("alert")).to_contain_text("There is no user called “bbo”")
    await expect(field).to_be_focused()
    await ann.accessible()
    await field.fill("bob")
    await field.press("Enter")
    await expect(sharing(ann).get_by_role("status")).to_have_text("Shared with bob.")
    await expect(sharing(ann).get_by_role("list", name="Shared with")).to_have_text("bob")
    await expect(field).to_have_value("")
    await ann.accessible()

    # It appears in bob's list, and he reads and writes in it; sharing or ending it is not up to him.
    await row(bob, "of ann").click()
    await bob.page.wait_for_url(f"**/app/s/{session}")
    await expect(bob.page.locator(".turn-end")).to_have_count(1)
    await bob.page.get_by_role("button", name="Session menu").click()
    await expect(menu_item(bob, "Rename…")).to_be_visible()
    await expect(menu_item(bob, "Share…")).to_have_count(0)
    await expect(menu_item(bob, "Delete…")).to_have_count(0)
    await bob.page.keyboard.press("Escape")
    await bob.page.get_by_role("textbox", name="Message").fill("SCRIPT:text hello from bob")
    await bob.page.get_by_role("textbox", name="Message").press("Enter")
    await expect(ann.page.locator(".agent-text", has_text="hello from bob")).to_be_visible()

    # Sharing ends while he has it open: it disappears from his list and from his screen.
    stop = sharing(ann).get_by_role("button", name="Stop sharing with bob")
    await stop.focus()
    await stop.press("Enter")
    await expect(sharing(ann)).to_contain_text("Not shared")
    await expect(field).to_be_focused()
    await expect(bob.page.get_by_role("heading", level=1)).to_have_text("This session cannot be shown")
    await expect(bob.page.get_by_text("hello from bob")).to_have_count(0)
    await expect(row(bob, "of ann")).to_have_count(0)
    await expect(row(bob, "of bob")).to_have_count(1)
    await bob.accessible()
    await ann.page.keyboard.press("Escape")
    await expect(sharing(ann)).to_have_count(0)
    await expect(ann.page.get_by_role("button", name="Session menu")).to_be_focused()

    # An admin removes "everybody" and all names at once.
    admin = await harness.device("Admin's desk", at=f"/app/s/{session}")
    field = await open_dialog(admin)
    await expect(sharing(admin)).to_contain_text("The owner is ann.")
    names = admin.page.locator("datalist option")
    await expect(names).to_have_count(2)
    assert [await name.get_attribute("value") for name in await names.all()] == ["bob", "owner"]
    await field.fill("ann")
    await field.press("Enter")
    await expect(sharing(admin).get_by_role("alert")).to_have_text("ann is the owner and already has access.")
    everybody = sharing(admin).get_by_role("switch", name="Share with everybody")
    await everybody.press("Space")
    await expect(sharing(admin).get_by_role("status")).to_have_text("Shared with everybody.")
    await expect(everybody).to_be_checked()
    await expect(row(bob, "of ann")).to_have_count(1)
    await field.fill("bob")
    await field.press("Enter")

    # The owner's own dialog follows the admin's changes.
    await open_dialog(ann)
    await expect(sharing(ann).get_by_role("switch")).to_be_checked()
    await expect(sharing(ann).get_by_role("list", name="Shared with")).to_have_text("bob")
    await sharing(admin).get_by_role("button", name="Stop all sharing").click()
    await expect(sharing(admin).get_by_role("status")).to_have_text("Sharing stopped.")
    await expect(sharing(ann)).to_contain_text("Not shared")
    await expect(sharing(ann).get_by_role("switch")).not_to_be_checked()
    await expect(row(bob, "of ann")).to_have_count(0)


async def test_the_dialog_on_a_phone_and_a_desktop_in_light_and_dark(harness: UiHarness) -> None:
    session = await harness.session("SCRIPT:text hello")
    for name in ("bob", "a-user-whose-name-is-as-long-as-names-may-be-0123456789-0123456"):
        await harness.http.post("/v1/users", json={"name": name})
        shared = await harness.http.post(f"/v1/sessions/{session}/share", json={"user": name})
        assert shared.status_code == 200, shared.text
    for place, size in (("phone", PHONE), ("desk", (1400, 900))):
        device = await harness.device(place, size, has_touch=place == "phone", at=f"/app/s/{session}")
        await open_dialog(device)
        await expect(sharing(device).get_by_role("list", name="Shared with").get_by_role("listitem")).to_have_count(2)
        for colours in COLOURS:
            await device.page.emulate_media(color_scheme=colours)
            await device.accessible()
            await device.fits()
