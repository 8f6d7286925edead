"""Ownership of sessions: a user never sees anything of another user's, on any route or socket of any protocol.

The routes and sockets come from the route table: a new one is covered automatically.
"""

import asyncio
import contextlib
import uuid
from pathlib import Path

import pytest

from laws.two_users import WORD, Ids, Listener, TwoUserGateway, asked, collect_lines, named, open_gateway, table

pytestmark = pytest.mark.process

LISTS = ("/v1/ws", "/ws", "/_ws/chat", "/notifications", "/v1/notices/ws")
"""Sockets on which a client sends which sessions it wants to watch."""
WATCHED = (
    "/v1/sessions/ws/{session}/subscribe",
    "/v1/sessions/{session}/envelopes",
    "/api/claude/sessions/{session}/subscribe",
)
NAMES = ("{session}", "{request}", "{id}")
"""Parameters that may name another user's things; names of shells and plugins are private to each user."""
SSE = "/mylifedb/api/notifications/stream"
SEARCHES = {"q": WORD, "query": WORD, "words": WORD, "limit": "50", "archived": "any"}


async def fill_as_anna(gateway: TwoUserGateway) -> tuple[Ids, set[str]]:
    """Let Anna send, name, schedule and store things; return the ids for a walk, and every id of hers."""
    first = {"title": f"{WORD} title", "text": f"SCRIPT:text {WORD} answer"}
    session = (await gateway.post("anna", "/v1/sessions", first))["session"]
    view = await gateway.rested("anna", session)
    await gateway.post("anna", f"/v1/sessions/{session}/messages", {"text": f"SCRIPT:bash touch {WORD}"})
    request = await gateway.asking("anna", session)
    scheduled = {"name": f"{WORD} agent", "schedule": "0 0 1 1 *", "prompt": f"SCRIPT:text {WORD} scheduled"}
    agent = (await gateway.post("anna", "/cognova/api/agents", scheduled))["data"]["id"]
    await gateway.post("anna", f"/cognova/api/agents/{agent}/run")
    run = (await gateway.get("anna", f"/cognova/api/agents/{agent}"))["data"]["runs"][0]
    await gateway.rested("anna", run["sessionId"])
    hook = {"eventType": "PreToolUse", "sessionId": session, "eventData": {"said": WORD}}
    event = (await gateway.post("anna", "/cognova/api/hooks/events", hook))["data"]["id"]
    memory = {"content": f"{WORD} remembered", "chunkType": "fact", "sessionId": session}
    kept = (await gateway.post("anna", "/cognova/api/memory/store", memory))["data"]["id"]
    ids = {session, request, agent, run["id"], run["sessionId"], event, kept, view["summary"]["agent_session"]}
    return Ids(session, request, agent), ids


def nonexistent(ids: Ids) -> Ids:
    """Ids of the same form that do not exist."""
    return Ids(str(uuid.uuid4()), f"{ids.request[:-4]}zzzz", str(uuid.uuid4()))


def check_silent(text: str, where: str, mine: set[str]) -> None:
    assert WORD not in text, (where, text[:500])
    for name in mine:
        assert name not in text, (where, text[:500])


async def walk(gateway: TwoUserGateway, who: str, ids: Ids) -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for route in table().routes:
        if route.access != "public" and route.name not in ("tickets.create", "me"):
            found[f"{route.method} {route.path}"] = await asked(gateway, who, route, ids, SEARCHES)
    return found


async def test_no_route_or_socket_shows_anything_of_another_users_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        for name in ("anna", "bert"):
            await gateway.add(name)
        anna, mine = await fill_as_anna(gateway)
        unknown_ids = nonexistent(anna)
        listeners: list[tuple[Listener, Listener, Listener]] = []
        streams: dict[str, list[str]] = {"anna": [], "bert": []}
        async with contextlib.AsyncExitStack() as stack:
            for socket in table().sockets:
                about = await stack.enter_async_context(gateway.listening("bert", socket.path, anna))
                control = await stack.enter_async_context(gateway.listening("bert", socket.path, unknown_ids))
                own = await stack.enter_async_context(gateway.listening("anna", socket.path, anna, quiet=True))
                listeners.append((about, control, own))
            tasks = [asyncio.create_task(collect_lines(gateway, who, SSE, lines)) for who, lines in streams.items()]
            while not all(streams.values()):
                await asyncio.sleep(0.02)
            # While Bert listens everywhere, Anna continues.
            await gateway.call("anna", "PATCH", f"/v1/sessions/{anna.session}", {"title": f"{WORD} again"})
            before = await gateway.get("anna", f"/v1/sessions/{anna.session}/events?limit=1000")
            hidden, unknown = await walk(gateway, "bert", anna), await walk(gateway, "bert", unknown_ids)
            await gateway.post("anna", f"/v1/permissions/{anna.request}", {"behavior": "deny"})
            await gateway.rested("anna", anna.session)
            expected = {*LISTS, *(named(path, anna) for path in WATCHED)}
            while not expected <= {own.path for _, _, own in listeners if WORD in own.text}:
                await asyncio.sleep(0.02)
            while anna.session not in "".join(streams["anna"]):
                await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for where, (status, body) in hidden.items():
            check_silent(anna.plain(body), where, mine)
            if any(name in where for name in NAMES):
                # Exactly the answer for an id that never existed.
                assert (status, anna.plain(body)) == (unknown[where][0], unknown_ids.plain(unknown[where][1])), where
        for about, control, _ in listeners:
            check_silent(anna.plain(about.text), about.path, mine)
            assert about.refused == control.refused, about.path
        check_silent("".join(streams["bert"]), SSE, mine)
        after = await gateway.get("anna", f"/v1/sessions/{anna.session}/events?limit=1000")
        assert after["events"][: len(before["events"])] == before["events"]
        assert "bert" not in str(after), "he has changed nothing of it"
        # The data can be found: the same walk shows it to its owner.
        shown = {where for where, (_, body) in (await walk_reading(gateway, "anna", anna)).items() if WORD in body}
        assert shown >= {
            "GET /v1/sessions",
            "GET /v1/sessions/{session}",
            "GET /v1/sessions/{session}/messages",
            "GET /v1/sessions/{session}/events",
            "GET /v1/sessions/{session}/export",
            "GET /v1/search",
            "GET /v1/notices",
            "GET /cognova/api/conversations",
            "GET /cognova/api/conversations/{session}",
            "GET /cognova/api/agents",
            "GET /cognova/api/hooks/events",
            "GET /claudecodeui/api/projects",
            "GET /claudecodeui/api/providers/search/sessions",
            "GET /claudecodeui/api/providers/sessions/{session}/messages",
            "GET /api/claude/sessions/all",
            "GET /v3/sessions/{session}/messages",
        }


