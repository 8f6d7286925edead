"""Approvals in real browsers: the card shows what will run, only one answer counts, and all see whose it was."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, FilePayload, expect

from browser.chromium import async_fixture, eventually
from browser.ui_harness import DOT, HOSTILE, PHONE, UiHarness, open_ui
from patience import PATIENCE
from sessions.harness import FakeAgent

expect.set_options(timeout=PATIENCE * 1000)


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch) as made:
        yield made


async def asking(harness: UiHarness, tool: str = "Bash", **given: Any) -> tuple[str, FakeAgent]:
    session = await harness.session("do it", title="The task")
    agent = await harness.agent()
    await agent.call("c1", tool, **given)
    await agent.ask("r1", "c1", tool, **given)
    await harness.asked()
    return session, agent


async def answers(agent: FakeAgent, number: int = 1) -> list[tuple[str, Any]]:
    async def look() -> list[tuple[str, Any]]:
        return list(agent.answers)

    return await eventually(look, lambda found: len(found) >= number)


async def test_two_devices_answer_at_once_and_one_answer_counts(harness: UiHarness) -> None:
    desktop = await harness.device("Ann's desk", at="/app/approvals")
    phone = await harness.device("Bob's phone", PHONE, has_touch=True, at="/app/approvals")
    session, agent = await asking(harness, command="touch x")
    allow = desktop.page.get_by_role("button", name="Allow once")
    await expect(allow).to_be_enabled()
    await phone.page.get_by_role("button", name="Deny").click()
    deny = phone.page.get_by_role("button", name="Deny", exact=True).last
    await expect(deny).to_be_enabled()
    await phone.fits()
    # Element handles: the card may be answered, and gone, before the second click.
    buttons = [await button.element_handle() for button in (allow, deny)]
    await asyncio.gather(*(button.evaluate("(one) => one.click()") for button in buttons))
    resolved = await harness.happened(session, "permission.resolved")
    assert resolved["by"] in ("owner (Ann's desk)", "owner (Bob's phone)")
    for device in (desktop, phone):
        await expect(device.page.locator(".outcome")).to_contain_text(f"by {resolved['by']}")
    assert len(await answers(agent)) == 1
    assert len(await harness.events(session, "permission.resolved")) == 1


async def test_a_card_shows_what_will_run_and_a_rule_shows_what_it_covers_before_it_is_saved(
    harness: UiHarness,
) -> None:
    desktop = await harness.device(at="/app/approvals")
    session, agent = await asking(harness, command="make all && sh -c 'rm -rf dist' > log.txt")
    card = desktop.page.get_by_role("article")
    await expect(card.get_by_label("Command", exact=True)).to_have_text("make all && sh -c 'rm -rf dist' > log.txt")
    await expect(card).to_contain_text("Runs 3 commands")
    await expect(card.locator(".command-parts li").nth(2)).to_contain_text("rm -rf dist")
    await expect(card).to_contain_text("Writes to log.txt")
    await card.get_by_role("button", name="Always allow…").click()
    save = card.get_by_role("button", name="Save rule and allow")
    await card.get_by_label("Custom rule").check()
    await expect(save).to_be_disabled()
    rule = card.get_by_label("Rule", exact=True)
    await rule.fill("Bash")
    await desktop.page.wait_for_selector(".rule-scope")
    await expect(card.locator(".rule-scope")).to_contain_text("Every shell command")
    await rule.fill("Bash(make")
    await expect(card.locator(".wrong")).to_contain_text("closing bracket")
    await expect(save).to_be_disabled()
    await rule.fill("Bash(make all:*)")
    await expect(card.locator(".rule-scope")).to_contain_text("begins with the words “make all”")
    await expect(card.locator(".rule-scope")).to_contain_text("would still need your approval")
    await desktop.accessible()
    await save.click()
    resolved = await harness.happened(session, "permission.resolved")
    assert resolved["remembered"] == ["Bash(make all:*)"]
    await agent.call("c2", command="make all docs")
    await agent.ask("r2", "c2", command="make all docs")
    assert len(await answers(agent, 2)) == 2, "what the rule covers is not asked again"


async def test_a_change_of_a_file_is_shown_as_a_diff_and_can_be_changed_before_it_is_allowed(
    harness: UiHarness,
) -> None:
    file = harness.folder / "notes.txt"
    file.write_text("one\ntwo\nthree\n")
    phone = await harness.device("Phone", PHONE, has_touch=True, at="/app/approvals")
    given = {"file_path": str(file), "old_string": "two", "new_string": "zwei"}
    _, agent = await asking(harness, "Edit", **given)
    card = phone.page.get_by_role("article")
    await expect(card.locator(".diff-line.del")).to_contain_text("two")
    await expect(card.locator(".diff-line.add")).to_contain_text("zwei")
    await expect(card.locator(".diff-line.same").first).to_contain_text("one")
    await phone.fits()
    await card.get_by_role("button", name="Edit…").click()
    text = card.get_by_label("Edited input")
    await text.fill("[1]")
    await card.get_by_role("button", name="Allow with changes").click()
    await expect(card.locator(".wrong")).to_contain_text("Not a JSON object")
    await text.fill(json.dumps({**given, "new_string": "deux"}))
    await phone.accessible()
    await card.get_by_role("button", name="Allow with changes").click()
    ((_, decision),) = await answers(agent)
    assert decision.behavior == "allow" and decision.updated_input == {**given, "new_string": "deux"}


async def test_questions_and_plans_are_answered_by_keyboard_alone(harness: UiHarness) -> None:
    desktop = await harness.device(at="/app/approvals")
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}]
    questions = [
        {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False},
        {"question": "Which sizes?", "header": "Size", "options": options, "multiSelect": True},
    ]
    session, agent = await asking(harness, "AskUserQuestion", questions=questions)
    keys = desktop.page.keyboard
    send = desktop.page.get_by_role("button", name="Answer", exact=True)
    await expect(send).to_be_disabled()
    await desktop.page.get_by_role("radio", name="Red").focus()
    await keys.press("ArrowDown")
    await expect(desktop.page.get_by_role("radio", name="Blue")).to_be_checked()
    await desktop.page.get_by_role("checkbox", name="Red").focus()
    await keys.press("Space")
    await desktop.page.get_by_label("Other answer").last.focus()
    await keys.type("huge")
    await desktop.accessible()
    await expect(send).to_be_enabled()
    await keys.press("Enter")
    ((_, decision),) = await answers(agent)
    assert decision.updated_input["answers"] == {"Which colour?": "Blue", "Which sizes?": "Red, huge"}

    await agent.call("c2", "ExitPlanMode", plan="# Steps\n\n1. **Look**\n2. Leap")
    await agent.ask("r2", "c2", "ExitPlanMode", plan="# Steps\n\n1. **Look**\n2. Leap")
    plan = desktop.page.get_by_role("article", name="Plan for review")
    await expect(plan.locator("strong")).to_have_text("Look")
    keep = plan.get_by_role("button", name="Keep planning")
    await expect(keep).to_be_enabled()
    await keep.focus()
    await keys.press("Enter")
    await plan.get_by_label("What should change").focus()
    await keys.type("Look twice.")
    await desktop.accessible()
    await keys.press("Tab")
    await keys.press("Enter")
    assert (await answers(agent, 2))[1][1].message == "Look twice."
    await agent.call("c3", "ExitPlanMode", plan="Look twice")
    await agent.ask("r3", "c3", "ExitPlanMode", plan="Look twice")
    approve = desktop.page.get_by_role("button", name="Approve plan")
    await expect(approve).to_be_enabled()
    await approve.focus()
    await keys.press("Enter")
    assert (await answers(agent, 3))[2][1].behavior == "allow"
    assert [event["behavior"] for event in await harness.events(session, "permission.resolved")] == [
        "allow",
        "deny",
        "allow",
    ]


async def test_approvers_answer_on_the_page_or_in_the_conversation_and_a_denial_has_a_reason(
    harness: UiHarness,
) -> None:
    viewer = await harness.device("Viewer", scopes=("view",), at="/app/approvals")
    desktop = await harness.device(at="/app/approvals")
    session, agent = await asking(harness, command="rm -rf /")
    await expect(viewer.page.get_by_role("article")).to_contain_text("can view requests but not answer them")
    assert await viewer.page.get_by_role("button", name="Allow once").count() == 0
    await desktop.page.get_by_role("button", name="Deny").click()
    await desktop.page.get_by_label("Reason").fill("Use git clean.")
    await desktop.page.get_by_role("button", name="Deny and stop the turn").click()
    ((_, decision),) = await answers(agent)
    assert (decision.behavior, decision.message, decision.interrupt) == ("deny", "Use git clean.", True)
    await expect(desktop.page.locator(".outcome.deny")).to_contain_text("by owner (Desk)")

    await agent.call("c2", command="git clean")
    await agent.ask("r2", "c2", command="git clean")
    await desktop.open(f"/app/s/{session}")
    allow = desktop.page.get_by_role("button", name="Allow once").first
    await expect(allow).to_be_enabled()
    await allow.click()
    assert (await answers(agent, 2))[1][1].behavior == "allow"
    await expect(desktop.page.get_by_text("Allowed by owner (Desk)")).to_be_visible()


def hostile_call(place: str, evil: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """A tool's name and its input, one part of which is untrusted text."""
    match place:
        case "tool":
            return f"mcp__x__{evil}", {evil: evil}
        case "file":
            return "Write", {"file_path": f"{folder}/{evil.replace('/', '_')}", "content": evil}
        case "question":
            question = {"question": evil, "header": evil, "options": [{"label": evil, "description": evil}]}
            return "AskUserQuestion", {"questions": [question]}
        case "plan":
            return "ExitPlanMode", {"plan": f"# {evil}\n\n{evil}\n\n[x]({evil})\n\n<b>{evil}</b>"}
    return "Bash", {"command": f"echo '{evil}'", "description": evil}


