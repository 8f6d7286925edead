"""Notices sent to targets: signed, in order, retried with growing pauses, to allowed addresses only."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from fairlead.model.errors import BadRequest, NotFound
from fairlead.model.ids import SessionId
from fairlead.notifications.address_policy import networks, target_url
from fairlead.notifications.api.feed import Change, FeedNotice
from fairlead.notifications.api.targets import Destination, TargetFailed, TargetRefused
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.outbox import PAUSES_S
from fairlead_testing.clock import ManualClock
from notifications.harness import PUBLIC, NotificationsHarness, open_harness
from notifications.webhook_receiver import WebhookReceiver, listening
from patience import PATIENCE

SESSION = SessionId("11111111-2222-3333-4444-555555555555")
PUBLIC_ADDRESS = "93.184.216.34"
VECTOR = json.loads((Path(__file__).parents[1] / "golden" / "push" / "vector.json").read_text())


@pytest.fixture
async def hook() -> AsyncIterator[WebhookReceiver]:
    async with listening() as made:
        yield made


def target(url: str, **more: Any) -> Destination:
    return Destination(**{"id": "t", "kind": "webhook", "url": url, "topics": ("task", "turn")} | more)


def task(name: str) -> Change:
    return Change(resource="task", action="create", id=name, name=name)


def turn() -> FeedNotice:
    return FeedNotice(
        topic="turn",
        kind="turn.completed",
        session=SESSION,
        title="Turn finished",
        message="A turn of x",
        outside="A turn",
        name="x",
    )


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0)


async def rested(harness: NotificationsHarness, number: int) -> None:
    """Wait until this many pauses between attempts have begun."""
    await until(lambda: len(harness.clock.rests) >= number)


async def kept(harness: NotificationsHarness) -> Destination:
    return await harness.service.resources.get(Destination, "t")


async def handled(harness: NotificationsHarness, seq: int) -> Destination:
    """Wait until the target is done with that entry; return it."""
    async with asyncio.timeout(PATIENCE):
        while (await kept(harness)).seq < seq:
            await asyncio.sleep(0)
    return await kept(harness)


async def test_a_webhook_receives_its_topics_signed_and_in_order(
    harness: NotificationsHarness, hook: WebhookReceiver
) -> None:
    made, secret = await harness.service.outbox.add(target(hook.url))
    assert secret and secret not in made.secret
    other = Change(resource="project", action="create", id="p", name="p")
    await harness.service.feed.write(task("a"), other, turn(), task("b"))
    first, second, third = await hook.until(3)
    assert [one.json()["title"] for one in (first, second, third)] == ["Task created", "Turn finished", "Task created"]
    assert first.json() == {
        "type": "change",
        "title": "Task created",
        "message": 'Task "a" was created',
        "color": "success",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "cursor": f"{harness.service.feed.id}:1",
        "resource": "task",
        "action": "create",
        "resourceId": "a",
        "resourceName": "a",
        "meta": {},
    }
    for one in (first, second, third):
        signed = f"{one.headers['webhook-id']}.{one.headers['webhook-timestamp']}.".encode() + one.body
        expected = base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()
        assert one.headers["webhook-signature"] == f"v1,{expected}"


async def test_a_target_may_ask_for_some_actions_and_kinds(
    harness: NotificationsHarness, hook: WebhookReceiver
) -> None:
    await harness.service.outbox.add(target(hook.url, topics=("task.delete", "turn.failed")))
    failed = structs.replace(turn(), kind="turn.failed", title="Turn failed")
    deleted = structs.replace(task("a"), action="delete")
    await harness.service.feed.write(task("a"), turn(), deleted, failed)
    taken = await hook.until(2)
    assert [one.json()["title"] for one in taken] == ["Task deleted", "Turn failed"]


async def test_it_is_retried_with_growing_pauses(harness: NotificationsHarness, hook: WebhookReceiver) -> None:
    await harness.service.outbox.add(target(hook.url))
    hook.answers = ["500 No", "503 No", "429 No"]
    await harness.service.feed.write(task("a"))
    for number, pause in enumerate(PAUSES_S[:3], 1):
        await rested(harness, number)
        assert harness.clock.rests[-1] == pause
        await harness.clock.advance(pause - 0.01)
        assert len(hook.taken) == number
        await harness.clock.advance(0.01)
    await hook.until(4)
    done = await handled(harness, 1)
    assert done.failed is None
    # The same payload each time: the id lets the receiver drop a repeat.
    assert len({one.headers["webhook-id"] for one in hook.taken}) == 1


async def test_an_entry_is_skipped_for_an_unreachable_target_and_the_next_one_is_sent(
    harness: NotificationsHarness, hook: WebhookReceiver
) -> None:
    await harness.service.outbox.add(target(hook.url))
    hook.answers = ["500 No"] * (len(PAUSES_S) + 1)
    await harness.service.feed.write(task("a"))
    for number, pause in enumerate(PAUSES_S, 1):
        await rested(harness, number)
        await harness.clock.advance(pause)
    assert (await handled(harness, 1)).failed == "It answered 500."
    await harness.service.feed.write(task("b"))
    await hook.until(len(PAUSES_S) + 2)
    assert (await handled(harness, 2)).failed is None


@pytest.mark.parametrize("answer", ["400 Bad", "404 Not Found", "302 Found\r\nlocation: http://127.0.0.1:1/elsewhere"])
async def test_a_rejection_or_a_redirect_is_final(
    harness: NotificationsHarness, hook: WebhookReceiver, answer: str
) -> None:
    await harness.service.outbox.add(target(hook.url))
    hook.answers = [answer]
    await harness.service.feed.write(task("a"))
    assert (await handled(harness, 1)).failed == f"It answered {answer[:3]}."
    assert len(hook.taken) == 1


async def test_a_slow_target_does_not_delay_others(harness: NotificationsHarness, hook: WebhookReceiver) -> None:
    await harness.service.outbox.add(target(hook.url))
    await harness.service.outbox.add(target(hook.url, id="other"))
    hook.answers = ["500 No"]
    _, socket = harness.peer()
    await harness.service.feed.write(task("a"), task("b"))
    assert len(socket.changes()) == 2
    # One of the two targets waits for its next attempt; the other has received both entries.
    await rested(harness, 1)
    await hook.until(3)


async def test_after_a_restart_it_continues_where_it_stopped(tmp_path: Path, hook: WebhookReceiver) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.service.outbox.add(target(hook.url))
        await harness.service.feed.write(task("a"))
        await handled(harness, 1)
        await harness.service.outbox.stop()
        await harness.service.feed.write(task("b"))
    async with open_harness(tmp_path) as harness:
        await hook.until(2)
        assert [one.json()["resourceName"] for one in hook.taken] == ["a", "b"]


async def test_old_entries_are_not_sent(tmp_path: Path, hook: WebhookReceiver) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.service.outbox.add(target(hook.url))
        await harness.service.outbox.stop()
        await harness.service.feed.write(task("a"))
        await harness.clock.advance(3601)
        await harness.service.feed.write(task("b"))
        await harness.service.outbox.start()
        await hook.until(1)
        assert [one.json()["resourceName"] for one in hook.taken] == ["b"]


async def test_a_deleted_target_receives_nothing(harness: NotificationsHarness, hook: WebhookReceiver) -> None:
    await harness.service.outbox.add(target(hook.url))
    await harness.service.outbox.add(target(hook.url, id="other"))
    await harness.service.resources.remove(Destination, "t")
    await harness.service.feed.write(task("a"))
    await hook.until(1)
    assert len(hook.taken) == 1


async def test_ntfy_receives_json_with_a_link_that_only_opens(
    harness: NotificationsHarness, hook: WebhookReceiver
) -> None:
    url = f"http://127.0.0.1:{hook.port}/base/my-topic"
    await harness.service.outbox.add(target(url, kind="ntfy", secret="tk_1"))
    await harness.service.feed.write(turn())
    (one,) = await hook.until(1)
    assert (one.path, one.headers["authorization"]) == ("/base/", "Bearer tk_1")
    assert one.json() == {
        "topic": "my-topic",
        "title": "Turn finished",
        "message": "A turn",
        "priority": 2,
        "tags": ["turn"],
        "click": f"{PUBLIC}/app/s/{SESSION}",
    }


# --- to allowed addresses only


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "172.16.9.9",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:c000:201::80ff:fefe",  # Teredo, of 127.0.1.1
        *("192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1"),
        *("203.0.113.1", "100.127.255.255", "172.31.255.255", "0.1.2.3", "239.255.255.255", "254.0.0.1"),
        *("fec0::1", "feff::1", "fd00::1", "febf::1", "3fff::1", "3fff:fff:ffff::1", "2001:db8::1", "2001:2::1"),
        *("2001:10::1", "2001:20::1", "2001:1ff:ffff::1", "100::1", "100:0:0:1::1", "64:ff9b:1::1", "5f00::1"),
        *("64:ff9b::a00:1", "64:ff9b::6440:1", "::ffff:100.64.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "4000::1"),
    ],
)
async def test_a_private_address_is_refused_with_the_reason(address: str) -> None:
    caller = HttpClient(ManualClock(), (), lambda host, port: _answer(address))
    with pytest.raises(TargetRefused, match="not a public address") as refused:
        await caller.check("https://hook.example/x")
    assert "notify_private" in refused.value.message


@pytest.mark.parametrize(
    "address",
    [
        *(
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.9.9.9",
        ),
        *("2606:4700::1111", "2001:4860::8888", "2a00::1", "3ffe::1", "2400::1", "::ffff:1.1.1.1", "64:ff9b::101:101"),
    ],
)
async def test_a_public_address_is_accepted(address: str) -> None:
    caller = HttpClient(ManualClock(), (), lambda host, port: _answer(address))
    assert await caller.check("https://hook.example/x") == address


async def _answer(*addresses: str) -> tuple[str, ...]:
    return addresses


async def test_one_private_address_among_public_ones_is_refused(harness: NotificationsHarness) -> None:
    caller = HttpClient(ManualClock(), (), lambda host, port: _answer(PUBLIC_ADDRESS, "10.0.0.1"))
    with pytest.raises(TargetRefused):
        await caller.check("https://hook.example/x")


async def test_the_settings_can_allow_one_network_and_no_other() -> None:
    caller = HttpClient(ManualClock(), networks(["10.0.0.0/24"]), lambda host, port: _answer(host))
    assert await caller.check("http://10.0.0.7/x") == "10.0.0.7"
    with pytest.raises(TargetRefused):
        await caller.check("http://10.0.1.7/x")
    with pytest.raises(BadRequest):
        networks(["my-nas"])


async def test_a_public_address_is_called_only_over_tls() -> None:
    caller = HttpClient(ManualClock(), (), lambda host, port: _answer(PUBLIC_ADDRESS))
    assert await caller.check("https://hook.example/x") == PUBLIC_ADDRESS
    with pytest.raises(TargetRefused, match="https://"):
        await caller.check("http://hook.example/x")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "hook",
            "ftp://a/b",
            "file:///etc/passwd",
            "https://",
            "https://user:pass@a/",
            "https://a/#x",
            "gopher://a",
        ),
        *("https://a:99999/", "https://a:0/", "https://[::1/", "https://a/ b", "https://ä.example/", "https://a/\n"),
        "https://a/" + "x" * 2000,
    ],
)
def test_an_invalid_target_url_is_refused(url: str) -> None:
    with pytest.raises(TargetRefused):
        target_url(url)


async def test_a_name_without_an_address_is_refused() -> None:
    async def nothing(host: str, port: int) -> tuple[str, ...]:
        raise OSError("no such name")

    with pytest.raises(TargetRefused, match="has no address"):
        await HttpClient(ManualClock(), (), nothing).check("https://hook.example/x")


async def test_a_name_that_changes_after_the_check_reaches_nothing(harness: NotificationsHarness) -> None:
    harness.names["hook.example"] = [(PUBLIC_ADDRESS,), ("10.0.0.1",)]
    await harness.service.outbox.add(target("https://hook.example/x"))
    await harness.service.feed.write(task("a"))
    assert "10.0.0.1, which is not a public address" in ((await handled(harness, 1)).failed or "")


async def test_it_connects_to_the_checked_address(harness: NotificationsHarness, hook: WebhookReceiver) -> None:
    """The name is resolved once for each payload; later changes of its address have no effect."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        asked.append(host)
        return ("127.0.0.1",)

    caller = HttpClient(harness.clock, networks(["127.0.0.1"]), resolve)
    assert await caller.post(f"http://hook.invalid:{hook.port}/x?y=1", b"{}", {}) == 200
    assert asked == ["hook.invalid"]
    assert (hook.taken[0].headers["host"], hook.taken[0].path) == (f"hook.invalid:{hook.port}", "/x?y=1")


