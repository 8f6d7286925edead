"""Click everything once: every button, tab and switch that appears on a page, whatever its name is.

Rule: the elements to click are found on the page and never listed here. After each click the page must still be there:
an application that crashes while it draws leaves an empty root.
"""

import asyncio
import contextlib
from typing import Final

import msgspec
from playwright.async_api import ConsoleMessage, Dialog, Page, Request

FIND: Final = """
() => {
  const roles = 'button, [role=button], [role=tab], [role=menuitem], [role=switch], [role=checkbox], [role=option]';
  const found = [];
  for (const element of document.querySelectorAll(roles)) {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height || element.disabled) continue;
    const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    if (!top || !element.contains(top)) continue;
    const own = element.getAttribute('aria-label') || element.getAttribute('title') || element.innerText || '';
    const words = own.trim().replace(/\\s+/g, ' ').slice(0, 60);
    const around = element.closest('[role=dialog], [role=menu], aside, nav, header, main, form, section');
    const where = around ? around.tagName + ' ' + (around.getAttribute('aria-label') || '') : '';
    const drawn = element.querySelector('svg') ? element.querySelector('svg').getAttribute('class') || '' : '';
    const closes = /^(close|cancel|back|done|x|×)?$/i.test(words) && (words || drawn.includes('lucide-x'));
    const place = [element.tagName, where, words || drawn].join(' / ');
    found.push({x: box.x + box.width / 2, y: box.y + box.height / 2, words, place, closes: Boolean(closes)});
  }
  const rank = one => one.closes ? 2 : one.place.includes('HEADER') || one.place.includes('NAV') ? 0 : 1;
  return found.sort((one, other) => rank(one) - rank(other));
}
"""
ALIVE: Final = "() => document.querySelector('#root')?.innerText.trim().length ?? 0"
DRAWN: Final = "() => new Promise(done => setTimeout(done, 50))"
STREAM_S: Final = 1.0
REACT: Final = ("Minified React error", "Objects are not valid as a React child", "Something went wrong")


class Clickable(msgspec.Struct, frozen=True):
    x: float
    y: float
    words: str
    place: str
    closes: bool


class Clicker:
    """`leave`: texts of elements that are not clicked. `died`: the failures, each with the click that caused it."""

    def __init__(self, page: Page, leave: frozenset[str]) -> None:
        self.page = page
        self.clicked: list[str] = []
        self.died: list[str] = []
        self.failed: list[str] = []
        """Exceptions of the page, and errors that it logged about its own drawing."""
        self._leave = leave
        self._seen: set[str] = set()
        self._waiting: set[Request] = set()
        page.on("dialog", self._refuse)
        page.on("popup", self._close)
        page.on("pageerror", lambda error: self.failed.append(str(error)[:300]))
        page.on("console", self._heard)
        page.on("request", self._asked)
        page.on("requestfinished", self._answered)
        page.on("requestfailed", self._answered)

    async def click_all(self, most: int) -> None:
        """Click until nothing new is on the page, also after a reload; at most `most` clicks."""
        fresh = False
        while len(self.clicked) < most:
            wanted = await self._unseen()
            if wanted is not None:
                await self._click(wanted)
                fresh = False
                continue
            # There may be more behind an overlay.
            await self.page.keyboard.press("Escape")
            if await self._unseen() is None:
                if fresh:
                    return
                await self.reload()
                fresh = True

    async def reload(self) -> None:
        await self.page.reload()
        await self.page.get_by_role("button").first.wait_for()
        await self.settled()

    async def settled(self) -> None:
        """Wait until the requests of the click are answered and drawn; a stream has no end and is not waited for."""
        await self.page.evaluate(DRAWN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STREAM_S):
                while self._waiting:
                    await asyncio.sleep(0.02)
        self._waiting.clear()
        await self.page.evaluate(DRAWN)

    async def is_alive(self) -> bool:
        return bool(await self.page.evaluate(ALIVE))

    async def _unseen(self) -> Clickable | None:
        found = msgspec.convert(await self.page.evaluate(FIND), list[Clickable])
        return next((one for one in found if one.place not in self._seen and one.words not in self._leave), None)

    async def _click(self, wanted: Clickable) -> None:
        self._seen.add(wanted.place)
        # By its position, as a person would: it was on top a moment ago.
        await self.page.mouse.click(wanted.x, wanted.y)
        self.clicked.append(wanted.words)
        await self.settled()
        if self.failed or not await self.is_alive():
            self.died.append(f"{wanted.place}: {'; '.join(self.failed) or 'an empty page'}")
            await self.reload()
            self.failed.clear()

    async def _close(self, opened: Page) -> None:
        await opened.close()

    async def _refuse(self, dialog: Dialog) -> None:
        await dialog.dismiss()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and any(words in message.text for words in REACT):
            self.failed.append(message.text[:300])

    def _asked(self, request: Request) -> None:
        if request.resource_type in ("fetch", "xhr", "script"):
            self._waiting.add(request)

    def _answered(self, request: Request) -> None:
        self._waiting.discard(request)
