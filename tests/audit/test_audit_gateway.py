"""The audit log of a whole gateway: every prompt, answer, change and deletion names the user and the credential."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from demo_gateway import demo_gateway
from fairlead.audit.files import FOLDER, HEAD, verify
from fairlead.wiring import GatewayInfo
from local_http import local_client

pytestmark = pytest.mark.process

Audit = list[dict[str, Any]]


class Desk:
    """Ann's and the owner's clients of one gateway."""

    def __init__(self, owner: httpx2.AsyncClient, ann: httpx2.AsyncClient, credential: str) -> None:
        self.owner = owner
        self.ann = ann
        self.credential = credential

    async def audit(self, **wanted: Any) -> Audit:
        answer = await self.owner.get("/v1/audit", params={"limit": 500, **wanted})
        assert answer.status_code == 200, answer.text
        entries: Audit = answer.json()["entries"]
        return entries[::-1]

    async def session(self, text: str) -> str:
        made = await self.ann.post("/v1/sessions", json={"text": text})
        assert made.status_code == 201, made.text
        return str(made.json()["session"])


@contextlib.asynccontextmanager
async def desk(data: Path, project: Path) -> AsyncIterator[Desk]:
    await asyncio.to_thread(project.mkdir)
    async with demo_gateway(data, project) as running, client(running, running.token) as owner:
        await owner.post("/v1/users", json={"name": "ann"})
        scopes = ["view", "chat", "approve"]
        token = (await owner.post("/v1/tokens", json={"name": "laptop", "user": "ann", "scopes": scopes})).json()
        async with client(running, token["secret"]) as ann:
            yield Desk(owner, ann, token["credential"]["id"])


def client(running: GatewayInfo, token: str) -> httpx2.AsyncClient:
    return local_client(base_url=running.url, headers={"authorization": f"Bearer {token}"})


async def asked_in(session: str, ann: httpx2.AsyncClient) -> str:
    """The id of the session's permission request, when it is there."""
    while True:
        found = (await ann.get(f"/v1/sessions/{session}/permissions")).json()["permissions"]
        if found:
            return str(found[0]["event"]["request"])
        await asyncio.sleep(0.02)


async def state_of(session: str, owner: httpx2.AsyncClient) -> str:
    """The state of a session in which nothing works any more."""
    while True:
        summary = (await owner.get(f"/v1/sessions/{session}")).json()["summary"]
        if summary["state"] in ("idle", "closed", "waiting") and summary.get("turns"):
            return str(summary["state"])
        await asyncio.sleep(0.02)


async def test_every_act_names_its_user_and_credential_and_outlives_the_session(tmp_path: Path) -> None:
    async with desk(tmp_path / "data", tmp_path / "project") as desk_:
        session = await desk_.session("SCRIPT:bash touch whisper")
        request = await asked_in(session, desk_.ann)
        answer = {"behavior": "allow", "remember": ["Bash(touch whisper)"]}
        answered = await desk_.owner.post(f"/v1/permissions/{request}", json=answer)
        assert answered.status_code == 200, answered.text
        assert (await desk_.ann.post(f"/v1/permissions/{request}", json=answer)).status_code == 404
        assert (await desk_.ann.get(f"/v1/sessions/{session}/export")).status_code == 200
        await desk_.ann.post(f"/v1/sessions/{session}/close")
        assert (await desk_.ann.delete(f"/v1/sessions/{session}")).status_code == 200
        entries = await desk_.audit(session=session)
        by_action = {entry["action"]: entry for entry in entries}
        assert [entry["action"] for entry in entries][:2] == ["session.create", "prompt"]
        for action in ("session.create", "prompt", "session.export", "session.delete"):
            assert (by_action[action]["user"], by_action[action]["credential"]) == ("ann", desk_.credential)
        first = next(entry for entry in entries if entry["action"] == "permission.answer")
        assert first["user"] == "owner"
        assert first["data"] == {
            "request": request,
            "decision": "allow",
            "remember": ["Bash(touch whisper)"],
            "tool": "Bash",
            "subject": "touch whisper",
        }
        assert by_action["prompt"]["data"]["message"]
        assert "text" not in by_action["prompt"]["data"]
        late = await desk_.audit(action="failed")
        assert [entry["data"]["code"] for entry in late] == ["not_found"]
    assert verify(tmp_path / "data").problems == []


