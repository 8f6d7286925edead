"""A hook server on a real port, and `fairlead hook` as a real process that calls it."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.agents.claude.tui.hook_server import Handler, HookEndpoint, HookServer
from fairlead.auth.credentials import Credentials
from fairlead.model.ids import SessionId
from fairlead.model.web.routes import ClientProtocol
from fairlead.server.app import App, AppConfig
from fairlead.server.listeners import Binding, allowed_origins, open_sockets
from fairlead.server.runner import ServerRunner
from fairlead.system.clock import Clock, SystemClock
from patience import PATIENCE
from server.fakes import FakeGateway

SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")


@dataclass
class HookHarness:
    server: HookServer
    url: str
    port: int
    runner: ServerRunner
    done: asyncio.Task[None]

    def open(self, handlers: Mapping[str, Handler]) -> HookEndpoint:
        return self.server.open(SESSION, handlers)

    async def stop(self) -> None:
        self.runner.stop()
        await self.done


@contextlib.asynccontextmanager
async def open_hook_harness(
    clock: Clock | None = None, port: int = 0, binding: Binding | None = None
) -> AsyncIterator[HookHarness]:
    """Serve the hook routes, behind access control, on a port of 127.0.0.1.

    `clock` is the clock of the hook server; the HTTP server has its own.
    """
    chosen = binding or Binding(port=port)
    system = SystemClock()
    credentials = Credentials(MemoryDocuments(), system, FakeTokenBytes())
    await credentials.load()
    sockets = open_sockets(chosen)
    found = sockets[0].getsockname()[1]
    url = f"{'https' if chosen.tls_cert else 'http'}://127.0.0.1:{found}"
    server = HookServer(credentials.agents, url, clock or system, str(chosen.tls_cert or ""))
    app = App(
        AppConfig(
            protocols=(),
            inbound=(ClientProtocol(name="claude", routes=server.routes()),),
            gateway=FakeGateway(),
            handlers=server.handlers(),
            credentials=credentials,
            allowed_origins=allowed_origins(chosen, sockets),
            clock=system,
            version="1.2.3",
        )
    )
    runner = ServerRunner(app, chosen, sockets, system)
    done = asyncio.create_task(runner.serve())
    await runner.ready()
    try:
        yield HookHarness(server, url, found, runner, done)
    finally:
        runner.stop()
        await done
        await credentials.close()


def tool_use(call: str = "toolu_1", tool: str = "Bash", **given: Any) -> dict[str, Any]:
    """Build the input of a PreToolUse hook, as the CLI writes it."""
    return {
        "session_id": SESSION,
        "transcript_path": "/home/u/.claude/projects/-w/x.jsonl",
        "cwd": "/w",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": given or {"command": "ls"},
        "tool_use_id": call,
    }


class HookProcess:
    """`fairlead hook EVENT`, as the CLI runs it."""

    def __init__(self, process: asyncio.subprocess.Process, given: bytes) -> None:
        self.process = process
        self._done = asyncio.create_task(process.communicate(given))

    async def end(self) -> tuple[int, Any]:
        """Return its exit code and its output as JSON (None: no output)."""
        out, complaints = await asyncio.wait_for(asyncio.shield(self._done), PATIENCE)
        assert b"Traceback" not in complaints, complaints.decode()
        assert self.process.returncode is not None
        return self.process.returncode, json.loads(out) if out else None


async def run_hook(
    event: str, given: Any, env: Mapping[str, str], *, patience: float | None = None, cwd: Path | None = None
) -> HookProcess:
    """Start a hook process. `patience` overrides the program's default, for tests that wait until it runs out."""
    body = given if isinstance(given, bytes) else json.dumps(given).encode()
    words = ["-m", "fairlead.cli.hook", event]
    if patience is not None:
        line = "import sys; from fairlead.cli.hook import run; "
        line += f"sys.exit(run({event!r}, sys.stdin.buffer, sys.stdout.buffer, patience={patience}))"
        words = ["-c", line]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-E", *words, stdin=pipe, stdout=pipe, stderr=pipe, env=_plain(env), cwd=cwd
    )
    return HookProcess(process, body)


def _plain(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that passes no settings of this process to the hook."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", **env}


def decided(answer: Any) -> tuple[str, str]:
    """Return the decision that a PreToolUse hook printed, and its reason."""
    output = answer["hookSpecificOutput"]
    return output["permissionDecision"], output.get("permissionDecisionReason", "")
