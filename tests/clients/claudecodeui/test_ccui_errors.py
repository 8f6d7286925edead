"""Errors on this protocol's door: for every error, from every part of the server, `error` is a line of text.

The app renders the value of `error`; an object there crashes the page."""

from pathlib import Path

import pytest

from clients.claudecodeui.signed_gateway import SESSIONS, SignedGateway, signed_gateway

pytestmark = pytest.mark.process

WRONG = (
    ("GET", "/api/nothing", 404),
    ("GET", "/api/nothing/at/all?x=1", 404),
    ("POST", "/api/nothing", 404),
    ("DELETE", "/api/nothing", 404),
    ("PATCH", "/api/projects", 405),
    ("GET", "/api/auth/login", 405),
    ("GET", f"{SESSIONS}/11111111-1111-4111-8111-111111111111", 404),
    ("GET", "/api/providers/nobody/models", 404),
    ("POST", SESSIONS, 400),
)


@pytest.mark.parametrize("static", [False, True], ids=["bare", "with an app's files"])
async def test_every_error_on_the_door_is_a_line_of_text(tmp_path: Path, cheap_passwords: None, static: bool) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "index.html").write_text("<p>hello</p>")
    door = {"claudecodeui": {"port": 0, **({"static": str(app)} if static else {})}}
    async with signed_gateway(tmp_path, door=door) as signed:
        for method, path, status in WRONG:
            answer = await signed.http.request(method, path)
            body = answer.json()
            # When static files are served, a GET of any path refers to one of them.
            expected = {404, 405} if static and status in (404, 405) else {status}
            assert answer.status_code in expected and isinstance(body["error"], str), (method, path, answer.text)
            assert body["error"] and isinstance(body["code"], str)
            assert "x-auth-error" not in answer.headers, "the app would sign out"


async def test_errors_before_a_handler_runs_are_a_line_of_text_too(signed: SignedGateway) -> None:
    large = await signed.http.post("/api/commands/list", content=b" " * (1 << 20))
    assert (large.status_code, type(large.json()["error"])) == (413, str)
    broken = await signed.http.post(SESSIONS, content=b"{")
    assert (broken.status_code, type(broken.json()["error"])) == (400, str)
    stranger = await signed.http.get("/api/nothing", headers={"authorization": "Bearer a.b.c"})
    assert (stranger.status_code, type(stranger.json()["error"])) == (401, str)
    elsewhere = await signed.http.get("/api/projects", headers={"host": "evil.example"})
    assert elsewhere.status_code == 421 and isinstance(elsewhere.json()["error"], str)
