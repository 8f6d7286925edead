"""Direct clients on a running gateway with the demo agent."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from clients.direct.harness import DirectPeer, connect_peer
from fairlead.config import load
from fairlead.wiring import GatewayInfo, running
from fairlead_testing.direct_client import Message
from local_http import local_client

pytestmark = pytest.mark.process

UNKNOWN = "99999999-9999-4999-8999-999999999999"


class DirectHarness:
    def __init__(self, gateway: GatewayInfo, http: httpx2.AsyncClient, session: str) -> None:
        self.gateway = gateway
        self.http = http
        self.session = session

    @contextlib.asynccontextmanager
    async def open_peer(self, session: str = "", token: str | None = None) -> AsyncIterator[DirectPeer]:
        async with connect_peer(self.gateway, session or self.session, token) as peer:
            yield peer


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[DirectHarness]:
    given = {"data": str(tmp_path / "data"), "port": 0, "roots": [str(tmp_path)], "agent": "demo"}
    config = load({"HOME": str(tmp_path)}, given).config
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=gateway.url, headers=headers) as http:
            made = await http.post("/v1/sessions", json={"cwd": str(tmp_path)})
            yield DirectHarness(gateway, http, made.json()["session"])


@pytest.mark.rules("S004-025", "S004-309", "S004-312")
async def test_a_turn_on_one_socket(harness: DirectHarness) -> None:
    async with harness.open_peer() as peer:
        await peer.prompt("SCRIPT:text hello")
        assert (await peer.result())["subtype"] == "success"
        kinds = [message["type"] for message in peer.client.messages]
        assert {"system", "stream_event", "assistant", "result"} <= set(kinds)
        assert "user" not in kinds
    events = (await harness.http.get(f"/v1/sessions/{harness.session}/events?limit=500")).json()["events"]
    assert [event["type"] for event in events].count("user.message") == 1


@pytest.mark.rules("S004-025", "S004-309")
async def test_a_missing_token_or_an_unknown_session_is_refused(harness: DirectHarness) -> None:
    for session, token, status in (("", "", 401), ("", "wrong", 401), (UNKNOWN, None, 404)):
        with pytest.raises(InvalidStatus) as refused:
            async with harness.open_peer(session, token):
                pass
        assert refused.value.response.status_code == status


@pytest.mark.rules("S004-026", "S004-027")
async def test_posted_messages_appear_on_the_socket(harness: DirectHarness) -> None:
    url = f"/v1/sessions/{harness.session}/events"

    async def post(*events: Any) -> list[Message]:
        answer = await harness.http.post(url, json={"events": list(events)})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["responses"])

    async with harness.open_peer() as peer:
        prompt = {"type": "user", "message": {"role": "user", "content": "SCRIPT:write posted.txt"}}
        assert await post(prompt) == []
        await peer.until(lambda client: client.pending)
        ((name, asked),) = peer.client.pending.items()
        inner = {"behavior": "allow", "updatedInput": asked["input"]}
        response = {"subtype": "success", "request_id": name, "response": inner}
        assert await post({"type": "control_response", "response": response}) == []
        assert (await peer.result())["subtype"] == "success"
        assert peer.client.pending == {}
        replies = await post(
            {"type": "control_request", "request_id": "a", "request": {"subtype": "initialize"}},
            {"type": "control_request", "request_id": "b", "request": {"subtype": "set_permission_mode", "mode": "x"}},
            {"type": "control_request", "request_id": "c", "request": {"subtype": "set_permission_mode"}},
            {"type": "control_request", "request_id": "d", "request": {"subtype": "interrupt"}},
            {"type": "control_response", "response": {"request_id": "gone", "subtype": "error"}},
        )
        outcomes = [(one["response"]["request_id"], one["response"]["subtype"]) for one in replies]
        assert outcomes == [("a", "success"), ("b", "error"), ("c", "error"), ("d", "success")]
        assert replies[0]["response"]["response"]["commands"]
    too_many = await harness.http.post(url, json={"events": [{}] * 101})
    assert too_many.status_code == 400


async def test_replies_go_to_the_requesting_client_and_ids_never_collide(harness: DirectHarness) -> None:
    async with harness.open_peer() as one, harness.open_peer() as two:
        await one.prompt("SCRIPT:text hello")
        await asyncio.gather(one.result(), two.result())
        one.client.request("1", "set_permission_mode", mode="acceptEdits")
        two.client.request("1", "set_permission_mode", mode="plan")
        await one.flush()
        await one.until(lambda client: client.answers)
        await two.flush()
        await two.until(lambda client: client.answers)
        assert one.client.answers["1"]["response"] == {"mode": "acceptEdits"}
        assert two.client.answers["1"]["response"] == {"mode": "plan"}
        await one.prompt("SCRIPT:text again")
        await asyncio.gather(one.result(), two.result())
        assert len(one.client.answers) == len(two.client.answers) == 1
        assert [f for f in one.frames if "control_response" not in f] == [
            f for f in two.frames if "control_response" not in f
        ]


@pytest.mark.rules("S004-027", "S004-310", "S004-313")
async def test_the_first_answer_wins_and_the_other_clients_see_the_request_withdrawn(
    harness: DirectHarness, tmp_path: Path
) -> None:
    async with harness.open_peer() as one, harness.open_peer() as two:
        await one.prompt("SCRIPT:write made.txt")
        await asyncio.gather(one.until(lambda client: client.pending), two.until(lambda client: client.pending))
        async with harness.open_peer() as late:
            await late.until(lambda client: client.pending)
            assert late.client.init is not None
            assert late.client.pending == one.client.pending
        (name,) = one.client.pending
        two.client.respond_to_permission(name, "allow")
        await two.flush()
        await one.until(lambda client: not client.pending)
        one.client.pending[name] = {"input": {}}
        one.client.respond_to_permission(name, "deny", message="too late")
        await one.flush()
        assert (await one.result())["subtype"] == "success"
        assert (tmp_path / "made.txt").exists()
        assert "gateway_error" not in "".join(one.frames)


@pytest.mark.process
@pytest.mark.rules("S004-313")
async def test_a_denial_blocks_the_tool(harness: DirectHarness, tmp_path: Path) -> None:
    async with harness.open_peer() as peer:
        await peer.prompt("SCRIPT:write made.txt")
        await peer.until(lambda client: client.pending)
        (name,) = peer.client.pending
        peer.client.respond_to_permission(name, "deny", message="not today")
        await peer.flush()
        await peer.result()
        assert not (tmp_path / "made.txt").exists()
        assert any("not today" in frame for frame in peer.frames if '"tool_result"' in frame)


@pytest.mark.rules("S004-314", "S004-315")
async def test_a_client_can_leave_mid_turn_and_return_to_interrupt(harness: DirectHarness) -> None:
    async with harness.open_peer() as peer:
        await peer.prompt("SCRIPT:slow 200")
        await peer.until(lambda client: [m for m in client.messages if m["type"] == "stream_event"])
    async with harness.open_peer() as again:
        await again.until(lambda client: client.init)
        await again.until(lambda client: [m for m in client.messages if m["type"] == "stream_event"])
        again.client.send_interrupt("i1")
        await again.flush()
        await again.until(lambda client: "i1" in client.answers)
        assert again.client.answers["i1"]["subtype"] == "success"
        await again.until(lambda client: [m for m in client.messages if m["type"] == "result"])
        await again.prompt("SCRIPT:text after")
        assert (await again.result())["subtype"] == "success"


async def test_a_message_during_a_turn_goes_into_the_running_turn(harness: DirectHarness) -> None:
    async with harness.open_peer() as peer:
        await peer.prompt("SCRIPT:slow 20")
        await peer.until(lambda client: [m for m in client.messages if m["type"] == "stream_event"])
        await peer.prompt("SCRIPT:text into")
        await peer.result()
    events = (await harness.http.get(f"/v1/sessions/{harness.session}/events?limit=500")).json()["events"]
    assert len([event for event in events if event["type"] == "message.queued"]) == 1
    assert len([event for event in events if event["type"] == "user.message"]) == 2


async def test_invalid_input_changes_nothing_and_a_rejection_goes_only_to_the_sender(harness: DirectHarness) -> None:
    async with harness.open_peer() as peer, harness.open_peer() as other:
        for nonsense in ("", "nonsense", "[]", '{"type":"user"}', '{"type":"keep_alive"}', '{"type":7}'):
            await peer.socket.send(nonsense)
        await peer.socket.send(b"\x00\xff")
        variables = {"type": "update_environment_variables", "variables": {"PATH": "/tmp"}}
        await peer.socket.send(json.dumps(variables))
        await peer.until(lambda client: [m for m in client.messages if m.get("subtype") == "gateway_error"])
        await peer.prompt("SCRIPT:text hello")
        await asyncio.gather(peer.result(), other.result())
        assert "gateway_error" not in "".join(other.frames)
