"""Happy clients on a running gateway with the demo agent: the socket, pages, posting, keys and files."""

import asyncio
import base64
import contextlib
import json
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from nacl.secret import SecretBox
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from clients.happy.telling import Schema, made
from fairlead.clients.happy.sealing import derive, seal, unseal
from fairlead.config import load
from fairlead.model.keys import SessionKey
from fairlead.testing.happy_client import HappyClient
from fairlead.wiring import Running, running

PATIENCE = 30.0
UNKNOWN = "99999999-9999-4999-8999-999999999999"
KEYS = [SessionKey("legacy", bytes(range(32))), SessionKey("dataKey", bytes(range(32)))]
PIXEL = base64.b64encode(b"\x89PNG picture").decode()


class Seat:
    """A client on its socket."""

    def __init__(self, socket: ClientConnection, client: HappyClient) -> None:
        self.socket = socket
        self.client = client
        self.frames: list[dict[str, Any]] = []
        self.resumed: dict[str, Any] = {}

    async def until(self, wanted: Callable[[HappyClient], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := wanted(self.client)):
                frame = json.loads(await self.socket.recv())
                if frame.get("type") == "resumed":
                    self.resumed = frame
                    continue
                self.frames.append(frame)
                made.append(frame["content"])
                assert self.client.receive(frame["meta"]["seq"], frame)
        return found

    async def turn_over(self) -> None:
        before = len(over(self.client))
        await self.until(lambda client: len(over(client)) > before)


def over(client: HappyClient) -> list[str]:
    return [turn.status for turn in client.state.turns if turn.status]


def words(client: HappyClient) -> list[str]:
    return [part.get("text", "") for shown in client.state.shown for part in shown.content if part["type"] == "text"]


class House:
    def __init__(self, gateway: Running, http: httpx.AsyncClient, session: str) -> None:
        self.gateway = gateway
        self.http = http
        self.session = session
        self.url = f"/v3/sessions/{session}/messages"

    @contextlib.asynccontextmanager
    async def seat(
        self, query: str = "", client: HappyClient | None = None, session: str = "", token: str | None = None
    ) -> AsyncIterator[Seat]:
        token = self.gateway.token if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.gateway.url.replace('http', 'ws', 1)}/v1/sessions/{session or self.session}/envelopes{query}"
        async with connect(url, additional_headers=headers) as socket:
            yield Seat(socket, client or HappyClient())

    async def post(self, *said: tuple[str, Any]) -> list[dict[str, Any]]:
        messages = [{"localId": local, "content": content} for local, content in said]
        answer = await self.http.post(self.url, json={"messages": messages})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["messages"])

    async def page(self, query: str = "") -> dict[str, Any]:
        answer = await self.http.get(self.url + query)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}, "meta": {"sentFrom": "phone"}}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    given = {"data": str(tmp_path / "data"), "port": 0, "roots": [str(tmp_path)], "agent": "demo"}
    config = load({"HOME": str(tmp_path)}, given).config
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=PATIENCE) as http:
            made = await http.post("/v1/sessions", json={"cwd": str(tmp_path)})
            yield House(gateway, http, made.json()["session"])


@pytest.mark.rules("S001-001", "S001-003", "S001-019", "S001-124", "S001-143")
async def test_a_posted_message_and_its_answer_come_on_the_socket(house: House) -> None:
    local = str(uuid.uuid4())
    async with house.seat() as seat:
        await house.post((local, said("SCRIPT:text hello")))
        await seat.turn_over()
    assert seat.resumed["verdict"] == "ok"
    assert [frame["role"] for frame in seat.frames] == ["session"] * len(seat.frames)
    assert [frame["meta"]["seq"] for frame in seat.frames] == list(range(1, len(seat.frames) + 1))
    assert seat.frames[0]["content"]["ev"] == {"t": "text", "text": "SCRIPT:text hello"}
    assert over(seat.client) == ["completed"]
    assert seat.client.state.strays == []
    page = await house.page()
    assert [message["content"]["c"]["content"] for message in page["messages"]] == [f["content"] for f in seat.frames]
    answer = await house.http.get(house.url)
    assert answer.headers["fairlead-log-id"] == seat.resumed["log_id"]
    assert answer.headers["fairlead-head"] == str(len(seat.frames))
    assert page["messages"][0]["localId"] == local
    assert {message["localId"] for message in page["messages"][1:]} == {None}
    assert page["hasMore"] is False


