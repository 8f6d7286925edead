"""Two apps in one headless Chromium, on one gateway: its own web UI, and claudecodeui's app on its door.

Rule: both pages get the same actions; the differences are the address and how a user signs in.
The page itself records its events and their times, by its own clock. Nothing is judged here.
"""

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, Request

from processes import Gateway

USER, PASSWORD = "owner", "correct horse battery"
QUIET_MS = 1500
"""After this long without a long task, a page has settled."""
FRAME_MS = 1000 / 60
PATIENCE = 300.0

# Runs before any script of the page. `shown` is when the wanted text was painted; `painted` the numbers that were on
# the screen, and when; `long` the ends of tasks that blocked the page; `keys` how long a key waited.
_NOTES = """
(() => {
  const notes = (window.bench = { wanted: "", shown: 0, painted: [], long: [], keys: [], frames: [] });
  let newest = 0, noted = 0;
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    const now = performance.now();
    notes.frames.push(now);
    if (newest > noted) notes.painted.push([(noted = newest), now]);
    if (notes.wanted && !notes.shown && document.body?.textContent.includes(notes.wanted)) notes.shown = now;
  };
  const frame = () => { channel.port2.postMessage(0); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  const words = (node) => {
    for (const found of (node.data ?? node.textContent ?? "").slice(-4000).matchAll(/\\d{12,16}/g))
      newest = Math.max(newest, Number(found[0]));
  };
  new MutationObserver((records) => {
    for (const record of records) {
      if (record.type === "characterData") words(record.target);
      record.addedNodes.forEach(words);
    }
  }).observe(document, { subtree: true, childList: true, characterData: true });
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) notes.long.push(one.startTime + one.duration);
  }).observe({ type: "longtask", buffered: true });
  addEventListener("keydown", (event) => {
    const waited = performance.now() - event.timeStamp;
    requestAnimationFrame(() => {
      const after = new MessageChannel();
      after.port1.onmessage = () => notes.keys.push([waited, performance.now() - event.timeStamp]);
      after.port2.postMessage(0);
    });
  }, true);
})();
"""


class Opened:
    """One page, its records, and the browser's developer tools for it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.tools: CDPSession = page.context.new_cdp_session(page)
        page.set_default_timeout(PATIENCE * 1000)

    def go(self, address: str, wanted: str) -> float:
        """Milliseconds from the start of the navigation until this text is painted."""
        self.page.add_init_script(f"{_NOTES}bench.wanted = {json.dumps(wanted)};")
        self.page.goto(address, wait_until="commit")
        self._until("window.bench?.shown")
        return float(self.page.evaluate("bench.shown"))

    def wait_for(self, words: str) -> None:
        self._until(f"document.body.textContent.includes({json.dumps(words)})")

    def settled(self) -> float:
        """When the page was shown and idle: milliseconds since its navigation began."""
        self._until(f"performance.now() - Math.max(bench.shown, ...bench.long) > {QUIET_MS}")
        return float(self.page.evaluate("Math.max(bench.shown, ...bench.long)"))

    def _until(self, asked: str) -> None:
        # Polled from outside: the page's own policy forbids evaluating strings inside.
        deadline = time.monotonic() + PATIENCE
        while not self.page.evaluate(asked):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.page.url}: it did not come to be that {asked}")
            self.page.wait_for_timeout(20)

    def throttled(self, rate: float) -> None:
        self.tools.send("Emulation.setCPUThrottlingRate", {"rate": rate})

    def heap(self) -> int:
        """Bytes that its scripts hold."""
        for _ in range(3):
            self.tools.send("HeapProfiler.collectGarbage")
        return int(self.tools.send("Runtime.getHeapUsage")["usedSize"])

    def nodes(self) -> int:
        return int(self.page.evaluate("document.getElementsByTagName('*').length"))

    def clock(self) -> float:
        """The offset from the page's milliseconds to those of this machine's clock."""
        found = []
        for _ in range(20):
            before = time.monotonic_ns()
            there = float(self.page.evaluate("performance.now()"))
            after = time.monotonic_ns()
            found.append((after - before, (before + after) / 2e6 - there))
        return min(found)[1]

    def painted(self) -> list[tuple[int, float]]:
        return [(int(number), float(at)) for number, at in self.page.evaluate("bench.painted")]

    def typed(self, field: str, seconds: float) -> tuple[list[float], list[float], float]:
        """Press keys at a person's pace: how long each waited, when it was painted, and the share of lost frames."""
        self.page.click(field)
        self.page.evaluate("bench.keys.length = bench.frames.length = 0")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.page.keyboard.press("a")
            self.page.wait_for_timeout(110)
        keys, frames = self.page.evaluate("[bench.keys, bench.frames]")
        gaps = [round((late - early) / FRAME_MS) for early, late in pairwise(frames)]
        lost = sum(max(0, gap - 1) for gap in gaps) / max(1, sum(gaps))
        return [waited for waited, _ in keys], [seen for _, seen in keys], lost * 100


