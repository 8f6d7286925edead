"""Shells in real browsers: opened, found again unchanged, shared and watched; their output cannot escape them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from browser.chromium import async_fixture, eventually
from browser.ui_harness import HOSTILE, PHONE, Device, UiHarness, open_ui
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch) as made:
        yield made


PAPERS = "(term) => [...term.querySelectorAll('*')].map((one) => getComputedStyle(one).backgroundColor)"
"""The background colours of a terminal: the page's own colour is among them."""


async def lines(device: Device) -> list[str]:
    rows: list[str] = await device.page.locator(".xterm-rows > div").all_inner_texts()
    return [row.replace("\xa0", " ").rstrip() for row in rows]


async def shows_line(device: Device, line: str) -> list[str]:
    """Wait until this is a line on the screen; input typed before the shell was ready may have its first prompt in
    front.
    """
    return await eventually(lambda: lines(device), lambda seen: {line, f"# {line}", f"$ {line}"} & set(seen))


async def typed(device: Device, keys: str) -> None:
    await device.page.locator(".xterm-helper-textarea").focus()
    await device.page.keyboard.type(keys)


async def test_a_shell_is_opened_found_again_unchanged_ended_and_shared_by_a_users_devices(
    harness: UiHarness,
) -> None:
    desktop = await harness.device(at="/app/terminals")
    await desktop.accessible()
    await desktop.page.get_by_role("button", name="New terminal").click()
    await desktop.accessible()
    await desktop.page.get_by_label("Name").fill("no spaces")
    await expect(desktop.page.get_by_role("button", name="Open")).to_be_disabled()
    await desktop.page.get_by_label("Name").fill("build")
    await desktop.page.keyboard.press("Enter")
    await eventually(lambda: lines(desktop), lambda seen: any(row.strip() for row in seen))
    await typed(desktop, "printf '\\033[38;2;9;99;199mcolour\\033[0m %s\\n' $((40+2))\n")
    await shows_line(desktop, "colour 42")
    colour = await desktop.page.locator(".xterm-rows span", has_text="colour").last.evaluate(
        "(one) => getComputedStyle(one).color"
    )
    assert colour == "rgb(9, 99, 199)", "the policy takes no colour away"
    assert "rgb(242, 240, 234)" in await desktop.page.locator(".xterm").evaluate(PAPERS)
    await desktop.accessible()
    await desktop.page.reload()
    await shows_line(desktop, "colour 42")
    await typed(desktop, "echo still $((1+1))\n")
    await shows_line(desktop, "still 2")

    # On all of this person's devices; a read-only device types nothing.
    phone = await harness.device("Phone", PHONE, has_touch=True, at="/app/terminals/build")
    await shows_line(phone, "still 2")
    await phone.fits()
    await phone.accessible()
    await typed(phone, "echo from the $((2))nd\n")
    await shows_line(desktop, "from the 2nd")
    await phone.page.get_by_label("Only watch").check()
    await shows_line(phone, "from the 2nd")
    await phone.page.locator(".xterm-helper-textarea").focus()
    await phone.page.keyboard.type("echo never\n")
    await typed(desktop, "echo the $((3))rd\n")
    assert "never" not in await shows_line(phone, "the 3rd")
    assert "never" not in await lines(desktop)

    await desktop.page.get_by_role("button", name="End it…").click()
    await expect(desktop.page.get_by_role("button", name="Cancel")).to_be_focused()
    await desktop.page.get_by_role("button", name="End it", exact=True).click()
    await expect(desktop.page.get_by_role("status").filter(has_text="It has ended")).to_be_visible()
    assert (await harness.http.get("/v1/terminals")).json() == {"terminals": []}


