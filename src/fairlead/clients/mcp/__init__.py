"""Fairlead as an MCP server at /mcp: an agent reads other sessions, starts and messages them. docs/reference/mcp.md."""

from typing import Final

from fairlead.clients.mcp.endpoint import routes
from fairlead.model.web.routes import ClientProtocol

PROTOCOL: Final = ClientProtocol(name="mcp", routes=tuple(routes))
