"""A page shows exactly the log, whatever happens to the page, the network or the gateway: nothing lost, nothing twice;
and no text is ever interpreted as markup.
"""

import json
import signal
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from browser.chromium import async_fixture, eventually
from browser.ui_gateway import Gateway, shown_texts, told_texts
from browser.ui_harness import HOSTILE, Device, UiHarness, open_ui
from patience import PATIENCE
from sessions.harness import FakeAgent

expect.set_options(timeout=PATIENCE * 1000)

# Four a second: long enough for a page to load in the middle of them on a busy machine.
TICKS = 60


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch, scripted=False) as made:
        yield made


@async_fixture
async def spoken(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch) as made:
        yield made


async def ticking(page: Page) -> None:
    """Wait until the answer is streaming and not done yet."""

    async def count() -> int:
        return sum(text.count("tick") for text in await shown_texts(page))

    assert 0 < await eventually(count, bool) < TICKS


class Answer:
    """One text of the agent that arrives in pieces, as slowly as the test wants."""

    def __init__(self, agent: FakeAgent) -> None:
        self._agent = agent
        self._text = ""

    async def begin(self) -> None:
        await self._event("message_start", message={"id": "in-pieces", "content": []})
        await self._event("content_block_start", index=0, content_block={"type": "text", "text": ""})

    async def piece(self, text: str) -> None:
        self._text += text
        await self._event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    async def end(self) -> str:
        """The whole text."""
        await self._agent.text(self._text, "in-pieces")
        await self._event("content_block_stop", index=0)
        await self._event("message_stop")
        await self._agent.result()
        return self._text

    async def _event(self, kind: str, **fields: Any) -> None:
        record = {"type": "stream_event", "uuid": str(uuid.uuid4()), "session_id": "s", "parent_tool_use_id": None}
        await self._agent.say({**record, "event": {"type": kind, **fields}})


async def test_a_page_reloaded_and_offline_mid_stream_misses_nothing_and_sends_once(
    spoken: UiHarness,
) -> None:
    session = await spoken.session("begin")
    agent = await spoken.agent()
    desktop = await spoken.device(at=f"/app/s/{session}")
    page = desktop.page
    answer_text = page.locator(".agent-text").first
    answer = Answer(agent)
    await answer.begin()
    await answer.piece("one two")
    await expect(answer_text).to_have_text("one two")
    # Events in between do not affect where the text continues.
    await spoken.http.post(f"/v1/sessions/{session}/messages", json={"text": "later"})
    await expect(page.locator(".queue li")).to_have_count(1)
    await page.reload()
    await expect(answer_text).to_have_text("one two")
    await expect(page.locator(".queue li")).to_have_count(1)
    await answer.piece(" three")
    await expect(answer_text).to_have_text("one two three")

    await desktop.context.set_offline(True)
    # Where loopback is the only network, the browser was never online and emits no event for a change.
    await page.evaluate("dispatchEvent(new Event('offline'))")
    await expect(page.locator(".follow-status")).to_contain_text("Offline")
    await expect(page.locator(".connection")).to_contain_text("cannot be reached")
    await desktop.accessible()
    await answer.piece(" four")
    await page.get_by_role("textbox", name="Message").fill("sent offline")
    await page.keyboard.press("Enter")
    await expect(page.locator(".user.sending")).to_have_count(1)
    await desktop.context.set_offline(False)
    await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
    await expect(answer_text).to_have_text("one two three four")
    await expect(page.locator(".queue li")).to_have_count(2)

    await answer.piece(" five")
    texts = [await answer.end()]
    for text in ("later", "sent offline"):
        assert text in await agent.prompted()
        await agent.text(f"About {text}.")
        await agent.result()
        texts.append(f"About {text}.")
    await expect(page.locator(".turn-end")).to_have_count(3)
    await eventually(partial(shown_texts, page), lambda seen: seen == texts)
    await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
    assert len(await spoken.events(session, "user.message")) == 3
    desktop.problems = [text for text in desktop.problems if "ERR_INTERNET_DISCONNECTED" not in text]


async def test_many_tabs_of_one_browser_are_all_served(harness: UiHarness) -> None:
    session = await harness.session("SCRIPT:text hello")
    desktop = await harness.device(at=f"/app/s/{session}")
    # More than the number of connections that a browser opens to one gateway.
    for _ in range(6):
        page = await desktop.context.new_page()
        await page.goto(f"{harness.running.url}/app/s/{session}")
    for page in desktop.context.pages:
        await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
        await expect(page.locator(".turn-end")).to_have_count(1)