async def test_another_person_watches_a_shared_shell_only_while_it_is_shared(harness: UiHarness) -> None:
    ann = await harness.device("Ann's desk", at="/app/terminals/main")
    await typed(ann, "echo hello $((1))\n")
    await shows_line(ann, "hello 1")
    bob = await harness.device("Bob's desk", scopes=("view", "terminal"), user="bob", at="/app/terminals")
    await expect(bob.page.get_by_text("No terminal runs.")).to_be_visible()
    await ann.page.get_by_label("Shared: others may watch").check()
    await expect(ann.page.get_by_label("Shared: others may watch")).to_be_checked()
    await bob.open("/app/terminals")
    await bob.page.get_by_role("link", name="main").click()
    await shows_line(bob, "hello 1")
    await bob.accessible()
    await bob.page.locator(".xterm-helper-textarea").focus()
    await bob.page.keyboard.type("echo never\n")
    await typed(ann, "echo hello $((2))\n")
    assert "never" not in await shows_line(bob, "hello 2")
    await ann.page.get_by_label("Shared: others may watch").uncheck()
    await expect(bob.page.get_by_role("status").filter(has_text="It has ended")).to_be_visible()


async def test_program_output_is_only_ever_drawn(harness: UiHarness) -> None:
    desktop = await harness.device()
    await desktop.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await desktop.open("/app/terminals/main")
    await desktop.page.evaluate("navigator.clipboard.writeText('mine')")
    for number, evil in enumerate(HOSTILE):
        (harness.folder / f"evil-{number}").write_text(f"\x1b]2;{evil}\x07\x1b]0;{evil}\x1b\\{evil}\n")
    await typed(desktop, "cat evil-*; echo over $((1))\n")
    await shows_line(desktop, "over 1")
    await desktop.unharmed()
    row = await desktop.page.locator(".xterm-rows > div", has_text="link").first.bounding_box()
    assert row is not None
    await desktop.page.mouse.click(row["x"] + 12, row["y"] + row["height"] / 2)
    assert await desktop.page.evaluate("navigator.clipboard.readText()") == "mine"
    await desktop.unharmed()
    await typed(desktop, "printf '\\033]2;<b>a title</b>\\007'\n")
    await expect(desktop.page.locator(".terminal-state")).to_have_text("<b>a title</b>")
    assert len(desktop.context.pages) == 1


async def test_a_user_without_terminal_access_sees_that_message(harness: UiHarness) -> None:
    viewer = await harness.device("Viewer", scopes=("view",), at="/app/terminals/main")
    await expect(viewer.page.get_by_text("lacks the scope “terminal”")).to_be_visible()
    assert await viewer.page.get_by_role("link", name="Shells").count() == 0

    # The page requests no terminal before it knows the user.
    known = asyncio.Event()
    asked: list[str] = []

    async def hold(route: Route) -> None:
        await known.wait()
        await route.continue_()

    await viewer.page.route("**/v1/me", hold)
    viewer.page.on("websocket", lambda opened: asked.append(opened.url))
    viewer.page.on("request", lambda request: asked.append(request.url))
    await viewer.page.reload()
    await expect(viewer.page.locator("main[aria-busy=true]")).to_be_visible()
    known.set()
    await expect(viewer.page.get_by_text("lacks the scope “terminal”")).to_be_visible()
    assert [url for url in asked if "/v1/terminals" in url] == []


async def test_a_session_on_a_terminal_leads_to_it(harness: UiHarness) -> None:
    on_one = await harness.session("hello", settings={"link": "terminal"})
    other = await harness.session("hello")
    desktop = await harness.device(at=f"/app/s/{other}")
    await desktop.page.get_by_role("button", name="This session").click()
    await expect(desktop.page.get_by_role("menuitem", name="Rename…")).to_be_visible()
    await expect(desktop.page.get_by_role("menuitem", name="Its terminal")).to_have_count(0)
    await desktop.open(f"/app/s/{on_one}")
    await desktop.page.get_by_role("button", name="This session").click()
    await desktop.page.get_by_role("menuitem", name="Its terminal").click()
    await expect(desktop.page).to_have_url(f"{desktop.base}/app/terminals/session/{on_one}")
