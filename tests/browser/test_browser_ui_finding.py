"""Finding things in a real browser: files, mentions, the palette, many sessions; and how texts and changes look."""

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from browser.chromium import async_fixture
from browser.test_browser_ui_sessions import composer, ended
from browser.ui_harness import DOT, PHONE, UiHarness, open_ui
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch, scripted=False) as made:
        yield made


@async_fixture
async def spoken(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch) as made:
        yield made


async def test_files_mentions_and_the_palette(harness: UiHarness) -> None:
    source = harness.folder / "src"
    source.mkdir()
    (harness.folder / "README.md").write_text("# The project\n\n<script>window.pwned = 1</script>\n")
    (source / "app.py").write_text("print('hello')\n")
    (source / "dot.png").write_bytes(base64.b64decode(DOT))
    (source / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned = 1'/>")
    session = await harness.session("SCRIPT:text hello")
    other = await harness.session("SCRIPT:text zebra")
    desktop = await harness.device(at=f"/app/s/{session}")
    page = desktop.page
    await expect(ended(desktop)).to_have_count(1)

    # The title of a session that was just made is its first prompt.
    await expect(page.get_by_role("heading", level=1)).to_have_text("SCRIPT:text hello")

    # A file is mentioned by some of its letters; a folder goes on with what is inside.
    await composer(desktop).press_sequentially("look at @app")
    option = page.get_by_role("listbox", name="Files").get_by_role("option").first
    await expect(option).to_have_text("@src/app.py")
    await desktop.accessible()
    await composer(desktop).press("Tab")
    await expect(composer(desktop)).to_have_value("look at @src/app.py ")
    await composer(desktop).fill("")

    # A message is taken back into the message field, and an answer is copied.
    await page.locator(".user").first.get_by_role("button", name="Message actions").click()
    await page.get_by_role("menuitem", name="Edit and send again").click()
    await expect(composer(desktop)).to_have_value("SCRIPT:text hello")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.locator(".agent-text").hover()
    await page.get_by_role("button", name="Copy message").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "Hello from the scripted model. hello"

    # The files, with keys alone where one would use them.
    await page.get_by_role("button", name="Session menu").click()
    await page.get_by_role("menuitem", name="Browse files").click()
    await page.get_by_role("link", name="README.md").click()
    view = page.get_by_role("region", name="README.md")
    await expect(view.get_by_role("heading", name="The project")).to_be_visible()
    await expect(view).to_contain_text("<script>window.pwned = 1</script>")
    await desktop.accessible()
    await view.get_by_role("button", name="Show source").click()
    await expect(view).to_contain_text("# The project")
    await page.locator(".files-list a", has_text="src").focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="dot.png").click()
    picture = page.get_by_role("img", name="dot.png")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("(img) => img.decode().then(() => img.naturalWidth)") > 0
    await page.get_by_role("link", name="drawing.svg").click()
    await expect(page.get_by_role("region", name="drawing.svg")).to_contain_text("onload")
    await desktop.unharmed()
    answer = await harness.http.get(f"/v1/sessions/{session}/files/content", params={"path": "../data/admin-token"})
    assert answer.status_code == 404

    # The palette goes anywhere by a few letters.
    field = page.get_by_role("combobox", name="Session, page or action")
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await page.keyboard.type("zebra")
    await expect(page.get_by_role("option").first).to_contain_text("SCRIPT:text zebra")
    await desktop.accessible()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/app/s/{other}")
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await page.keyboard.type("usage")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/app/usage")

    # On a phone one thing at a time.
    phone = await harness.device("Phone", PHONE, has_touch=True, is_mobile=True, color_scheme="dark")
    await phone.open(f"/app/s/{session}/files?path=src")
    await phone.page.get_by_role("link", name="app.py").tap()
    await expect(phone.page.get_by_role("region", name="app.py")).to_contain_text("hello")
    await phone.fits()
    await phone.accessible()
    await phone.page.get_by_role("button", name="Back to files").tap()
    await expect(phone.page.get_by_role("link", name="dot.png")).to_be_visible()
    harness.well()


