"""The two encryption schemes for messages, against vectors of Happy's own program.

In `sealed.json`, the `theirs` vectors were encrypted by the code of npm `happy-coder` 0.13.0; the `ours` vectors were
encrypted here and decrypted by that code.
"""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.secret import SecretBox

from fairlead.auth.api.session_keys import SessionKey
from fairlead.clients.happy.encryption import derive, seal, seal_file, unseal
from fairlead.clients.happy.messages import HappyEncoder
from fairlead.model.errors import BadRequest

VECTORS = json.loads(Path(__file__).with_name("sealed.json").read_text())
KEYS = [SessionKey("legacy", bytes(range(32))), SessionKey("dataKey", bytes(range(32)))]
by_scheme = pytest.mark.parametrize("key", KEYS, ids=lambda key: key.scheme)


def key_of(vector: dict[str, Any]) -> SessionKey:
    return SessionKey(vector["scheme"], base64.b64decode(vector["key"]))


@pytest.mark.parametrize("vector", VECTORS["theirs"] + VECTORS["ours"])
def test_a_vector_is_decrypted(vector: dict[str, Any]) -> None:
    assert unseal(key_of(vector), vector["sealed"]) == vector["opened"]


@pytest.mark.parametrize("vector", VECTORS["ours"], ids=lambda vector: vector["scheme"])
def test_encryption_still_gives_the_bytes_that_happy_decrypted(vector: dict[str, Any]) -> None:
    words = json.dumps(vector["opened"], ensure_ascii=False, separators=(",", ":")).encode()
    assert seal(key_of(vector), words) == vector["sealed"]


def nonce(key: SessionKey, sealed: str) -> bytes:
    data = base64.b64decode(sealed)
    return data[:24] if key.scheme == "legacy" else data[1:13]


@by_scheme
@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=2, max_size=20, unique=True))
def test_no_nonce_serves_two_messages_and_equal_messages_give_equal_bytes(key: SessionKey, words: list[bytes]) -> None:
    sealed = [seal(key, word) for word in words]
    assert len({nonce(key, one) for one in sealed}) == len(words)
    assert [seal(key, word) for word in words] == sealed


@by_scheme
def test_another_key_has_other_nonces_and_decrypts_nothing(key: SessionKey) -> None:
    other = SessionKey(key.scheme, bytes(32))
    sealed = seal(key, b'"x"')
    assert nonce(key, sealed) != nonce(other, seal(other, b'"x"'))
    with pytest.raises(BadRequest):
        unseal(other, sealed)


@by_scheme
@pytest.mark.parametrize("change", [0, 1, 5, 20, -1])
def test_a_changed_message_is_refused(key: SessionKey, change: int) -> None:
    data = bytearray(base64.b64decode(seal(key, b'{"role":"user"}')))
    data[change] ^= 1
    with pytest.raises(BadRequest):
        unseal(key, base64.b64encode(data).decode())


@by_scheme
@pytest.mark.parametrize("wrong", ["", "?", "AAAA", base64.b64encode(bytes(29)).decode(), "ü"])
def test_data_that_is_not_an_encrypted_message_is_rejected(key: SessionKey, wrong: str) -> None:
    with pytest.raises(BadRequest):
        unseal(key, wrong)


@by_scheme
def test_encrypted_data_that_is_not_json_is_rejected(key: SessionKey) -> None:
    with pytest.raises(BadRequest):
        unseal(key, seal(key, b"no json"))


def test_a_files_key_is_derived_along_its_path() -> None:
    seed = bytes(range(32))
    root = hmac.new(b"Happy Blobs Master Seed", seed, hashlib.sha512).digest()
    leaf = hmac.new(root[32:], b"\0session", hashlib.sha512).digest()
    assert derive(seed, "Happy Blobs") == root[:32]
    assert derive(seed, "Happy Blobs", "session") == leaf[:32]
    assert SecretBox(leaf[:32]).decrypt(seal_file(SessionKey("dataKey", seed), b"bytes")) == b"bytes"
    master = derive(seed, "Happy Blobs", "master")
    assert SecretBox(master).decrypt(seal_file(SessionKey("legacy", seed), b"bytes")) == b"bytes"


def test_a_key_is_never_written_out() -> None:
    key = SessionKey("legacy", b"k" * 32)
    assert "kkkk" not in repr(key) + str(key) + f"{key}" + repr([key])
    assert "kkkk" not in repr(HappyEncoder(key))