async def test_nobody_comes_in_without_a_token_or_to_a_session_that_is_not_there(house: House) -> None:
    cases: list[tuple[str, str, str | None, int]] = [
        ("", "", "", 401),
        ("", "", "wrong", 401),
        ("", UNKNOWN, None, 404),
        ("?after_seq=x", "", None, 400),
    ]
    for query, session, token, status in cases:
        with pytest.raises(InvalidStatus) as refused:
            async with house.seat(query, session=session, token=token):
                pass
        assert refused.value.response.status_code == status
    async with house.seat(f"?token={house.gateway.token}", token="") as seat:
        assert json.loads(await seat.socket.recv())["type"] == "resumed"
    assert (await house.http.get(f"/v3/sessions/{UNKNOWN}/messages")).status_code == 404


async def test_a_local_id_is_taken_once_however_often_it_is_posted(house: House) -> None:
    local = "no uuid, but mine"
    first = await house.post((local, said("SCRIPT:text once")))
    again = await house.post((local, said("SCRIPT:text once")), (local, said("SCRIPT:text once")))
    assert [message["id"] for message in again] == [first[0]["id"]] * 2
    assert [message["localId"] for message in again] == [local] * 2
    async with house.seat() as seat:
        await seat.turn_over()
    assert words(seat.client).count("SCRIPT:text once") == 1
    (known,) = await house.post((local, said("SCRIPT:text once")))
    assert known["seq"] == 1
    assert known["createdAt"] > 0


async def test_a_message_that_waits_has_no_place_yet(house: House) -> None:
    async with house.seat() as seat:
        await house.post((str(uuid.uuid4()), said("SCRIPT:write made.txt")))
        await seat.until(lambda _: waiting(seat))
        (queued,) = await house.post((str(uuid.uuid4()), said("SCRIPT:text second")))
        assert queued["seq"] == 0
        assert queued["createdAt"] > 0
        await answer_all(house, seat)
        await seat.turn_over()
    assert over(seat.client) == ["completed", "completed"]
    (message,) = [message for message in (await house.page())["messages"] if message["id"] == queued["id"]]
    assert message["content"]["c"]["content"]["ev"]["text"] == "SCRIPT:text second"


REFUSED: list[Any] = [
    {"messages": []},
    {"messages": [{"localId": "x", "content": said("hi")}] * 101},
    {"messages": [{"localId": "", "content": said("hi")}]},
    {"messages": [{"localId": "x" * 200, "content": said("hi")}]},
    {"messages": [{"localId": "x", "content": "sealed"}]},
    {"messages": [{"localId": "x", "content": {"role": "session", "content": {"ev": {"t": "stop"}}}}]},
    {"messages": [{"localId": "x", "content": {"role": "agent", "content": {"type": "text", "text": "hi"}}}]},
    {"messages": [{"localId": "x", "content": said(" ")}]},
    {"messages": [{"localId": "x", "content": said("good")}, {"localId": "y", "content": said("")}]},
]


async def test_what_cannot_be_posted_is_refused_whole(house: House) -> None:
    for body in REFUSED:
        answer = await house.http.post(house.url, json=body)
        assert answer.status_code == 400, body
    assert (await house.page())["messages"] == []


async def test_pages_go_both_ways(house: House) -> None:
    for number in range(3):
        async with house.seat() as seat:
            await house.post((str(uuid.uuid4()), said(f"SCRIPT:text number {number}")))
            for _ in range(number + 1):
                await seat.turn_over()
    every = (await house.page("?limit=500"))["messages"]
    forwards: list[Any] = []
    while True:
        page = await house.page(f"?after_seq={forwards[-1]['seq'] if forwards else 0}&limit=5")
        forwards += page["messages"]
        if not page["hasMore"]:
            break
    assert forwards == every
    backwards: list[Any] = []
    while True:
        page = await house.page(f"?before_seq={backwards[-1]['seq'] if backwards else len(every) + 1}&limit=5")
        backwards += page["messages"]
        if not page["hasMore"]:
            break
    assert backwards == every[::-1]
    assert await house.page(f"?after_seq={len(every)}") == {"messages": [], "hasMore": False}
    assert await house.page("?before_seq=1") == {"messages": [], "hasMore": False}
    for query in ("?after_seq=1&before_seq=5", "?limit=501", "?limit=0", "?after_seq=-1", "?before_seq=0"):
        assert (await house.http.get(house.url + query)).status_code == 400


