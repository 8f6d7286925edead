"""The review of a session's changes in a real browser: files, diffs, comments, git; on a phone and with keys alone."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from browser.chromium import async_fixture, eventually
from browser.ui_harness import HOSTILE, PHONE, UiHarness, open_ui
from patience import PATIENCE
from review.repositories import git, repository
from sessions.harness import FakeAgent

expect.set_options(timeout=PATIENCE * 1000)


@async_fixture
async def ui(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    async with open_ui(chromium, tmp_path, monkeypatch) as harness:
        yield harness


LINES = [f"line {number}" for number in range(1, 41)]


def project(ui: UiHarness) -> Path:
    folder = repository(ui.folder / "rows", **{"app.py": "\n".join(LINES) + "\n", "gone.txt": "x\n"})
    (folder / "logo.png").write_bytes(bytes(range(256)))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Add the logo")
    return folder


async def working(ui: UiHarness, folder: Path) -> tuple[str, FakeAgent]:
    """A session whose agent works on its first prompt."""
    session = await ui.session("Fix the import", title="Lost column", cwd=str(folder))
    return session, await ui.agent()


def change(folder: Path) -> None:
    text = "\n".join(["line 1", "line two", *LINES[2:30], "inserted", *LINES[30:]]) + "\n"
    (folder / "app.py").write_text(text)
    (folder / "gone.txt").unlink()
    (folder / "logo.png").write_bytes(bytes(range(256)) * 3)
    (folder / "src").mkdir()
    (folder / "src" / "new.py").write_text("print('new')\n")


async def finish(ui: UiHarness, session: str, agent: FakeAgent, turns: int = 1) -> None:
    await agent.text("Done.")
    await agent.result()

    async def ended() -> int:
        return len(await ui.events(session, "turn.ended"))

    await eventually(ended, lambda found: found >= turns)

    async def marked() -> bool:
        found = (await ui.http.get(f"/v1/sessions/{session}/changes")).json()
        return any("running" not in turn for turn in found.get("turns", ()))

    await eventually(marked, bool)


async def test_review_with_comments_and_a_commit(ui: UiHarness) -> None:
    folder = project(ui)
    session, agent = await working(ui, folder)
    change(folder)
    await finish(ui, session, agent)
    device = await ui.device(at=f"/app/s/{session}")
    page = device.page
    await page.get_by_role("button", name="Changes", exact=True).click()
    listed = page.get_by_role("navigation", name="Changed files").get_by_role("listitem")
    await expect(listed).to_have_count(4)
    await expect(page.get_by_text("main", exact=True)).to_be_visible()
    await device.accessible()

    await page.get_by_role("button", name="modified app.py").click()
    rows = page.get_by_role("grid").get_by_role("row")
    await expect(rows.filter(has_text="line two")).to_be_visible()
    await expect(page.get_by_role("heading", level=2)).to_have_text("app.py")
    await device.accessible()
    await page.get_by_role("button", name="Side by side").click()
    await expect(rows.filter(has_text="line two").get_by_role("gridcell")).to_have_count(2)
    await device.accessible()
    await page.get_by_role("button", name="Whole file").click()
    await expect(rows.filter(has_text="line 20")).to_be_visible()
    await page.get_by_role("button", name="Whole file").click()
    await page.get_by_role("button", name="Side by side").click()

    # Two comments, sent as one message.
    await rows.filter(has_text="line two").click()
    await page.get_by_role("button", name="Comment", exact=True).click()
    await page.get_by_role("textbox", name="About app.py:2").fill("Digits, please.")
    await device.accessible()
    await page.get_by_role("button", name="Add comment").click()
    await rows.filter(has_text="inserted").click()
    await rows.filter(has_text="line 31").click(modifiers=["Shift"])
    await page.get_by_role("button", name="Comment", exact=True).click()
    await page.get_by_role("textbox", name="About app.py:31-32").fill("Why is this here?")
    await page.get_by_role("button", name="Add comment").click()
    await page.reload()
    await page.get_by_role("button", name="Comments (2)").click()
    await device.accessible()
    await page.get_by_role("button", name="Send 2 comments").click()
    await agent.prompted()
    sent = (await ui.events(session, "user.message"))[-1]["content"][0]["text"]
    assert sent == (
        "Review comments on your changes:\n\n"
        "app.py:2\n```diff\n+line two\n```\nDigits, please.\n\n"
        "app.py:31-32\n```diff\n+inserted\n line 31\n```\nWhy is this here?"
    )
    await expect(page.get_by_role("button", name="Comments", exact=True)).to_be_visible()

    # Discard one file, undo it, stage everything, commit.
    await page.get_by_role("button", name="deleted gone.txt").click()
    await page.get_by_role("button", name="Discard…").click()
    await page.get_by_role("button", name="Discard", exact=True).click()
    await expect(listed).to_have_count(3)
    assert (folder / "gone.txt").exists()
    await page.get_by_role("button", name="Undo").click()
    await expect(listed).to_have_count(4)
    assert not (folder / "gone.txt").exists()
    await page.get_by_role("button", name="binary").click()
    await expect(page.get_by_text("Binary file (256 B → 768 B)")).to_be_visible()
    await page.get_by_role("button", name="Stage 4 files").click()
    await page.get_by_role("textbox", name="Commit 4 staged files").fill("Fix the import")
    await device.accessible()
    await page.get_by_role("button", name="Commit", exact=True).click()
    await expect(page.get_by_text(re.compile(r"Committed \w+ on main"))).to_be_visible()
    assert git(folder, "log", "-1", "--format=%an %s") == b"Ann Fix the import\n"
    assert git(folder, "status", "--porcelain") == b""
    await expect(page.get_by_text("committed").first).to_be_visible()


async def test_review_by_turn_with_keys_alone_in_the_dark(ui: UiHarness) -> None:
    folder = project(ui)
    session, agent = await working(ui, folder)
    change(folder)
    await finish(ui, session, agent)
    device = await ui.device(at=f"/app/s/{session}/changes", color_scheme="dark")
    page = device.page
    await page.get_by_role("button", name="modified app.py").wait_for()
    await page.keyboard.press("j")
    await expect(page.get_by_role("heading", level=2)).to_have_text("app.py")
    await page.keyboard.press("j")
    await expect(page.get_by_role("heading", level=2)).to_have_text("gone.txt")
    await page.keyboard.press("k")
    grid = page.get_by_role("grid", name="Lines of app.py")
    await grid.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Shift+ArrowDown"):
        await page.keyboard.press(key)
    assert await grid.get_by_role("row", selected=True).count() == 2
    await page.keyboard.press("c")
    await expect(page.get_by_role("textbox", name="About app.py:2")).to_be_focused()
    await page.keyboard.type("Both lines.")
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("button", name="Comments (1)")).to_be_visible()
    await device.accessible()
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox", name="Filter files")).to_be_focused()
    await page.keyboard.type("new")
    listed = page.get_by_role("navigation", name="Changed files").get_by_role("listitem")
    await expect(listed).to_have_count(1)
    menu = page.get_by_role("button", name="Since the session began")
    await menu.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("[role=menuitemradio]:focus")).to_have_count(1)
    await page.keyboard.press("End")
    await expect(page.get_by_role("menuitemradio", name="Turn 1")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Turn 1")).to_be_visible()
    await expect(listed).to_have_count(1)


async def test_review_on_a_phone(ui: UiHarness) -> None:
    folder = project(ui)
    session, agent = await working(ui, folder)
    change(folder)
    await finish(ui, session, agent)
    device = await ui.device("Phone", PHONE, at=f"/app/s/{session}/changes", has_touch=True, is_mobile=True)
    page = device.page
    await page.get_by_role("button", name="modified app.py").wait_for()
    await device.fits()
    await device.accessible()
    await page.get_by_role("button", name="modified app.py").tap()
    rows = page.get_by_role("grid").get_by_role("row")
    await rows.filter(has_text="line two").tap()
    await rows.filter(has_text="line 3").first.tap()
    await expect(page.get_by_text("app.py:2-3")).to_be_visible()
    await device.fits()
    await device.accessible()
    await page.get_by_role("button", name="Comment", exact=True).tap()
    await page.get_by_role("textbox", name="About app.py:2-3").fill("From the phone.")
    await page.get_by_role("button", name="Add comment").tap()
    await page.get_by_role("button", name="Comments (1)").tap()
    await device.fits()
    await page.get_by_role("button", name="Send comment").tap()
    await agent.prompted()
    await page.get_by_role("button", name="Back to the files").tap()
    await expect(page.get_by_role("button", name="deleted gone.txt")).to_be_visible()


async def test_a_device_that_only_looks_changes_nothing(ui: UiHarness) -> None:
    folder = project(ui)
    session, agent = await working(ui, folder)
    (folder / f"{HOSTILE[0].replace('/', '')}.txt").write_text("\n".join(HOSTILE))
    await finish(ui, session, agent)
    device = await ui.device("Viewer", at=f"/app/s/{session}/changes", scopes=("view",))
    page = device.page
    await page.get_by_role("navigation", name="Changed files").get_by_role("button").click()
    await expect(page.get_by_role("grid").get_by_role("row")).to_have_count(len("\n".join(HOSTILE).split("\n")) + 1 + 1)
    await device.unharmed()
    for name in ("Stage", "Discard…", "Comments", "Stage 1 file"):
        await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)


async def test_a_folder_without_git_shows_the_edits_of_the_log(ui: UiHarness) -> None:
    folder = ui.folder / "plain"
    folder.mkdir()
    session, agent = await working(ui, folder)
    await agent.call("c1", "Edit", file_path=str(folder / "a.py"), old_string="one\n", new_string="two\n")
    await agent.result_of("c1")
    await agent.text("Done.")
    await agent.result()
    await ui.happened(session, "turn.ended")
    device = await ui.device(at=f"/app/s/{session}/changes")
    page = device.page
    await expect(page.get_by_text("This folder is in no git repository")).to_be_visible()
    await page.get_by_role("button", name="a.py").click()
    await expect(page.get_by_role("grid").get_by_role("row").filter(has_text="two")).to_be_visible()
    await device.accessible()


async def test_many_files_and_a_very_long_diff_are_scrolled(ui: UiHarness) -> None:
    folder = repository(ui.folder / "large", **{"long.txt": "".join(f"old {number}\n" for number in range(50_000))})
    session, agent = await working(ui, folder)
    (folder / "long.txt").write_text("".join(f"new {number}\n" for number in range(50_000)))
    for number in range(1200):
        (folder / f"f{number:04}.txt").write_text(f"{number}\n")
    device = await ui.device(at=f"/app/s/{session}/changes")
    page = device.page
    listed = page.get_by_role("navigation", name="Changed files").get_by_role("listitem")
    await expect(listed.first).to_be_visible()
    assert await listed.count() < 100, "only the visible rows are in the document"
    await page.get_by_role("searchbox", name="Filter files").fill("long")
    await page.get_by_role("button", name="modified long.txt").click()
    grid = page.get_by_role("grid")
    await expect(grid).to_have_attribute("aria-rowcount", "100001")
    await grid.focus()
    await page.keyboard.press("End")
    await expect(grid.get_by_role("row").filter(has_text="new 49999")).to_be_visible()
    await grid.evaluate("(element) => { element.scrollTop = element.scrollHeight / 4 }")
    await expect(grid.get_by_role("row").filter(has_text="old 25000")).to_be_visible()
    assert await grid.get_by_role("row").count() < 200
    await finish(ui, session, agent)


async def test_a_session_in_a_worktree_is_started_merged_and_removed(ui: UiHarness) -> None:
    folder = project(ui)
    device = await ui.device(at=f"/app/new?cwd={folder}")
    page = device.page
    await page.get_by_role("textbox", name="Worktree").fill("fix-import")
    await expect(page.get_by_role("textbox", name="Begins at")).to_be_visible()
    await device.accessible()
    await page.get_by_role("textbox", name="First message").fill("Fix it")
    await page.get_by_role("button", name="Start session").click()
    agent = await ui.agent()
    tree = folder / ".worktrees" / "fix-import"
    assert agent.launch.cwd == str(tree)
    group = page.get_by_role("group", name=str(folder), exact=True)
    await expect(group.get_by_text("worktree fix-import")).to_be_visible()
    (tree / "app.py").write_text("changed\n")
    session = agent.launch.session
    await finish(ui, session, agent)
    git(tree, "commit", "-qam", "Fix it")
    (tree / "left.txt").write_text("left\n")
    await page.get_by_role("button", name="Changes", exact=True).click()
    await expect(page.get_by_text("Worktree of rows", exact=True)).to_be_visible()
    await device.accessible()
    await page.get_by_role("button", name="Merge", exact=True).click()
    await expect(page.get_by_text("Files are not committed in the worktree (1)")).to_be_visible()
    (tree / "left.txt").unlink()
    await page.get_by_role("button", name="Merge", exact=True).click()
    await expect(page.get_by_text("Merged fix-import into main")).to_be_visible()
    assert (folder / "app.py").read_text() == "changed\n"
    (tree / "left.txt").write_text("left\n")
    await page.get_by_role("button", name="Remove worktree…").click()
    await expect(page.get_by_text("This deletes 1 uncommitted file.")).to_be_visible()
    await device.accessible()
    await page.get_by_role("button", name="Remove", exact=True).click()
    await expect(page.get_by_text("Removed the worktree and the branch fix-import")).to_be_visible()
    assert not tree.exists()
    assert git(folder, "branch", "--format=%(refname:short)") == b"main\n"
