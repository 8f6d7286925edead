"""The replay law, and the protocol on a whole gateway with the demo agent. The package is found by its entry points."""

import asyncio
import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bookmarks.client import BookmarksClient, BookmarksReplay
from websockets.asyncio.client import ClientConnection, connect

from fairlead.config import Config
from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.ids import EventId, MessageId
from fairlead.wiring import GatewayInfo, running
from fairlead_testing.replay import WAYS, check_replay, log_of, plan_of

EVENTS = [
    made
    for number in range(4)
    for made in (
        ev.UserMessage(
            id=EventId(f"u{number}"), message=MessageId(f"mu{number}"), content=(TextBlock(f"question {number}"),)
        ),
        ev.TurnStarted(id=EventId(f"t{number}")),
        ev.Text(id=EventId(f"a{number}"), message=MessageId(f"ma{number}"), block=0, text=f"answer {number}"),
    )
]


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("begin", range(len(EVENTS)))
async def test_a_client_that_was_away_shows_the_same_as_one_that_was_not(way: str, begin: int) -> None:
    scene = BookmarksReplay.scene_of(log_of(EVENTS))
    await check_replay(BookmarksReplay, scene, plan_of([(begin, min(begin + 4, len(EVENTS)))], [way]))


def call(gateway: GatewayInfo, token: str, path: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(gateway.url + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
        return answer


async def read_until(socket: ClientConnection, client: BookmarksClient, done: Callable[[], bool]) -> None:
    while not done():
        client.apply(json.loads(await asyncio.wait_for(socket.recv(), 60)))


async def test_bookmarks_are_kept_for_their_user(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    config = Config(data=str(tmp_path / "data"), port=0, agent="demo", roots=(str(work),), sandbox="off")
    env = {"HOME": str(tmp_path), "PATH": os.environ.get("PATH", os.defpath)}
    async with running(config, env) as gateway:
        made = await asyncio.to_thread(call, gateway, gateway.token, "/v1/sessions", {"cwd": str(work)})
        url = f"{gateway.url.replace('http', 'ws', 1)}/bookmarks/{made['session']}"
        headers = {"authorization": f"Bearer {gateway.token}"}
        client = BookmarksClient()
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            await socket.send(json.dumps({"type": "send", "text": "SCRIPT:text hello there"}))
            await read_until(socket, client, lambda: len(client.texts) == 2)
            assert [by for by, _ in client.texts.values()] == ["user", "agent"]
            seq = max(client.texts)
            await socket.send(json.dumps({"type": "mark", "seq": seq}))
            await read_until(socket, client, lambda: client.marked == [seq])
            await socket.send("{}")
            assert json.loads(await socket.recv())["type"] == "error"
        again = BookmarksClient()
        async with connect(f"{url}?after={seq}", additional_headers=headers, proxy=None) as socket:
            await read_until(socket, again, lambda: again.marked == [seq])
        assert again.texts == {}, "the client resumed behind the last text"