async def test_a_client_that_was_away_misses_nothing_and_gets_nothing_twice(house: House) -> None:
    async with house.seat() as always, house.seat() as seat:
        await house.post((str(uuid.uuid4()), said("SCRIPT:write made.txt")))
        await seat.until(lambda client: client.state.open_turn)
        client = seat.client
        await seat.socket.close()
        await always.until(lambda _: waiting(always))
        await answer_all(house, always)
        async with house.seat(f"?after_seq={client.state.last_seq}", client) as again:
            await again.until(lambda client: client.state.last_seq >= always.client.state.last_seq)
            assert again.resumed["after_seq"] + 1 == again.frames[0]["meta"]["seq"]
            await house.post((str(uuid.uuid4()), said("SCRIPT:text after")))
            await asyncio.gather(again.turn_over(), always.turn_over())
    assert client.state == always.client.state
    async with house.seat("?after_seq=99999") as lost:
        await lost.until(lambda other: other.state.last_seq >= client.state.last_seq)
        assert lost.resumed["verdict"] == "gap"
        assert lost.resumed["after_seq"] == 0
    async with house.seat("?after_seq=3&log_id=another") as other:
        await other.until(lambda other: other.state.last_seq >= client.state.last_seq)
        assert other.resumed["verdict"] == "gap"


async def answer_all(house: House, seat: Seat) -> None:
    """Whatever a person is asked until the turn is over is allowed, over the native protocol."""
    while True:
        await seat.until(lambda client: waiting(seat) or (client.state.turns and not client.state.open_turn))
        asked = waiting(seat)
        if not asked:
            return
        for request in asked:
            answer = await house.http.post(f"/v1/permissions/{request}", json={"behavior": "allow"})
            assert answer.status_code == 200, answer.text
        await seat.until(lambda client: not waiting(seat))


def waiting(seat: Seat) -> set[str]:
    facts = [frame["content"]["ev"].get("permission") for frame in seat.frames]
    settled = {fact["request"] for fact in facts if fact and fact["state"] != "asked"}
    return {fact["request"] for fact in facts if fact} - settled


async def test_a_permission_is_told_as_service_and_answered_elsewhere(house: House, tmp_path: Path) -> None:
    async with house.seat() as seat:
        await house.post((str(uuid.uuid4()), said("SCRIPT:write made.txt")))
        await seat.until(lambda _: waiting(seat))
        await answer_all(house, seat)
    states = [f["content"]["ev"]["permission"]["state"] for f in seat.frames if "permission" in f["content"]["ev"]]
    assert states == ["asked", "allowed"]
    kinds = [frame["content"]["ev"]["t"] for frame in seat.frames]
    assert kinds.index("tool-call-start") < kinds.index("service") < kinds.index("tool-call-end")
    assert (tmp_path / "made.txt").exists()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.scheme)
async def test_a_session_with_a_key_is_told_and_posted_to_sealed(house: House, schema: Schema, key: SessionKey) -> None:
    url = f"/v3/sessions/{house.session}/key"
    given = {"scheme": key.scheme, "key": base64.b64encode(key.key).decode()}
    answer = await house.http.put(url, json=given)
    assert answer.json() == {"scheme": key.scheme}
    async with house.seat() as seat:
        local = str(uuid.uuid4())
        await house.post((local, seal(key, json.dumps(said("SCRIPT:text secret")).encode())))
        resumed = json.loads(await seat.socket.recv())
        assert resumed["type"] == "resumed"
        frames: list[dict[str, Any]] = []
        client = HappyClient()
        async with asyncio.timeout(PATIENCE):
            while not over(client):
                text = await seat.socket.recv()
                assert "secret" not in str(text)
                frames.append(json.loads(text))
                assert client.receive(frames[-1]["seq"], unseal(key, frames[-1]["content"]["c"]))
    assert "secret" in "".join(words(client))
    assert schema.problems("SessionMessageSchema", frames) == [None] * len(frames)
    assert (await house.page())["messages"] == frames, "the same bytes, whoever asks"
    refused = await house.http.post(house.url, json={"messages": [{"localId": "x", "content": said("open")}]})
    assert refused.status_code == 400
    other = SessionKey(key.scheme, bytes(32))
    sealed = seal(other, json.dumps(said("other")).encode())
    refused = await house.http.post(house.url, json={"messages": [{"localId": "x", "content": sealed}]})
    assert refused.status_code == 400
    assert (await house.http.delete(url)).json() == {"scheme": None}
    assert (await house.page())["messages"][0]["content"]["t"] == "plain"