async def test_agent_text_is_never_interpreted_as_markup(harness: UiHarness) -> None:
    device = await harness.device(at="/app/approvals")
    cards = device.page.get_by_role("article")
    session = await harness.session("do it", title=HOSTILE[0])
    agent = await harness.agent()
    places = ("tool", "input", "file", "question", "plan")
    for place in places:
        for number, evil in enumerate(HOSTILE):
            tool, given = hostile_call(place, evil, harness.folder)
            await agent.call(f"{place}-c{number}", tool, **given)
            await agent.ask(f"{place}-r{number}", f"{place}-c{number}", tool, **given)
    await harness.asked(len(places) * len(HOSTILE))
    await expect(cards).to_have_count(len(places) * len(HOSTILE))
    await device.unharmed()
    literal = cards.filter(has_text="<script>window.pwned='script'</script>")
    await expect(literal.filter(has_text="mcp__x__").first).to_be_visible()
    await expect(literal.filter(has_text="echo").first).to_be_visible()
    await device.accessible()
    await device.open(f"/app/s/{session}")
    await expect(device.page.locator(".follow-status")).to_have_attribute("data-following", "live")
    await device.unharmed()


@pytest.mark.parametrize("able", [True, False])
async def test_only_what_the_agent_can_do_is_offered(
    harness: UiHarness, monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    if not able:
        monkeypatch.setattr(harness.kind, "capabilities", frozenset())
    session, _ = await asking(harness, command="touch x")
    page = (await harness.device(at=f"/app/s/{session}")).page
    await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()
    await page.get_by_placeholder("Queue a message").fill("and that")
    await expect(page.get_by_role("button", name="Queue", exact=True)).to_be_enabled()
    for name in ("Steer", "Thinking budget", "Edit…"):
        await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(int(able))
    await page.locator(".user").get_by_role("button", name="Message actions").click()
    await expect(page.get_by_role("menuitem", name="Edit and send again")).to_be_visible()
    for name in ("Fork from here", "Restore files…"):
        await expect(page.get_by_role("menuitem", name=name)).to_have_count(int(able))
    await page.keyboard.press("Escape")
    picture: FilePayload = {"name": "dot.png", "mimeType": "image/png", "buffer": base64.b64decode(DOT)}
    await page.get_by_label("Files to attach").set_input_files(picture)
    if able:
        await expect(page.get_by_role("list", name="Attachments").locator("li")).to_have_count(1)
    else:
        await expect(page.locator(".toast", has_text="cannot see pictures")).to_be_visible()
    await page.get_by_role("button", name="Session menu").click()
    await expect(page.get_by_role("menuitem", name="Rename…")).to_be_visible()
    await expect(page.get_by_role("menuitem", name="Fork session")).to_have_count(int(able))
