"""Signing in on the door: by password or by invitation, never by being the first visitor; answers to invalid tokens."""

import asyncio
import base64
import hashlib
import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clients.claudecodeui.signed_gateway import PASSWORD, SignedGateway, frames_until, signed_gateway
from fairlead.auth.accounts import LIFETIME_S
from fairlead.auth.login_throttle import PER_PAIR
from fairlead.clients.claudecodeui import PROTOCOL
from fairlead.clients.claudecodeui.rest import invite
from fairlead.server.doors import Door, open_door
from fairlead.server.listeners import Binding
from fairlead.server.logging import LineFormatter, Redactor
from fairlead.system.clock import SystemClock
from fairlead.wiring.settings import invitations_page
from local_http import local_client
from patience import PATIENCE

pytestmark = pytest.mark.usefixtures("cheap_passwords")

SOCKETS: dict[str, int | str] = {
    **dict.fromkeys(("/ws", "/shell"), "open"),
    "/plugin-ws/board": 4404,
    **dict.fromkeys(("/plugin-ws/", "/plugin-ws/a/b"), 4400),
    **dict.fromkeys(("/nosuch", "/ws/x", "/wsx", "/shell/x", "/plugin-ws", "/x/ws"), 1005),
}
"""The result for each socket path with a valid token: the whole path must match."""


def stranger(signed: SignedGateway) -> httpx2.AsyncClient:
    return local_client(base_url=signed.door)


