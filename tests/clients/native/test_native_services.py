"""Services for the web UI besides sessions, on a whole gateway with the demo agent: shells, notices, push, insight,
folders, a phone's login."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from fairlead import wiring
from fairlead.config import Config
from local_http import local_client
from notifications.test_answer_codes import Browser
from notifications.webhook_receiver import WebhookReceiver, listening
from patience import PATIENCE

pytestmark = pytest.mark.process

PATH = os.environ.get("PATH", os.defpath)


class GatewayHarness:
    """A gateway, and clients for it with any credential."""

    def __init__(self, running: wiring.GatewayInfo, folder: Path) -> None:
        self.running = running
        self.folder = folder
        self.admin = self.client(running.token)

    def client(self, token: str) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {token}"}
        return local_client(base_url=self.running.url, headers=headers)

    async def token(self, user: str, *scopes: str) -> str:
        await self.admin.post("/v1/users", json={"name": user})
        body = {"name": f"{user}'s phone", "user": user, "scopes": list(scopes)}
        return str((await self.admin.post("/v1/tokens", json=body)).json()["secret"])

    def socket(self, path: str, token: str = "") -> connect:
        headers = {"authorization": f"Bearer {token or self.running.token}"}
        return connect(self.running.url.replace("http", "ws", 1) + path, additional_headers=headers, proxy=None)

    async def asking(self) -> tuple[str, dict[str, Any]]:
        """Make a session shared with everybody that waits for permission to write; return it with the request."""
        session = (await self.admin.post("/v1/sessions", json={"cwd": str(self.folder)})).json()["session"]
        await self.admin.post(f"/v1/sessions/{session}/share", json={"everybody": True})
        await self.admin.post(f"/v1/sessions/{session}/messages", json={"text": "SCRIPT:write notes.txt"})
        async with asyncio.timeout(PATIENCE):
            while not (waiting := (await self.admin.get("/v1/permissions")).json()["permissions"]):
                await asyncio.sleep(0.05)
        return session, waiting[0]["event"]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    work = tmp_path / "work"
    work.mkdir()
    config = Config(
        port=0,
        data=str(tmp_path / "data"),
        agent="demo",
        roots=(str(work),),
        claude_homes=(),
        shell="/bin/sh",
        notify_private=("127.0.0.1/32",),
    )
    async with wiring.running(config, {"HOME": str(tmp_path), "PATH": PATH}) as running:
        made = GatewayHarness(running, work)
        yield made
        await made.admin.aclose()


@pytest.fixture
async def hook() -> AsyncIterator[WebhookReceiver]:
    async with listening() as made:
        yield made


async def printed(socket: ClientConnection, wanted: str) -> str:
    """Read the terminal's output until it contains `wanted`; return all of it."""
    seen = ""
    async with asyncio.timeout(PATIENCE):
        while wanted not in seen:
            data = await socket.recv()
            seen += data.decode() if isinstance(data, bytes) else ""
    return seen


