"""The golden case, and the agent on a whole gateway. The package is found by its entry point."""

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from runbook.interpreter import RunbookInterpreter
from websockets.asyncio.client import ClientConnection, connect

from fairlead.config import Config
from fairlead.model import events as ev
from fairlead.model.agents import Record
from fairlead.model.ids import SessionId
from fairlead.wiring import GatewayInfo, running

GOLDEN = Path(__file__).parent / "golden"


def interpret(case: str, *, restart: bool = False) -> list[bytes]:
    """The events of a recorded conversation, encoded. `restart`: the state passes through a snapshot at each record."""
    interpreter = RunbookInterpreter(SessionId("s"))
    made: list[bytes] = []
    for line in (GOLDEN / case / "records.jsonl").read_bytes().splitlines():
        sent = json.loads(line)["type"] in ("prompt", "cancel")
        for event in interpreter.step(Record(line, "gateway" if sent else "agent")).events:
            made.append(ev.encode(event))
            interpreter.assign_seq(event, len(made))
        if restart:
            snapshot = interpreter.snapshot()
            interpreter = RunbookInterpreter(SessionId("s"))
            interpreter.restore(snapshot)
    return made


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("case", sorted(path.name for path in GOLDEN.iterdir()))
def test_a_recorded_conversation_gives_the_same_events(case: str, restart: bool) -> None:
    made = interpret(case, restart=restart)
    written = GOLDEN / case / "events.jsonl"
    if os.environ.get("FAIRLEAD_WRITE"):
        written.write_bytes(b"".join(event + b"\n" for event in made))
    assert made == written.read_bytes().splitlines()


class RunbookSession:
    """A session of the agent, commanded over REST and watched over the native socket."""

    def __init__(self, gateway: GatewayInfo) -> None:
        self._gateway = gateway
        self._headers = {"authorization": f"Bearer {gateway.token}"}
        self.id = ""
        self.socket: ClientConnection | None = None

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {**self._headers, "content-type": "application/json"}
        request = urllib.request.Request(self._gateway.url + path, json.dumps(body).encode(), headers, method="POST")

        def call() -> dict[str, Any]:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer: dict[str, Any] = json.load(response)
                return answer

        return await asyncio.to_thread(call)

    async def prompt(self, *lines: str) -> None:
        await self.post(f"/v1/sessions/{self.id}/messages", {"text": "\n".join(lines)})

    async def decide(self, asked: dict[str, Any], behavior: str) -> None:
        await self.post(f"/v1/permissions/{asked['request']}", {"behavior": behavior})

    async def until(self, *kinds: str) -> dict[str, Any]:
        """The next event of one of these kinds."""
        assert self.socket is not None
        while True:
            frame: dict[str, Any] = json.loads(await asyncio.wait_for(self.socket.recv(), 60))
            assert frame["type"] not in ("error", "agent.exited"), frame
            if frame["type"] in kinds:
                return frame


@asynccontextmanager
async def session_in(folder: Path, **settings: Any) -> AsyncIterator[RunbookSession]:
    config = Config(data=str(folder / "data"), port=0, agent="runbook", roots=(str(folder),), sandbox="off", **settings)
    async with running(config, {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath)}) as gateway:
        session = RunbookSession(gateway)
        session.id = (await session.post("/v1/sessions", {"cwd": str(folder)}))["session"]
        url, headers = gateway.url.replace("http", "ws", 1), {"authorization": f"Bearer {gateway.token}"}
        async with connect(f"{url}/v1/ws", additional_headers=headers, proxy=None) as session.socket:
            await session.socket.send(json.dumps({"type": "subscribe", "id": 1, "session": session.id}))
            yield session


async def test_a_runbook_runs_what_is_allowed_and_not_what_is_denied(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        await session.prompt("Make a file:", "$ touch made", "and another:", "$ touch never")
        asked = await session.until("permission.asked")
        assert asked["input"] == {"command": "touch made"}
        await session.decide(asked, "allow")
        assert "is_error" not in await session.until("tool.ended")
        await session.decide(await session.until("permission.asked"), "deny")
        assert (await session.until("tool.ended"))["status"] == "failed"
        assert (await session.until("turn.ended"))["status"] == "completed"
        assert (tmp_path / "made").exists()
        assert not (tmp_path / "never").exists()


async def test_the_rules_of_the_gateway_hold(tmp_path: Path) -> None:
    async with session_in(tmp_path, allow=("Bash(echo:*)",), deny=("Bash(rm:*)",)) as session:
        await session.prompt("$ echo hello", "$ rm -rf .", f"$ cat {tmp_path}/data/token")
        assert (await session.until("tool.ended"))["content"] == "hello\n"
        assert (await session.until("tool.ended"))["is_error"]
        assert (await session.until("tool.ended"))["is_error"], "the gateway's own folder is out of reach"
        assert (await session.until("turn.ended"))["status"] == "completed"


async def test_a_command_that_runs_and_one_that_waits_can_be_interrupted(tmp_path: Path) -> None:
    async with session_in(tmp_path, allow=("Bash(sleep:*)",)) as session:
        for line, kind in (("$ sleep 300", "permission.resolved"), ("$ touch never", "permission.asked")):
            await session.prompt(line)
            await session.until(kind)
            await session.post(f"/v1/sessions/{session.id}/interrupt", {})
            assert (await session.until("turn.ended"))["status"] == "cancelled"
