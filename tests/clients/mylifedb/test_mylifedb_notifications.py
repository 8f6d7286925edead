"""The notification stream: which session changed, to those who may look, until they leave or the gateway stops."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from clients.mylifedb.harness import MyLifeDbGateway, open_house
from fairlead.clients.mylifedb.notifications import event
from fairlead.model import commands as cmd
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.session_changes import SessionChangeNotice
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead.testing.clock import ManualClock
from patience import PATIENCE
from sessions.harness import SESSION

PATH = "/mylifedb/api/notifications/stream"


@asynccontextmanager
async def listening(house: MyLifeDbGateway, token: str = "") -> AsyncIterator[AsyncIterator[str]]:
    async with house.http(token) as http, http.stream("GET", PATH) as answer:
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
                told: dict[str, Any] = json.loads(line[6:])
                assert told["type"] == "claude-session-updated" and isinstance(told["timestamp"], int)
                found.append((told["data"]["sessionId"], told["data"]["operation"]))
                if len(found) == count:
                    return found
    raise AssertionError("the stream ended")


async def test_a_sessions_life_is_told_as_it_happens(house: MyLifeDbGateway) -> None:
    async with listening(house) as lines:
        await house.rig.open()
        assert await news(lines, 1) == [(SESSION, "created")]
        await house.rig.send("hello")
        agent = await house.rig.kind.launched()
        assert await news(lines, 1) == [(SESSION, "activated")]
        await agent.prompted()
        assert await news(lines, 1) == [(SESSION, "updated")]
        await agent.die(Exit(code=0))
        assert {what for _, what in await news(lines, 2)} == {"deactivated", "updated"}
        async with house.tab():
            assert await news(lines, 1) == [(SESSION, "read")]
        await house.rig.do(cmd.Delete(session=SESSION))
        assert await news(lines, 1) == [(SESSION, "deleted")]


async def test_a_turn_that_somebody_watches_is_told_as_read_when_it_ends(house: MyLifeDbGateway) -> None:
    await house.rig.open()
    async with listening(house) as lines, house.tab() as tab:
        await tab.say(type="user_message", content="hello")
        agent = await house.rig.kind.launched()
        await agent.prompted()
        await agent.result()
        told: list[tuple[str, str]] = []
        while told.count((SESSION, "read")) < 2:
            told += await news(lines, 1)
        assert told[-1] == (SESSION, "read"), "first for connecting, then for the turn"


async def test_it_is_for_those_who_may_look(house: MyLifeDbGateway) -> None:
    async with house.http() as http:
        http.headers.pop("authorization")
        assert (await http.get(PATH)).status_code == 401
    token = await house.token("terminal")
    async with house.http(token) as http:
        assert (await http.get(PATH)).status_code == 403


async def test_it_ends_when_the_credential_does(house: MyLifeDbGateway) -> None:
    made = await house.credentials.create("token", "bob", ("view",))
    async with listening(house, made.secret) as lines:
        await house.credentials.revoke("token", made.credential.id)
        async with asyncio.timeout(PATIENCE):
            assert [line async for line in lines] in ([], [""])


async def test_a_gateway_that_stops_does_not_wait_for_listeners(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        async with open_house(tmp_path) as house:
            client = house.http()
            request = client.build_request("GET", PATH)
            answer = await client.send(request, stream=True)
            lines = answer.aiter_lines()
            assert await anext(lines) == ":"
        with suppress(httpx.HTTPError):  # cut off is an end as well
            assert [line async for line in lines if line.startswith("data")] == []
        await client.aclose()


async def sees_all(who: Identity, session: SessionId) -> bool:
    return True


async def test_one_who_does_not_listen_keeps_the_last_of_each_kind_only() -> None:
    desk = SessionChanges(ManualClock(), sees_all)
    slow, gone = desk.listen(), desk.listen()
    for _ in range(1000):
        desk.notify(SESSION, "updated")
        desk.notify(SESSION, "activated")
    assert [told.what for told in await slow.next_notices()] == ["updated", "activated"]
    gone.close()
    assert await gone.next_notices() == ()
    assert len(desk.listeners) == 1


def test_an_event_is_one_line() -> None:
    told = event(SessionChangeNotice(SESSION, "created", 5))
    assert told.startswith(b"data: {") and told.endswith(b"}\n\n") and told.count(b"\n") == 2
