"""Stored transcripts over REST: scopes and input that is not valid."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client import Denied, GatewayClient, Missing, UsageError, connect
from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running

pytestmark = pytest.mark.process
ENTRIES = "/v1/transcripts/entries"
KEY = {"project": "a/b", "session": "s"}
Answer = dict[str, Any]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayInfo]:
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(tmp_path),), claude_homes=())
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    async with running(config, env) as info:
        yield info


async def token(admin: GatewayClient, user: str, *scopes: str) -> str:
    body = {"name": f"{user} {scopes}", "user": user, "scopes": scopes}
    secret: str = (await admin.post("/v1/tokens", Answer, body))["secret"]
    return secret


async def test_scopes_and_users(gateway: GatewayInfo) -> None:
    async with connect(gateway.url, gateway.token) as admin:
        await admin.post("/v1/users", Answer, {"name": "ann"})
        reader, writer = await token(admin, "ann", "view"), await token(admin, "ann", "chat", "view")
        async with connect(gateway.url, reader) as reads, connect(gateway.url, writer) as writes:
            with pytest.raises(Denied):
                await reads.call("POST", ENTRIES, Answer, query=KEY, body={"entries": [{"n": 1}]})
            await writes.call("POST", ENTRIES, Answer, query=KEY, body={"entries": [{"n": 1}]})
            assert await reads.call("GET", ENTRIES, Answer, query=KEY) == {"entries": [{"n": 1}]}
            with pytest.raises(Denied):
                await reads.call("DELETE", ENTRIES, Answer, query=KEY)
            with pytest.raises(Missing):
                await admin.call("GET", ENTRIES, Answer, query=KEY)
            assert await admin.get("/v1/transcripts", Answer, project="a/b") == {"transcripts": []}
            for query, body in (
                ({"project": "a/b"}, {"entries": []}),
                (KEY, {"entries": [1]}),
                (KEY, {"entries": {}}),
                (KEY, {"entries": [], "summary": "text"}),
                (KEY, {"entries": [], "more": 1}),
            ):
                with pytest.raises(UsageError):
                    await writes.call("POST", ENTRIES, Answer, query=query, body=body)
        await admin.call("DELETE", "/v1/users/ann", Answer)
        await admin.post("/v1/users", Answer, {"name": "ann"})
        async with connect(gateway.url, await token(admin, "ann", "view")) as next_ann:
            with pytest.raises(Missing):
                await next_ann.call("GET", ENTRIES, Answer, query=KEY)
