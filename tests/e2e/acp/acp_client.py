"""A plain ACP client for tests: JSON-RPC lines over the pipes of an agent's process, as few rules as possible.

It keeps every line of both directions (`trace`) and answers permission requests by the kind of option that the test
sets (`permission`). It offers neither files nor terminals, and refuses every other request of the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from e2e.acp.acp_harness import Agent
from patience import PATIENCE

Json = dict[str, Any]

# One line may hold a whole file.
LINE_LIMIT = 1 << 26
CAPABILITIES: Json = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


class AcpError(Exception):
    """The agent answered a call with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(json.dumps(error))
        self.error = error


class AcpClient:
    """An agent's process, and the client's end of its pipes."""

    def __init__(self, agent: Agent, cwd: Path, errors: Path) -> None:
        self.permission = "allow_once"
        """The kind of option that answers permission requests; `cancelled` chooses none, "" leaves them open."""
        self.trace: list[str] = []
        self.junk: list[str] = []
        """Lines of the agent's stdout that are no JSON-RPC message."""
        self.updates: list[Json] = []
        self.asked: list[Json] = []
        """The parameters of the permission requests."""
        self.refused: list[str] = []
        """The methods of the agent's requests that this client does not have."""
        self._agent, self._cwd, self._errors = agent, cwd, errors
        self._open: dict[int, asyncio.Future[Json]] = {}
        self._arrived = asyncio.Condition()
        self._ended = False
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AcpClient:
        with self._errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *self._agent.command,
                cwd=self._cwd,
                env=self._agent.env,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=LINE_LIMIT,
                start_new_session=True,
            )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the agent and what it started."""
        assert self._process is not None and self._reading is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading

    async def call(self, method: str, **params: Any) -> Json:
        """The result of a call. Raises AcpError if the agent refuses it."""
        number = len(self._open) + 1
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        await self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        await self.wait_until(answer.done)
        message = answer.result()
        if "error" in message:
            raise AcpError(message["error"])
        return dict(message["result"] or {})

    async def notify(self, method: str, **params: Any) -> None:
        await self._write({"jsonrpc": "2.0", "method": method, "params": params})

    async def initialize(self) -> Json:
        client = {"name": "fairlead-tests", "version": "1"}
        return await self.call("initialize", protocolVersion=1, clientCapabilities=CAPABILITIES, clientInfo=client)

    async def new_session(self) -> str:
        return str((await self.call("session/new", cwd=str(self._cwd), mcpServers=[]))["sessionId"])

    async def prompt(self, session: str, text: str) -> str:
        """Why the turn that this prompt began has ended."""
        answer = await self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        return str(answer["stopReason"])

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a message of the agent has made this true. Raises AssertionError if the agent ends before."""
        async with asyncio.timeout(PATIENCE), self._arrived:
            await self._arrived.wait_for(lambda: holds() or self._ended)
        assert holds(), f"the agent has ended: {self._errors.read_text()}"

    def of(self, kind: str) -> list[Json]:
        """The updates of one kind, in order."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """The pieces of the agent's message (or of its thoughts), joined."""
        return "".join(update["content"].get("text", "") for update in self.of(kind))

    async def _write(self, message: Json) -> None:
        line = json.dumps(message, separators=(",", ":"))
        self.trace.append(f"> {line}")
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        try:
            async for data in self._process.stdout:
                line = data.decode().rstrip("\n")
                self.trace.append(f"< {line}")
                await self._take(line)
                await self._wake()
        finally:
            self._ended = True
            await self._wake()

    async def _wake(self) -> None:
        async with self._arrived:
            self._arrived.notify_all()

    async def _take(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self.junk.append(line)
            return
        match message:
            case {"method": "session/update", "params": params}:
                self.updates.append(params["update"])
            case {"method": "session/request_permission", "id": number, "params": params}:
                self.asked.append(params)
                if self.permission:
                    await self._write({"jsonrpc": "2.0", "id": number, "result": {"outcome": self._choice(params)}})
            case {"method": method, "id": number}:
                self.refused.append(method)
                error = {"code": -32601, "message": f"this client has no {method}"}
                await self._write({"jsonrpc": "2.0", "id": number, "error": error})
            case {"id": int(number)} if number in self._open and not self._open[number].done():
                self._open[number].set_result(message)
            case {"jsonrpc": "2.0"}:
                pass  # other notifications
            case _:
                self.junk.append(line)

    def _choice(self, params: Json) -> Json:
        for option in params["options"]:
            if option["kind"] == self.permission:
                return {"outcome": "selected", "optionId": option["optionId"]}
        return {"outcome": "cancelled"}
