"""claudecodeui's published app on our door, in a real browser: everything that a person does there in a day."""

import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from browser.chromium import async_fixture, eventually
from browser.claudecodeui_app import AppDoor, AppHarness, dot_png, open_app
from e2e import harness as cli_harness
from fairlead_testing.model_api import ScriptedModel
from faults.gateway_process import GatewayProcess
from faults.native_client import NativeClient
from patience import PATIENCE
from tools.clis import program_path

HELLO = "Hello from the scripted model."
WROTE = "Done. The tool said:"
BEFORE = "I will run a command."


def settle_in(home: Path, folder: Path) -> None:
    """Answer in advance what a person would: the CLI is set up, the key may be used, the folder is trusted."""
    answers = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [cli_harness.API_KEY[-20:]], "rejected": []},
        "projects": {os.path.realpath(folder): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(answers))


@async_fixture
async def harness(chromium: Browser, cloud_door: AppDoor) -> AsyncIterator[AppHarness]:
    """With the demo agent. The gateway serves other tests too; the user is this test's own."""
    async with open_app(chromium, cloud_door) as opened:
        yield opened


@async_fixture
async def real_harness(chromium: Browser, tmp_path: Path) -> AsyncIterator[AppHarness]:
    """With the newest Claude Code on the scripted model."""
    if reason := cli_harness.why_not_isolated() or cli_harness.why_not_installed(cli_harness.NEWEST):
        pytest.skip(reason)
    async with ScriptedModel() as model:
        gateway = GatewayProcess(
            tmp_path, agent="claude", claude=program_path(cli_harness.NEWEST), pass_env="IS_SANDBOX"
        )
        gateway.env = cli_harness.cli_env(tmp_path, model.url)
        settle_in(tmp_path, gateway.cwd)
        async with AppDoor(gateway) as door, open_app(chromium, door) as opened:
            yield opened


@pytest.mark.slow
async def test_a_signed_in_user_sees_the_history_and_a_reload_mid_turn_loses_nothing(
    harness: AppHarness,
) -> None:
    earlier = NativeClient(await harness.gateway.create())
    await earlier.come(harness.gateway)
    await earlier.send("SCRIPT:text remembered")
    await earlier.until("turn.ended")
    await earlier.go()
    async with harness.gateway.http() as http:
        shared = await http.post(f"/v1/sessions/{earlier.session}/share", json={"user": harness.user})
        assert shared.status_code == 200, shared.text

    tab = await harness.tab(await harness.person())
    await tab.sign_in("a wrong password")
    await tab.visible("Invalid username or password").wait_for()
    await tab.sign_in()
    await tab.visible("project").first.wait_for()
    await tab.choose("SCRIPT:text remembered")
    await tab.answered(f"{HELLO} remembered")
    await tab.prompted("SCRIPT:text remembered")
    await tab.say("SCRIPT:text again")
    await tab.answered(f"{HELLO} remembered", f"{HELLO} again")
    await tab.until(tab.ends, 1)

    # A new session. An attachment goes with the prompt, and appears once.
    await tab.choose("New Session")
    await eventually(tab.prompts, lambda texts: texts == [])
    await tab.attach(dot_png(), ("notes.bin", "application/octet-stream", b"\0 words"))
    await tab.say("SCRIPT:text seen")
    await tab.answered(f"{HELLO} seen")
    await tab.until(tab.ends, 2)
    await eventually(tab.pictures, lambda widths: widths == [1])
    await tab.prompted("SCRIPT:text seen")
    assert await tab.saved("notes.bin") == b"\0 words"

    # Reloaded in mid-turn: the app's stored state is enough to come back and continue.
    await tab.say("SCRIPT:slow 24")
    await tab.until(tab.ticks, 2)
    await tab.page.reload()
    await tab.until(tab.ticks, 4)
    ticks = ("tick " * 24).strip()
    await tab.answered(f"{HELLO} seen", ticks)
    await tab.prompted("SCRIPT:text seen", "SCRIPT:slow 24")

    # Once more from the history alone, in which the row that the app showed first does not appear a second time.
    await tab.page.reload()
    await tab.answered(f"{HELLO} seen", ticks)
    await tab.prompted("SCRIPT:text seen", "SCRIPT:slow 24")
    await eventually(tab.pictures, lambda widths: widths == [1])
    assert await tab.saved("notes.bin") == b"\0 words"
    await tab.choose("SCRIPT:text remembered")
    await tab.answered(f"{HELLO} remembered", f"{HELLO} again")
    await tab.prompted("SCRIPT:text remembered", "SCRIPT:text again")


async def test_an_invited_person_creates_an_account_once_and_enters_the_app(harness: AppHarness) -> None:
    await harness.gateway.create()
    async with harness.gateway.http() as http:
        invitation = (await http.post("/v1/invitations", json={})).json()["url"]
    assert invitation.startswith(f"{harness.address}/invite#")
    first = await harness.person()
    tab = await harness.tab(first, invitation.removeprefix(harness.address))
    for field, text in (("username", "bob"), ("password", "battery staple"), ("again", "battery staple")):
        await tab.page.fill(f"#{field}", text)
    await tab.page.get_by_role("button", name="Create the account").click()
    await expect(tab.page.get_by_role("status")).to_contain_text("open the app", timeout=PATIENCE * 1000)
    await tab.choose("open the app")
    await tab.visible("New Session").first.wait_for()
    # A link that was used once is useless afterwards.
    late = await harness.tab(await harness.person(), invitation.removeprefix(harness.address))
    for field, text in (("username", "eve"), ("password", "battery staple"), ("again", "battery staple")):
        await late.page.fill(f"#{field}", text)
    await late.page.get_by_role("button", name="Create the account").click()
    await late.page.get_by_text("An account is made with an invitation that is still good").wait_for()


