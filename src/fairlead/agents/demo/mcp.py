"""MCP servers inside the host, reached through `mcp_message`."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from fairlead.agents.demo.flags import VERSION
from fairlead.agents.demo.messages import Record, new_id
from fairlead.agents.demo.wire import HostFailed, Wire

_CLIENT = {"name": "fairlead-demo", "version": VERSION}
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}


@dataclass(slots=True)
class McpServers:
    """The servers that answered the handshake, with their tools."""

    wire: Wire
    _tools: dict[str, list[str]] = field(default_factory=dict)
    _joining: asyncio.Task[None] | None = None

    def join(self, names: list[str]) -> None:
        """Start the handshake with each server; `wait_ready` waits for it."""
        if names:
            self._joining = asyncio.create_task(self._join(names))

    async def wait_ready(self) -> None:
        if self._joining is not None:
            await asyncio.wait([self._joining])

    async def _join(self, names: list[str]) -> None:
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

    def listing(self) -> list[Record]:
        return [
            {"name": server, "status": "connected", "source": "sdk", "tools": [{"name": name} for name in names]}
            for server, names in self._tools.items()
        ]

    async def _call(self, server: str, method: str, params: Record) -> Record:
        request = {"jsonrpc": "2.0", "id": new_id(""), "method": method, "params": params}
        answer = await self._send(server, request)
        result = (answer.get("mcp_response") or {}).get("result")
        return result if isinstance(result, dict) else {}

    async def _send(self, server: str, message: dict[str, Any]) -> Record:
        return await self.wire.ask("mcp_message", server_name=server, message=message)