async def test_a_strangers_address_leads_nowhere_and_a_revoked_device_is_signed_out(harness: UiHarness) -> None:
    desktop = await harness.device("Lost phone")
    assert "#" not in desktop.page.url, "the code leaves the address at once"
    await expect(desktop.page.get_by_role("heading", name="Sessions")).to_be_visible()
    # A socket that is still being opened would be rejected, which the browser logs as an error.
    await desktop.connected()
    devices = (await harness.http.get("/v1/devices")).json()["devices"]
    await harness.http.delete(f"/v1/devices/{devices[0]['id']}")
    page = desktop.page
    await expect(page.get_by_role("heading", name="Fairlead")).to_be_visible()
    assert await page.evaluate("localStorage.getItem('fairlead.key')") is None
    await desktop.accessible()

    # Whatever an address contains, and whatever is pasted: only this gateway is contacted (the harness checks every
    # request).
    await page.goto("about:blank")
    await page.goto(f"{harness.running.url}/?gatewayUrl=http://evil.test&server=evil.test#server=http://evil.test")
    await expect(page.get_by_role("heading", name="Fairlead")).to_be_visible()
    await page.get_by_label("Login link").fill("https://evil.test/#login=AAAAAAAAAAAAAAAAAAAAAAAA")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    assert desktop.strayed == []


