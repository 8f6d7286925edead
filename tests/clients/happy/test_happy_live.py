"""Happy clients on a running gateway with the demo agent: the socket, pages, posting, restarts, transcripts."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from clients.happy.envelopes import Schema
from clients.happy.harness import UNKNOWN, HappyGateway, answer_all, open_gateway, over, user_message, waiting, words
from patience import PATIENCE


@pytest.mark.rules("S001-001", "S001-003", "S001-019", "S001-124", "S001-143")
async def test_a_posted_message_and_its_answer_come_on_the_socket(gateway: HappyGateway, schema: Schema) -> None:
    local = str(uuid.uuid4())
    async with gateway.open_peer() as peer:
        await gateway.post((local, user_message("SCRIPT:text hello")))
        await peer.turn_over()
    assert peer.resumed["verdict"] == "ok"
    assert [frame["role"] for frame in peer.frames] == ["session"] * len(peer.frames)
    assert all("type" not in frame["content"] and "ev" in frame["content"] for frame in peer.frames), "envelopes, bare"
    assert schema.problems("SessionProtocolMessageSchema", peer.frames) == [None] * len(peer.frames)
    assert [frame["meta"]["seq"] for frame in peer.frames] == list(range(1, len(peer.frames) + 1))
    assert peer.frames[0]["content"]["ev"] == {"t": "text", "text": "SCRIPT:text hello"}
    assert over(peer.client) == ["completed"]
    assert peer.client.state.strays == []
    page = await gateway.page()
    assert [message["content"]["c"]["content"] for message in page["messages"]] == [f["content"] for f in peer.frames]
    answer = await gateway.http.get(gateway.url)
    assert answer.headers["fairlead-log-id"] == peer.resumed["log_id"]
    assert answer.headers["fairlead-head"] == str(len(peer.frames))
    assert page["messages"][0]["localId"] == local
    assert {message["localId"] for message in page["messages"][1:]} == {None}
    assert page["hasMore"] is False


async def test_a_missing_token_or_an_unknown_session_is_refused(gateway: HappyGateway) -> None:
    cases: list[tuple[str, str, str | None, int]] = [
        ("", "", "", 401),
        ("", "", "wrong", 401),
        ("", UNKNOWN, None, 404),
        ("?after_seq=x", "", None, 400),
    ]
    for query, session, token, status in cases:
        with pytest.raises(InvalidStatus) as refused:
            async with gateway.open_peer(query, session=session, token=token):
                pass
        assert refused.value.response.status_code == status
    async with gateway.open_peer(f"?token={gateway.gateway.token}", token="") as peer:
        assert json.loads(await peer.socket.recv())["type"] == "resumed"
    assert (await gateway.http.get(f"/v3/sessions/{UNKNOWN}/messages")).status_code == 404


async def test_a_local_id_is_accepted_once_however_often_it_is_posted(gateway: HappyGateway) -> None:
    local = "no uuid, but mine"
    first = await gateway.post((local, user_message("SCRIPT:text once")))
    again = await gateway.post((local, user_message("SCRIPT:text once")), (local, user_message("SCRIPT:text once")))
    assert [message["id"] for message in again] == [first[0]["id"]] * 2
    assert [message["localId"] for message in again] == [local] * 2
    async with gateway.open_peer() as peer:
        await peer.turn_over()
    assert words(peer.client).count("SCRIPT:text once") == 1
    (known,) = await gateway.post((local, user_message("SCRIPT:text once")))
    assert known["seq"] == 1
    assert known["createdAt"] > 0


async def test_a_queued_message_has_no_seq_yet(gateway: HappyGateway) -> None:
    async with gateway.open_peer() as peer:
        await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:write made.txt")))
        await peer.until(lambda _: waiting(peer))
        (queued,) = await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:text second")))
        assert queued["seq"] == 0
        assert queued["createdAt"] > 0
        await answer_all(gateway, peer)
        await peer.turn_over()
    assert over(peer.client) == ["completed", "completed"]
    (message,) = [message for message in (await gateway.page())["messages"] if message["id"] == queued["id"]]
    assert message["content"]["c"]["content"]["ev"]["text"] == "SCRIPT:text second"


REFUSED: list[Any] = [
    {"messages": []},
    {"messages": [{"localId": "x", "content": user_message("hi")}] * 101},
    {"messages": [{"localId": "", "content": user_message("hi")}]},
    {"messages": [{"localId": "x" * 200, "content": user_message("hi")}]},
    {"messages": [{"localId": "x", "content": "sealed"}]},
    {"messages": [{"localId": "x", "content": {"role": "session", "content": {"ev": {"t": "stop"}}}}]},
    {"messages": [{"localId": "x", "content": {"role": "agent", "content": {"type": "text", "text": "hi"}}}]},
    {"messages": [{"localId": "x", "content": user_message(" ")}]},
    {"messages": [{"localId": "x", "content": user_message("good")}, {"localId": "y", "content": user_message("")}]},
]


async def test_an_invalid_post_is_rejected_as_a_whole(gateway: HappyGateway) -> None:
    for body in REFUSED:
        answer = await gateway.http.post(gateway.url, json=body)
        assert answer.status_code == 400, body
    assert (await gateway.page())["messages"] == []


async def test_pages_go_both_ways(gateway: HappyGateway) -> None:
    for number in range(3):
        async with gateway.open_peer() as peer:
            await gateway.post((str(uuid.uuid4()), user_message(f"SCRIPT:text number {number}")))
            for _ in range(number + 1):
                await peer.turn_over()
    every = (await gateway.page("?limit=500"))["messages"]
    forwards: list[Any] = []
    while True:
        page = await gateway.page(f"?after_seq={forwards[-1]['seq'] if forwards else 0}&limit=5")
        forwards += page["messages"]
        if not page["hasMore"]:
            break
    assert forwards == every
    backwards: list[Any] = []
    while True:
        page = await gateway.page(f"?before_seq={backwards[-1]['seq'] if backwards else len(every) + 1}&limit=5")
        backwards += page["messages"]
        if not page["hasMore"]:
            break
    assert backwards == every[::-1]
    assert await gateway.page(f"?after_seq={len(every)}") == {"messages": [], "hasMore": False}
    assert await gateway.page("?before_seq=1") == {"messages": [], "hasMore": False}
    # Number.MAX_SAFE_INTEGER: Happy's own clients request the newest messages with it.
    assert (await gateway.page(f"?before_seq={2**53 - 1}&limit=1"))["messages"] == every[-1:]
    for query in ("?after_seq=1&before_seq=5", "?limit=501", "?limit=0", "?after_seq=-1", "?before_seq=0"):
        assert (await gateway.http.get(gateway.url + query)).status_code == 400


async def test_a_returning_client_misses_nothing_and_receives_nothing_twice(gateway: HappyGateway) -> None:
    async with gateway.open_peer() as always, gateway.open_peer() as peer:
        await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:write made.txt")))
        await peer.until(lambda client: client.state.open_turn)
        client = peer.client
        await peer.socket.close()
        await always.until(lambda _: waiting(always))
        await answer_all(gateway, always)
        async with gateway.open_peer(f"?after_seq={client.state.last_seq}", client) as again:
            await again.until(lambda client: client.state.last_seq >= always.client.state.last_seq)
            assert again.resumed["after_seq"] + 1 == again.frames[0]["meta"]["seq"]
            await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:text after")))
            await asyncio.gather(again.turn_over(), always.turn_over())
    assert client.state == always.client.state
    async with gateway.open_peer("?after_seq=99999") as lost:
        await lost.until(lambda other: other.state.last_seq >= client.state.last_seq)
        assert lost.resumed["verdict"] == "gap"
        assert lost.resumed["after_seq"] == 0
    async with gateway.open_peer("?after_seq=3&log_id=another") as other:
        await other.until(lambda other: other.state.last_seq >= client.state.last_seq)
        assert other.resumed["verdict"] == "gap"


@pytest.mark.rules("S001-137", "S001-143")
async def test_a_gateway_restart_emits_nothing_twice_and_continues_the_numbering(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway, gateway.open_peer() as peer:
        await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:text before")))
        await peer.turn_over()
        await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:write made.txt")))
        await peer.until(lambda _: waiting(peer))
        before = (await gateway.page())["messages"]
    async with (
        open_gateway(tmp_path, gateway.session) as gateway,
        gateway.open_peer(
            f"?after_seq={peer.client.state.last_seq}&log_id={peer.resumed['log_id']}", peer.client
        ) as again,
    ):
        await again.turn_over()
        assert again.resumed["verdict"] == "ok"
        await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:text after")))
        await again.turn_over()
        every = (await gateway.page())["messages"]
    assert every[: len(before)] == before
    assert [message["seq"] for message in every] == list(range(1, len(every) + 1))
    state = again.client.state
    assert (state.strays, state.open_turn, state.calls) == ([], "", {})
    statuses = over(again.client)
    assert (statuses[0], statuses[-1], len(statuses)) == ("completed", "completed", 3)
    assert words(again.client).count("SCRIPT:write made.txt") == 1


async def test_a_permission_is_a_service_message_and_is_answered_over_another_protocol(
    gateway: HappyGateway, tmp_path: Path
) -> None:
    async with gateway.open_peer() as peer:
        await gateway.post((str(uuid.uuid4()), user_message("SCRIPT:write made.txt")))
        await peer.until(lambda _: waiting(peer))
        await answer_all(gateway, peer)
    states = [f["content"]["ev"]["permission"]["state"] for f in peer.frames if "permission" in f["content"]["ev"]]
    assert states == ["asked", "allowed"]
    kinds = [frame["content"]["ev"]["t"] for frame in peer.frames]
    assert kinds.index("tool-call-start") < kinds.index("service") < kinds.index("tool-call-end")
    assert (tmp_path / "made.txt").exists()


def row(kind: str, words: str, number: int, cwd: Path, **more: Any) -> str:
    content = words if kind == "user" else [{"type": "text", "text": words}]
    message = {"role": kind, "content": content} | ({"stop_reason": "end_turn"} if kind == "assistant" else {})
    facts = {"uuid": f"a0000000-0000-4000-8000-{number:012}", "parentUuid": None, "cwd": str(cwd), "version": "2.1.325"}
    time = f"2026-01-02T03:04:{number:02}.000Z"
    return json.dumps({"type": kind, **facts, "sessionId": FOUND, "timestamp": time, "message": message, **more}) + "\n"


FOUND = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


@pytest.mark.rules("S001-008", "S001-010", "S001-043", "S001-044")
async def test_a_growing_transcript_reaches_the_socket_and_its_summary_is_the_title(
    gateway: HappyGateway, tmp_path: Path
) -> None:
    folder = tmp_path / ".claude" / "projects" / "-somewhere"
    folder.mkdir(parents=True)
    file = folder / f"{FOUND}.jsonl"
    file.write_text(row("user", "first", 1, tmp_path) + row("assistant", "an answer", 2, tmp_path))
    async with asyncio.timeout(PATIENCE):
        while (await gateway.http.get(f"/v1/sessions/{FOUND}")).status_code != 200:
            await asyncio.sleep(0.02)
    async with gateway.open_peer(session=FOUND) as peer:
        await peer.until(lambda client: "an answer" in words(client))
        with file.open("a") as more:
            more.write(row("user", "second", 3, tmp_path))
            more.write(json.dumps({"type": "summary", "summary": "What it is about", "leafUuid": "x"}) + "\n")
            more.write(row("assistant", "another", 4, tmp_path))
        await peer.until(lambda client: "another" in words(client))
        assert words(peer.client) == ["first", "an answer", "second", "another"]
        assert peer.frames[0]["content"]["time"] // 1000 == 1767323041, "the row's own time"
        kept = (await gateway.http.get(f"/v3/sessions/{FOUND}/messages")).json()["messages"]
        sent = [frame["content"] for frame in peer.frames]
        assert [message["content"]["c"]["content"] for message in kept][: len(sent)] == sent, "each envelope, in order"
    listed = (await gateway.http.get("/v1/sessions")).json()["sessions"]
    assert [one["title"] for one in listed if one["session"] == FOUND] == ["What it is about"]
