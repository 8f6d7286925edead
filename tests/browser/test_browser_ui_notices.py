"""Notices in real browsers: toasts, the feed, the channels of each kind, and a push message that allows or denies."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Worker, expect

from browser.chromium import async_fixture, eventually
from browser.ui_harness import HOSTILE, PHONE, Device, UiHarness, open_ui
from notifications.test_answer_codes import Browser as PushBrowser
from notifications.webhook_receiver import WebhookReceiver, listening
from patience import PATIENCE
from sessions.harness import FakeAgent

expect.set_options(timeout=PATIENCE * 1000)

NOT_DONE = "Not answered"


@async_fixture
async def harness(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UiHarness]:
    async with open_ui(chromium, tmp_path, monkeypatch, notify_private=("127.0.0.1/32",)) as made:
        yield made


@async_fixture
async def hook() -> AsyncIterator[WebhookReceiver]:
    async with listening() as made:
        yield made


async def asking(harness: UiHarness, number: int = 1) -> tuple[str, FakeAgent]:
    """Let the n-th agent ask, in a separate session."""
    session = await harness.session("do it", title="The task")
    agent = await harness.agent(number)
    await agent.call("c1", command="touch x")
    await agent.ask(f"r{number}", "c1", command="touch x")
    await harness.asked()
    return session, agent


async def test_events_of_other_sessions_are_toasted_and_stay_in_the_feed(harness: UiHarness) -> None:
    desktop = await harness.device(at="/app/usage")
    session, agent = await asking(harness)
    note = desktop.page.locator(".toast", has_text="Bash needs your answer")
    await expect(note).to_be_visible()
    await desktop.accessible()
    await note.get_by_role("button", name="Open").click()
    await expect(desktop.page.get_by_role("heading", name="Waiting for you")).to_be_visible()
    await desktop.page.get_by_role("button", name="Allow once").click()
    await harness.happened(session, "permission.resolved")
    await agent.result()
    await desktop.open("/app/notifications")
    feed = desktop.page.locator(".feed-entry")
    # A settled request is folded away.
    outcome = feed.filter(has_text="was allowed by owner (Desk)")
    await expect(outcome).to_be_hidden()
    await expect(feed.filter(has_text="needs your answer")).to_have_count(0)
    await desktop.page.get_by_text("1 settled request").click()
    await expect(outcome).to_be_visible()
    done = feed.filter(has_text="Turn completed")
    await expect(done).to_be_visible()
    await desktop.accessible()
    await done.get_by_role("link").click()
    await expect(desktop.page).to_have_url(f"{harness.running.url}/app/s/{session}")


async def test_a_toast_covers_no_text_field_and_disappears_with_its_reason(harness: UiHarness) -> None:
    other = await harness.session("other work")
    await harness.agent(1)
    phone = await harness.device("Phone", PHONE, has_touch=True, is_mobile=True, at=f"/app/s/{other}")
    desktop = await harness.device(at=f"/app/s/{other}")
    await expect(phone.page.get_by_role("textbox", name="Message")).to_be_visible()
    session, agent = await asking(harness, 2)
    for device in (phone, desktop):
        await expect(device.page.locator(".toast", has_text="Bash needs your answer")).to_be_visible()
        # Playwright refuses to click what something else covers.
        await device.page.get_by_role("textbox", name="Message").click(trial=True)
    await desktop.page.locator(".toast").get_by_role("button", name="Open").click()
    await expect(desktop.page.get_by_role("heading", name="Waiting for you")).to_be_visible()
    assert await desktop.page.locator(".toast").count() == 0, "the page shows it now"
    await desktop.page.get_by_role("button", name="Allow once").click()
    await harness.happened(session, "permission.resolved")
    await expect(phone.page.locator(".badge")).to_have_count(0)
    assert await phone.page.locator(".toast").count() == 0, "somebody has answered"
    await agent.result()


async def test_kinds_that_a_device_does_not_want_are_not_toasted(harness: UiHarness) -> None:
    phone = await harness.device("Phone", PHONE, has_touch=True, at="/app/notifications")
    await phone.page.get_by_text("Notification settings").click()
    await phone.accessible()
    await phone.fits()
    await phone.page.get_by_label("The agent needs your answer: on the page").uncheck()
    await phone.page.get_by_label("Turn completed: on the page").check()
    await phone.page.reload()
    await phone.page.get_by_text("Notification settings").click()
    await expect(phone.page.get_by_label("The agent needs your answer: on the page")).not_to_be_checked()
    _, agent = await asking(harness)
    await harness.http.post("/v1/permissions/r1", json={"behavior": "allow"})
    await agent.result()
    await expect(phone.page.locator(".toast", has_text="has completed")).to_be_visible()
    assert await phone.page.locator(".toast", has_text="needs your answer").count() == 0


async def given(agent: FakeAgent) -> list[Any]:
    """The answers that the agent has received."""
    return list(agent.answers)


async def worker_of(device: Device) -> Worker:
    """The service worker, once it is fully active: before that, the browser drops push messages."""
    await device.page.evaluate("navigator.serviceWorker.ready.then(() => true)")

    async def look() -> list[Worker]:
        return device.context.service_workers

    worker = (await eventually(look, bool))[0]
    await worker.evaluate(_KEEP)
    return worker


async def pushed(device: Device, payload: dict[str, Any]) -> None:
    """Deliver a push message to the worker as the browser does."""
    tool = await device.context.new_cdp_session(device.page)
    ids: list[str] = []
    tool.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda found: ids.extend(one["registrationId"] for one in found["registrations"]),
    )
    await tool.send("ServiceWorker.enable")

    async def look() -> list[str]:
        return ids

    number = (await eventually(look, bool))[0]
    message = {"origin": device.base, "registrationId": number, "data": json.dumps(payload)}
    await tool.send("ServiceWorker.deliverPushMessage", message)


# Without a desktop no notification stays on a screen: the worker's requests to show one are recorded instead.
_KEEP = """
() => {
  self.kept = [];
  self.registration.showNotification = async (title, options) => { self.kept.push({ title, ...options }); };
}
"""
_SHOWN = "() => self.kept.map(({ title, body, actions, data }) => ({ title, body, actions, data }))"
_CLICK = """
(action) => {
  const [shown] = self.kept.splice(0);
  const notification = { data: structuredClone(shown.data), close: () => undefined };
  self.dispatchEvent(Object.assign(new ExtendableEvent("notificationclick"), { action, notification }));
}
"""


async def shown(worker: Worker) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await worker.evaluate(_SHOWN)
    return found


async def subscribed(harness: UiHarness, device: Device, hook: WebhookReceiver) -> PushBrowser:
    """The device's subscription, at a push service of the test: the browser's own would be on the internet."""
    keys = PushBrowser()
    body = {"endpoint": hook.url, "keys": keys.keys, "topics": ["permission.asked"]}
    key = await device.page.evaluate("localStorage.getItem('fairlead.key')")
    headers = {"authorization": f"Bearer {key}"}
    assert (await harness.http.post("/v1/push/subscriptions", json=body, headers=headers)).status_code == 201
    await device.page.evaluate(
        """(key) => new Promise((done) => {
          const opening = indexedDB.open("fairlead", 1);
          opening.onupgradeneeded = () => opening.result.createObjectStore("device");
          opening.onsuccess = () => {
            const change = opening.result.transaction("device", "readwrite");
            change.objectStore("device").put(key, "key");
            change.oncomplete = () => { opening.result.close(); done(); };
          };
        })""",
        key,
    )
    return keys


async def test_a_push_message_answers_by_its_button_and_only_once(harness: UiHarness, hook: WebhookReceiver) -> None:
    phone = await harness.device("Ann's phone", PHONE, permissions=["notifications"])
    worker = await worker_of(phone)
    keys = await subscribed(harness, phone, hook)
    for number, action in enumerate(("allow", "deny"), 1):
        session, agent = await asking(harness, number=number)
        payload = keys.read((await hook.until(number))[-1].body)
        await pushed(phone, payload)
        (notification,) = await eventually(lambda: shown(worker), bool)
        assert [button["action"] for button in notification["actions"]] == ["allow", "deny"]
        assert "Bash needs your answer" in notification["body"]
        await worker.evaluate(_CLICK, action)
        resolved = await harness.happened(session, "permission.resolved")
        assert (resolved["behavior"], resolved["by"]) == (action, "owner (Ann's phone)")
        await eventually(partial(given, agent), lambda answers: len(answers) == 1)
        # The same message once more: nothing is answered, and the person is informed of that.
        await pushed(phone, payload)
        await eventually(lambda: shown(worker), bool)
        await worker.evaluate(_CLICK, action)
        (failed,) = await eventually(lambda: shown(worker), lambda seen: [one["title"] for one in seen] == [NOT_DONE])
        assert "open the card" in failed["body"]
        assert len(await harness.events(session, "permission.resolved")) == 1
        await worker.evaluate(_KEEP)


async def test_a_push_message_itself_only_opens_the_card(harness: UiHarness) -> None:
    phone = await harness.device("Phone", PHONE, permissions=["notifications"])
    worker = await worker_of(phone)
    session, agent = await asking(harness)
    evil = {"title": HOSTILE[0], "message": HOSTILE[1], "link": "https://evil.example/", "sessionId": "../../evil"}
    await pushed(phone, {**evil, "kind": "permission.asked", "cursor": "f:1"})
    (notification,) = await eventually(lambda: shown(worker), bool)
    assert notification["data"] == {"session": "", "kind": "permission.asked", "codes": None}
    assert notification["title"] == HOSTILE[0]
    assert agent.answers == [] and await harness.events(session, "permission.resolved") == []
    await phone.unharmed()


async def test_the_app_is_installable_and_opens_offline_with_a_notice(harness: UiHarness) -> None:
    desktop = await harness.device()
    tool = await desktop.context.new_cdp_session(desktop.page)
    manifest = await tool.send("Page.getAppManifest")
    assert manifest["errors"] == []
    fields = json.loads(manifest["data"])
    assert (fields["start_url"], fields["display"]) == ("/app", "standalone")
    for icon in fields["icons"]:
        assert (await harness.http.get(icon["src"])).status_code == 200

    await worker_of(desktop)
    await desktop.open("/app/settings")
    await desktop.page.reload()
    await desktop.context.set_offline(True)
    await desktop.page.reload()
    await expect(desktop.page.get_by_text("Offline: the gateway cannot be reached.")).to_be_visible()
    await desktop.context.set_offline(False)
    await expect(desktop.page.get_by_text("Offline: the gateway cannot be reached.")).to_have_count(0)
    await expect(desktop.page.get_by_role("heading", name="Settings")).to_be_visible()
    # Messages that the browser itself logs about a lost network.
    desktop.problems = [problem for problem in desktop.problems if "ERR_INTERNET_DISCONNECTED" not in problem]


async def test_hostile_text_in_notices_stays_text(harness: UiHarness) -> None:
    desktop = await harness.device(at="/app/notifications")
    for evil in HOSTILE:
        await harness.http.post("/cognova/api/reminders", json={"message": evil, "remindAt": "2020-01-01T00:00:00Z"})
    await harness.session("hello", title=HOSTILE[0])
    # A toast disappears by itself, an entry stays.
    await expect(desktop.page.locator(".toast").first).to_be_visible()
    await expect(desktop.page.locator(".feed-entry", has_text="<script>").first).to_be_visible()
    await desktop.unharmed()
    await desktop.accessible()
