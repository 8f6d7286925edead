"""REST under /api/claude over the real server and core: shapes, texts and statuses as the protocol defines them."""

from typing import Any

import httpx2
import pytest

from clients.mylifedb.harness import MyLifeDbGateway
from clients.mylifedb.test_mylifedb_socket import talked
from clients.mylifedb.view_offline import ViewRecorder
from fairlead.clients.mylifedb import rest
from fairlead.clients.mylifedb.counting import CountReducer, read_counted
from fairlead.clients.mylifedb.rest import session_state, title_of
from fairlead.clients.mylifedb.startup import NO_LINKS
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.ids import SessionId
from fairlead.model.store import Summary
from fairlead.sessions.api.read_state import TurnsRead
from golden.cases import read_log
from sessions.harness import ANN, SESSION

BASE = "/api/claude/sessions"
ONE = f"{BASE}/{SESSION}"
OTHER = SessionId("22222222-2222-4222-8222-222222222222")
GONE = {"error": "Session not found"}


async def call(gateway: MyLifeDbGateway, method: str, path: str, token: str = "", **more: Any) -> httpx2.Response:
    async with gateway.http(token) as http:
        return await http.request(method, path, **more)


@pytest.mark.rules("S000-231")
async def test_the_list_of_sessions(gateway: MyLifeDbGateway) -> None:
    assert (await call(gateway, "GET", BASE)).json() == {"sessions": []}
    await gateway.core.open(title="A title")
    (found,) = (await call(gateway, "GET", BASE)).json()["sessions"]
    assert found == {
        "id": SESSION,
        "workingDir": str(gateway.core.cwd),
        "createdAt": "2023-11-14T22:13:20.000Z",
        "lastActivity": "2023-11-14T22:13:20.000Z",
        "lastUserActivity": "2023-11-14T22:13:20.000Z",
        "status": "active",
        "title": "A title",
        "permissionMode": "default",
    }


@pytest.mark.rules("S000-232")
async def test_one_session_or_not_found(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open(title="A title")
    found = await call(gateway, "GET", ONE)
    assert (found.status_code, found.json()["id"], found.json()["sessionState"]) == (200, SESSION, "idle")
    assert (await call(gateway, "GET", f"{BASE}/{SESSION.upper()}")).json()["id"] == SESSION
    for unknown in (OTHER, "no-uuid"):
        answer = await call(gateway, "GET", f"{BASE}/{unknown}")
        assert (answer.status_code, answer.json()) == (404, GONE)


@pytest.mark.rules("S000-042")
async def test_a_message_moves_the_last_activity(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    before = (await call(gateway, "GET", ONE)).json()["lastActivity"]
    await gateway.core.clock.advance(60)
    async with gateway.tab() as tab:
        await tab.say(type="user_message", content="hello")
        await tab.until("user")
    assert (await call(gateway, "GET", ONE)).json()["lastActivity"] > before


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/deactivate"),
        ("POST", "/archive"),
        ("POST", "/unarchive"),
        ("GET", "/messages?page=0"),
        ("POST", "/messages"),
        ("GET", "/history"),
        ("POST", "/share"),
        ("DELETE", "/share"),
    ],
)
async def test_an_unknown_session_is_404_everywhere(gateway: MyLifeDbGateway, method: str, path: str) -> None:
    body = {"title": "x", "content": "x"} if method != "GET" else None
    answer = await call(gateway, method, f"{BASE}/{OTHER}{path}", json=body)
    assert (answer.status_code, answer.json()) == (404, GONE)


