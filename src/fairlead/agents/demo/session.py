"""The state that all parts of a demo agent process share."""

import asyncio
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fairlead.agents.demo import tools, wire
from fairlead.agents.demo.host import Host, HostFailed
from fairlead.agents.demo.tools import Record
from fairlead.model import events as ev
from fairlead.model.ids import SubagentId

VERSION = "1.0"
MODELS = ("demo-large", "demo-small")
COMMANDS = ("compact",)
COST_PER_CALL = 0.0009102
"""In dollars. The value has no meaning, but the sums add up."""
TOKENS = ev.TokenCount(input=11, output=42, cache_read=3, cache_write=5)
WINDOW = 1_000_000
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fairlead-demo", "version": "1"}}


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call that a thread makes. `subagent` is the thread's, if it is not the main one."""

    call: str
    name: str
    input: Record
    subagent: SubagentId | None


@dataclass(slots=True)
class BackgroundTask:
    """A subagent or a command that continues after its call was answered."""

    id: str
    description: str
    call: str
    work: asyncio.Task[None] | None = None


@dataclass(slots=True)
class DemoSession:
    id: str
    cwd: str
    host: Host
    opened: wire.OpenSession
    messages: int
    """How many messages the model has seen."""
    model: str = field(init=False)
    mode: str = field(init=False)
    mcp: "McpServers" = field(init=False)
    calls: Counter[str] = field(default_factory=Counter)
    """Calls of each model in this turn."""
    cost: float = 0.0
    tasks: dict[str, BackgroundTask] = field(default_factory=dict)
    checkpoints: tools.Checkpoints = field(default_factory=tools.Checkpoints)

    def __post_init__(self) -> None:
        self.model = self.opened.model or MODELS[0]
        self.mode = self.opened.mode
        self.mcp = McpServers(self.host)

    def tools(self) -> list[str]:
        return [*tools.NAMES, *(["StructuredOutput"] if self.opened.structured else []), *self.mcp.tools()]

    def emit_ready(self) -> None:
        about: dict[str, Any] = {"agent_session": self.id, "version": VERSION, "model": self.model, "mode": self.mode}
        self.host.emit(
            ev.AgentReady,
            cwd=self.cwd,
            tools=tuple(self.tools()),
            commands=COMMANDS,
            mcp_servers=self.mcp.listing(),
            **about,
        )

    def count_call(self) -> None:
        self.calls[self.model] += 1
        self.cost += COST_PER_CALL

    def take_usage(self) -> dict[str, Any]:
        """The fields of a turn's end that say what it used."""
        usage = {
            model: ev.ModelUsage(
                input=TOKENS.input * count,
                output=TOKENS.output * count,
                cache_read=TOKENS.cache_read * count,
                cache_write=TOKENS.cache_write * count,
                cost_usd=COST_PER_CALL * count,
                window=WINDOW,
            )
            for model, count in self.calls.items()
        }
        cost = COST_PER_CALL * self.calls.total()
        self.calls.clear()
        return {"usage": usage, "cost_usd": cost}

    def crash(self) -> NoReturn:
        """End the process at once, as the script demands."""
        self.host.flush()
        print("demo agent: crashed, as the script wanted", file=sys.stderr, flush=True)
        tools.kill_all()
        os._exit(1)


@dataclass(slots=True)
class McpServers:
    """MCP servers inside the gateway: those that answered the handshake, and their tools."""

    host: Host
    _tools: dict[str, list[str]] = field(default_factory=dict)

    async def join(self, names: tuple[str, ...]) -> None:
        for name in names:
            try:
                await self._call(name, "initialize", _HELLO)
                await self._send(name, {"jsonrpc": "2.0", "method": "notifications/initialized"})
                listing = await self._call(name, "tools/list", {})
            except HostFailed:
                continue
            self._tools[name] = [str(tool.get("name")) for tool in listing.get("tools") or [] if isinstance(tool, dict)]

    async def call(self, tool: str, arguments: Record) -> Record:
        """The result of `mcp__<server>__<tool>`, one of `tools`. Raises HostFailed."""
        _, server, name = tool.split("__", 2)
        return await self._call(server, "tools/call", {"name": name, "arguments": arguments})

    def tools(self) -> list[str]:
        return [f"mcp__{server}__{name}" for server, names in self._tools.items() for name in names]

    def listing(self) -> tuple[Record, ...]:
        return tuple(
            {"name": server, "status": "connected", "tools": [{"name": name} for name in names]}
            for server, names in self._tools.items()
        )

    async def _call(self, server: str, method: str, params: Record) -> Record:
        answer = await self._send(server, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        result = answer.get("result") if isinstance(answer, dict) else None
        return result if isinstance(result, dict) else {}

    async def _send(self, server: str, message: Record) -> Any:
        return await self.host.ask(wire.McpCall, server=server, message=message)
