"""Requests of newer and older versions of the app: settings, drafts, scheduled messages, the paths of 1.36."""

from typing import Any

import pytest

from clients.claudecodeui.signed_gateway import SignedGateway
from fairlead.clients.claudecodeui.rest.project_fields import project_id

pytestmark = [pytest.mark.usefixtures("cheap_passwords"), pytest.mark.process]

PREFERENCES = "/api/user/preferences"
TOOLS = {"allowedTools": ["Write"], "disallowedTools": [], "skipPermissions": False}


async def kept(signed: SignedGateway, **headers: str) -> Any:
    answer = await signed.http.get(PREFERENCES, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["preferences"]


async def bearer(signed: SignedGateway, name: str) -> str:
    return f"Bearer {await signed.sign_in(name)}"


async def test_settings_are_stored_per_user(signed: SignedGateway) -> None:
    assert await kept(signed) == {}
    await signed.http.patch(PREFERENCES, json={"theme": "dark", "claudePermissions": TOOLS})
    saved = await signed.http.patch(PREFERENCES, json={"theme": "light"})
    assert saved.json() == {"success": True, "preferences": {"theme": "light", "claudePermissions": TOOLS}}
    await signed.add("bob")
    assert await kept(signed, authorization=await bearer(signed, "bob")) == {}
    assert await kept(signed) == saved.json()["preferences"]


async def test_settings_that_approve_need_the_scope_approve(signed: SignedGateway) -> None:
    """The settings contain permission rules, which the app sends with every prompt of the user."""
    await signed.add("cyd", scopes=["view", "chat"])
    cyd = {"authorization": await bearer(signed, "cyd")}
    refused = await signed.http.patch(PREFERENCES, json={"claudePermissions": TOOLS}, headers=cyd)
    assert refused.status_code == 403 and "approve" in refused.json()["error"]
    assert await kept(signed, **cyd) == {}


@pytest.mark.parametrize("body", [b"[]", b"7", b"{", b'{"theme": '])
async def test_invalid_settings_are_refused_and_change_nothing(signed: SignedGateway, body: bytes) -> None:
    await signed.http.patch(PREFERENCES, json={"theme": "dark"})
    assert (await signed.http.patch(PREFERENCES, content=body)).status_code == 400
    assert await kept(signed) == {"theme": "dark"}


async def test_the_size_limit_of_settings_also_holds_for_many_small_changes(signed: SignedGateway) -> None:
    answers = [
        (await signed.http.patch(PREFERENCES, json={f"part {number}": "x" * 30_000})).status_code for number in range(3)
    ]
    assert answers == [200, 200, 413]
    assert list(await kept(signed)) == ["part 0", "part 1"]


async def test_a_new_user_with_a_reused_name_does_not_get_the_old_settings(signed: SignedGateway) -> None:
    await signed.add("bob")
    await signed.http.patch(PREFERENCES, json={"theme": "dark"}, headers={"authorization": await bearer(signed, "bob")})
    assert (await signed.admin.delete("/v1/users/bob")).status_code == 200
    await signed.add("bob")
    assert await kept(signed, authorization=await bearer(signed, "bob")) == {}


async def test_drafts_stay_in_the_browser_and_nothing_is_sent_later(signed: SignedGateway) -> None:
    """The app takes a list as complete, and keeps its local drafts when it gets no list."""
    body = {"scope": "s", "text": "hello"}
    for answer in (
        await signed.http.get("/api/user/drafts"),
        await signed.http.put("/api/user/drafts", json=body),
        await signed.http.request("DELETE", "/api/user/drafts", json=body),
    ):
        assert (answer.status_code, answer.json()) == (200, {"success": True, "stored": False})
    assert await signed.data("/api/scheduled-messages?sessionId=any") == []
    refused = await signed.http.post("/api/scheduled-messages", json={"content": "hello"})
    error = "Scheduled messages are not supported: send the message now."
    assert (refused.status_code, refused.json()["error"]) == (403, error)
    assert (await signed.http.delete("/api/scheduled-messages/one")).status_code == 404


async def test_the_paths_of_1_36_show_the_same_as_the_newer_ones(signed: SignedGateway) -> None:
    session = await signed.create("hello")
    (signed.project / "a.txt").write_text("one\n")
    project = project_id(str(signed.project))
    for old, new in (
        (f"/api/projects/{project}/files", f"/api/file-tree/projects/{project}/files"),
        (f"/api/projects/{project}/file?filePath=a.txt", f"/api/file-tree/projects/{project}/file?filePath=a.txt"),
        ("/api/browse-filesystem?path=~", "/api/file-tree/browse-filesystem?path=~"),
        ("/api/mcp-utils/taskmaster-server", "/api/taskmaster/mcp-status"),
    ):
        answer = await signed.http.get(old)
        assert answer.status_code == 200, answer.text
        assert answer.json() == (await signed.http.get(new)).json()
    usage = await signed.http.get(f"/api/projects/{project}/sessions/{session}/token-usage")
    assert usage.json() == await signed.data(f"/api/providers/sessions/{session}/token-usage")
    for method, path in (("PUT", f"/api/projects/{project}/file"), ("POST", "/api/create-folder")):
        refused = await signed.http.request(method, path, json={})
        assert (refused.status_code, refused.json()["code"]) == (403, "READ_ONLY")
    outside = await signed.http.get(f"/api/projects/{project}/file?filePath=/etc/passwd")
    assert outside.status_code == 404