async def test_create_rename_archive_and_delete(gateway: MyLifeDbGateway) -> None:
    made = await call(
        gateway, "POST", BASE, json={"workingDir": str(gateway.core.cwd), "title": "Mine", "permissionMode": "plan"}
    )
    assert made.status_code == 200
    session = made.json()
    assert (session["title"], session["permissionMode"], session["status"]) == ("Mine", "plan", "active")
    one = f"{BASE}/{session['id']}"
    assert (await call(gateway, "PATCH", one, json={"title": "Other"})).json() == {"success": True}
    assert (await call(gateway, "GET", one)).json()["title"] == "Other"
    for action, status in (("archive", "archived"), ("unarchive", "active")):
        assert (await call(gateway, "POST", f"{one}/{action}")).json() == {"success": True}
        assert (await call(gateway, "GET", one)).json()["status"] == status
    assert (await call(gateway, "POST", f"{one}/deactivate")).json() == {"success": True}
    assert (await call(gateway, "DELETE", one)).json() == {"success": True}
    assert (await call(gateway, "GET", one)).status_code == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"title":7}', b'{"workingDir":[]}', b'{"mode":"none"}'])
async def test_an_invalid_body_is_400(gateway: MyLifeDbGateway, body: bytes) -> None:
    answer = await call(gateway, "POST", BASE, content=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid request body"})


async def test_a_rejection_by_the_gateway_gives_its_reason(gateway: MyLifeDbGateway) -> None:
    outside = await call(gateway, "POST", BASE, json={"workingDir": "/"})
    assert outside.status_code == 403
    assert outside.json()["error"].startswith("Failed to create session: / is outside the allowed folders")
    mode = await call(gateway, "POST", BASE, json={"workingDir": str(gateway.core.cwd), "permissionMode": "sudo"})
    assert mode.status_code == 400
    token = await gateway.token("view")
    assert (await call(gateway, "POST", BASE, token, json={})).status_code == 403


async def test_resuming_a_known_session_returns_that_session(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open(title="Here")
    again = await call(gateway, "POST", BASE, json={"resumeSessionId": SESSION})
    assert (again.json()["id"], again.json()["title"]) == (SESSION, "Here")
    new = await call(gateway, "POST", BASE, json={"resumeSessionId": OTHER, "workingDir": str(gateway.core.cwd)})
    assert new.json()["title"] == "Resumed Session"


async def test_a_message_by_rest(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    sent = await call(gateway, "POST", f"{ONE}/messages", json={"content": "hello"})
    assert (sent.status_code, sent.json()) == (200, {"sessionId": SESSION, "status": "sent"})
    agent = await gateway.core.kind.launched()
    assert await agent.prompted() == "hello"
    empty = await call(gateway, "POST", f"{ONE}/messages", json={"content": ""})
    assert (empty.status_code, empty.json()) == (400, {"error": "Invalid request body"})


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ("", 400, "page parameter is required"),
        ("?page=x", 400, "invalid page parameter"),
        ("?page=-1", 400, "invalid page parameter"),
        ("?page=1", 404, "page out of range"),
        ("?page=999999999", 404, "page out of range"),
    ],
)
async def test_an_invalid_page_is_an_error(gateway: MyLifeDbGateway, query: str, status: int, error: str) -> None:
    await talked(gateway, 1)
    answer = await call(gateway, "GET", f"{ONE}/messages{query}")
    assert (answer.status_code, answer.json()) == (status, {"error": error})


async def test_a_session_without_records_has_one_empty_page(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    page = (await call(gateway, "GET", f"{ONE}/messages?page=0")).json()
    assert page == {"sessionId": SESSION, "page": 0, "totalPages": 1, "messages": [], "sealed": False}


# --- all sessions


async def ids(gateway: MyLifeDbGateway, query: str = "") -> tuple[list[str], dict[str, Any]]:
    answer = (await call(gateway, "GET", f"{BASE}/all{query}")).json()
    return [item["id"] for item in answer["sessions"]], answer["pagination"]


async def test_all_sessions_page_by_page(gateway: MyLifeDbGateway) -> None:
    gateway.core.kind.launch_when.clear()
    sessions = [SessionId(f"{number}0000000-0000-4000-8000-000000000000") for number in range(1, 6)]
    for session in sessions:
        await gateway.core.open(session)
        await gateway.core.clock.advance(1)
        await gateway.core.send("hello", session)
        await gateway.core.clock.advance(1)
    await gateway.core.open(OTHER)
    newest = sessions[::-1]
    found, pagination = await ids(gateway)
    assert found == newest, "one that nobody has said anything in is not worth listing"
    assert pagination == {"hasMore": False, "nextCursor": "", "totalCount": 5}
    walked: list[str] = []
    cursor = ""
    while True:
        page, pagination = await ids(gateway, f"?limit=2&cursor={cursor}")
        walked += page
        assert pagination["totalCount"] == 5
        if not pagination["hasMore"]:
            break
        cursor = pagination["nextCursor"]
        at, _, session = cursor.partition("_")
        assert at.isdigit() and session == page[-1]
    assert walked == newest
    for odd in ("none", "x_y", "_", f"{'9' * 30}_x"):
        assert (await ids(gateway, f"?cursor={odd}"))[0] == newest, "a bad cursor is the beginning"
    for limit, count in ((0, 5), (-3, 5), (2, 2), (1000, 5)):
        assert len((await ids(gateway, f"?limit={limit}"))[0]) == count
    await gateway.core.do(cmd.ArchiveSession(session=sessions[0]))
    assert (await ids(gateway, "?status=archived"))[0] == [sessions[0]]
    assert sessions[0] not in (await ids(gateway, "?status=active"))[0]
    assert sessions[0] in (await ids(gateway))[0]


async def test_an_item_of_the_list(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 1)
    (item,) = (await call(gateway, "GET", f"{BASE}/all")).json()["sessions"]
    assert item == {
        "id": SESSION,
        "title": "prompt 0",
        "workingDir": str(gateway.core.cwd),
        "createdAt": item["createdAt"],
        "lastActivity": item["lastActivity"],
        "lastUserActivity": item["lastActivity"],
        "messageCount": 2,
        "isSidechain": False,
        "sessionState": "unread",
        "isActive": False,
        "status": "archived",
        "permissionMode": "default",
    }
    assert isinstance(item["createdAt"], int)


def summary(**fields: Any) -> Summary:
    return Summary(session=SESSION, **fields)


@pytest.mark.parametrize(
    ("given", "shown", "seen", "state"),
    [
        ({}, None, False, "idle"),
        ({"turns": 2}, None, False, "unread"),
        ({"turns": 2}, 1, False, "unread"),
        ({"turns": 2}, 2, False, "idle"),
        ({"turns": 2, "state": "working"}, 1, False, "working"),
        ({"turns": 2, "state": "waiting", "pending": 1}, 1, False, "unread"),
        ({"turns": 2, "state": "waiting", "pending": 1}, 1, True, "working"),
        ({"turns": 2, "archived": True, "pending": 1}, None, False, "archived"),
    ],
)
def test_the_state_of_a_session(given: dict[str, Any], shown: int | None, seen: bool, state: str) -> None:
    read = TurnsRead({} if shown is None else {SESSION: shown}, frozenset({SESSION} if seen else ()))
    assert session_state(summary(**given), read) == state


@pytest.mark.parametrize(
    ("title", "shown"),
    [("", "Untitled"), ("\n  \n", "Untitled"), ("\n first \nsecond", "first"), ("x" * 200, "x" * 120 + "…")],
)
def test_the_title_of_a_session(title: str, shown: str) -> None:
    assert title_of(summary(title=title)) == shown


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("<ide_selection>" + "x" * 100 + "</ide_selection> real text", "real text"),
        ("<ide_opened_file>a.py</ide_opened_file>\n<system-reminder>x\ny</system-reminder>\nreal text", "real text"),
        ("<ide_selection>never closed", "Untitled"),
        ("<b>bold</b> text", "<b>bold</b> text"),
    ],
)
def test_editor_context_before_a_prompt_does_not_hide_the_prompt(prompt: str, shown: str) -> None:
    assert title_of(summary(title=prompt[:80], first_prompt=prompt)) == shown


