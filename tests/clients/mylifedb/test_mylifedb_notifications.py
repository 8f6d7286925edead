"""The notification stream: sends permitted listeners which session changed, until they leave or the gateway stops."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from clients.mylifedb.harness import MyLifeDbGateway, open_gateway
from fairlead.clients.mylifedb.notifications import event
from fairlead.model import commands as cmd
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.web.session_changes import SessionChangeNotice
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead_testing.clock import ManualClock
from patience import PATIENCE
from sessions.harness import SESSION

PATH = "/mylifedb/api/notifications/stream"


@asynccontextmanager
async def listening(gateway: MyLifeDbGateway, token: str = "") -> AsyncIterator[AsyncIterator[str]]:
    async with gateway.http(token) as http, http.stream("GET", PATH) as answer:
        assert answer.status_code == 200, answer
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.aiter_lines()
        assert await asyncio.wait_for(anext(lines), PATIENCE) == ":"
        yield lines


async def news(lines: AsyncIterator[str], count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(PATIENCE):
        async for line in lines:
            if line.startswith("data: "):
                message: dict[str, Any] = json.loads(line[6:])
                assert message["type"] == "claude-session-updated" and isinstance(message["timestamp"], int)
                found.append((message["data"]["sessionId"], message["data"]["operation"]))
                if len(found) == count:
                    return found
    raise AssertionError("the stream ended")


async def test_the_changes_of_a_session_are_sent_as_they_happen(gateway: MyLifeDbGateway) -> None:
    async with listening(gateway) as lines:
        await gateway.core.open()
        assert await news(lines, 1) == [(SESSION, "created")]
        await gateway.core.send("hello")
        agent = await gateway.core.kind.launched()
        assert await news(lines, 1) == [(SESSION, "activated")]
        await agent.prompted()
        assert await news(lines, 1) == [(SESSION, "updated")]
        await agent.die(Exit(code=0))
        assert {what for _, what in await news(lines, 2)} == {"deactivated", "updated"}
        async with gateway.tab():
            assert await news(lines, 1) == [(SESSION, "read")]
        await gateway.core.do(cmd.Delete(session=SESSION))
        assert await news(lines, 1) == [(SESSION, "deleted")]


async def test_a_watched_turn_is_reported_as_read_when_it_ends(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with listening(gateway) as lines, gateway.tab() as tab:
        await tab.say(type="user_message", content="hello")
        agent = await gateway.core.kind.launched()
        await agent.prompted()
        await agent.result()
        changes: list[tuple[str, str]] = []
        while changes.count((SESSION, "read")) < 2:
            changes += await news(lines, 1)
        assert changes[-1] == (SESSION, "read"), "first for connecting, then for the turn"


async def test_it_needs_the_view_scope(gateway: MyLifeDbGateway) -> None:
    async with gateway.http() as http:
        http.headers.pop("authorization")
        assert (await http.get(PATH)).status_code == 401
    token = await gateway.token("terminal")
    async with gateway.http(token) as http:
        assert (await http.get(PATH)).status_code == 403


async def test_it_ends_when_the_credential_is_revoked(gateway: MyLifeDbGateway) -> None:
    made = await gateway.credentials.create("token", "bob", ("view",))
    async with listening(gateway, made.secret) as lines:
        await gateway.credentials.revoke("token", made.credential.id)
        async with asyncio.timeout(PATIENCE):
            assert [line async for line in lines] in ([], [""])


async def test_a_gateway_that_stops_does_not_wait_for_listeners(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        async with open_gateway(tmp_path) as gateway:
            client = gateway.http()
            request = client.build_request("GET", PATH)
            answer = await client.send(request, stream=True)
            lines = answer.aiter_lines()
            assert await anext(lines) == ":"
        with suppress(httpx2.HTTPError):  # a cut connection is also an end
            assert [line async for line in lines if line.startswith("data")] == []
        await client.aclose()


async def sees_all(who: Identity, session: SessionId) -> bool:
    return True


async def test_a_slow_listener_keeps_only_the_last_change_of_each_kind() -> None:
    changes = SessionChanges(ManualClock(), sees_all)
    slow, gone = changes.listen(), changes.listen()
    for _ in range(1000):
        changes.notify(SESSION, "updated")
        changes.notify(SESSION, "activated")
    assert [notice.what for notice in await slow.next_notices()] == ["updated", "activated"]
    gone.close()
    assert await gone.next_notices() == ()
    assert len(changes.listeners) == 1


def test_an_event_is_one_line() -> None:
    data = event(SessionChangeNotice(SESSION, "created", 5))
    assert data.startswith(b"data: {") and data.endswith(b"}\n\n") and data.count(b"\n") == 2