@pytest.mark.slow
async def test_a_gateway_killed_and_restarted_mid_stream_loses_and_repeats_nothing(
    chromium: Browser, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    gateway = Gateway(tmp_path, agent="demo")
    await gateway.start()
    try:
        page = await gateway.page(chromium)
        made = await gateway.http.post("/v1/sessions", json={"text": f"SCRIPT:slow {TICKS}"})
        session = made.json()["session"]
        await page.goto(f"{gateway.url}/app/s/{session}")
        await ticking(page)
        await gateway.end(signal.SIGKILL)
        await expect(page.locator(".follow-status")).to_contain_text("Offline")
        await page.get_by_role("textbox", name="Message").fill("SCRIPT:text after the restart")
        await page.keyboard.press("Enter")
        await expect(page.locator(".user.sending")).to_have_count(1)
        await gateway.start()
        await expect(page.locator(".turn-end")).to_have_count(2)
        await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
        log = await gateway.log(session)
        texts = told_texts(log)
        await eventually(partial(shown_texts, page), lambda shown: shown == texts)
        assert texts[-1] == "Hello from the scripted model. after the restart"
        users = [event for event in log if event["type"] == "user.message"]
        assert len(users) == await page.locator(".user").count() == 2
        # The agent outlived its gateway, and its whole output is here.
        assert texts[0] == " ".join(["tick"] * TICKS)
        # A page that is opened while the gateway is down shows the session as soon as it is back.
        await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        await page.reload()
        await expect(page.locator(".turn-end")).to_have_count(2)
        await gateway.end(signal.SIGKILL)
        await page.reload()
        await expect(page.get_by_role("heading", name="This session cannot be shown")).to_be_visible()
        await gateway.start()
        await expect(page.locator(".turn-end")).to_have_count(2)
        await page.goto("about:blank")
    finally:
        await gateway.end(signal.SIGTERM)
        await gateway.http.aclose()


def transcript(folder: Path, rows: int, animal: str = "narwhal", first: str = "2222") -> None:
    """Write a session of another program: that many messages, alternating questions and answers."""
    session = f"{first}2222-2222-4222-8222-222222222222"
    home = folder / "elsewhere" / "projects" / "-work"
    home.mkdir(parents=True, exist_ok=True)
    parent = None
    with (home / f"{session}.jsonl").open("w") as file:
        for number in range(rows):
            own = f"{first}3333-3333-4333-8333-{number:012d}"
            row: dict[str, Any] = {"parentUuid": parent, "uuid": own, "sessionId": session, "version": "2.1.120"}
            row |= {"timestamp": f"2026-01-{1 + number // 1440:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00.000Z"}
            row |= {"cwd": str(folder / "work"), "isSidechain": False, "userType": "external"}
            if number % 2:
                block = {"type": "text", "text": f"answer {number}"}
                message = {
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "model": "m",
                    "content": [block],
                    "type": "message",
                }
                row |= {"type": "assistant", "message": {**message, "stop_reason": "end_turn", "usage": {}}}
            else:
                special = f" about the {animal}" if number == 10 else ""
                row |= {"type": "user", "message": {"role": "user", "content": f"question {number}{special}"}}
            file.write(json.dumps(row) + "\n")
            parent = own


async def number(page: Page, which: str) -> int:
    """The number of the first or the last question that the page holds, drawn or not."""
    asked = page.locator(".user .words")
    text = await (asked.first if which == "first" else asked.last).text_content()
    return int((text or "").split()[1])


@pytest.mark.slow
async def test_a_long_session_opens_at_its_end_scrolls_both_ways_and_is_searched_whole(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 1400
    transcript(tmp_path, rows)
    transcript(tmp_path, 400, "walrus", "4444")
    homes = (str(tmp_path / "elsewhere"),)
    async with open_ui(chromium, tmp_path, monkeypatch, scripted=False, claude_homes=homes) as harness:
        desktop = await harness.device()
        page = desktop.page
        # A hit in a session that was never opened: it is opened, and the words are shown in their place.
        await page.get_by_label("Search all sessions").fill("walrus")
        await page.locator(".hit").click()
        await expect(page.locator(".item.found")).to_contain_text("question 10 about the walrus")
        await expect(page.locator(".item.found")).to_be_in_viewport()
        await page.get_by_label("Search all sessions").fill("")
        # By its address, before the list is known.
        await desktop.open("/app/s/22222222-2222-4222-8222-222222222222")
        await expect(page.get_by_text(f"answer {rows - 1}", exact=True)).to_be_in_viewport()
        await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
        await expect(page.get_by_text(f"answer {rows - 1}", exact=True)).to_be_in_viewport()

        async def oldest() -> int:
            # Scroll up by hand; the visible messages stay in place while older ones are inserted above.
            await page.locator(".stream-scroll").evaluate("(box) => { box.scrollTop = 0 }")
            return await number(page, "first")

        assert await eventually(oldest, lambda seen: seen < rows - 700) > 0
        # Far from the end the page unloads the end: it holds a window, not the session.
        await expect(page.locator(".follow-status")).to_have_attribute("data-following", "elsewhere")
        assert await page.locator(".stream-scroll > .items > .item").count() < 1500

        async def newest() -> int:
            await page.locator(".stream-scroll").evaluate("(box) => { box.scrollTop = box.scrollHeight }")
            return await number(page, "last")

        assert await eventually(newest, lambda seen: seen == rows - 2)
        await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
        # Found through the gateway, though it is far from the loaded part.
        await page.keyboard.press("Control+f")
        await page.keyboard.type("narwhal")
        await expect(page.locator(".item.found")).to_contain_text("question 10 about the narwhal")
        await expect(page.locator(".item.found")).to_be_in_viewport()
        await page.get_by_role("button", name="Go to end").click()
        await expect(page.get_by_text(f"answer {rows - 1}", exact=True)).to_be_in_viewport()


async def hostile(device: Device) -> None:
    await device.unharmed()
    found: int = await device.page.evaluate(
        "document.querySelectorAll('.page script, .page iframe, .page object, .page [onerror], .page [onload],"
        " .page a[href^=javascript]').length"
    )
    assert found == 0


async def test_no_text_is_ever_interpreted_as_markup(spoken: UiHarness) -> None:
    everything = " ".join(HOSTILE) + " [x](javascript:window.pwned=1) ![y](http://evil.test/y.png) <b>bold</b>"
    session = await spoken.session(everything, title=everything[:200])
    agent = await spoken.agent()
    desktop = await spoken.device(at=f"/app/s/{session}")
    await agent.text(everything)
    await agent.text(
        f"```{HOSTILE[0]}\n{everything}\n```\n\n```html\n{everything}\n```\n\n| a |\n|---|\n| {everything} |"
    )
    for number, name in enumerate(
        ["Bash", "Edit", "Write", "Read", "Grep", "TodoWrite", "WebFetch", "Task", HOSTILE[0]]
    ):
        fields = (
            "command",
            "description",
            "file_path",
            "pattern",
            "url",
            "prompt",
            "old_string",
            "new_string",
            "content",
        )
        given: dict[str, Any] = dict.fromkeys(fields, everything)
        given["todos"] = [{"content": everything, "status": "pending"}]
        await agent.call(f"c{number}", name, **given)
        await agent.result_of(f"c{number}", everything)
    await agent.result(is_error=True, subtype="error_during_execution", errors=[everything])
    await expect(desktop.page.locator(".turn-end")).to_have_count(1)
    await desktop.page.locator(".call-head[aria-expanded=false]").evaluate_all(
        "(heads) => heads.forEach((h) => h.click())"
    )
    await expect(desktop.page.locator(".agent-text").first).to_contain_text("<script>window.pwned='script'</script>")
    await expect(desktop.page.locator(".agent-text b")).to_have_count(0)
    await hostile(desktop)
    await desktop.accessible()
    # The list, the search with its marks, the queue, the title, the name of a device.
    await spoken.http.post(f"/v1/sessions/{session}/messages", json={"text": everything})
    await spoken.http.post(f"/v1/sessions/{session}/messages", json={"text": everything})
    await expect(desktop.page.locator(".queue li")).to_have_count(1)
    await desktop.page.get_by_label("Search all sessions").fill("window")
    await expect(desktop.page.locator(".hit").first).to_be_visible()
    await hostile(desktop)
    other = await spoken.device(HOSTILE[0])
    await hostile(other)