async def test_tls_verifies_the_name_and_not_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[httpx2.Request] = []

    async def send(self: httpx2.AsyncClient, request: httpx2.Request, **more: Any) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(204)

    monkeypatch.setattr(httpx2.AsyncClient, "send", send)
    caller = HttpClient(ManualClock(), (), lambda host, port: _answer("2606:2800:220:1::1"))
    assert await caller.post("https://hook.example/x", b"{}", {}) == 204
    assert (sent[0].url.host, sent[0].extensions["sni_hostname"]) == ("2606:2800:220:1::1", "hook.example")
    assert sent[0].headers["host"] == "hook.example"


async def test_a_target_that_does_not_answer_times_out(harness: NotificationsHarness) -> None:
    called = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    calling = asyncio.create_task(harness.caller().post(f"http://127.0.0.1:{port}/", b"{}", {}))
    await asyncio.wait_for(called.wait(), PATIENCE)
    await harness.clock.advance(10)
    with pytest.raises(TargetFailed, match="in time"):
        await calling
    server.close()
    await server.wait_closed()


async def test_a_closed_port_is_reported_as_a_failure(harness: NotificationsHarness) -> None:
    await harness.service.outbox.add(target("http://127.0.0.1:1/"))
    with pytest.raises(TargetFailed, match="could not be reached"):
        await harness.service.outbox.test("t")