async def test_the_messages_of_a_session_are_counted_and_not_its_turns(gateway: MyLifeDbGateway) -> None:
    agent = await talked(gateway, 2)
    await gateway.core.send("once more")
    await agent.prompted()
    await agent.say(agent._assistant({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}))
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]}
    head = {"session_id": SESSION, "parent_tool_use_id": None}
    await agent.say({"type": "user", "uuid": agent._uuid("result"), "message": result, **head})
    inner = {"role": "user", "content": "a subagent's"}
    await agent.say({"type": "user", "uuid": agent._uuid("x"), "message": inner, **head, "parent_tool_use_id": "t"})
    await gateway.core.until(lambda: gateway.core.loaded().core.state.summary().state == "working")
    (item,) = (await call(gateway, "GET", f"{BASE}/all")).json()["sessions"]
    assert (item["messageCount"], item["isActive"], item["status"]) == (2 * 2 + 3, True, "active")


def test_the_transcripts_copy_of_a_record_is_counted_once() -> None:
    showing = ViewRecorder().replay(read_log("mylifedb", "copies"))
    fold = CountReducer(SESSION)
    for entry in showing.entries:
        fold.step(entry)
    shown = [frame for frame in showing.history() if frame["type"] in ("user", "assistant")]
    assert read_counted(fold.snapshot()).messages == len(shown) > 0


