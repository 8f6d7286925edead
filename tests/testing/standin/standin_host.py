"""A host for the stand-in under test: the real process, its lines, and readable helpers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from patience import PATIENCE

Record = dict[str, Any]

FLAGS = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
STDIO = ["--permission-prompt-tool", "stdio"]
PARTIAL = ["--include-partial-messages"]

Answer = Callable[[Record], Record | None]


def allow(request: Record) -> Record:
    return {"behavior": "allow", "updatedInput": request["input"]}


def deny(request: Record) -> Record:
    return {"behavior": "deny", "message": "no way"}


class StandinHost:
    """Talks to one stand-in process."""

    def __init__(self, process: asyncio.subprocess.Process, cwd: Path, home: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.cwd = cwd
        self.home = home
        self.seen: list[Record] = []
        self.permit: Answer | None = None
        self.hook: Answer | None = None
        self._in = process.stdin
        self._out = process.stdout
        self._err = process.stderr
        self._requests = 0

    async def send(self, record: Record) -> None:
        self._in.write(json.dumps(record).encode() + b"\n")
        await self._in.drain()

    async def prompt(self, text: str, **fields: Any) -> None:
        message = {"role": "user", "content": text}
        await self.send({"type": "user", "message": message, "parent_tool_use_id": None, **fields})

    async def reply(self, request: Record, response: Record) -> None:
        body = {"subtype": "success", "request_id": request["request_id"], "response": response}
        await self.send({"type": "control_response", "response": body})

    async def read(self) -> Record | None:
        """Return the next record, None at the end; answer permissions and hooks with `permit` and `hook`."""
        async with asyncio.timeout(PATIENCE):
            line = await self._out.readline()
        if not line:
            return None
        record: Record = json.loads(line)
        self.seen.append(record)
        if record["type"] == "control_request":
            request = record["request"]
            by = {"can_use_tool": self.permit, "hook_callback": self.hook}.get(request["subtype"])
            response = by(request) if by is not None else None
            if response is not None:
                await self.reply(record, response)
        return record

    async def until(self, wanted: Callable[[Record], bool]) -> Record:
        while (record := await self.read()) is not None:
            if wanted(record):
                return record
        raise AssertionError(f"the agent ended first; it said {[r['type'] for r in self.seen]}")

    async def result(self) -> Record:
        return await self.until(lambda r: r["type"] == "result")

    async def asked(self) -> Record:
        """Return the next can_use_tool request without answering it."""
        return await self.until(lambda r: r["type"] == "control_request" and r["request"]["subtype"] == "can_use_tool")

    async def control(self, subtype: str, **fields: Any) -> Record:
        """Send a control request; return the inner response of a success, or the whole body of an error."""
        self._requests += 1
        request_id = f"host-{self._requests}"
        request = {"subtype": subtype, **fields}
        await self.send({"type": "control_request", "request_id": request_id, "request": request})
        answer = await self.until(
            lambda r: r["type"] == "control_response" and r["response"]["request_id"] == request_id
        )
        body: Record = answer["response"]
        return body.get("response", {}) if body["subtype"] == "success" else body

    async def ask(self, text: str) -> Record:
        """Run one whole turn and return its result."""
        await self.prompt(text)
        return await self.result()

    def close_stdin(self) -> None:
        self._in.close()

    async def end(self) -> int:
        """Close stdin, read to the end and return the exit code."""
        self.close_stdin()
        while await self.read() is not None:
            continue
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def errors(self) -> str:
        return (await self._err.read()).decode()

    def transcript(self, session_id: str) -> list[Record]:
        (path,) = self.home.glob(f".claude/projects/*/{session_id}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def of(self, kind: str) -> list[Record]:
        return [r for r in self.seen if r["type"] == kind or r.get("subtype") == kind]


@asynccontextmanager
async def standin(
    tmp_path: Path, *flags: str, partial: bool = False, asks: bool = True, env: dict[str, str] | None = None
) -> AsyncIterator[StandinHost]:
    """Run a stand-in in `tmp_path`; it is always killed at the end of the test."""
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir(exist_ok=True)
    cwd.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairlead_testing.standin_cli",
        *FLAGS,
        *(STDIO if asks else []),
        *(PARTIAL if partial else []),
        *flags,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", **(env or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    host = StandinHost(process, cwd, home)
    try:
        yield host
    finally:
        host.close_stdin()
        if process.returncode is None:
            process.kill()
        await process.wait()
        # Drain the remaining output, so that no transport outlives its loop.
        await process.communicate()