async def test_many_sessions_are_folded_filtered_and_loaded_while_scrolling(harness: UiHarness) -> None:
    one, two = harness.folder / "one", harness.folder / "two"
    one.mkdir()
    two.mkdir()
    for number in range(104):
        body = {"cwd": str(one), "title": f"Session {number}"}
        assert (await harness.http.post("/v1/sessions", json=body)).status_code == 201
    await harness.http.post("/v1/sessions", json={"cwd": str(two), "text": "SCRIPT:tool", "title": "Needs you"})
    await harness.asked()
    desktop = await harness.device()
    page = desktop.page
    rows = page.locator(".session-row")
    await expect(rows).to_have_count(100)
    await page.locator(".list-scroll").evaluate("(box) => { box.scrollTop = box.scrollHeight }")
    await expect(rows).to_have_count(105)

    # Only those that wait for a person.
    await page.get_by_role("button", name="List options").click()
    await page.get_by_role("menuitemradio", name="Show: Waiting for you").click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("Needs you")
    await desktop.accessible()
    await page.get_by_role("button", name="Show all").click()
    await expect(rows).to_have_count(105)

    # A folder is folded, and stays so; j and k move along the rest.
    await page.get_by_role("button", name="one", exact=True).click()
    await expect(rows).to_have_count(1)
    await page.reload()
    await expect(page.get_by_role("button", name=re.compile(r"^one \d+$"))).to_have_attribute("aria-expanded", "false")
    await expect(rows).to_have_count(1)
    await desktop.accessible()
    await page.keyboard.press("j")
    await expect(rows.first).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Needs you")
    await expect(page.locator(".call .state")).to_have_text("waiting for you")
    await page.get_by_role("button", name="Deny", exact=True).first.click()
    await page.locator(".approval-more").get_by_role("button", name="Deny", exact=True).click()
    await expect(page.locator(".call .state").first).to_have_text("denied")
    harness.well()


async def test_a_large_change_is_drawn_in_portions_and_its_answers_stay_in_sight(spoken: UiHarness) -> None:
    session = await spoken.session("change much")
    agent = await spoken.agent()
    desktop = await spoken.device(at=f"/app/s/{session}")
    page = desktop.page
    content = "\n".join(f"line {number}" for number in range(2000))
    await agent.call("c1", "Write", file_path=str(spoken.folder / "big.txt"), content=content)
    await agent.ask("r1", "c1", "Write", file_path=str(spoken.folder / "big.txt"), content=content)
    await expect(page.locator(".diff tr")).to_have_count(200)
    assert await page.locator(".approval *").count() < 3000
    await page.locator(".diff-scroll").scroll_into_view_if_needed()
    await expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport()
    await page.get_by_role("button", name="Show 1000 more of 2000 lines").click()
    await expect(page.locator(".diff tr")).to_have_count(1200)
    await desktop.accessible()
    await page.get_by_role("button", name="Allow once").click()

    # Right to left, a formula, and what is no formula.
    await agent.text(
        "שלום עולם\n\nThe area is $\\pi r^2$ and costs $5 or $6.\n\n"
        "$$\\sum_{i=1}^n \\text{<img src=x onerror=alert(1)>}$$"
    )
    paragraph = page.locator(".agent-text p", has_text="שלום")
    assert await paragraph.evaluate("(p) => getComputedStyle(p).direction") == "rtl"
    await expect(page.locator(".agent-text math")).to_have_count(2)
    await expect(page.locator(".agent-text p", has_text="costs $5 or $6")).to_be_visible()
    await desktop.unharmed()
    assert await page.locator(".agent-text img, .agent-text annotation").count() == 0
    await desktop.accessible()
    spoken.well()


async def test_a_revoked_device_is_told_so_and_the_demo_agent_says_what_it_is(harness: UiHarness) -> None:
    desktop = await harness.device(at="/app/new")
    page = desktop.page
    await expect(page.get_by_role("note")).to_contain_text("The demo agent follows a script")
    await desktop.accessible()
    devices = (await harness.http.get("/v1/devices")).json()["devices"]
    (mine,) = [one for one in devices if not one["revoked"]]
    assert (await harness.http.delete(f"/v1/devices/{mine['id']}")).status_code == 200
    await expect(page.get_by_role("status").filter(has_text="You were signed out")).to_be_visible()
    await desktop.accessible()
    assert json.loads(await page.evaluate("JSON.stringify(localStorage.getItem('fairlead.key'))")) is None
