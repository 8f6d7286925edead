"""MCP servers inside the host, reached through `mcp_message`."""

import asyncio
from typing import Any

from fairlead.agents.demo.flags import VERSION
from fairlead.agents.demo.messages import Record
from fairlead.agents.demo.wire import HostFailed, Wire

_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "fairlead-demo", "version": VERSION},
}


class McpServers:
    """The servers that answered the handshake, with their tools."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._tools: dict[str, list[str]] = {}
        self._next_id = 0
        self._joining: asyncio.Task[None] | None = None

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
        self._next_id += 1
        answer = await self._send(server, {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        result = (answer.get("mcp_response") or {}).get("result")
        return result if isinstance(result, dict) else {}

    async def _send(self, server: str, message: dict[str, Any]) -> Record:
        return await self._wire.ask("mcp_message", server_name=server, message=message)