async def test_a_session_without_messages_is_named_by_its_number(gateway: MyLifeDbGateway) -> None:
    first = (await call(gateway, "POST", BASE, json={"workingDir": str(gateway.core.cwd)})).json()
    await gateway.core.clock.advance(1)
    second = (await call(gateway, "POST", BASE, json={"workingDir": str(gateway.core.cwd)})).json()
    assert (first["title"], second["title"]) == ("Session 1", "Session 2")
    assert (await call(gateway, "GET", f"{BASE}/{first['id']}")).json()["title"] == "Session 1"
    listed = (await call(gateway, "GET", BASE)).json()["sessions"]
    assert {one["id"]: one["title"] for one in listed} == {first["id"]: "Session 1", second["id"]: "Session 2"}
    await gateway.core.send("What is this?", SessionId(second["id"]))
    await (await gateway.core.kind.launched()).prompted()
    assert (await call(gateway, "GET", f"{BASE}/{second['id']}")).json()["title"] == "What is this?"


async def test_the_whole_history_at_once(gateway: MyLifeDbGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    await talked(gateway, 2)
    async with gateway.tab() as tab:
        for _ in range(2):
            await tab.until("result")
    history = (await call(gateway, "GET", f"{ONE}/history")).json()
    assert history == {"sessionId": SESSION, "messages": tab.frames}
    monkeypatch.setattr(rest, "HISTORY_BYTES", 100)
    too_much = await call(gateway, "GET", f"{ONE}/history")
    assert too_much.status_code == 413 and "Failed to read session history" in too_much.json()["error"]


async def test_there_are_no_public_links_and_the_answer_gives_the_reason(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    shared = await call(gateway, "POST", f"{ONE}/share")
    assert (shared.status_code, shared.json()) == (403, {"error": NO_LINKS})
    assert (await call(gateway, "DELETE", f"{ONE}/share")).json() == {"success": True}


async def test_a_terminal_is_refused_at_once_if_the_agent_does_not_support_it(gateway: MyLifeDbGateway) -> None:
    gateway.core.kind.ways = {"stdio": "yes"}
    refused = await call(gateway, "POST", BASE, json={"workingDir": str(gateway.core.cwd), "mode": "cli"})
    assert refused.status_code == 400
    assert refused.json()["error"].endswith("The agent said cannot run in a terminal here.")
    assert (await call(gateway, "GET", BASE)).json() == {"sessions": []}


async def test_a_session_for_a_terminal(gateway: MyLifeDbGateway) -> None:
    made = await call(gateway, "POST", BASE, json={"workingDir": str(gateway.core.cwd), "mode": "cli"})
    assert made.status_code == 200
    view = await gateway.core.gateway.ask(ANN, q.GetSession(SessionId(made.json()["id"])))
    assert view.settings["link"] == "terminal"
