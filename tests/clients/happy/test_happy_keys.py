"""Sessions with a key on a running gateway, and images of messages, plain and encrypted."""

import asyncio
import base64
import contextlib
import json
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest
from nacl.secret import SecretBox

from clients.happy.envelopes import Schema
from clients.happy.harness import UNKNOWN, HappyGateway, over, user_message, words
from fairlead.auth.api.session_keys import SessionKey
from fairlead.clients.happy.encryption import derive, seal, unseal
from fairlead_testing.happy_client import HappyClient
from patience import PATIENCE

KEYS = [SessionKey("legacy", bytes(range(32))), SessionKey("dataKey", bytes(range(32)))]
PIXEL = base64.b64encode(b"\x89PNG picture").decode()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.scheme)
async def test_a_session_with_a_key_sends_and_accepts_encrypted_messages(
    gateway: HappyGateway, schema: Schema, key: SessionKey
) -> None:
    url = f"/v3/sessions/{gateway.session}/key"
    given = {"scheme": key.scheme, "key": base64.b64encode(key.key).decode()}
    answer = await gateway.http.put(url, json=given)
    assert answer.json() == {"scheme": key.scheme}
    async with gateway.open_peer() as peer:
        local = str(uuid.uuid4())
        await gateway.post((local, seal(key, json.dumps(user_message("SCRIPT:text secret")).encode())))
        resumed = json.loads(await peer.socket.recv())
        assert resumed["type"] == "resumed"
        frames: list[dict[str, Any]] = []
        client = HappyClient()
        async with asyncio.timeout(PATIENCE):
            while not over(client):
                text = await peer.socket.recv()
                assert "secret" not in str(text)
                frames.append(json.loads(text))
                assert client.receive(frames[-1]["seq"], unseal(key, frames[-1]["content"]["c"]))
    assert "secret" in "".join(words(client))
    assert schema.problems("SessionMessageSchema", frames) == [None] * len(frames)
    assert (await gateway.page())["messages"] == frames, "the same bytes, whoever asks"
    refused = await gateway.http.post(
        gateway.url, json={"messages": [{"localId": "x", "content": user_message("open")}]}
    )
    assert refused.status_code == 400
    other = SessionKey(key.scheme, bytes(32))
    sealed = seal(other, json.dumps(user_message("other")).encode())
    refused = await gateway.http.post(gateway.url, json={"messages": [{"localId": "x", "content": sealed}]})
    assert refused.status_code == 400
    assert (await gateway.http.delete(url)).json() == {"scheme": None}
    assert (await gateway.page())["messages"][0]["content"]["t"] == "plain"


async def test_only_an_admin_sets_a_key_and_it_has_32_bytes(gateway: HappyGateway) -> None:
    url = f"/v3/sessions/{gateway.session}/key"
    for bad in ({"scheme": "legacy", "key": "AAAA"}, {"scheme": "legacy", "key": "?"}, {"scheme": "x", "key": "AAAA"}):
        assert (await gateway.http.put(url, json=bad)).status_code == 400
    good = {"scheme": "legacy", "key": base64.b64encode(bytes(32)).decode()}
    assert (await gateway.http.put(f"/v3/sessions/{UNKNOWN}/key", json=good)).status_code == 404
    body = {"name": "viewer", "scopes": ["view", "chat", "approve"]}
    token = (await gateway.http.post("/v1/tokens", json=body)).json()["secret"]
    mine = {"Authorization": f"Bearer {token}"}
    assert (await gateway.http.put(url, json=good, headers=mine)).status_code == 403
    assert (await gateway.http.delete(url, headers=mine)).status_code == 403


async def test_a_deleted_session_leaves_no_key_behind(gateway: HappyGateway, tmp_path: Path) -> None:
    secret = base64.b64encode(b"k" * 32).decode()
    await gateway.http.put(f"/v3/sessions/{gateway.session}/key", json={"scheme": "legacy", "key": secret})

    def kept() -> int:
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "fairlead.db")) as database:
            return int(database.execute("SELECT count(*) FROM documents WHERE space = 'session.keys'").fetchone()[0])

    assert kept() == 1
    assert (await gateway.http.delete(f"/v1/sessions/{gateway.session}")).status_code == 200
    assert kept() == 0


async def test_an_image_is_a_file_served_by_its_ref(gateway: HappyGateway) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    content = [picture, {"type": "text", "text": "SCRIPT:text seen"}]
    await gateway.http.post(f"/v1/sessions/{gateway.session}/messages", json={"content": content})
    async with gateway.open_peer() as peer:
        await peer.turn_over()
    file = peer.frames[0]["content"]["ev"]
    assert (file["t"], file["mimeType"], file["size"]) == ("file", "image/png", len(b"\x89PNG picture"))
    files = f"/v3/sessions/{gateway.session}/files"
    got = await gateway.http.get(f"{files}/{file['ref']}")
    assert (got.content, got.headers["content-type"]) == (b"\x89PNG picture", "image/png")
    for ref in ("x", "x.0", f"{file['ref'][:-1]}7", f"{file['ref'][:-1]}x"):
        assert (await gateway.http.get(f"{files}/{ref}")).status_code == 404
    key = KEYS[1]
    given = {"scheme": key.scheme, "key": base64.b64encode(key.key).decode()}
    await gateway.http.put(f"/v3/sessions/{gateway.session}/key", json=given)
    sealed = await gateway.http.get(f"{files}/{file['ref']}")
    assert SecretBox(derive(key.key, "Happy Blobs", "session")).decrypt(sealed.content) == b"\x89PNG picture"
