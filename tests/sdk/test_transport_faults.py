"""The transport where something goes wrong. It needs no SDK for that."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.client import CommandFailed, Unreachable
from fairlead.config import Config
from fairlead.sdk import FairleadTransport, transport
from fairlead.wiring import GatewayInfo, running
from patience import PATIENCE

pytestmark = pytest.mark.process


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayInfo]:
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(tmp_path),), claude_homes=())
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    async with running(config, env) as info:
        yield info


def line(content: object) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


async def read(link: FairleadTransport) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        return [message["type"] async for message in link.read_messages()]


async def test_a_message_without_a_result_is_an_error(
    gateway: GatewayInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "QUIET_SECONDS", 0.05)
    link = FairleadTransport(gateway.url, gateway.token, cwd=str(tmp_path))
    await link.connect()
    await link.write(line([]))
    with pytest.raises(CommandFailed, match="no result"):
        await read(link)
    await link.close()


async def test_input_without_a_message_ends_at_once(gateway: GatewayInfo, tmp_path: Path) -> None:
    link = FairleadTransport(gateway.url, gateway.token, cwd=str(tmp_path))
    assert not link.is_ready()
    await link.connect()
    assert link.is_ready()
    await link.end_input()
    assert await read(link) == []
    await link.close()
    await link.close()
    with pytest.raises(Unreachable):
        await link.write(line("hello"))


async def test_a_dying_agent_ends_the_turn(gateway: GatewayInfo, tmp_path: Path) -> None:
    link = FairleadTransport(gateway.url, gateway.token, cwd=str(tmp_path))
    await link.connect()
    await link.write(line("SCRIPT:crash"))
    await link.end_input()
    assert (await read(link))[-1] == "result"
    await link.close()


async def test_lost_connection(gateway: GatewayInfo, tmp_path: Path) -> None:
    link = FairleadTransport(gateway.url, gateway.token, cwd=str(tmp_path))
    await link.connect()
    reading = asyncio.create_task(read(link))
    assert link._socket is not None
    link._socket.transport.abort()
    with pytest.raises(Unreachable, match="lost"):
        await reading
    await link.close()