async def test_the_test_of_a_target_reports_its_answer(harness: NotificationsHarness, hook: WebhookReceiver) -> None:
    await harness.service.outbox.add(target(hook.url))
    await harness.service.outbox.test("t")
    hook.answers = ["418 Teapot"]
    with pytest.raises(TargetFailed, match="418"):
        await harness.service.outbox.test("t")
    with pytest.raises(NotFound):
        await harness.service.outbox.test("unknown")


async def test_a_revoked_push_subscription_is_removed(harness: NotificationsHarness, hook: WebhookReceiver) -> None:
    keys = {"p256dh": VECTOR["p256dh"], "auth": VECTOR["auth"]}
    await harness.service.outbox.add(target(hook.url, kind="push", **keys))
    hook.answers = ["201 Created", "410 Gone"]
    await harness.service.feed.write(turn(), turn())
    first, _ = await hook.until(2)
    assert (first.headers["content-encoding"], first.headers["ttl"]) == ("aes128gcm", "86400")
    key = await harness.service.outbox.push_key()
    assert first.headers["authorization"].startswith("vapid t=") and first.headers["authorization"].endswith(f"k={key}")

    async def gone() -> bool:
        return await harness.service.resources.list(Destination) == ()

    async with asyncio.timeout(PATIENCE):
        while not await gone():
            await asyncio.sleep(0)


async def test_the_key_for_push_services_is_stable_and_encrypted(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        key = await harness.service.outbox.push_key()
        assert key not in str(await harness.store.documents.list("push"))
    async with open_harness(tmp_path) as harness:
        assert await harness.service.outbox.push_key() == key


@pytest.mark.parametrize("keys", [("x", "y"), ("", ""), (VECTOR["p256dh"], "AAAA"), (VECTOR["auth"], VECTOR["auth"])])
async def test_invalid_browser_keys_are_rejected(harness: NotificationsHarness, keys: tuple[str, str]) -> None:
    with pytest.raises(BadRequest):
        await harness.service.outbox.add(target("http://127.0.0.1/", kind="push", p256dh=keys[0], auth=keys[1]))
