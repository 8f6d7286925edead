"""Sessions in a real browser: their whole life by hand, on a desktop and on a phone, with the keyboard alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from browser.chromium import async_fixture, eventually
from browser.ui_harness import DOT, PHONE, Device, UiHarness, open_ui
from fairlead.config import AgentConfig
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch, scripted=False) as made:
        yield made


def composer(device: Device) -> Locator:
    return device.page.get_by_role("textbox", name="Message")


async def send_prompt(device: Device, text: str) -> None:
    await composer(device).fill(text)
    await composer(device).press("Enter")


def text_shown(device: Device, text: str) -> Locator:
    return device.page.locator(".agent-text", has_text=text)


def ended(device: Device) -> Locator:
    return device.page.locator(".turn-end")


async def test_the_whole_life_of_a_session(harness: UiHarness, tmp_path: Path) -> None:
    (harness.folder / "project").mkdir()
    desktop = await harness.device()
    page = desktop.page
    await page.get_by_role("button", name="New session").first.click()
    await page.get_by_role("button", name="Browse…").click()
    dialog = page.get_by_role("dialog", name="Choose a folder")
    await dialog.get_by_role("button", name="project").click()
    await expect(dialog.locator(".folders-head")).to_contain_text("project")
    await desktop.accessible()
    await dialog.get_by_role("button", name="Choose this folder").click()
    await expect(page.get_by_label("Folder")).to_have_value(str(harness.folder / "project"))
    await page.get_by_label("First message").fill("SCRIPT:write notes.txt")
    await desktop.accessible()
    await page.get_by_role("button", name="Start session").click()

    # It asks, a person allows, it is done; the decision and its author stay visible at the call.
    await page.get_by_role("button", name="Allow once").click()
    await expect(ended(desktop)).to_have_count(1)
    await expect(page.locator(".call.change")).to_contain_text("notes.txt")
    await expect(page.locator(".decided")).to_contain_text("Allowed by owner (Desk)")
    assert (harness.folder / "project" / "notes.txt").read_text() == "hello\nworld\n"
    await desktop.accessible()

    # A subagent, in the call that started it.
    await send_prompt(desktop, "SCRIPT:subagent text inside")
    await expect(ended(desktop)).to_have_count(2)
    thread = page.locator(".call.agent")
    await expect(thread).to_contain_text("completed")
    await thread.get_by_role("button").first.click()
    words = "Hello from the scripted model. inside"
    await expect(thread.locator(".thread")).to_contain_text(words)
    # Its text appears once, though its report repeats it.
    await expect(thread.locator(".thread").get_by_text(words, exact=True)).to_have_count(1)

    await page.get_by_role("button", name="Session menu").click()
    await page.get_by_role("menuitem", name="Rename…").click()
    await page.get_by_label("Name", exact=True).fill("The notes")
    await page.get_by_role("button", name="Rename", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("The notes")
    row = page.locator(".session-row")
    await expect(row).to_contain_text("The notes")
    await expect(row).to_contain_text("idle")

    # Files are restored, after the dialog has shown what that means.
    await page.locator(".user").first.get_by_role("button", name="Message actions").click()
    await page.get_by_role("menuitem", name="Restore files…").click()
    rewind = page.get_by_role("dialog", name="Restore files")
    await expect(rewind).to_contain_text("notes.txt")
    await rewind.get_by_role("button", name="Restore").click()
    await expect(page.locator(".mark", has_text="Files restored")).to_be_visible()
    assert not (harness.folder / "project" / "notes.txt").exists()

    # A search hit is shown in its context.
    await page.get_by_label("Search all sessions").fill("inside")
    await page.locator(".hit").first.click()
    await expect(page.locator(".item.found").first).to_be_in_viewport()
    await page.get_by_label("Search all sessions").fill("")

    # A fork after the first turn contains that turn and nothing later.
    parent = page.url
    await page.locator(".user").first.get_by_role("button", name="Message actions").click()
    await page.get_by_role("menuitem", name="Fork from here").click()
    await page.wait_for_url(lambda url: url.split("?")[0] != parent.split("?")[0])
    await expect(page.locator(".call.change")).to_contain_text("notes.txt")
    await expect(page.locator(".call.agent")).to_have_count(0)
    await send_prompt(desktop, "SCRIPT:echo")
    await expect(text_shown(desktop, "messages.")).to_be_visible()
    await expect(row).to_have_count(2)

    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Session menu").click()
        await page.get_by_role("menuitem", name="Export as HTML").click()
    saved = tmp_path / "saved.html"
    await (await saving.value).save_as(saved)
    assert "notes.txt" in saved.read_text()
    await page.get_by_role("button", name="Session menu").click()
    await page.get_by_role("menuitem", name="Archive").click()
    await expect(row).to_have_count(1)
    await page.get_by_role("button", name="List options").click()
    await page.get_by_role("menuitemradio", name="Show archived").click()
    await expect(row).to_have_count(2)
    await page.get_by_role("button", name="Session menu").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(row).to_have_count(1)
    await desktop.accessible()


async def test_while_it_works_messages_wait_can_be_changed_and_steer(harness: UiHarness) -> None:
    session = await harness.session("SCRIPT:slow 2000")
    desktop = await harness.device(at=f"/app/s/{session}")
    await expect(text_shown(desktop, "tick tick")).to_be_visible()
    for text in ("SCRIPT:text one", "SCRIPT:text two"):
        await send_prompt(desktop, text)
    queue = desktop.page.get_by_role("list", name="Queued messages")
    await expect(queue.locator("li")).to_have_count(2)
    await desktop.accessible()
    await queue.get_by_role("button", name="Move up: SCRIPT:text two").click()
    await expect(queue.locator("li").first).to_contain_text("two")
    await queue.get_by_role("button", name="Edit: SCRIPT:text one").click()
    await expect(composer(desktop)).to_have_value("SCRIPT:text one")
    await expect(queue.locator("li")).to_have_count(1)
    await composer(desktop).fill("SCRIPT:text changed")
    await composer(desktop).press("Enter")
    await desktop.page.get_by_role("button", name="Interrupt").click()
    await expect(ended(desktop)).to_have_count(3)
    await expect(ended(desktop).first).to_contain_text("Interrupted")
    texts = await desktop.page.locator(".user .words").all_inner_texts()
    assert texts == ["SCRIPT:slow 2000", "SCRIPT:text two", "SCRIPT:text changed"]
    await expect(queue).to_have_count(0)


async def test_mode_commands_and_attachments_from_the_composer(harness: UiHarness, tmp_path: Path) -> None:
    session = await harness.session("SCRIPT:text hello")
    desktop = await harness.device(at=f"/app/s/{session}")
    await expect(ended(desktop)).to_have_count(1)
    await desktop.page.get_by_role("button", name="Ask first").click()
    await desktop.accessible()
    await desktop.page.get_by_role("menuitemradio", name="Plan only").click()
    await expect(desktop.page.get_by_role("button", name="Plan only")).to_be_visible()
    await expect(desktop.page.locator(".aside", has_text="Mode: plan")).to_be_visible()
    assert (await harness.happened(session, "mode.changed"))["mode"] == "plan"
    commands = (await harness.happened(session, "agent.ready")).get("commands", [])
    assert commands, "the demo agent has slash commands"
    await composer(desktop).press_sequentially(f"/{commands[0][:3]}")
    option = desktop.page.get_by_role("option").first
    await expect(option).to_be_visible()
    first = (await option.inner_text()).strip()
    await desktop.accessible()
    await composer(desktop).press("Tab")
    await expect(composer(desktop)).to_have_value(f"{first} ")

    # Files are attached by choosing and by pasting them.
    notes = tmp_path / "notes.md"
    notes.write_text("some words")
    await desktop.page.get_by_label("Files to attach").set_input_files(notes)
    await desktop.page.evaluate(
        """(png) => {
          const bytes = Uint8Array.from(atob(png), (char) => char.charCodeAt(0));
          const clipboardData = new DataTransfer();
          clipboardData.items.add(new File([bytes], "shot.png", { type: "image/png" }));
          document.querySelector("#compose-text").dispatchEvent(
            new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        DOT,
    )
    await expect(desktop.page.get_by_role("list", name="Attachments").locator("li")).to_have_count(2)
    await desktop.accessible()
    await send_prompt(desktop, "SCRIPT:text look")
    await expect(ended(desktop)).to_have_count(2)
    content = (await harness.events(session, "user.message"))[1]["content"]
    assert [block["type"] for block in content] == ["text", "image", "text"]
    assert "some words" in content[0]["text"] and content[2]["text"] == "SCRIPT:text look"
    await expect(desktop.page.locator(".user img")).to_be_visible()


@pytest.mark.slow
async def test_on_a_phone_one_thing_at_a_time(harness: UiHarness) -> None:
    for text in ("SCRIPT:todo", "SCRIPT:tool", "SCRIPT:think"):
        await harness.session(text)
    phone = await harness.device("Phone", PHONE, has_touch=True, is_mobile=True, color_scheme="dark")
    page = phone.page
    await expect(page.locator(".session-row")).to_have_count(3)
    await phone.fits()
    await phone.accessible()
    await page.get_by_role("link", name="SCRIPT:tool").tap()
    await expect(page.get_by_role("heading", level=1)).to_have_text("SCRIPT:tool")
    await expect(page.locator(".list-pane")).to_be_hidden()
    await phone.fits()
    allow = page.get_by_role("button", name="Allow once")
    box = await allow.bounding_box()
    assert box is not None and box["height"] >= 44 and box["width"] >= 44
    await phone.accessible()
    await allow.tap()
    await expect(ended(phone)).to_have_count(1)
    await composer(phone).tap()
    await composer(phone).fill("SCRIPT:text from the phone")
    await page.get_by_role("button", name="Send").tap()
    await expect(text_shown(phone, "from the phone")).to_be_visible()
    await page.get_by_role("button", name="Back to sessions").tap()
    await expect(page.locator(".session-row")).to_have_count(3)
    await page.get_by_role("button", name="New session").first.tap()
    await expect(page.get_by_role("heading", level=1)).to_have_text("New session")
    await phone.fits()
    await phone.accessible()


async def test_everything_works_with_the_keyboard(harness: UiHarness) -> None:
    session = await harness.session("SCRIPT:text hello")
    desktop = await harness.device()
    page = desktop.page
    await expect(page.locator(".session-row")).to_have_count(1)
    await page.keyboard.press("/")
    await expect(page.get_by_label("Search all sessions")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/app/s/{session}")
    await expect(composer(desktop)).to_be_focused()
    await page.keyboard.type("SCRIPT:slow 2000")
    await page.keyboard.press("Enter")
    await expect(text_shown(desktop, "tick")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(ended(desktop).last).to_contain_text("Interrupted")
    await page.keyboard.press("Control+f")
    await page.keyboard.type("hello")
    await expect(page.locator(".find [role=status]")).to_contain_text("of")
    await expect(page.locator(".item.found").first).to_be_in_viewport()
    await page.keyboard.press("Escape")
    await expect(page.locator(".find")).to_have_count(0)

    async def focused() -> str:
        name: str = await page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")
        return name

    # Tab reaches everything; the session's menu opens, and closes, at the focused element.
    await page.get_by_role("button", name="Session menu").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("End")
    await expect(page.get_by_role("menuitem", name="Delete…")).to_be_focused()
    await page.keyboard.press("Escape")
    assert await eventually(focused, bool) == "Session menu"


@async_fixture
async def agents_harness(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[UiHarness]:
    """A gateway whose settings have two further agents: one that is installed, and one that is not."""
    agents = {"other": AgentConfig(command=("cat",)), "missing": AgentConfig(command=("no-such-agent",))}
    async with open_ui(chromium, tmp_path, monkeypatch, scripted=False, agents=agents) as made:
        yield made


async def test_a_new_session_runs_the_chosen_agent(agents_harness: UiHarness) -> None:
    """The agents of the settings are offered, those that cannot run are not."""
    page = (await agents_harness.device(at="/app/new")).page
    agents = page.get_by_label("Agent")
    await expect(agents.locator("option", has_text="demo")).to_have_count(1)
    await expect(agents).to_have_value("demo")
    await expect(agents.locator("option", has_text="missing (not available)")).to_be_disabled()
    await agents.select_option("other")
    # It runs on stdio only.
    await expect(page.get_by_label("Link").locator("option")).to_have_count(1)
    await page.get_by_role("button", name="Start session").click()
    await page.wait_for_url("**/app/s/*")
    (session,) = (await agents_harness.http.get("/v1/sessions")).json()["sessions"]
    assert session["agent"] == "other"


async def test_a_subagents_sentences_stand_in_its_thread_while_it_works(harness: UiHarness) -> None:
    desktop = await harness.device()
    page = desktop.page
    await page.get_by_role("button", name="New session").first.click()
    await page.get_by_label("First message").fill("SCRIPT:subagent tool")
    await page.get_by_role("button", name="Start session").click()
    # It waits for a permission: its earlier text is already there, in the call that started it.
    first = page.locator(".call.agent .thread").get_by_text("I will run a command.", exact=True)
    await expect(first).to_have_count(1)
    await page.get_by_role("button", name="Allow once").click()
    await expect(ended(desktop)).to_have_count(1)
    thread = page.locator(".call.agent")
    if not await thread.locator(".thread").is_visible():
        await thread.get_by_role("button").first.click()
    for words in ("I will run a command.", "Done. The tool said: hi"):
        await expect(thread.locator(".thread").get_by_text(words, exact=True)).to_have_count(1)
        await expect(page.get_by_text(words, exact=True)).to_have_count(1)