async def frame(socket: ClientConnection, kind: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            data = await socket.recv()
            if isinstance(data, str) and (found := json.loads(data))["type"] == kind:
                return dict(found)


async def typed(socket: ClientConnection, keys: str) -> None:
    await socket.send(json.dumps({"type": "input", "data": keys}))


# --- shells


async def test_a_shell_is_opened_found_again_and_ended(harness: GatewayHarness) -> None:
    async with harness.socket("/v1/terminals/main") as one:
        await typed(one, "echo $((40+2))-here\n")
        await printed(one, "42-here")
    (listed,) = (await harness.admin.get("/v1/terminals")).json()["terminals"]
    assert (listed["name"], listed["shared"]) == ("main", False)
    async with (
        harness.socket("/v1/terminals/main") as again,
        harness.socket("/v1/terminals/main?watch=true") as watcher,
    ):
        await printed(again, "42-here")
        await printed(watcher, "42-here")
        await typed(watcher, "echo never-$((1+1))\n")
        await typed(again, "echo last-$((3+3))\n")
        assert "never-2" not in await printed(watcher, "last-6"), "who watches does not type"
        assert (await harness.admin.delete("/v1/terminals/main")).status_code == 200
        await frame(again, "exit")
    assert (await harness.admin.get("/v1/terminals")).json() == {"terminals": []}
    assert (await harness.admin.delete("/v1/terminals/main")).status_code == 404


async def test_the_shell_of_another_user_is_visible_only_while_it_is_shared(harness: GatewayHarness) -> None:
    bob = await harness.token("bob", "terminal")
    path = "/v1/terminals/main?owner=owner"
    async with harness.socket("/v1/terminals/main") as mine, harness.client(bob) as bobs:
        await typed(mine, "echo $((40+2))-here\n")
        await printed(mine, "42-here")
        assert (await bobs.get("/v1/terminals")).json() == {"terminals": []}
        async with harness.socket(path, bob) as refused:
            assert (await frame(refused, "error"))["code"] == "not_found"
        shared = await harness.admin.patch("/v1/terminals/main", json={"shared": True})
        assert shared.json()["shared"] is True
        owner = shared.json()["owner"]
        (listed,) = (await bobs.get("/v1/terminals")).json()["terminals"]
        assert (listed["name"], listed["owner"]) == ("main", owner)
        assert (await bobs.delete("/v1/terminals/main")).status_code == 404, "sharing gives nobody the power to end it"
        assert (await bobs.patch("/v1/terminals/main", json={"shared": False})).status_code == 404
        async with harness.socket(f"/v1/terminals/main?owner={owner}", bob) as watching:
            await printed(watching, "42-here")
            await typed(watching, "echo never-$((1+1))\n")
            await typed(mine, "echo last-$((3+3))\n")
            assert "never-2" not in await printed(watching, "last-6")
            await harness.admin.patch("/v1/terminals/main", json={"shared": False})
            await asyncio.wait_for(watching.wait_closed(), PATIENCE)
        async with harness.socket(f"/v1/terminals/main?owner={owner}", bob) as refused:
            assert (await frame(refused, "error"))["code"] == "not_found"


@pytest.mark.parametrize("name", ["a%20b", "..%2Fx", "-x", "x" * 65])
async def test_a_shells_name_is_a_plain_word(harness: GatewayHarness, name: str) -> None:
    with contextlib.suppress(InvalidStatus):
        async with harness.socket(f"/v1/terminals/{name}") as socket:
            assert (await frame(socket, "error"))["code"] == "bad_request"
    assert (await harness.admin.get("/v1/terminals")).json() == {"terminals": []}


async def test_terminals_need_their_scope(harness: GatewayHarness) -> None:
    token = await harness.token("ann", "view", "chat", "approve")
    with pytest.raises(InvalidStatus):
        async with harness.socket("/v1/terminals/main", token):
            pass
    async with harness.client(token) as client:
        assert (await client.get("/v1/terminals")).status_code == 403


# --- permissions and notices


async def test_a_permission_is_explained_and_its_answer_names_the_user(harness: GatewayHarness) -> None:
    async with harness.socket("/v1/notices/ws") as notices:
        await notices.send('{"type":"subscribe","topics":["permission"]}')
        cursor = (await frame(notices, "subscribed"))["cursor"]
        session, asked = await harness.asking()
        notice = await frame(notices, "notice")
        while notice["kind"] != "permission.asked":
            notice = await frame(notices, "notice")
        assert (notice["session"], notice["meta"]["requestId"]) == (session, asked["request"])
        report = (await harness.admin.get(f"/v1/permissions/{asked['request']}")).json()
        (change,) = report["files"]
        assert change["path"].endswith("/notes.txt") and change["new"] and change["after"]
        assert report["suggested"][0]["covers"].startswith("Changing by Write everything below")
        rule = {"rule": "Write(*.txt)"}
        looked = (await harness.admin.get(f"/v1/permissions/{asked['request']}", params=rule)).json()["rule"]
        assert looked["enough"] and "every file that matches" in looked["covers"]
        token = await harness.token("bob", "view", "approve")
        async with harness.client(token) as bob:
            body = {"behavior": "deny", "message": "not now"}
            assert (await bob.post(f"/v1/permissions/{asked['request']}", json=body)).status_code == 200
            late = await harness.admin.post(f"/v1/permissions/{asked['request']}", json={"behavior": "allow"})
            assert late.status_code in (404, 409)
        settled = await frame(notices, "notice")
        while settled["kind"] != "permission.settled":
            settled = await frame(notices, "notice")
        assert (settled["meta"]["by"], settled["meta"]["behavior"]) == ("bob (bob's phone)", "deny")
        assert "bob (bob's phone)" in settled["message"]
    page = (await harness.admin.get("/v1/notices")).json()
    assert [one["kind"] for one in page["notices"] if one["kind"].startswith("permission")] == [
        "permission.asked",
        "permission.settled",
    ]
    async with harness.socket("/v1/notices/ws") as again:
        await again.send(json.dumps({"type": "subscribe", "topics": ["permission"], "cursor": cursor}))
        assert (await frame(again, "subscribed"))["verdict"] == "ok"
        while (await frame(again, "notice"))["kind"] != "permission.settled":
            pass
        for bad in ("{", '{"type":"x"}', '{"type":"subscribe","topics":["x"]}', '{"type":"subscribe","cursor":"x"}'):
            await again.send(bad)
            assert (await frame(again, "error"))["code"]
        await again.send('{"type":"ping"}')
        await frame(again, "pong")


async def test_a_notifications_code_works_once_and_only_on_its_device(
    harness: GatewayHarness, hook: WebhookReceiver
) -> None:
    browser = Browser()
    phone, laptop = await harness.token("ann", "view", "approve"), await harness.token("bob", "view", "approve")
    body = {"endpoint": hook.url, "keys": browser.keys, "expirationTime": None, "topics": ["permission.asked"]}
    async with harness.client(phone) as mine, harness.client(laptop) as other:
        assert (await mine.get("/v1/push/key")).json()["key"]
        first = (await mine.post("/v1/push/subscriptions", json=body)).json()
        made = (await mine.post("/v1/push/subscriptions", json=body)).json()
        listed = (await mine.get("/v1/push/subscriptions")).json()["subscriptions"]
        assert [one["id"] for one in listed] == [made["id"]] and listed[0]["here"], "one for each device"
        assert first["id"] != made["id"]
        assert (await other.get("/v1/push/subscriptions")).json() == {"subscriptions": []}
        assert (await other.delete(f"/v1/push/subscriptions/{made['id']}")).status_code == 404
        _, asked = await harness.asking()
        (message,) = await hook.until(1)
        pushed = browser.read(message.body)
        assert pushed["kind"] == "permission.asked" and asked["request"] not in json.dumps(pushed["answers"])
        code = {"code": pushed["answers"]["allow"]}
        assert (await other.post("/v1/answers", json=code)).json()["error"]["code"] == "bad_answer_code"
        assert (await harness.admin.get("/v1/permissions")).json()["permissions"], "nobody else decides with it"
        assert (await mine.post("/v1/answers", json=code)).status_code == 200
        assert (await mine.post("/v1/answers", json=code)).json()["error"]["code"] == "bad_answer_code"
        # The other button of the same notification, after the request was answered.
        late = await mine.post("/v1/answers", json={"code": pushed["answers"]["deny"]})
        assert late.status_code in (404, 409)
        assert (await mine.post(f"/v1/push/subscriptions/{made['id']}/test")).status_code == 200
        topics = {"topics": ["turn.failed"]}
        changed = await mine.patch(f"/v1/push/subscriptions/{made['id']}", json=topics)
        assert changed.json()["topics"] == ["turn.failed"]
        wrong = await mine.patch(f"/v1/push/subscriptions/{made['id']}", json={"topics": ["everything"]})
        assert wrong.status_code == 400
        (credential,) = [
            one["id"] for one in (await harness.admin.get("/v1/tokens")).json()["tokens"] if one["user"] == "ann"
        ]
        await harness.admin.delete(f"/v1/tokens/{credential}")
        targets = (await harness.admin.get("/cognova/api/targets")).json()["data"]
        assert targets == [], "who is not let in any more is told nothing any more"


async def test_a_removed_user_receives_no_more_notifications(harness: GatewayHarness, hook: WebhookReceiver) -> None:
    body = {"endpoint": hook.url, "keys": Browser().keys, "expirationTime": None, "topics": ["permission.asked"]}
    async with harness.client(await harness.token("ann", "view")) as mine:
        assert (await mine.post("/v1/push/subscriptions", json=body)).is_success
    assert len((await harness.admin.get("/cognova/api/targets")).json()["data"]) == 1
    assert (await harness.admin.delete("/v1/users/ann")).is_success
    assert (await harness.admin.get("/cognova/api/targets")).json()["data"] == []


async def test_a_code_without_a_credential_is_useless(harness: GatewayHarness) -> None:
    async with local_client(base_url=harness.running.url) as anonymous:
        assert (await anonymous.post("/v1/answers", json={"code": "x"})).status_code == 401
    async with harness.client(await harness.token("ann", "view", "chat")) as chatty:
        assert (await chatty.post("/v1/answers", json={"code": "x"})).status_code == 403


# --- the rest


async def test_insight_counts_a_turn_by_the_days_of_the_callers_time_zone(harness: GatewayHarness) -> None:
    made = await harness.admin.post("/v1/sessions", json={"cwd": str(harness.folder), "text": "hello"})
    session = made.json()["session"]
    span = {"since": "1700000000000", "until": "1700000000001"}
    for bad in ({}, {"since": "5", "until": "4"}, {"since": "0", "until": str(10**14)}, span | {"offset": "900"}):
        assert (await harness.admin.get("/v1/insight", params=bad)).status_code == 400
    async with asyncio.timeout(PATIENCE):
        while True:
            now = (await harness.admin.get(f"/v1/sessions/{session}")).json()["summary"]["updated"]
            span = {"since": str(now - 86_400_000), "until": str(now + 86_400_000), "offset": "-90"}
            found = (await harness.admin.get("/v1/insight", params=span)).json()
            if found["turns"]:
                break
            await asyncio.sleep(0.05)
    assert found["turns"][0]["project"] == str(harness.folder)
    assert found["spent"][0]["model"] and found["spent"][0]["output"] > 0


async def test_folders_are_picked_inside_the_roots(harness: GatewayHarness) -> None:
    (harness.folder / "app").mkdir()
    page = (await harness.admin.get("/v1/folders")).json()
    assert page == {"path": str(harness.folder), "folders": [{"name": "app", "path": str(harness.folder / "app")}]}
    outside = await harness.admin.get("/v1/folders", params={"path": "/etc"})
    assert outside.json()["error"]["code"] == "outside_roots"


async def test_a_login_link_is_served_as_an_image_without_script(harness: GatewayHarness) -> None:
    made = (await harness.admin.post("/v1/login-codes", json={"name": "Phone"})).json()
    picture = ElementTree.fromstring(made["qr"])
    assert picture.tag.endswith("svg")
    assert {element.tag.rpartition("}")[2] for element in picture.iter()} == {"svg", "path"}
    assert made["url"].endswith(f"#login={made['code']}")