class App:
    """A signed-in user; `context` is their browser profile."""

    name = ""
    field = "textarea"

    def __init__(self, browser: Browser, gateway: Gateway) -> None:
        self.browser = browser
        self.gateway = gateway
        self.base = self.address()
        self.context: BrowserContext = browser.new_context(
            viewport={"width": 1280, "height": 900}, service_workers="block", reduced_motion="reduce"
        )
        self.sign_in()

    def address(self) -> str:
        return self.gateway.url

    def sign_in(self) -> None:
        raise RuntimeError(f"how does one sign in to {self.name}?")

    def session(self, session: str) -> str:
        raise RuntimeError(f"where is a session of {self.name}?")

    @contextmanager
    def page(self) -> Iterator[Opened]:
        page = self.context.new_page()
        try:
            yield Opened(page)
        finally:
            page.close()

    # --- rows for both apps

    def first_load(self, wanted: str) -> tuple[float, float, int]:
        """Kilobytes as sent, the same files compressed by gzip, and the number of requests."""
        with self.page() as opened:
            opened.tools.send("Network.enable")
            opened.tools.send("Network.setCacheDisabled", {"cacheDisabled": True})
            sizes: list[int] = []
            done: list[Request] = []
            opened.tools.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
            opened.page.on("requestfinished", lambda request: done.append(request))
            opened.go(self.base, wanted)
            opened.settled()
            # Only completed requests: a call that waits for updates never ends.
            bodies = [answer.body() for request in list(done) if (answer := request.response()) and answer.ok]
            return sum(sizes) / 1000, sum(len(gzip.compress(body)) for body in bodies) / 1000, len(bodies)

    def interactive(self, wanted: str, rate: float) -> float:
        with self.page() as opened:
            opened.throttled(rate)
            opened.go(self.base, wanted)
            return opened.settled()

    def opens(self, session: str, wanted: str) -> float:
        with self.page() as opened:
            return opened.go(self.session(session), wanted)

    def delays(self, session: str, wanted: str, count: int, rate: int) -> list[float]:
        """Milliseconds from each delta, as the agent sends it, until it is painted."""
        with self.page() as opened:
            opened.go(self.session(session), wanted)
            opened.settled()
            words = run_turn(self.gateway, session, f"paced {count} {rate}")
            opened.wait_for(words[-1])
            opened.settled()
            offset = opened.clock()
            painted = opened.painted()
        return [
            next(at for number, at in painted if number >= left) + offset - left / 1e6
            for left in map(int, words)
            if painted[-1][0] >= left
        ]


class WebUi(App):
    name = "fairlead"

    def sign_in(self) -> None:
        body = {"name": "bench", "scopes": ["admin"]}
        link = self.gateway.http.post("/v1/login-codes", json=body).raise_for_status().json()["url"]
        page = self.context.new_page()
        page.goto(link)
        page.get_by_role("navigation", name="Pages").wait_for()
        page.close()

    def session(self, session: str) -> str:
        return f"{self.base}/app/s/{session}"


class CloudApp(App):
    name = "claudecodeui"
    field = "textarea[data-slot=prompt-input-textarea]"
    port = 0

    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sign_in(self) -> None:
        # The owner, to whom the sessions of this benchmark belong.
        self.gateway.http.put(f"/v1/users/{USER}/password", json={"password": PASSWORD}).raise_for_status()
        page = self.context.new_page()
        page.goto(self.base)
        page.fill("#username", USER)
        page.fill("#password", PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_text("New Session", exact=True).locator("visible=true").first.wait_for()
        page.close()

    def session(self, session: str) -> str:
        return f"{self.base}/session/{session}"


# --- prompts to the agent ---------------------------------------------------------------------------------------------


def begun(gateway: Gateway, title: str) -> str:
    body = {"cwd": str(gateway.folder), "title": title}
    return str(gateway.http.post("/v1/sessions", json=body).raise_for_status().json()["session"])


def ask(gateway: Gateway, session: str, text: str) -> None:
    gateway.http.post(f"/v1/sessions/{session}/messages", json={"text": text}).raise_for_status()


def run_turn(gateway: Gateway, session: str, text: str) -> list[str]:
    """Send a prompt and wait for the end of the turn: the words of the last text."""
    before = gateway.head(session)
    ask(gateway, session, text)
    while True:
        events: list[dict[str, Any]] = gateway.http.get(f"/v1/sessions/{session}/messages?limit=4").json()["events"]
        if any(event["type"] == "turn.ended" and event["seq"] > before for event in events):
            texts = [event["text"] for event in events if event["type"] == "text"]
            return str(texts[-1]).split()
        time.sleep(0.1)
