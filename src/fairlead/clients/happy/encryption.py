"""Encryption of messages and files, compatible with Happy's clients. Pure: the same key and text give the same bytes.

A nonce must never be used for two different plaintexts under one key. The nonce here is not random but derived: an HMAC
of the plaintext, under a separate key. Two plaintexts get two nonces (they would collide once in 2**48 messages of
a session, in the shorter of the two schemes); the same plaintext gets the same nonce and so the same bytes, which lets
one encoding serve every subscriber and every repeat. A counter would not work: a restored log counts again from
an earlier position, with different content.
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
    """Encrypt `plain` and return base64, as messages carry it."""
    if key.scheme == "legacy":
        sealed = _box(key.key, plain)
    else:
        nonce = _nonce(key.key, plain, _GCM_NONCE)
        sealed = _VERSION + nonce + AESGCM(key.key).encrypt(nonce, plain, None)
    return base64.b64encode(sealed).decode()


def unseal(key: SessionKey, sealed: str) -> Any:
    """Decrypt a message and decode its JSON; raise BadRequest if this key does not open it."""
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
    """Encrypt a file. Its key is derived from the session's key; both schemes encrypt files the same way."""
    return _box(derive(key.key, "Happy Blobs", "session" if key.scheme == "dataKey" else "master"), data)


def derive(seed: bytes, usage: str, *path: str) -> bytes:
    """Derive a key from the tree rooted at `seed`: of each HMAC-SHA512, one half is the key, the other derives
    the next level."""
    grown = hmac.digest(f"{usage} Master Seed".encode(), seed, "sha512")
    for name in path:
        grown = hmac.digest(grown[32:], b"\0" + name.encode(), "sha512")
    return grown[:32]


def _box(key: bytes, plain: bytes) -> bytes:
    return bytes(SecretBox(key).encrypt(plain, _nonce(key, plain, _BOX_NONCE)))


def _nonce(key: bytes, plain: bytes, size: int) -> bytes:
    own = hmac.digest(key, b"fairlead happy nonce", "sha256")
    return hmac.digest(own, plain, "sha256")[:size]
