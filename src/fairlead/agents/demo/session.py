"""The state that all parts of a demo agent process share."""

import asyncio
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fairlead.agents.demo import tools
from fairlead.agents.demo.host import Host, HostFailed
from fairlead.agents.demo.tools import Outcome, Record, ToolFailed
from fairlead.model import events as ev
from fairlead.model.agents import Launch

VERSION = "1.0"
MODELS = ("demo-large", "demo-small")
COST_PER_CALL = 0.0009102
"""In dollars. The value has no meaning, but the sums add up."""
TOKENS = ev.TokenCount(input=11, output=42, cache_read=3, cache_write=5)
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fairlead-demo", "version": "1"}}


@dataclass(slots=True)
class DemoSession:
    id: str
    cwd: str
    host: Host
    launch: Launch
    model: str = field(init=False)
    mode: str = field(init=False)
    mcp: "McpServers" = field(init=False)
    calls: Counter[str] = field(default_factory=Counter)
    """Calls of each model in this turn."""
    cost: float = 0.0
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Subagents and commands in the background."""
    checkpoints: tools.Checkpoints = field(default_factory=tools.Checkpoints)

    def __post_init__(self) -> None:
        self.model = self.launch.settings.model or MODELS[0]
        self.mode = self.launch.settings.mode
        self.mcp = McpServers(self.host)

    def tools(self) -> tuple[str, ...]:
        structured = ("StructuredOutput",) if self.launch.settings.output_schema is not None else ()
        return (*tools.NAMES, *structured, *self.mcp.tools)

    def emit_ready(self) -> None:
        about: dict[str, Any] = {"agent_session": self.id, "version": VERSION, "model": self.model, "mode": self.mode}
        servers = tuple({"name": name, "status": "connected"} for name in self.mcp.names)
        self.host.emit(
            ev.AgentReady, cwd=self.cwd, tools=self.tools(), commands=("compact",), mcp_servers=servers, **about
        )

    def count_call(self) -> None:
        self.calls[self.model] += 1
        self.cost += COST_PER_CALL

    def take_usage(self) -> dict[str, Any]:
        """The fields of a turn's end that say what it used."""
        usage = {model: _usage(count) for model, count in self.calls.items()}
        cost = COST_PER_CALL * self.calls.total()
        self.calls.clear()
        return {"usage": usage, "cost_usd": cost}

    def crash(self) -> NoReturn:
        """End the process at once, as the script demands."""
        self.host.flush()
        print("demo agent: crashed, as the script wanted", file=sys.stderr, flush=True)
        tools.kill_all()
        os._exit(1)


def _usage(calls: int) -> ev.ModelUsage:
    used = [calls * each for each in (TOKENS.input, TOKENS.output, TOKENS.cache_read, TOKENS.cache_write)]
    return ev.ModelUsage(used[0], used[1], used[2], used[3], calls * COST_PER_CALL, 1_000_000)


@dataclass(slots=True)
class McpServers:
    """MCP servers inside the gateway: those that answered the handshake, and their tools."""

    host: Host
    names: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)

    async def join(self, names: tuple[str, ...]) -> None:
        for name in names:
            try:
                await self._call(name, "initialize", _HELLO)
                message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                await self.host.ask("mcp", {"server": name, "message": message})
                listing = await self._call(name, "tools/list", {})
            except HostFailed:
                continue
            self.names.append(name)
            self.tools += [f"mcp__{name}__{tool.get('name')}" for tool in listing.get("tools") or []]

    async def call(self, tool: str, arguments: Record) -> Outcome:
        """The result of `mcp__<server>__<tool>`, one of `tools`. Raises ToolFailed."""
        _, server, name = tool.split("__", 2)
        try:
            result = await self._call(server, "tools/call", {"name": name, "arguments": arguments})
        except HostFailed as error:
            raise ToolFailed(f"The MCP server failed: {error}") from None
        content = result.get("content") or []
        if result.get("isError"):
            raise ToolFailed(tools.text_of(content))
        return content, content

    async def _call(self, server: str, method: str, params: Record) -> Record:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self.host.ask("mcp", {"server": server, "message": message})
        result = answer.get("result") if isinstance(answer, dict) else None
        return result if isinstance(result, dict) else {}