@pytest.mark.slow
async def test_an_answer_streams_and_can_be_stopped_and_any_tab_can_deny_or_allow_a_tool(
    harness: AppHarness,
) -> None:
    first = await harness.signed_in()
    await first.say("SCRIPT:slow 240")
    early = await first.until(first.ticks, 2)
    assert early < 400, "it came in pieces"
    await first.until(first.ticks, early + 1)
    await first.stop()
    await first.until(first.ends, 1)
    kept = first.last_answer()
    assert early < kept.count("tick") < 400
    await first.answered(kept)
    await first.say("SCRIPT:text afterwards")
    await first.answered(kept, f"{HELLO} afterwards")
    await first.until(first.ends, 2)

    await first.say("SCRIPT:write refused.txt")
    await first.choose("Deny")
    await first.until(first.ends, 3)
    await first.visible("Allow once").wait_for(state="detached")
    assert not (harness.gateway.cwd / "refused.txt").exists()

    # Two tabs see the same, and either may answer.
    await first.say("SCRIPT:write notes.txt")
    await first.visible("Allow once").wait_for()
    second = await harness.tab(first.page.context, first.page.url.removeprefix(harness.address))
    await second.choose("Allow once")
    for tab in (first, second):
        await eventually(tab.answers, lambda texts: texts[-1:] and texts[-1].startswith(WROTE))
        await tab.visible("Allow once").wait_for(state="detached")
    assert (harness.gateway.cwd / "notes.txt").read_text() == "hello\nworld\n"
    # Neither tab is cut off by the other.
    await second.say("SCRIPT:text to both")
    texts = ("slow 240", "text afterwards", "write refused.txt", "write notes.txt", "text to both")
    for tab in (first, second):
        await eventually(tab.answers, lambda texts: texts[-1] == f"{HELLO} to both")
        await tab.prompted(*(f"SCRIPT:{words}" for words in texts))
    await first.answered(*await second.answers())


async def test_a_text_before_a_tool_is_shown_once_when_the_clock_of_the_page_is_ahead(harness: AppHarness) -> None:
    """The app stamps prompts and streamed texts with its own clock and sorts all rows by time.

    The clock is set at each step and stands still in between: the speed of the page does not matter.
    """
    tab = await harness.signed_in()

    async def set_clock() -> None:
        await tab.page.clock.set_fixed_time(datetime.now(UTC) + timedelta(seconds=2))

    await set_clock()
    await tab.say("SCRIPT:text first")
    await tab.answered(f"{HELLO} first")
    await tab.until(tab.ends, 1)
    # A reloaded page shows the first run from the history alone, so there are rows to sort by. Without the reload the
    # app keeps the run's streamed text until it has fetched the history, and loses it in the wrong run when the next
    # prompt is sent before that.
    await tab.page.reload()
    await tab.answered(f"{HELLO} first")
    await set_clock()
    await tab.say("SCRIPT:tool")
    await tab.visible("Allow once").wait_for()
    await eventually(tab.words, lambda texts: texts == [f"{HELLO} first", BEFORE])
    await set_clock()
    await tab.choose("Allow once")
    await tab.until(tab.ends, 2)
    # Without the reload the app sometimes shows the run's streamed rows and those of the history: its clock stands
    # still, so it cannot tell which are older.
    await tab.page.reload()
    await eventually(tab.words, lambda texts: texts == [f"{HELLO} first", BEFORE, f"{WROTE} hi"])


@pytest.mark.slow
async def test_a_day_with_the_real_program(real_harness: AppHarness) -> None:
    harness = real_harness
    tab = await harness.signed_in()
    await tab.say("SCRIPT:slow 24")
    assert await tab.until(tab.ticks, 2) < 24
    await tab.answered(("tick " * 24).strip())
    await tab.say("SCRIPT:write notes.txt")
    await tab.choose("Allow once")
    await eventually(tab.answers, lambda texts: texts[-1].startswith("Done."))
    assert (harness.gateway.cwd / "notes.txt").read_text() == "hello\nworld\n"
    await tab.until(tab.ends, 2)
    await tab.say("SCRIPT:slow 240")
    await tab.until(tab.ticks, 2)
    await tab.stop()
    await tab.until(tab.ends, 3)

    # The same session in a terminal, with the earlier messages; a prompt typed there appears in the chat too.
    await tab.choose("Shell")
    await tab.shows("SCRIPT:write notes.txt")
    await tab.asks()
    await tab.page.locator(".xterm-helper-textarea").focus()
    await tab.page.keyboard.type("SCRIPT:text from the terminal")
    await tab.shows("SCRIPT:text from the terminal")
    await tab.page.keyboard.press("Enter")
    await tab.shows(f"{HELLO} from the terminal")
    await tab.choose("Chat")
    await eventually(tab.answers, lambda texts: texts[-1] == f"{HELLO} from the terminal")
    await eventually(tab.prompts, lambda texts: texts[-1] == "SCRIPT:text from the terminal")
