"""A program that runs Claude Code over stream-json, as the SDKs do: directly, or through the shim."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from patience import PATIENCE

Line = dict[str, Any]
Wanted = str | Callable[[Line], bool]

STREAM_JSON = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
ASKING = ("--permission-prompt-tool", "stdio")
SHIM = (sys.executable, "-P", "-m", "fairlead.cli.shim")


class Caller:
    """Everything that the program gets is in `lines`, in order."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[Line] = []
        self.stderr = b""
        self._taken = 0
        self._news = asyncio.Condition()
        self._reading = [asyncio.create_task(self._read()), asyncio.create_task(self._read_errors())]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for raw in self.process.stdout:
            async with self._news:
                self.lines.append(json.loads(raw))
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.stderr = await self.process.stderr.read()

    async def send(self, message: Line) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def prompt(self, text: str, **fields: Any) -> None:
        await self.send({"type": "user", "message": {"role": "user", "content": text}, **fields})

    async def request(self, request_id: str, subtype: str, **fields: Any) -> None:
        await self.send(
            {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}}
        )

    async def respond(self, request: Line, response: Line) -> None:
        body = {"subtype": "success", "request_id": request["request_id"], "response": response}
        await self.send({"type": "control_response", "response": body})

    async def allow(self, request: Line, **fields: Any) -> None:
        await self.respond(request, {"behavior": "allow", "updatedInput": request["request"]["input"], **fields})

    async def until(self, wanted: Wanted) -> Line:
        """The next line that matches, after the last one that was waited for."""
        fits = (lambda line: line["type"] == wanted) if isinstance(wanted, str) else wanted
        async with self._news, asyncio.timeout(PATIENCE):
            while True:
                while self._taken < len(self.lines):
                    self._taken += 1
                    if fits(self.lines[self._taken - 1]):
                        return self.lines[self._taken - 1]
                assert not self._reading[0].done(), (
                    f"{wanted} did not come; there were {self.lines[-5:]}, {self.stderr!r}"
                )
                await self._news.wait()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def ended(self) -> int:
        """Close the input, and wait for the end of the program; return its exit code."""
        self.end_input()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._reading)
            return await self.process.wait()


def asks_for(tool: str) -> Callable[[Line], bool]:
    return lambda line: line["type"] == "control_request" and line["request"].get("tool_name") == tool


async def trust(http: httpx2.AsyncClient, folder: Path) -> None:
    """Let the gateway trust a folder: the shim is for trusted ones."""
    report = (await http.get("/v1/trust", params={"path": str(folder)})).json()
    trusted = await http.post("/v1/trust", json={"path": str(folder), "digest": report["digest"]})
    assert trusted.is_success, trusted.text


@contextlib.asynccontextmanager
async def calling(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> AsyncIterator[Caller]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=dict(env),
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
        process_group=0,
    )
    try:
        yield Caller(process)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