async def walk_reading(gateway: TwoUserGateway, who: str, ids: Ids) -> dict[str, tuple[int, str]]:
    routes = [route for route in table().routes if route.method == "GET" and route.access != "public"]
    found = await asyncio.gather(*(asked(gateway, who, route, ids, SEARCHES) for route in routes))
    return {f"{route.method} {route.path}": answer for route, answer in zip(routes, found, strict=True)}


async def test_a_session_is_shared_and_unshared(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        for name in ("anna", "bert", "carl"):
            await gateway.add(name)
        ids, _ = await fill_as_anna(gateway)
        path = f"/v1/sessions/{ids.session}"

        async def seen() -> set[str]:
            found = set()
            for name in ("admin", "anna", "bert", "carl"):
                listed = {one["session"] for one in (await gateway.get(name, "/v1/sessions"))["sessions"]}
                opened = (await gateway.call(name, "GET", path)).status_code == 200
                assert opened is (ids.session in listed)
                found |= {name} if opened else set()
            return found

        assert await seen() == {"admin", "anna"}
        assert (await gateway.call("bert", "POST", f"{path}/share", {"user": "bert"})).status_code == 404
        assert (await gateway.call("anna", "POST", f"{path}/share", {"user": "nobody"})).status_code == 404
        await gateway.post("anna", f"{path}/share", {"user": "bert"})
        assert await seen() == {"admin", "anna", "bert"}
        # He may steer it, but neither share nor delete it.
        assert (await gateway.call("bert", "PATCH", path, {"title": "by bert"})).status_code == 200
        assert (await gateway.call("bert", "POST", f"{path}/share", {"user": "carl"})).status_code == 403
        assert (await gateway.call("bert", "DELETE", path)).status_code == 403
        async with contextlib.AsyncExitStack() as stack:
            sockets = [route.path for route in table().sockets if "{session}" in route.path or route.path in LISTS]
            watching = [
                await stack.enter_async_context(gateway.listening("bert", socket, ids, quiet=True))
                for socket in sockets
            ]
            expected = {"/v1/ws", *(named(path, ids) for path in WATCHED)}
            while not expected <= {one.path for one in watching if WORD in one.text}:
                await asyncio.sleep(0.02)
            # The sockets of a terminal end by themselves: the session has no terminal.
            watching = [one for one in watching if not one.closed and not one.refused and "terminal" not in one.path]
            await gateway.post("anna", f"{path}/share", {"user": "bert", "remove": True})
            while not all(one.closed for one in watching):
                await asyncio.sleep(0.02)
            assert {one.path: one.closed for one in watching} == {one.path: 1012 for one in watching}
        assert await seen() == {"admin", "anna"}
        await gateway.post("admin", f"{path}/share", {"everybody": True})
        assert await seen() == {"admin", "anna", "bert", "carl"}
        # A fork belongs to the user who made it, whichever users the parent is shared with.
        await gateway.post("anna", f"/v1/permissions/{ids.request}", {"behavior": "deny"})
        await gateway.rested("anna", ids.session)
        fork = (await gateway.post("carl", f"{path}/fork"))["session"]
        await gateway.post("admin", f"{path}/share", {"everybody": True, "remove": True})
        assert await seen() == {"admin", "anna"}
        assert (await gateway.get("carl", f"/v1/sessions/{fork}"))["summary"]["owner"] == "carl"
        assert (await gateway.call("anna", "GET", f"/v1/sessions/{fork}")).status_code == 404


async def test_another_users_conversation_cannot_be_resumed(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        await gateway.add("anna")
        await gateway.add("bert")
        ids, _ = await fill_as_anna(gateway)
        agents = (await gateway.get("anna", f"/v1/sessions/{ids.session}"))["summary"]["agent_session"]
        for resumed in (ids.session, agents):
            assert (await gateway.call("bert", "POST", "/v1/sessions", {"resume": resumed})).status_code == 404
        assert (await gateway.call("anna", "POST", "/v1/sessions", {"resume": agents})).status_code == 201
