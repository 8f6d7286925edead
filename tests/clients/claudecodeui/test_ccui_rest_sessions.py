"""Sessions, projects and the composer's data over REST, as the original's app reads them."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.signed_gateway import SESSIONS, SignedGateway, frames_until, signed_gateway
from fairlead.clients.claudecodeui.rest import search
from fairlead.clients.claudecodeui.rest.project_fields import project_id
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId, is_uuid
from fairlead.model.store import TRANSCRIPT, SearchHit, SessionPage, Summary
from fairlead.model.web.requests import Head
from fairlead.model.web.routes import Request
from patience import PATIENCE

pytestmark = pytest.mark.usefixtures("cheap_passwords")

UNKNOWN = "99999999-9999-4999-8999-999999999999"


async def projects(signed: SignedGateway) -> dict[str, Any]:
    answer = await signed.http.get("/api/projects")
    assert answer.status_code == 200
    body = answer.json()
    assert isinstance(body, list)
    return {project["path"]: project for project in body}


@pytest.mark.process
@pytest.mark.rules("S003-029", "S003-005")
async def test_a_session_has_its_id_before_its_first_message_and_keeps_it(signed: SignedGateway) -> None:
    body = {"provider": "claude", "projectPath": str(signed.project), "initialMessage": "  Say   hello to the world"}
    answer = await signed.http.post(SESSIONS, json=body)
    assert answer.status_code == 201
    created = answer.json()
    session = created["data"].pop("sessionId")
    assert is_uuid(session)
    project = str(signed.project)
    expected = {"provider": "claude", "projectPath": project, "sessionName": "Say hello to the"}
    assert created == {"success": True, "data": expected}
    frames = await signed.run(session, "SCRIPT:text hello there")
    assert {frame["sessionId"] for frame in frames if "sessionId" in frame} == {session}
    assert frames[-1]["actualSessionId"] == session
    found = await signed.data(f"{SESSIONS}/{session}")
    assert found["sessionId"] == session
    assert (found["provider"], found["summary"]) == ("claude", "Say hello to the")
    assert found["createdAt"].endswith("Z") and found["lastActivity"].endswith("Z")
    shown = {"projectId": project_id(project), "path": project, "fullPath": project, "displayName": "project"}
    assert found["project"] == {**shown, "isStarred": False, "isArchived": False}


@pytest.mark.process
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"provider": "claude"}, 400, "PROJECT_PATH_REQUIRED"),
        ({"provider": "claude", "projectPath": "  "}, 400, "PROJECT_PATH_REQUIRED"),
        ({"provider": "cursor", "projectPath": "/tmp"}, 400, "UNSUPPORTED_PROVIDER"),
        ({"projectPath": "/tmp"}, 400, "UNSUPPORTED_PROVIDER"),
        ({"provider": "claude", "projectPath": "/etc"}, 403, "OUTSIDE_ROOTS"),
        ({"provider": "claude", "projectPath": "relative"}, 400, "BAD_REQUEST"),
        ({"provider": "claude", "projectPath": 7}, 400, "BAD_REQUEST"),
    ],
)
async def test_invalid_sessions_are_refused_with_a_code(
    signed: SignedGateway, body: Any, status: int, code: str
) -> None:
    answer = await signed.http.post(SESSIONS, json=body)
    assert answer.status_code == status
    refusal = answer.json()
    assert (refusal["success"], refusal["code"]) == (False, code)
    assert isinstance(refusal["error"], str)
    assert (await signed.data(f"{SESSIONS}/recent"))["total"] == 0


@pytest.mark.process
async def test_a_session_without_a_message_is_untitled(signed: SignedGateway) -> None:
    session = await signed.create()
    assert (await signed.data(f"{SESSIONS}/{session}"))["summary"] == "Untitled Session"


@pytest.mark.process
async def test_the_agents_id_is_returned_by_one_call_and_finds_the_session(signed: SignedGateway) -> None:
    session = await signed.create("hello")
    early = await signed.http.get(f"{SESSIONS}/{session}/provider-id")
    native = ""
    if early.status_code == 200:
        native = early.json()["data"]["sessionId"]
    else:
        assert (early.status_code, early.json()["code"]) == (409, "PROVIDER_SESSION_NOT_READY")
    await signed.run(session, "SCRIPT:text hello")
    later = (await signed.data(f"{SESSIONS}/{session}/provider-id"))["sessionId"]
    assert is_uuid(later) and native in ("", later)
    assert (await signed.data(f"{SESSIONS}/{later}"))["sessionId"] == session
    for call in ("", "/provider-id", "/token-usage", "/messages"):
        for name in (UNKNOWN, "nonsense"):
            gone = await signed.http.get(f"{SESSIONS}/{name}{call}")
            assert (gone.status_code, gone.json()["code"]) == (404, "SESSION_NOT_FOUND")


@pytest.mark.process
@pytest.mark.rules("S003-063")
async def test_running_sessions_are_listed_while_they_run(signed: SignedGateway) -> None:
    session = await signed.create("slow")
    assert await signed.data(f"{SESSIONS}/running") == {"sessions": []}
    async with signed.chat() as socket:
        await socket.send(json.dumps({"type": "chat.send", "sessionId": session, "content": "SCRIPT:slow"}))
        await frames_until(socket, lambda frame: frame["kind"] in ("stream_delta", "text", "thinking"))
        (run,) = (await signed.data(f"{SESSIONS}/running"))["sessions"]
        assert set(run) == {"sessionId", "provider", "startedAt", "lastSeq"}
        assert (run["sessionId"], run["provider"]) == (session, "claude")
        created = await signed.data(f"{SESSIONS}/{session}")
        assert run["startedAt"] > 0 and run["lastSeq"] > 0 and created["sessionId"] == session
        await socket.send(json.dumps({"type": "chat.abort", "sessionId": session}))
        await frames_until(socket, lambda frame: frame["kind"] == "complete")
    assert await signed.data(f"{SESSIONS}/running") == {"sessions": []}


@pytest.mark.process
async def test_a_session_is_renamed_archived_restored_and_deleted(signed: SignedGateway) -> None:
    session, other = await signed.create("one"), await signed.create("two")
    one = f"{SESSIONS}/{session}"
    renamed = await signed.http.put(one, json={"summary": " Better "})
    assert renamed.json() == {"success": True, "data": {"sessionId": session, "summary": "Better"}}
    assert (await signed.data(one))["summary"] == "Better"
    odd = await signed.http.put(one, json={"summary": "a\x1b]0;title\x07b"})
    assert odd.json()["data"]["summary"] == (await signed.data(one))["summary"] == "a]0;titleb", "no control sequence"
    assert (await signed.http.put(one, json={"summary": "Better"})).status_code == 200
    for bad in ({}, {"summary": " "}, {"summary": "x" * 201}, {"summary": 7}):
        assert (await signed.http.put(one, json=bad)).status_code == 400
    archived = await signed.http.delete(one)
    assert archived.json()["data"] == {"sessionId": session, "action": "archived"}
    assert await names(signed, "recent") == [other]
    (shown,) = (await signed.data(f"{SESSIONS}/archived"))["sessions"]
    assert (shown["sessionId"], shown["sessionTitle"], shown["isArchived"]) == (session, "Better", True)
    assert (shown["projectPath"], shown["projectDisplayName"]) == (str(signed.project), "project")
    assert (await signed.http.post(f"{one}/restore")).status_code == 200
    assert set(await names(signed, "recent")) == {session, other}
    deleted = await signed.http.delete(f"{one}?force=true")
    assert deleted.json()["data"]["action"] == "deleted"
    assert await names(signed, "recent") == [other]
    assert (await signed.http.get(one)).status_code == 404
    for call in (signed.http.delete(one), signed.http.put(one, json={"summary": "x"})):
        assert (await call).json()["code"] == "SESSION_NOT_FOUND"


async def names(signed: SignedGateway, which: str) -> list[str]:
    page = await signed.data(f"{SESSIONS}/{which}")
    return [one["sessionId"] for one in page["conversations"]]


@pytest.mark.process
async def test_recent_sessions_are_paginated(signed: SignedGateway) -> None:
    made = [await signed.create(str(number)) for number in range(5)]
    first = await signed.data(f"{SESSIONS}/recent?limit=2&offset=0")
    second = await signed.data(f"{SESSIONS}/recent?limit=2&offset=2")
    third = await signed.data(f"{SESSIONS}/recent?limit=2&offset=4")
    assert [page["hasMore"] for page in (first, second, third)] == [True, True, False]
    assert {page["total"] for page in (first, second, third)} == {5}
    shown = [one["sessionId"] for page in (first, second, third) for one in page["conversations"]]
    assert sorted(shown) == sorted(made)
    odd = await signed.data(f"{SESSIONS}/recent?limit=-1&offset=x")
    assert len(odd["conversations"]) == 5


@pytest.mark.process
async def test_token_usage_equals_the_last_status(signed: SignedGateway) -> None:
    session = await signed.create("hello")
    assert (await signed.data(f"{SESSIONS}/{session}/token-usage"))["used"] == 0
    frames = await signed.run(session, "SCRIPT:text hello")
    status = [frame for frame in frames if frame["kind"] == "status"][-1]
    assert await signed.data(f"{SESSIONS}/{session}/token-usage") == status["tokenBudget"]
    newest = (await signed.http.get(f"{SESSIONS}/{session}/messages?limit=1")).json()
    assert newest["tokenUsage"] == status["tokenBudget"], "its app would show 0 without"
    assert "tokenUsage" not in (await signed.http.get(f"{SESSIONS}/{session}/messages?limit=1&offset=1")).json()


@pytest.mark.process
@pytest.mark.rules("S003-030")
async def test_a_session_of_another_program_works_like_any_other(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fairlead_testing.standin_cli "$@"\n')
    program.chmod(0o755)
    given = {"agent": "claude", "claude": str(program)}
    async with signed_gateway(tmp_path, **given) as another:
        session = await another.create("made elsewhere")
        await another.run(session, "SCRIPT:text first")
        native = (await another.data(f"{SESSIONS}/{session}/provider-id"))["sessionId"]
    async with signed_gateway(tmp_path, data=str(tmp_path / "fresh"), **given) as signed:
        async with asyncio.timeout(PATIENCE):
            # A session that is known only from the agent's files belongs to the owner, who shares it.
            while not (found := (await signed.admin.get("/v1/sessions")).json()["sessions"]):
                await asyncio.sleep(0.01)
            await signed.admin.post(f"/v1/sessions/{found[0]['session']}/share", json={"everybody": True})
        async with asyncio.timeout(PATIENCE):
            while not (shown := (await projects(signed)).get(str(signed.project), {"sessions": []})["sessions"]):
                await asyncio.sleep(0.01)
        (listed,) = shown
        app = listed["id"]
        assert is_uuid(app) and listed["provider"] == "claude"
        assert (await signed.data(f"{SESSIONS}/{native}"))["sessionId"] == app
        history = (await signed.http.get(f"{SESSIONS}/{app}/messages")).json()
        assert [row["content"] for row in history["messages"] if row.get("role") == "user"] == ["SCRIPT:text first"]
        async with asyncio.timeout(PATIENCE):
            # Its last turn counts as ended when its file has not changed for a while.
            while (await signed.data(f"{SESSIONS}/running"))["sessions"]:
                await asyncio.sleep(0.05)
        async with signed.chat() as socket:
            await socket.send(json.dumps({"type": "chat.subscribe", "sessions": [{"sessionId": app, "lastSeq": 0}]}))
            (ack,) = await frames_until(socket, lambda frame: frame["kind"] == "chat_subscribed")
            assert (ack["sessionId"], ack["isProcessing"]) == (app, False)
        frames = await signed.run(app, "SCRIPT:text second")
        assert frames[-1]["success"] is True
        assert frames[-1]["actualSessionId"] == app
        again = (await signed.http.get(f"{SESSIONS}/{app}/messages")).json()["messages"]
        prompts = [row["content"] for row in again if row.get("role") == "user"]
        assert prompts == ["SCRIPT:text first", "SCRIPT:text second"]


@pytest.mark.process
async def test_search_finds_titles_and_text_and_accepts_the_token_in_the_query(signed: SignedGateway) -> None:
    session = await signed.create("hunting the snark")
    await signed.run(session, "SCRIPT:text boojum")
    url = f"/api/providers/search/sessions?limit=50&token={signed.token}"
    events: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE):
        while '"assistant"' not in json.dumps(events.get("result")):  # the index lags behind the log
            answer = await signed.http.get(f"{url}&q=boojum", headers={"authorization": ""})
            assert answer.headers["content-type"] == "text/event-stream"
            events = streamed(answer.text)
            await asyncio.sleep(0.01)
    assert list(events)[-1] == "done"
    found = events["result"]["projectResult"]
    assert (found["projectId"], found["projectDisplayName"]) == (project_id(str(signed.project)), "project")
    (one,) = found["sessions"]
    assert (one["sessionId"], one["sessionSummary"]) == (session, "hunting the snark")
    for match in one["matches"]:
        (mark,) = match["highlights"]
        assert match["snippet"][mark["start"] : mark["end"]] == "boojum"
    assert {match["role"] for match in one["matches"]} == {"user", "assistant"}
    titles = streamed((await signed.http.get(f"{url}&q=SNARK")).text)["title-results"]["titleResults"]
    assert [(title["sessionId"], title["sessionTitle"]) for title in titles] == [(session, "hunting the snark")]
    assert (await signed.http.get("/api/providers/search/sessions?q=%20")).status_code == 400
    wrong = await signed.http.get("/api/providers/search/sessions?q=x&token=a.b.c", headers={"authorization": ""})
    assert wrong.status_code == 401


def streamed(text: str) -> dict[str, Any]:
    """The last of each kind of event."""
    found: dict[str, Any] = {}
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found[name.removeprefix("event: ")] = json.loads(data.removeprefix("data: "))
    return found


@pytest.mark.parametrize(
    ("snippet", "text", "marks"),
    [
        ("a \x02b\x03 c \x02d\x03", "a b c d", [(2, 3), (6, 7)]),
        ("\U0001f600 \x02b\x03", "\U0001f600 b", [(3, 4)]),
        ("no marks", "no marks", []),
        ("odd \x02 one", "odd  one", []),
        ("", "", []),
    ],
)
def test_highlights_are_counted_as_javascript_does(snippet: str, text: str, marks: list[tuple[int, int]]) -> None:
    expected = [{"start": start, "end": end} for start, end in marks]
    assert search.highlighted(snippet) == (text, expected)


# --- projects


@pytest.mark.process
async def test_projects_are_a_bare_array_of_folders_with_their_newest_sessions(signed: SignedGateway) -> None:
    other = signed.project.parent / "other"
    other.mkdir()
    made = [await signed.create(f"number {number}") for number in range(22)]
    lone = await signed.create("alone", str(other))
    found = await projects(signed)
    project = found[str(signed.project)]
    shown = {"projectId", "path", "fullPath", "displayName", "isStarred", "sessions", "sessionMeta"}
    assert set(project) == shown
    assert (len(project["sessions"]), project["sessionMeta"]) == (20, {"hasMore": True, "total": 22})
    assert set(project["sessions"][0]) == {"id", "provider", "summary", "messageCount", "lastActivity"}
    assert [one["id"] for one in found[str(other)]["sessions"]] == [lone]
    more = await signed.http.get(f"/api/projects/{project['projectId']}/sessions?limit=20&offset=20")
    rest = more.json()
    assert rest["sessionMeta"] == {"hasMore": False, "total": 22}
    assert {one["id"] for one in (*project["sessions"], *rest["sessions"])} == set(made)
    assert (await signed.http.get("/api/projects/nosuch/sessions")).status_code == 404
    await signed.http.delete(f"{SESSIONS}/{lone}")
    assert str(other) not in await projects(signed)


@pytest.mark.process
async def test_a_fresh_gateway_offers_its_roots_and_folders_that_were_listed(signed: SignedGateway) -> None:
    root = str(signed.project.parent)
    assert list(await projects(signed)) == [root]
    made = await signed.http.post("/api/projects/create-project", json={"path": str(signed.project)})
    assert made.json()["project"]["displayName"] == "project"
    assert list(await projects(signed)) == [str(signed.project), root]
    for path, status in (("/etc", 403), ("", 400), (f"{root}/nosuch", 404)):
        answer = await signed.http.post("/api/projects/create-project", json={"path": path})
        assert answer.status_code == status
    assert (await signed.data("/api/projects/archived")) == {"projects": []}


@pytest.mark.process
@pytest.mark.rules("S003-126", "S003-129")
async def test_a_project_list_of_any_length_sends_two_progress_frames(signed: SignedGateway) -> None:
    """The original sends a frame for every project to every socket."""
    for number in range(12):
        folder = signed.project / str(number)
        folder.mkdir()
        await signed.create("one", str(folder))
    async with signed.chat() as socket:
        await socket.send(json.dumps({"type": "chat.subscribe", "sessions": [{"sessionId": UNKNOWN}]}))
        await frames_until(socket, lambda frame: frame["kind"] == "chat_subscribed")
        listed = await projects(signed)
        frames = await frames_until(socket, lambda frame: frame.get("phase") == "complete")
    progress = [frame for frame in frames if frame["kind"] == "loading_progress"]
    assert progress == [
        {"kind": "loading_progress", "phase": "loading", "current": 0, "total": 1},
        {"kind": "loading_progress", "phase": "complete", "current": len(listed), "total": len(listed)},
    ]


# --- data of the composer


@pytest.mark.process
async def test_composer_data_has_the_shapes_that_the_app_reads(signed: SignedGateway) -> None:
    models = (await signed.data("/api/providers/claude/models"))["models"]
    assert models["DEFAULT"] in [option["value"] for option in models["OPTIONS"]]
    (claude,) = (await signed.data("/api/providers/capabilities"))["providers"]
    assert claude["provider"] == "claude"
    assert claude["permissionModes"] == ["default", "auto", "acceptEdits", "plan"], "bypass is off"
    assert claude["defaultPermissionMode"] == "default"
    commands = (await signed.http.post("/api/commands/list", json={"projectPath": "/x"})).json()
    assert (commands["builtIn"], commands["custom"]) == ([], [])
    assert (await signed.data("/api/providers/claude/skills?workspacePath=/x"))["skills"] == []
    for path in ("/api/providers/cursor/models", "/api/providers/codex/skills", "/api/nosuch", "/api/git/status"):
        answer = await signed.http.get(path)
        assert answer.status_code == 404, path
        assert "x-auth-error" not in answer.headers
    assert (await signed.http.post("/api/nosuch")).status_code == 404
    task = (await signed.http.get("/api/taskmaster/installation-status")).json()
    assert task["installation"]["isInstalled"] is False
    assert (await signed.http.get("/api/projects/x/taskmaster")).json()["taskmaster"] is None
    assert (await signed.data("/api/browser-use/settings"))["settings"]["enabled"] is False
    assert (await signed.http.get("/health")).json()["status"] == "ok"


@pytest.mark.process
async def test_bypass_is_offered_where_the_settings_allow_it(tmp_path: Path) -> None:
    async with signed_gateway(tmp_path, allow_bypass=True) as signed:
        (claude,) = (await signed.data("/api/providers/capabilities"))["providers"]
        assert "bypassPermissions" in claude["permissionModes"]


@pytest.mark.process
async def test_model_and_effort_are_set_per_session(signed: SignedGateway) -> None:
    session = await signed.create("hello")
    path = f"/api/providers/claude/sessions/{session}"
    before = await signed.data(f"{path}/active-model")
    assert (before["model"], before["source"], before["effort"]) == ("default", "default", None)
    assert (await signed.http.post(f"{path}/active-model", json={"model": "opus"})).json()["success"] is True
    assert (await signed.http.post(f"{path}/active-effort", json={"effort": "high"})).json()["success"] is True
    after = await signed.data(f"{path}/active-model")
    assert (after["model"], after["source"], after["effort"]) == ("opus", "session", "high")
    assert (await signed.http.post(f"{path}/active-effort", json={"effort": "--flag"})).status_code == 400
    for model in (" ", "--dangerously-skip-permissions", "a b", "opus\n--x"):
        assert (await signed.http.post(f"{path}/active-model", json={"model": model})).status_code == 400
    assert (await signed.http.get("/api/providers/codex/sessions/x/active-model")).status_code == 404


def test_search_opens_no_session_and_says_how_many_are_not_searched() -> None:
    """A hit in a transcript that was never opened: opening it would import the whole file."""
    session = SessionId("11111111-1111-4111-8111-111111111111")
    known = Summary(session=session, cwd="/srv/app", state=TRANSCRIPT, title="Old talk")
    hidden = Summary(session=SessionId("22222222-2222-4222-8222-222222222222"), cwd="/srv/app", archived=True)
    hits = tuple(SearchHit(one.session, 0, 5, "user.message", "a \x02quagga\x03") for one in (known, hidden))
    request = Request(
        head=Head(method="GET", path="/"),
        who=Identity("c", "owner", "Ann", frozenset({"view"})),
        fresh=UNKNOWN,
        query={"q": "quagga"},
    )
    steps: Any = search.search(request)
    asked = [next(steps), steps.send(SessionPage(()))]
    assert [type(step) for step in asked] == [q.ListSessions, q.SearchText]
    with pytest.raises(StopIteration) as ended:
        steps.send(q.SearchResult(hits=hits, sessions=(known, hidden), not_searched=3))
    events = streamed(ended.value.value.body.decode())
    (one,) = events["result"]["projectResult"]["sessions"]
    assert (one["sessionId"], one["sessionSummary"]) == (session, "Old talk")
    assert events["done"] == {"totalMatches": 1, "notSearched": 3}
