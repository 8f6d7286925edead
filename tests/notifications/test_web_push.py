"""Push messages: encrypted as another implementation does it, signed by a key that the receiver can verify."""

import json
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from fairlead.notifications import web_push
from fairlead.notifications.api.feed import Change, FeedEntry
from fairlead.notifications.api.targets import Destination

VECTOR = json.loads((Path(__file__).parents[1] / "golden" / "push" / "vector.json").read_text())
ENTRY = FeedEntry(7, 1_700_000_000_000, Change(resource="task", action="create", id="a", name="x" * 5000))


def test_a_message_is_encrypted_byte_for_byte_as_pywebpush_does() -> None:
    once = web_push._private(VECTOR["once"])
    body = web_push.encrypt(
        VECTOR["text"].encode(), VECTOR["p256dh"], VECTOR["auth"], once, web_push._bytes(VECTOR["salt"])
    )
    assert web_push._text(body) == VECTOR["body"]


def target(url: str) -> Destination:
    return Destination(id="t", kind="push", url=url, p256dh=VECTOR["p256dh"], auth=VECTOR["auth"])


def test_a_push_fits_and_its_claim_can_be_checked() -> None:
    private = web_push.new_key()
    at = 1_700_000_000_000
    payload = web_push.push(
        target("https://push.example/abc"), private, ENTRY, "feed", "https://me.example/#/x", at, answers={}
    )
    assert len(payload.body) < 4096
    token = payload.headers["authorization"].removeprefix("vapid t=").split(",")[0]
    head, claims, signature = token.split(".")
    assert json.loads(web_push._bytes(head)) == {"typ": "JWT", "alg": "ES256"}
    assert json.loads(web_push._bytes(claims)) == {
        "aud": "https://push.example",
        "exp": 1_700_000_000 + 12 * 3600,
        "sub": "https://me.example",
    }
    raw = web_push._bytes(signature)
    der = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    point = web_push._bytes(web_push.public_key(private))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    public.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))


def test_two_messages_have_nothing_in_common() -> None:
    made = [
        web_push.push(target("https://p.example/"), web_push.new_key(), ENTRY, "f", "", 0, answers={}) for _ in range(2)
    ]
    assert made[0].body[:16] != made[1].body[:16], "the salt"
    assert made[0].body[21:86] != made[1].body[21:86], "the key"
