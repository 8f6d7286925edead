"""HTTP through the real server: bodies, errors, streams, and failures."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import AgentTimeout, NotAllowed, Unavailable
from fairlead.server.discovery import discover
from fairlead.server.limits import ServerLimits
from server.fakes import LOG_ID, OTHER, SESSION, Served, raw_request, serving, until


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    async with served.client() as opened:
        yield opened


async def test_health_reports_version_and_protocols_without_a_credential(served: Served) -> None:
    async with served.client(None) as anonymous:
        answer = await anonymous.get("/health")
    assert answer.json() == {"status": "ok", "version": "1.2.3", "protocols": sorted(one.name for one in discover())}
    assert answer.headers["content-type"] == "application/json"
    assert "date" in answer.headers


async def test_head_has_no_body(client: httpx2.AsyncClient) -> None:
    answer = await client.head("/health")
    assert answer.status_code == 200 and answer.content == b""


async def test_error_has_code_message_and_data(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/sessions/33333333-3333-4333-8333-333333333333")
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "code": "not_found",
        "message": "There is no session 33333333-3333-4333-8333-333333333333.",
        "data": {"what": "session", "given": "33333333-3333-4333-8333-333333333333"},
    }


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (AgentTimeout("It did not answer."), 504, "agent_timeout"),
        (Unavailable("The disk is full."), 503, "unavailable"),
        (NotAllowed("No."), 403, "not_allowed"),
    ],
)
async def test_refusals_of_the_core_reach_the_client(
    served: Served, client: httpx2.AsyncClient, error: Exception, status: int, code: str
) -> None:
    served.gateway.errors[cmd.Interrupt] = error
    answer = await client.post(f"/v1/sessions/{SESSION}/interrupt")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_unexpected_error_returns_an_id_and_nothing_else(
    served: Served, client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    served.gateway.errors[cmd.Interrupt] = ZeroDivisionError("the password is swordfish")
    answer = await client.post(f"/v1/sessions/{SESSION}/interrupt")
    assert answer.status_code == 500
    details = answer.json()["error"]
    assert details["code"] == "internal"
    assert "swordfish" not in answer.text
    logged = next(record for record in caplog.records if record.getMessage() == "unexpected error")
    assert logged.__dict__["error_id"] == details["data"]["id"]
    assert logged.exc_info is not None
    assert (await client.get("/v1/me")).status_code == 200


BAD_BODIES: list[tuple[bytes, str]] = [
    (b"{", "bad_request"),
    (b"\xff\xfe", "bad_request"),
    (b"[]", "bad_request"),
    (b'"text"', "bad_request"),
    (b'{"text": 5}', "bad_request"),
    (b'{"text": "a", "cliPath": "/bin/sh"}', "bad_request"),
    (b'{"text": "a", "env": {"A": "b"}}', "bad_request"),
    (b'{"text": ""}', "bad_request"),
    (b"{}", "bad_request"),
    (b'{"text": "a", "content": []}', "bad_request"),
    (b'{"content": [{"type": "tool_result", "tool_use_id": "x"}]}', "bad_request"),
    (b'{"text": "a", "id": "not-a-uuid"}', "bad_id"),
    (b"[" * 100_000, "bad_request"),
    (b'{"text": "\\ud800"}', "bad_request"),
]


async def test_a_bad_body_is_a_400(served: Served, client: httpx2.AsyncClient) -> None:
    for body, code in BAD_BODIES:
        answer = await client.post(f"/v1/sessions/{SESSION}/messages", content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code), body[:80]
    assert served.gateway.commands == []


async def test_a_bad_session_id_is_refused(served: Served, client: httpx2.AsyncClient) -> None:
    for session in ["nope", "1", "%2e%2e", "..%2f..%2fetc", "$(touch%20x)", "-rf", "%00", "%ff"]:
        answer = await client.post(f"/v1/sessions/{session}/interrupt")
        assert answer.status_code in (400, 404), session
    assert served.gateway.commands == []


async def test_body_over_the_limit_is_413_and_the_client_receives_it(
    served: Served, client: httpx2.AsyncClient
) -> None:
    answer = await client.post(f"/v1/sessions/{SESSION}/messages", content=b"x" * ((8 << 20) + 1))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"x" * (1 << 20)

    answer = await client.post(f"/v1/sessions/{SESSION}/messages", content=pieces())
    assert answer.status_code == 413


async def test_client_of_a_refused_upload_receives_the_response(served: Served) -> None:
    async with served.client(None) as anonymous:
        answer = await anonymous.post(f"/v1/sessions/{SESSION}/messages", content=b"x" * (4 << 20))
    assert answer.status_code == 401


async def test_public_login_has_a_small_body_limit(served: Served) -> None:
    async with served.client(None) as anonymous:
        answer = await anonymous.post("/v1/login", content=b"x" * ((64 << 10) + 1))
    assert answer.status_code == 413


async def test_missing_body_times_out(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ServerLimits(body_s=0.05)) as served:
        head = f"POST /v1/sessions HTTP/1.1\r\nHost: localhost:{served.port}\r\nContent-Length: 10\r\n"
        answer = await raw_request(served.port, f"{head}Authorization: Bearer {served.admin}\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_client_that_disconnects_mid_body_does_no_harm(served: Served, client: httpx2.AsyncClient) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    head = f"POST /v1/sessions HTTP/1.1\r\nHost: localhost:{served.port}\r\nContent-Length: 10\r\n"
    writer.write(f"{head}Authorization: Bearer {served.admin}\r\n\r\n{{".encode())
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await client.get("/v1/me")).status_code == 200


async def test_a_query_of_a_hundred_and_one_fields_is_refused(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/sessions?" + "&".join(["a=1"] * 101))
    assert answer.status_code == 400


async def test_the_export_streams_every_event_once(served: Served, client: httpx2.AsyncClient) -> None:
    for number in range(3000):
        served.gateway.say(f"word {number} " + "x" * 100)
    answer = await client.get(f"/v1/sessions/{SESSION}/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"] == f'attachment; filename="{SESSION}.jsonl"'
    lines = answer.text.splitlines()
    assert len(lines) == 3000
    assert lines[0].startswith(f'{{"seq":1,"prev":0,"session":"{SESSION}","type":"text"')


async def test_html_export_has_a_strict_content_security_policy(served: Served, client: httpx2.AsyncClient) -> None:
    served.gateway.say("<script>alert(1)</script>")
    answer = await client.get(f"/v1/sessions/{SESSION}/export", params={"format": "html"})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "sandbox" in policy
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "<script" not in answer.text


async def test_export_that_cannot_begin_is_an_error_and_not_a_file(served: Served, client: httpx2.AsyncClient) -> None:
    missing = "33333333-3333-4333-8333-333333333333"
    served.gateway.answers[q.GetSession] = await served.gateway.ask(None, q.GetSession(SESSION))  # type: ignore[arg-type]  # the fake ignores the identity
    answer = await client.get(f"/v1/sessions/{missing}/export")
    assert answer.status_code == 404


async def test_an_export_ends_when_its_credential_is_revoked(served: Served) -> None:
    token = await served.token("view", name="reader")
    going = asyncio.Event()

    async def endless(who: Any, session: Any) -> AsyncIterator[Any]:
        while True:
            yield served.gateway.logs[SESSION][0]
            await going.wait()

    served.gateway.say("x" * (70 << 10))
    served.gateway.export = endless  # type: ignore[method-assign]
    async with (
        served.client(token) as reader,
        reader.stream("GET", f"/v1/sessions/{SESSION}/export") as answer,
    ):
        pieces = answer.aiter_bytes()
        assert await anext(pieces)
        await served.credentials.revoke("token", served.tokens["reader"])
        going.set()
        with pytest.raises(httpx2.RemoteProtocolError):
            async for _ in pieces:
                pass


async def test_a_signed_link_opens_the_export_and_nothing_else(served: Served, client: httpx2.AsyncClient) -> None:
    served.gateway.say("hello")
    signed = await client.post("/v1/downloads", json={"path": f"/v1/sessions/{SESSION}/export?format=html"})
    url = signed.json()["url"]
    async with served.client(None) as anonymous:
        assert "hello" in (await anonymous.get(url)).text
        assert (await anonymous.get(url.replace(SESSION, OTHER))).status_code == 401
        assert (await anonymous.get(url + "&format=jsonl")).status_code == 401
        signature = url.partition("?")[2]
        assert (await anonymous.get(f"/v1/sessions/{SESSION}?{signature}")).status_code == 401


async def test_only_paths_of_this_server_are_signed(client: httpx2.AsyncClient) -> None:
    for path in ["http://evil/x", "//evil/x", "v1/x", "/x#y", "/x\n", ""]:
        assert (await client.post("/v1/downloads", json={"path": path})).status_code == 400, path


async def test_browser_signs_in_with_a_link_and_is_signed_out_by_an_admin(
    served: Served, client: httpx2.AsyncClient
) -> None:
    link = (await client.post("/v1/login-codes", json={"scopes": ["view", "chat"]})).json()
    assert link["url"] == f"{served.url}/#login={link['code']}"
    own = {"origin": served.url, "sec-fetch-site": "same-origin"}
    async with served.client(None, **own) as browser:
        made = await browser.post("/v1/login", json={"code": link["code"], "name": "Firefox"})
        assert made.status_code == 201
        assert (await browser.post("/v1/login", json={"code": link["code"]})).status_code == 401
    key = made.json()["secret"]
    async with served.client(key, **own) as browser:
        me = (await browser.get("/v1/me")).json()
        assert (me["name"], me["scopes"]) == ("owner (Firefox)", ["view", "chat"])
        assert (await browser.get("/v1/tokens")).status_code == 403
        devices = (await client.get("/v1/devices")).json()["devices"]
        assert [device["name"] for device in devices] == ["Firefox"]
        assert (await client.delete(f"/v1/devices/{devices[0]['id']}")).status_code == 200
        assert (await browser.get("/v1/me")).status_code == 401


async def test_page_of_another_origin_cannot_redeem_a_login_code(served: Served, client: httpx2.AsyncClient) -> None:
    link = (await client.post("/v1/login-codes", json={})).json()
    for headers in ({"origin": "http://evil"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        async with served.client(None, **headers) as page:
            assert (await page.post("/v1/login", json={"code": link["code"]})).status_code == 403
    async with served.client(None) as script:
        assert (await script.post("/v1/login", json={"code": link["code"]})).status_code == 201


async def test_device_gets_only_the_scopes_of_its_login_link(client: httpx2.AsyncClient) -> None:
    link = (await client.post("/v1/login-codes", json={"scopes": ["view"]})).json()
    for forged in ({"scopes": ["admin"]}, {"scope": "admin"}, {"user": "root"}):
        answer = await client.post("/v1/login", json={"code": link["code"], **forged})
        assert answer.status_code == 400
    assert (await client.post("/v1/login", json={"code": link["code"]})).json()["credential"]["scopes"] == ["view"]


async def test_tokens_are_made_listed_and_revoked(served: Served, client: httpx2.AsyncClient) -> None:
    made = (await client.post("/v1/tokens", json={"name": "ci", "scopes": ["view"]})).json()
    async with served.client(made["secret"]) as ci:
        assert (await ci.get("/v1/sessions")).status_code == 200
        assert (await ci.post("/v1/sessions", json={})).status_code == 403
        listed = (await client.get("/v1/tokens")).json()["tokens"]
        assert [token["name"] for token in listed] == ["admin", "ci"]
        assert all("secret" not in token and "digest" not in token for token in listed)
        assert (await client.delete(f"/v1/tokens/{made['credential']['id']}")).json()["revoked"] > 0
        assert (await ci.get("/v1/sessions")).status_code == 401
    assert (await client.delete("/v1/tokens/nobody")).status_code == 404


async def test_tokens_need_a_known_user_and_known_scopes(client: httpx2.AsyncClient) -> None:
    assert (await client.post("/v1/tokens", json={"name": "x", "user": "ann"})).status_code == 404
    assert (await client.post("/v1/users", json={"name": "ann"})).status_code == 201
    assert (await client.post("/v1/tokens", json={"name": "x", "user": "ann"})).status_code == 201
    assert [user["name"] for user in (await client.get("/v1/users")).json()["users"]] == ["ann", "owner"]
    assert (await client.post("/v1/tokens", json={"name": "x", "scopes": ["root"]})).status_code == 400


async def test_folder_is_trusted_with_the_digest_that_was_shown(client: httpx2.AsyncClient) -> None:
    report = (await client.get("/v1/trust", params={"path": "/p"})).json()
    assert (report["trusted"], report["environment"]) == (False, ["ANTHROPIC_BASE_URL"])
    assert (await client.post("/v1/trust", json={"path": "/p", "digest": "old"})).status_code == 409
    assert (await client.post("/v1/trust", json={"path": "/p", "digest": report["digest"]})).status_code == 201
    assert [folder["path"] for folder in (await client.get("/v1/trust")).json()["folders"]] == ["/p"]
    assert (await client.delete("/v1/trust", params={"path": "/p"})).json() == {"removed": True}
    assert (await client.delete("/v1/trust")).status_code == 400


async def test_settings_need_the_scopes_of_what_they_change(served: Served) -> None:
    token = await served.token("view", "chat", name="chatter")
    path = f"/v1/sessions/{SESSION}/settings"
    async with served.client(token) as chatter:
        assert (await chatter.patch(path, json={"model": "opus"})).status_code == 200
        assert (await chatter.patch(path, json={"mode": "plan"})).status_code == 403
        assert (await chatter.patch(path, json={"mcp_servers": ["x"]})).status_code == 403
        loud = {"settings": {"mode": "bypassPermissions"}}
        assert (await chatter.post("/v1/sessions", json=loud)).status_code == 403
        assert (await chatter.delete(f"/v1/sessions/{SESSION}", params={"files": "true"})).status_code == 403
    assert [type(command) for _, command in served.gateway.commands] == [cmd.SetModel]


async def test_events_as_lines_have_their_position_in_headers(served: Served, client: httpx2.AsyncClient) -> None:
    served.gateway.say("one")
    answer = await client.get(f"/v1/sessions/{SESSION}/events", params={"format": "jsonl"})
    assert answer.headers["fairlead-log-id"] == LOG_ID
    assert answer.headers["fairlead-head"] == "1"
    assert answer.text.count("\n") == 1


async def test_a_command_goes_on_when_its_client_leaves(served: Served) -> None:
    served.gateway.hold.add(cmd.Interrupt)
    async with served.client() as client:
        asking = asyncio.create_task(client.post(f"/v1/sessions/{SESSION}/interrupt"))
        await until(lambda: len(served.gateway.commands) == 1)
        asking.cancel()
    served.gateway.release.set()
    async with served.client() as client:
        assert (await client.get("/v1/me")).status_code == 200