async def test_credentials_sign_ins_starts_and_stops_are_recorded(tmp_path: Path) -> None:
    async with desk(tmp_path / "data", tmp_path / "project") as desk_:
        bad = await desk_.ann.get("/v1/sessions", headers={"authorization": "Bearer fl_wrong"})
        assert bad.status_code == 401
        link = (await desk_.owner.post("/v1/login-codes", json={"user": "ann"})).json()
        assert (await desk_.owner.post("/v1/login", json={"code": "wrong", "name": "x"})).status_code >= 400
        device = (await desk_.owner.post("/v1/login", json={"code": link["code"], "name": "Firefox"})).json()
        await desk_.owner.delete(f"/v1/tokens/{desk_.credential}")
        entries = await desk_.audit()
    told = [(entry["action"], entry.get("user", ""), entry.get("data", {})) for entry in entries]
    assert told[0][0] == "gateway.start"
    assert ("user.create", "owner", {"name": "ann"}) in told
    created = next(data for action, _, data in told if action == "token.create")
    assert created["credential"] == desk_.credential
    failed = [data["code"] for action, _, data in told if action == "sign_in.failed"]
    assert len(failed) == 2 and failed[0] == "bad_credential"
    signed = next(entry for entry in entries if entry["action"] == "sign_in")
    assert (signed["credential"], signed["user"]) == (device["credential"]["id"], "ann")
    assert ("credential.revoke", "owner", {"kind": "token", "id": desk_.credential}) in told
    last = (tmp_path / "data" / FOLDER).glob("*.jsonl")
    assert b'"action":"gateway.stop"' in max(last).read_bytes().splitlines()[-1]


async def test_only_an_admin_reads_it(tmp_path: Path) -> None:
    async with desk(tmp_path / "data", tmp_path / "project") as desk_:
        assert (await desk_.ann.get("/v1/audit")).status_code == 403
        assert (await desk_.ann.get("/v1/audit", headers={"authorization": ""})).status_code == 401


async def test_an_agent_cannot_read_its_files(tmp_path: Path) -> None:
    data, project = tmp_path / "data", tmp_path
    async with demo_gateway(data, project) as running, client(running, running.token) as owner:
        for place in (data / HEAD, max((data / FOLDER).glob("*.jsonl"))):
            body = {"cwd": str(project), "text": f"SCRIPT:read {place}"}
            session = (await owner.post("/v1/sessions", json=body)).json()["session"]
            assert await state_of(session, owner) == "idle"
            events = (await owner.get(f"/v1/sessions/{session}/events", params={"limit": 200})).text
            assert str(place) in events and "permission.resolved" in events
            assert "gateway.start" not in events


async def test_the_text_of_prompts_is_recorded_if_the_settings_say_so(tmp_path: Path) -> None:
    from fairlead.audit.facts import of_command
    from fairlead.model.commands import Send
    from fairlead.model.content import TextBlock
    from fairlead.model.ids import SessionId

    send = Send(session=SessionId("s"), content=(TextBlock(text="hello"),))
    assert of_command(send, text=True).data["text"] == "hello"
    assert "hello" not in str(of_command(send, text=False))


async def test_an_answer_to_a_question_says_so(tmp_path: Path) -> None:
    async with desk(tmp_path / "data", tmp_path / "project") as desk_:
        session = await desk_.session("SCRIPT:question")
        request = await asked_in(session, desk_.ann)
        denied = await desk_.ann.post(f"/v1/permissions/{request}", json={"behavior": "deny"})
        assert denied.status_code == 200, denied.text
        (entry,) = await desk_.audit(action="permission.answer")
        assert (entry["session"], entry["user"]) == (session, "ann")
        assert entry["data"] == {"request": request, "decision": "deny", "about": "question"}
