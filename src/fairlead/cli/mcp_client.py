"""Sends MCP messages to the gateway, for `fairlead mcp`."""

from collections.abc import Mapping

import httpx2

from fairlead.client.connection import unreachable
from fairlead.client.endpoint import GatewayEndpoint, Locate
from fairlead.client.gateway_client import http_client


class McpClient:
    """A gateway that was restarted is located again."""

    def __init__(self, locate: Locate, *, send: bool) -> None:
        self._locate = locate
        self._path = "/mcp?allow=send" if send else "/mcp"
        self._endpoint: GatewayEndpoint | None = None
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> "McpClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def post(self, message: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        endpoint = self._locate()
        if self._http is None or endpoint != self._endpoint:
            # A request in flight on the old client is to a gateway that is gone: it fails by itself.
            self._endpoint, self._http = endpoint, http_client(endpoint)
        kinds = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        try:
            answer = await self._http.post(self._path, content=message, headers={**kinds, **headers})
        except httpx2.TransportError as error:
            raise unreachable(endpoint.url, error) from error
        return answer.status_code, answer.content
