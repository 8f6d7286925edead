"""Payloads for browsers: push messages, encrypted (RFC 8291) and with the sender's identity (RFC 8292).

Callers import this module when a push is needed: it loads libraries that most gateways never use.
"""

import base64
import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead.model.errors import BadRequest
from fairlead.notifications.api.feed import FeedEntry
from fairlead.notifications.api.targets import Destination
from fairlead.notifications.payloads import Payload, entry_json

SHORT: Final = 400
"""Maximum characters of a title or message in a push: the whole stays far below the 4096 bytes that services accept."""
TTL_S: Final = 86_400
CLAIM_S: Final = 12 * 3600


def new_key() -> str:
    """A private key, as text."""
    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return _text(number.to_bytes(32, "big"))


def public_key(private: str) -> str:
    return _text(_point(_private(private).public_key()))


def check_keys(p256dh: str, auth: str) -> None:
    """Raise BadRequest for keys that cannot come from a browser."""
    try:
        if len(_bytes(auth)) != 16:
            raise ValueError("the length of auth")
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(p256dh))
    except ValueError:
        raise BadRequest("keys must have p256dh and auth as the browser gave them.", field="keys") from None


def push(
    target: Destination, private: str, entry: FeedEntry, feed: str, link: str, now: int, answers: Mapping[str, str]
) -> Payload:
    """An encrypted push message. `answers`: codes with which the receiving browser may answer the request."""
    shown = entry_json(entry, feed) | {"link": link, "meta": {}}
    short = ("title", "message", "resourceName", "sessionName")
    shown |= {name: shown[name][:SHORT] for name in short if name in shown}
    if answers:
        shown["answers"] = dict(answers)
    once = ec.generate_private_key(ec.SECP256R1())
    body = encrypt(msgspec.json.encode(shown), target.p256dh, target.auth, once, os.urandom(16))
    headers = {
        "authorization": f"vapid t={_claim(target.url, private, link, now)}, k={public_key(private)}",
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        "ttl": str(TTL_S),
    }
    return Payload(target.url, body, headers)


def encrypt(text: bytes, p256dh: str, auth: str, once: ec.EllipticCurvePrivateKey, salt: bytes) -> bytes:
    """Encrypt a message. `once` is a key for this message only."""
    theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(p256dh))
    ours = _point(once.public_key())
    shared = once.exchange(ec.ECDH(), theirs)
    key = _derived(shared, _bytes(auth), b"WebPush: info\0" + _point(theirs) + ours, 32)
    cek = _derived(key, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(key, salt, b"Content-Encoding: nonce\0", 12)
    sealed = AESGCM(cek).encrypt(nonce, text + b"\x02", None)
    return salt + (4096).to_bytes(4, "big") + bytes([len(ours)]) + ours + sealed


def _claim(endpoint: str, private: str, link: str, now: int) -> str:
    parts = urlsplit(endpoint)
    claims: dict[str, Any] = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": now // 1000 + CLAIM_S}
    if link.startswith("https://"):
        claims["sub"] = f"https://{urlsplit(link).netloc}"
    return jwt.encode(claims, _private(private), algorithm="ES256")


def _private(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(_bytes(text), "big"), ec.SECP256R1())


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