async def test_a_key_is_an_admins_to_set_and_32_bytes(house: House) -> None:
    url = f"/v3/sessions/{house.session}/key"
    for bad in ({"scheme": "legacy", "key": "AAAA"}, {"scheme": "legacy", "key": "?"}, {"scheme": "x", "key": "AAAA"}):
        assert (await house.http.put(url, json=bad)).status_code == 400
    good = {"scheme": "legacy", "key": base64.b64encode(bytes(32)).decode()}
    assert (await house.http.put(f"/v3/sessions/{UNKNOWN}/key", json=good)).status_code == 404
    body = {"name": "viewer", "scopes": ["view", "chat", "approve"]}
    token = (await house.http.post("/v1/tokens", json=body)).json()["secret"]
    mine = {"Authorization": f"Bearer {token}"}
    assert (await house.http.put(url, json=good, headers=mine)).status_code == 403
    assert (await house.http.delete(url, headers=mine)).status_code == 403


async def test_a_deleted_session_leaves_no_key_behind(house: House, tmp_path: Path) -> None:
    secret = base64.b64encode(b"k" * 32).decode()
    await house.http.put(f"/v3/sessions/{house.session}/key", json={"scheme": "legacy", "key": secret})

    def kept() -> int:
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "fairlead.db")) as database:
            return int(database.execute("SELECT count(*) FROM documents WHERE space = 'session.keys'").fetchone()[0])

    assert kept() == 1
    assert (await house.http.delete(f"/v1/sessions/{house.session}")).status_code == 200
    assert kept() == 0


async def test_an_image_is_a_file_that_its_ref_gives(house: House) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    content = [picture, {"type": "text", "text": "SCRIPT:text seen"}]
    await house.http.post(f"/v1/sessions/{house.session}/messages", json={"content": content})
    async with house.seat() as seat:
        await seat.turn_over()
    file = seat.frames[0]["content"]["ev"]
    assert (file["t"], file["mimeType"], file["size"]) == ("file", "image/png", len(b"\x89PNG picture"))
    files = f"/v3/sessions/{house.session}/files"
    got = await house.http.get(f"{files}/{file['ref']}")
    assert (got.content, got.headers["content-type"]) == (b"\x89PNG picture", "image/png")
    for ref in ("x", "x.0", f"{file['ref'][:-1]}7", f"{file['ref'][:-1]}x"):
        assert (await house.http.get(f"{files}/{ref}")).status_code == 404
    key = KEYS[1]
    given = {"scheme": key.scheme, "key": base64.b64encode(key.key).decode()}
    await house.http.put(f"/v3/sessions/{house.session}/key", json=given)
    sealed = await house.http.get(f"{files}/{file['ref']}")
    assert SecretBox(derive(key.key, "Happy Blobs", "session")).decrypt(sealed.content) == b"\x89PNG picture"


def row(kind: str, words: str, number: int, cwd: Path, **more: Any) -> str:
    content = words if kind == "user" else [{"type": "text", "text": words}]
    message = {"role": kind, "content": content} | ({"stop_reason": "end_turn"} if kind == "assistant" else {})
    facts = {"uuid": f"a0000000-0000-4000-8000-{number:012}", "parentUuid": None, "cwd": str(cwd), "version": "2.1.325"}
    time = f"2026-01-02T03:04:{number:02}.000Z"
    return json.dumps({"type": kind, **facts, "sessionId": FOUND, "timestamp": time, "message": message, **more}) + "\n"


FOUND = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


@pytest.mark.rules("S001-008", "S001-010", "S001-043", "S001-044")
async def test_a_transcript_that_grows_is_heard_on_the_socket_and_its_summary_is_the_title(
    house: House, tmp_path: Path
) -> None:
    folder = tmp_path / ".claude" / "projects" / "-somewhere"
    folder.mkdir(parents=True)
    file = folder / f"{FOUND}.jsonl"
    file.write_text(row("user", "first", 1, tmp_path) + row("assistant", "an answer", 2, tmp_path))
    async with asyncio.timeout(PATIENCE):
        while (await house.http.get(f"/v1/sessions/{FOUND}")).status_code != 200:
            await asyncio.sleep(0.02)
    async with house.seat(session=FOUND) as seat:
        await seat.until(lambda client: "an answer" in words(client))
        with file.open("a") as more:
            more.write(row("user", "second", 3, tmp_path))
            more.write(json.dumps({"type": "summary", "summary": "What it is about", "leafUuid": "x"}) + "\n")
            more.write(row("assistant", "another", 4, tmp_path))
        await seat.until(lambda client: "another" in words(client))
        assert words(seat.client) == ["first", "an answer", "second", "another"]
        assert seat.frames[0]["content"]["time"] // 1000 == 1767323041, "the row's own time"
    listed = (await house.http.get("/v1/sessions")).json()["sessions"]
    assert [one["title"] for one in listed if one["session"] == FOUND] == ["What it is about"]
