"""Encryption of messages and files as Happy's clients have it. Pure: the same key and words give the same bytes.

A nonce must never serve two different plaintexts under one key. Ours is not drawn but derived: an HMAC, under a key of
its own, of the plaintext itself. Two plaintexts get two nonces (they would collide once in 2**48 messages of
a session, in the shorter of the two schemes); the same plaintext gets the same nonce and so the same bytes, which is
what lets one encoding serve every watcher and every repeat. A counter would not do: a restored log counts again from
an earlier place, with other words.
"""

import base64
import binascii
import hmac
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from fairlead.auth.api.session_keys import SessionKey
from fairlead.model.errors import BadRequest

_BOX_NONCE: Final = SecretBox.NONCE_SIZE
_GCM_NONCE: Final = 12
_GCM_TAG: Final = 16
_VERSION: Final = b"\0"
"""The first byte of the scheme `dataKey`."""


def seal(key: SessionKey, plain: bytes) -> str:
    """Base64 of the sealed bytes, as messages carry them."""
    if key.scheme == "legacy":
        sealed = _box(key.key, plain)
    else:
        nonce = _nonce(key.key, plain, _GCM_NONCE)
        sealed = _VERSION + nonce + AESGCM(key.key).encrypt(nonce, plain, None)
    return base64.b64encode(sealed).decode()


def unseal(key: SessionKey, sealed: str) -> Any:
    """The JSON inside a message. BadRequest for what this key does not open."""
    try:
        return msgspec.json.decode(_opened(key, base64.b64decode(sealed, validate=True)))
    except (binascii.Error, CryptoError, InvalidTag, ValueError, UnicodeError, RecursionError):
        raise BadRequest("The message cannot be opened with this session's key.") from None


def _opened(key: SessionKey, data: bytes) -> bytes:
    if key.scheme == "legacy":
        return SecretBox(key.key).decrypt(data)
    if len(data) < 1 + _GCM_NONCE + _GCM_TAG or data[:1] != _VERSION:
        raise ValueError("no message of this scheme")
    return AESGCM(key.key).decrypt(data[1 : 1 + _GCM_NONCE], data[1 + _GCM_NONCE :], None)


def seal_file(key: SessionKey, data: bytes) -> bytes:
    """Files have a key of their own, derived from the session's, and one scheme for both."""
    return _box(derive(key.key, "Happy Blobs", "session" if key.scheme == "dataKey" else "master"), data)


def derive(seed: bytes, usage: str, *path: str) -> bytes:
    """A key of the tree that grows from `seed`: HMAC-SHA512, of which one half is the key and one leads on."""
    grown = hmac.digest(f"{usage} Master Seed".encode(), seed, "sha512")
    for name in path:
        grown = hmac.digest(grown[32:], b"\0" + name.encode(), "sha512")
    return grown[:32]


def _box(key: bytes, plain: bytes) -> bytes:
    return bytes(SecretBox(key).encrypt(plain, _nonce(key, plain, _BOX_NONCE)))


def _nonce(key: bytes, plain: bytes, size: int) -> bytes:
    own = hmac.digest(key, b"fairlead happy nonce", "sha256")
    return hmac.digest(own, plain, "sha256")[:size]
