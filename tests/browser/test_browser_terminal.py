"""One shell in two real browsers of different sizes: both show the same screen, whatever happened before."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.async_api import Browser, Page

from browser.chromium import async_fixture, eventually
from fairlead.config import load
from fairlead.wiring import running
from patience import PATIENCE
from tools.browser import xterm_files

PAGES = Path(__file__).with_name("pages")
WIDE = (1000, 700)
SMALL = (640, 400)
PROMPTS = {"$", "#"}

Shown = dict[str, Any]


class Screen:
    """A page with a terminal, in a separate browser profile."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def shown(self) -> Shown:
        seen: Shown = await self.page.evaluate("shown()")
        return seen

    async def past(self) -> list[str]:
        lines: list[str] = await self.page.evaluate("past()")
        return lines

    async def type(self, keys: str) -> None:
        """Type as a person does, key by key; a newline is the Enter key."""
        await self.page.keyboard.type(keys)

    async def shows_line(self, line: str) -> Shown:
        """Wait until this is a whole line on the screen; a typed line has the prompt in front."""
        return await eventually(self.shown, lambda seen: line in seen["lines"])

    async def exit_code(self) -> int | None:
        code: int | None = await self.page.evaluate("said.exit")
        return code

    async def size(self) -> list[int]:
        """The columns and rows that fit into the window."""
        cells: list[int] = await self.page.evaluate("[room.cols, room.rows]")
        return cells

    async def prompt(self, size: list[int]) -> Shown:
        """Wait until the shell shows its prompt and the terminal has this size."""
        return await eventually(self.shown, lambda seen: PROMPTS & set(seen["lines"]) and seen["size"] == size)


async def same_screen(first: Screen, second: Screen) -> Shown:
    """The screen that both show, the text with its colours and the cursor."""

    async def both() -> tuple[Shown, Shown]:
        return await first.shown(), await second.shown()

    seen, _ = await eventually(both, lambda pair: pair[0] == pair[1])
    return seen


class TerminalHarness:
    def __init__(self, browser: Browser, address: str, token: str, root: Path) -> None:
        self._browser = browser
        self._address = address
        self._token = token
        self.root = root

    async def open(self, size: tuple[int, int], **query: str) -> Screen:
        context = await self._browser.new_context(viewport={"width": size[0], "height": size[1]})
        page = await context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        asked = urlencode({"token": self._token, "size": "1", **query})
        await page.goto(f"{self._address}/terminal.html#{asked}")
        return Screen(page)

    async def open_two(self) -> tuple[Screen, Screen]:
        """Open one after the other, at the same prompt and as large as the smaller."""
        first = await self.open(WIDE)
        await first.prompt(await first.size())
        second = await self.open(SMALL)
        for screen in (first, second):
            await screen.prompt(await second.size())
        return first, second


@asynccontextmanager
async def terminal_harness(browser: Browser, folder: Path) -> AsyncIterator[TerminalHarness]:
    pages, root = folder / "pages", folder / "root"
    root.mkdir()
    shutil.copytree(PAGES, pages)
    for file in xterm_files():
        shutil.copy(file, pages)
    given = {"data": str(folder / "data"), "port": 0, "roots": [str(root)], "agent": "demo", "shell": "/bin/sh"}
    door = {"cognova": {"port": 0, "static": str(pages), "login": "token"}}
    env = {"HOME": str(root), "PATH": os.environ.get("PATH", os.defpath), "TERM": "xterm-256color"}
    async with running(load({"HOME": str(root)}, {**given, "door": door}).config, env) as gateway:
        yield TerminalHarness(browser, gateway.doors[0].url, gateway.token, root)


@async_fixture
async def harness(chromium: Browser, tmp_path: Path) -> AsyncIterator[TerminalHarness]:
    async with terminal_harness(chromium, tmp_path) as harness:
        yield harness


async def test_two_browsers_of_different_sizes_see_the_same_screen_and_its_end(harness: TerminalHarness) -> None:
    first, second = await harness.open_two()
    assert (await same_screen(first, second))["screen"] == "normal"
    await first.type("printf '\\033[1;31mred\\033[0m and \\033[7mback\\033[0m, wörld 日本\\n'\n")
    await second.shows_line("red and back, wörld 日本")
    await second.type("echo from the $((1 + 1))nd\n")
    await first.shows_line("from the 2nd")
    seen = await same_screen(first, second)
    assert "red and back, wörld 日本" in seen["lines"]
    (styled,) = (runs for runs in seen["runs"] if runs[0][1] == "red")
    assert [text for _, text, _ in styled] == ["red", " and", "back", ", wörld 日本"]
    assert len({style for _, _, style in styled}) == 3, "red and bold, inverse, plain"

    # After a burst of output both have the same scrollback.
    await first.type("clear; i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); echo n$i; done; echo d''one\n")
    await first.shows_line("done")
    await second.shows_line("done")
    await same_screen(first, second)
    numbers = [line for line in await first.past() if line.startswith("n")]
    assert numbers == [f"n{number}" for number in range(1, 3001)]
    assert [line for line in await second.past() if line.startswith("n")] == numbers

    await first.type("exit 3\n")
    for screen in (first, second):
        await eventually(screen.exit_code, lambda code: code == 3)


