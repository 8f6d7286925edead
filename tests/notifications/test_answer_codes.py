"""Codes on a notification: single use, bound to request, answer and device, and useless to every other client."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead.model.auth import Identity
from fairlead.model.ids import RequestId, SessionId
from fairlead.notifications import answer_codes as codes_module
from fairlead.notifications.answer_codes import LIFETIME_MS
from fairlead.notifications.api.feed import FeedNotice, ReadFeed
from fairlead.notifications.api.resources import EditItem
from fairlead.notifications.api.targets import AnswerOf, BadAnswerCode, Destination, RedeemAnswerCode
from notifications.harness import NotificationsHarness
from notifications.webhook_receiver import WebhookReceiver, listening

SESSION = SessionId("11111111-2222-3333-4444-555555555555")
R = RequestId("r")


@pytest.fixture
async def hook() -> AsyncIterator[WebhookReceiver]:
    async with listening() as made:
        yield made


def who(credential: str) -> Identity:
    return Identity(credential, "ann", "Ann's phone", frozenset({"view", "approve"}))


class Browser:
    """The keys of a browser, and the decryption of its push messages."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._auth = b"0123456789abcdef"

    @property
    def keys(self) -> dict[str, Any]:
        return {"p256dh": _text(self._point()), "auth": _text(self._auth)}

    def read(self, body: bytes) -> Any:
        salt, length = body[:16], body[20]
        theirs, sealed = body[21 : 21 + length], body[21 + length :]
        shared = self._private.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
        key = _derived(shared, self._auth, b"WebPush: info\0" + self._point() + theirs, 32)
        cek = _derived(key, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derived(key, salt, b"Content-Encoding: nonce\0", 12)
        return msgspec.json.decode(AESGCM(cek).decrypt(nonce, sealed, None).rstrip(b"\x02"))

    def _point(self) -> bytes:
        form = serialization.PublicFormat.UncompressedPoint
        return self._private.public_key().public_bytes(serialization.Encoding.X962, form)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


def asked(kind: str = "permission.asked", **meta: Any) -> FeedNotice:
    return FeedNotice(topic="permission", kind=kind, session=SESSION, title="Waiting", message="Bash waits", meta=meta)


async def test_a_code_works_once_and_only_for_its_device(harness: NotificationsHarness) -> None:
    codes = harness.service.outbox.codes
    made = await codes.make(SESSION, R, "phone")
    assert set(made) == {"allow", "deny"} and made["allow"] != made["deny"]
    for device, code in (("laptop", made["allow"]), ("phone", "never was"), ("phone", made["allow"][:-1])):
        with pytest.raises(BadAnswerCode):
            await codes.redeem(code, device)
    assert await codes.redeem(made["allow"], "phone") == AnswerOf(session=SESSION, request=R, behavior="allow")
    with pytest.raises(BadAnswerCode):
        await codes.redeem(made["allow"], "phone")
    assert (await codes.redeem(made["deny"], "phone")).behavior == "deny"


async def test_only_one_of_many_concurrent_redemptions_succeeds(harness: NotificationsHarness) -> None:
    codes = harness.service.outbox.codes
    code = (await codes.make(SESSION, R, "phone"))["allow"]
    outcomes = await asyncio.gather(*(codes.redeem(code, "phone") for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(outcome, AnswerOf) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, BadAnswerCode) for outcome in outcomes) == 7


async def test_a_code_expires_and_is_not_stored_in_clear_text(harness: NotificationsHarness) -> None:
    codes = harness.service.outbox.codes
    code = (await codes.make(SESSION, R, "phone"))["allow"]
    assert code not in str(await harness.store.documents.list(codes_module.SPACE))
    await harness.clock.advance(LIFETIME_MS / 1000)
    with pytest.raises(BadAnswerCode):
        await codes.redeem(code, "phone")
    await codes.make(SESSION, R, "phone")
    assert len(await harness.store.documents.list(codes_module.SPACE)) == 2, "the old ones are forgotten"


async def test_open_codes_are_bounded(harness: NotificationsHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes_module, "OPEN_AT_MOST", 2)
    codes = harness.service.outbox.codes
    assert await codes.make(SESSION, R, "phone")
    assert await codes.make(SESSION, RequestId("other"), "phone") == {}


async def test_a_push_about_a_permission_carries_codes_for_its_device(
    harness: NotificationsHarness, hook: WebhookReceiver
) -> None:
    browser = Browser()
    target = Destination(
        id="t", kind="push", url=hook.url, topics=("permission",), device="phone", approves=True, **browser.keys
    )
    await harness.service.outbox.add(target)
    await harness.service.feed.write(
        asked(requestId="r", toolName="Bash"), asked(requestId="q"), asked("permission.settled", requestId="r")
    )
    messages = [browser.read(one.body) for one in await hook.until(3)]
    assert [set(one.get("answers", {})) for one in messages] == [{"allow", "deny"}, set(), set()]
    spend = harness.service.handlers()[RedeemAnswerCode]
    with pytest.raises(BadAnswerCode):
        await spend(who("laptop"), RedeemAnswerCode(messages[0]["answers"]["deny"]))
    found = await spend(who("phone"), RedeemAnswerCode(messages[0]["answers"]["deny"]))
    assert found == AnswerOf(session=SESSION, request=R, behavior="deny")


async def test_a_device_that_may_not_approve_gets_no_codes(
    harness: NotificationsHarness, hook: WebhookReceiver
) -> None:
    browser = Browser()
    await harness.service.outbox.add(
        Destination(id="t", kind="push", url=hook.url, topics=("permission",), device="phone", **browser.keys)
    )
    await harness.service.feed.write(asked(requestId="r", toolName="Bash"))
    (call,) = await hook.until(1)
    assert "answers" not in browser.read(call.body)


async def test_changed_topics_apply_from_then_on(harness: NotificationsHarness, hook: WebhookReceiver) -> None:
    browser = Browser()
    await harness.service.outbox.add(Destination(id="t", kind="push", url=hook.url, topics=("turn",), **browser.keys))
    await harness.service.handlers()[EditItem](who("phone"), EditItem(Destination, "t", {"topics": ("permission",)}))
    turn = FeedNotice(topic="turn", kind="turn.failed", session=SESSION, title="Turn failed", message="x")
    await harness.service.feed.write(turn, asked(requestId="q"))
    (call,) = await hook.until(1)
    assert browser.read(call.body)["kind"] == "permission.asked"


async def test_the_feed_is_read_from_its_end(harness: NotificationsHarness) -> None:
    await harness.service.feed.write(*(asked(requestId=str(number)) for number in range(5)))
    read = harness.service.handlers()[ReadFeed]
    last = await read(who("phone"), ReadFeed(limit=2))
    assert [entry.seq for entry in last.entries] == [4, 5]
    before = await read(who("phone"), ReadFeed(before=4, limit=2))
    assert [entry.seq for entry in before.entries] == [2, 3]
    assert [entry.seq for entry in (await read(who("phone"), ReadFeed(before=2, limit=5))).entries] == [1]
    assert (await read(who("phone"), ReadFeed(before=1, limit=5))).entries == ()