async def handshake(signed: SignedGateway, path: str, token: str = "", base: str = "", **options: Any) -> int | str:
    """The status of a refused handshake, or the code of an immediate close, or `open`."""
    query = f"?token={token}" if token else ""
    url = f"{(base or signed.door).replace('http', 'ws', 1)}{path}{query}"
    try:
        async with connect(url, proxy=None, open_timeout=PATIENCE, **options) as socket:
            try:
                # Only a socket that has not been closed answers.
                await asyncio.wait_for(await socket.ping(), PATIENCE)
            except ConnectionClosed:
                return socket.close_code or 0
            return "open"
    except InvalidStatus as error:
        refused = error.response
    body = refused.body if refused.status_code == 401 and not base else b"Unauthorized"
    assert body == b"Unauthorized"
    return refused.status_code


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Move the system clock forward by `seconds`."""
    now = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: now(self) + round(seconds * 1000))


# --- registration and login


@pytest.mark.process
async def test_an_unauthenticated_client_learns_nothing_and_cannot_register(signed: SignedGateway) -> None:
    async with stranger(signed) as http:
        assert (await http.get("/api/auth/status")).json() == {"needsSetup": False, "isAuthenticated": False}
        refused = await http.post("/api/auth/register", json={"username": "eve", "password": PASSWORD})
        assert refused.status_code == 403
        assert "invitation" in refused.json()["error"]
        for path in ("/api/projects", "/api/auth/user", "/api/providers/sessions/running", "/api/nosuch"):
            answer = await http.get(path)
            assert answer.status_code == 401, path
            assert "x-auth-error" not in answer.headers, "nothing that it has is dead"
            assert "access-control-allow-origin" not in answer.headers
        assert (await http.get("/api/projects", headers={"origin": "http://evil.example"})).status_code == 403


@pytest.mark.process
async def test_even_the_first_visitor_of_a_fresh_gateway_cannot_register(tmp_path: Path) -> None:
    async with signed_gateway(tmp_path) as signed:
        await signed.admin.delete("/v1/users/ann")
        async with stranger(signed) as http:
            assert (await http.get("/api/auth/status")).json()["needsSetup"] is False
            for extra in ({}, {"invitation": ""}, {"invitation": "guess"}):
                body = {"username": "eve", "password": PASSWORD, **extra}
                assert (await http.post("/api/auth/register", json=body)).status_code == 403
        users = (await signed.admin.get("/v1/users")).json()["users"]
        assert [user["name"] for user in users] == ["owner"]


@pytest.mark.process
async def test_login_answers_as_the_original_does(signed: SignedGateway) -> None:
    answer = await signed.login(" Ann ")
    body = answer.json()
    assert set(body) == {"success", "user", "token"}
    assert body["user"] == {"id": 1, "username": "ann"}
    claims = jwt.decode(body["token"], options={"verify_signature": False})
    assert set(claims) == {"userId", "username", "iat", "exp"}
    assert claims["exp"] - claims["iat"] == LIFETIME_S
    assert (await signed.http.get("/api/auth/user")).json() == {"user": {"id": 1, "username": "ann"}}
    onboarding = (await signed.http.get("/api/user/onboarding-status")).json()
    assert onboarding == {"success": True, "hasCompletedOnboarding": True}
    renewed = (await signed.http.post("/api/auth/refresh")).json()["token"]
    assert (await signed.http.get("/api/auth/user", headers={"authorization": f"Bearer {renewed}"})).status_code == 200


@pytest.mark.process
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"username": "ann", "password": "wrong horse"}, 401),
        ({"username": "nobody", "password": PASSWORD}, 401),
        ({"username": "owner", "password": ""}, 401),
        ({"username": "ann"}, 400),
        ({"username": "ann", "password": ["x"]}, 400),
        ([], 400),
    ],
)
async def test_a_failed_login_is_a_line_of_text_and_does_not_sign_the_user_out(
    signed: SignedGateway, body: Any, status: int
) -> None:
    answer = await signed.http.post("/api/auth/login", json=body)
    assert answer.status_code == status
    assert isinstance(answer.json()["error"], str)
    assert "x-auth-error" not in answer.headers


@pytest.mark.process
async def test_repeated_failed_logins_are_throttled(signed: SignedGateway) -> None:
    for _ in range(PER_PAIR):
        assert (await signed.login("ann", "wrong horse")).status_code == 401
    answer = await signed.login("ann")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert isinstance(answer.json()["error"], str)
    assert (await signed.http.get("/api/auth/user")).status_code == 200, "who is signed in stays so"


# --- invitations


@pytest.mark.process
async def test_a_link_creates_the_account_and_a_token_of_the_app(signed: SignedGateway) -> None:
    link = (await signed.admin.post("/v1/invitations", json={})).json()["url"]
    page, _, code = link.partition("#")
    assert page == f"{signed.door}/invite"
    async with stranger(signed) as http:
        shown = await http.get(page)
        assert shown.status_code == 200
        assert shown.headers["content-type"].startswith("text/html")
        body = {"username": "Bob", "password": PASSWORD, "invitation": code}
        bad = await http.post("/api/auth/register", json={**body, "username": "ann"})
        assert bad.status_code == 409
        made = (await http.post("/api/auth/register", json=body)).json()
        assert made["user"] == {"id": 2, "username": "bob"}
        assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", made["token"])
        assert (await http.post("/api/auth/register", json={**body, "username": "eve"})).status_code == 403
        own = {"authorization": f"Bearer {made['token']}"}
        assert (await http.get("/api/auth/user", headers=own)).json()["user"]["username"] == "bob"
    assert (await signed.login("bob")).status_code == 200


def test_the_link_uses_the_doors_public_url_or_else_the_main_port() -> None:
    main = "https://gateway.example.org/"
    assert invitations_page([PROTOCOL], [], main) == "https://gateway.example.org/claudecodeui/invite"
    assert invitations_page([], [], main) == ""
    wanted = Door(name="claudecodeui", port=0, public_url="https://ui.example.org/")
    door = open_door(wanted, PROTOCOL, Binding(port=0))
    try:
        assert invitations_page([PROTOCOL], [door], main) == "https://ui.example.org/invite"
    finally:
        for listener in door.sockets:
            listener.close()


def test_the_page_runs_its_own_script_and_nothing_else() -> None:
    headers = dict(invite.PAGE.headers)
    policy = headers["content-security-policy"]
    page = invite.PAGE.body.decode()
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "innerHTML" not in page


# --- tokens on every path


@pytest.mark.process
@pytest.mark.rules("S003-010", "S003-016", "S003-017", "S003-018", "S003-019", "S003-020", "S003-021")
async def test_no_socket_opens_without_a_good_token(signed: SignedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    header = {"Authorization": f"Bearer {signed.token}"}
    for path in SOCKETS:
        for token in ("wrong", "a.b.c", f"{signed.token}x"):
            assert await handshake(signed, path, token) == 401
        assert await handshake(signed, path) == 401
        assert await handshake(signed, path, f"{signed.token}&x=1", origin="http://evil.example") == 403
    for path, expected in SOCKETS.items():
        assert await handshake(signed, path, f"{signed.token}&x=1") == expected
        assert await handshake(signed, path, additional_headers=header) == expected
    later(monkeypatch, LIFETIME_S + 1)
    for path in SOCKETS:
        assert await handshake(signed, path, signed.token) == 401


@pytest.mark.process
@pytest.mark.rules("S003-013", "S003-014", "S003-018", "S003-022")
async def test_the_token_in_the_query_takes_precedence_over_the_header(signed: SignedGateway) -> None:
    good, bad = {"Authorization": f"Bearer {signed.token}"}, {"Authorization": "Bearer a.b.c"}
    assert await handshake(signed, "/nosuch", signed.token, additional_headers=bad) == 1005
    assert await handshake(signed, "/nosuch", "a.b.c", additional_headers=good) == 401
    assert await handshake(signed, "/nosuch", f"{signed.token}&path=/ws&url=/shell") == 1005
    assert await handshake(signed, "/nosuch", additional_headers={"Authorization": f"Token {signed.token}"}) == 1005


@pytest.mark.process
async def test_on_the_main_port_a_users_token_opens_only_this_protocol(signed: SignedGateway) -> None:
    own = {"authorization": f"Bearer {signed.token}"}
    for path in ("/v1/me", "/v1/sessions", "/v1/users", "/cognova/api/conversations", "/api/projects", "/nosuch"):
        assert (await signed.admin.get(path, headers=own)).status_code == 401, path
    assert (await signed.admin.post("/v1/tickets", headers=own)).status_code == 401
    assert (await signed.admin.get("/claudecodeui/api/projects", headers=own)).status_code == 200
    main = signed.gateway.url
    for path in ("/ws", "/claudecodeui/ws", "/shell"):
        assert await handshake(signed, path, signed.token, main) == "open"
    for path in ("/v1/ws", "/notifications", "/terminal", "/nosuch"):
        assert await handshake(signed, path, signed.token, main) == 401


@pytest.mark.process
@pytest.mark.rules("S003-015")
async def test_a_socket_belongs_to_the_user_of_its_token(signed: SignedGateway) -> None:
    await signed.add("bob")
    bob = await signed.sign_in("bob")
    session = await signed.create("ann's own")
    await signed.run(session, "SCRIPT:text hello")
    subscribe = json.dumps({"type": "chat.subscribe", "sessions": [{"sessionId": session}]})
    places = {}
    for name, token in (("ann", signed.token), ("bob", bob)):
        async with signed.chat(token) as socket:
            await socket.send(subscribe)
            *_, ack = await frames_until(socket, lambda frame: frame["kind"] == "chat_subscribed")
            places[name] = ack["lastSeq"]
            await socket.send(json.dumps({"type": "chat.send", "sessionId": session, "content": "SCRIPT:text more"}))
            *_, last = await frames_until(socket, lambda frame: frame["kind"] in ("complete", "protocol_error"))
            assert last.get("code") == (None if name == "ann" else "SESSION_NOT_FOUND")
    assert places["ann"] > 0 and places["bob"] == 0, "what is ann's is not there for bob"


@pytest.mark.process
@pytest.mark.rules("S003-015")
async def test_a_users_scopes_limit_their_requests(signed: SignedGateway) -> None:
    await signed.add("viewer", scopes=["view"])
    viewer = {"authorization": f"Bearer {await signed.sign_in('viewer')}"}
    assert (await signed.http.get("/api/projects", headers=viewer)).status_code == 200
    body = {"provider": "claude", "projectPath": str(signed.project)}
    refused = await signed.http.post("/api/providers/sessions", json=body, headers=viewer)
    assert (refused.status_code, refused.json()["code"]) == (403, "NOT_ALLOWED")
    assert "x-auth-error" not in refused.headers
    assert await handshake(signed, "/shell", viewer["authorization"].removeprefix("Bearer ")) == 403


# --- the end of a token


@pytest.mark.process
async def test_an_expired_token_is_reported_as_expired(signed: SignedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, LIFETIME_S + 1)
    answer = await signed.http.get("/api/projects")
    assert (answer.status_code, answer.json()["code"]) == (401, "AUTH_TOKEN_EXPIRED")
    assert answer.headers["x-auth-error"] == "session-expired"


@pytest.mark.process
async def test_an_invalid_token_is_reported_as_invalid(signed: SignedGateway) -> None:
    for token in ("a.b.c", f"{signed.token}x", "fl_aaaaaaaa_" + "a" * 52):
        answer = await signed.http.get("/api/projects", headers={"authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["code"]) == (401, "AUTH_TOKEN_INVALID")
        assert answer.headers["x-auth-error"] == "invalid-token"


@pytest.mark.process
async def test_after_half_of_its_lifetime_every_answer_has_a_new_token(
    signed: SignedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ("/api/projects", "/api/auth/user", "/api/providers/sessions/nosuch", "/api/providers/capabilities")
    for path in paths:
        assert "x-refreshed-token" not in (await signed.http.get(path)).headers
    later(monkeypatch, LIFETIME_S / 2 + 60)
    for path in paths:
        new = (await signed.http.get(path)).headers["x-refreshed-token"]
    again = await signed.http.get("/api/projects", headers={"authorization": f"Bearer {new}"})
    assert again.status_code == 200
    assert "x-refreshed-token" not in again.headers


@pytest.mark.process
@pytest.mark.rules("S003-015")
@pytest.mark.parametrize("how", ["password", "removed"])
async def test_open_sockets_close_when_the_password_changes_or_the_user_is_removed(
    signed: SignedGateway, how: str
) -> None:
    await signed.add("bob")
    bob = await signed.sign_in("bob")
    async with signed.chat() as ann_chat, signed.chat(bob) as bob_chat:
        if how == "password":
            changed = await signed.admin.put("/v1/users/ann/password", json={"password": "battery staple"})
        else:
            changed = await signed.admin.delete("/v1/users/ann")
        assert changed.status_code == 200
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(PATIENCE):
                await ann_chat.recv()
        assert ann_chat.close_code == 4401
        await bob_chat.send(json.dumps({"type": "chat.subscribe", "sessions": [{"sessionId": "x"}]}))
        async with asyncio.timeout(PATIENCE):
            assert json.loads(await bob_chat.recv())["kind"] == "chat_subscribed"
    refused = await signed.http.get("/api/projects")
    assert (refused.status_code, refused.headers["x-auth-error"]) == (401, "invalid-token")
    assert await handshake(signed, "/ws", signed.token) == 401


@pytest.mark.process
async def test_a_token_and_its_user_outlive_the_gateway(tmp_path: Path) -> None:
    async with signed_gateway(tmp_path) as first:
        token = first.token
    key = tmp_path / "data" / "users.key"
    assert key.stat().st_mode & 0o777 == 0o600
    async with signed_gateway(tmp_path) as again:
        own = {"authorization": f"Bearer {token}"}
        assert (await again.http.get("/api/auth/user", headers=own)).json()["user"]["username"] == "ann"
        assert (await again.login("ann")).status_code == 200


@pytest.mark.process
async def test_no_log_line_has_a_password_or_a_token(signed: SignedGateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await signed.login("ann", "wrong horse battery")
    await handshake(signed, "/ws", signed.token)
    await handshake(signed, "/ws", "a.b.c")
    logging.getLogger("fairlead.x").info("asked", extra={"url": f"/ws?token={signed.token}", "head": signed.token})
    own = [record for record in caplog.records if record.name.startswith("fairlead")]
    lines = [LineFormatter("json", Redactor()).format(record) for record in own]
    assert any("sign-in refused" in line for line in lines)
    for line in lines:
        assert signed.token.split(".")[2] not in line
        assert "wrong horse" not in line and PASSWORD not in line