async def test_programs_that_take_the_whole_screen_are_the_same_in_both_and_leave_it_as_it_was(
    harness: TerminalHarness,
) -> None:
    first, second = await harness.open_two()
    await first.type("echo before\n")
    await second.shows_line("before")
    await first.type("vim -u NONE -n words\n")
    await eventually(second.shown, lambda seen: seen["screen"] == "alternate" and "~" in seen["lines"])
    await second.type("ihello from the second")
    await first.shows_line("hello from the second")
    seen = await same_screen(first, second)
    assert seen["screen"] == "alternate" and "before" not in seen["lines"]
    # A page opened while the program runs shows it too.
    late = await harness.open(SMALL)
    await late.shows_line("hello from the second")
    assert (await same_screen(late, first))["screen"] == "alternate"
    await late.page.keyboard.press("Escape")
    await late.type(":wq\n")
    for screen in (first, second, late):
        await eventually(screen.shown, lambda seen: seen["screen"] == "normal" and "before" in seen["lines"])
        await same_screen(first, screen)
    assert (harness.root / "words").read_text() == "hello from the second\n"

    # A pager: one browser turns its pages, and all see them.
    (harness.root / "long").write_text("".join(f"line {number}\n" for number in range(1, 501)))
    await first.type("less long\n")
    await second.shows_line("line 1")
    assert (await same_screen(first, second))["screen"] == "alternate"
    await second.type("G")
    await first.shows_line("line 500")
    seen = await same_screen(first, second)
    assert "line 1" not in seen["lines"] and "line 499" in seen["lines"]
    await first.type("q")
    await eventually(second.shown, lambda seen: seen["screen"] == "normal")
    await same_screen(first, second)


async def test_a_reloaded_page_shows_the_same_as_the_other(harness: TerminalHarness) -> None:
    first, second = await harness.open_two()
    await first.type("i=0; while [ $i -lt 200 ]; do i=$((i + 1)); echo n$i; done; echo d''one\n")
    await second.shows_line("done")
    await second.page.reload()
    await second.shows_line("done")
    await same_screen(first, second)
    wanted = [f"n{number}" for number in range(1, 201)]
    for screen in (first, second):
        assert [line for line in await screen.past() if line.startswith("n")] == wanted
    # In the middle of a program that keeps running.
    (harness.root / "gate").touch()
    await first.type("i=0; while [ -e gate ]; do i=$((i + 1)); echo m$i; sleep 0.01; done; echo e''nd $i\n")
    await eventually(first.shown, lambda seen: any(line.startswith("m") for line in seen["lines"]))
    await second.page.reload()
    await eventually(second.shown, lambda seen: any(line.startswith("m") for line in seen["lines"]))
    (harness.root / "gate").unlink()
    await eventually(second.shown, lambda seen: any(line.startswith("end ") for line in seen["lines"]))
    await same_screen(first, second)


async def test_the_terminal_has_the_size_of_the_smallest_writer_and_grows_when_it_leaves(
    harness: TerminalHarness,
) -> None:
    first, second = await harness.open_two()
    (columns, rows), alone = await second.size(), await first.size()
    assert columns < alone[0] and rows < alone[1]
    await second.type("stty size\n")
    await first.shows_line(f"{rows} {columns}")
    await second.page.close()
    await first.prompt(alone)
    await first.type("stty size\n")
    await first.shows_line(f"{alone[1]} {alone[0]}")

    # A read-only viewer sees everything, and cannot type.
    viewer = await harness.open(SMALL, readonly="1")
    await viewer.prompt(alone)
    await viewer.type("echo from the viewer\n")
    # Pings are answered in order: keys typed before this one have been handled.
    await viewer.page.evaluate(
        "new Promise((done) => { socket.addEventListener('message', ({ data }) =>"
        " JSON.parse(data).type === 'pong' && done()); say({ type: 'ping' }); })"
    )
    await first.type("echo from the writer\n")
    await viewer.shows_line("from the writer")
    seen = await same_screen(first, viewer)
    assert not any("viewer" in line for line in seen["lines"])
    assert seen["size"] == alone, "a viewer's room counts for nothing"
